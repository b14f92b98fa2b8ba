"""Writes YAML: mappings, lists, text and comments, the same text for the same content. No reader, no dependency."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Node: TypeAlias = "str | int | float | Mapping[str, Node] | Sequence[Node] | Commented"
_PLAIN = re.compile(r"[A-Za-z_][\w ./()-]*[\w)]|[A-Za-z_]")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True)
class Commented:
    """A node with a comment above it."""

    comment: str
    node: Mapping[str, Node]


def document(header: str, node: Mapping[str, Node]) -> str:
    """A whole file; `header` becomes comment lines."""
    return "".join(f"# {line}\n" for line in header.splitlines()) + "\n".join(_mapping(node, 0)) + "\n"


def _mapping(node: Mapping[str, Node], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield f"{pad}{key}:"
            yield from _mapping(value, indent + 2)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield f"{pad}{key}:"
            for item in value:
                yield from _item(item, indent + 2)
        elif isinstance(value, str) and "\n" in value:
            yield f"{pad}{key}: |-"
            yield from (f"{pad}  {line}" for line in value.splitlines())
        else:
            yield f"{pad}{key}: {scalar(value)}"


def _item(item: Node, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(item, Commented):
        yield from (f"{pad}# {line}" for line in item.comment.splitlines())
        item = item.node
    if isinstance(item, Mapping):
        first, *others = _mapping(item, indent + 2)
        yield f"{pad}- {first.lstrip()}"
        yield from others
    else:
        yield f"{pad}- {scalar(item)}"


def scalar(value: object) -> str:
    """One value on a line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
