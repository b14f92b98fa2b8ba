"""Log records as JSON objects: each format says where a fact stands, and this reads it.

A path like `error.stack_trace` means a nested field or one field with a dotted name: both occur, even in one record.
Every value is read as text; an object or array comes as its JSON text.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import msgspec

from clienthealth.model.telemetry import Identity, LogLine
from clienthealth.model.values import epoch
from clienthealth.read import formats
from clienthealth.read.formats import Format, Record
from clienthealth.read.logs.fields import offset, service_of_pod
from clienthealth.read.logs.times import number, time_ms

Paths = tuple[str, ...]
#: How a path can be read: as one name, and as names that are nested in each other (empty where it is only one).
_Reading = tuple[str, tuple[str, ...]]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Layout:
    """Where the facts of a log record stand: paths in the order in which they are asked, first found wins.

    `pod` is where the process runs, more exactly than `host`, which may be the machine below it. `pid` makes an
    instance of a host where no `instance` is named. `nanos` is added to a `time` in whole seconds. A name in
    backticks may contain dots.
    """

    time: Paths = ()
    nanos: Paths = ()
    level: Paths = ()
    logger: Paths = ()
    thread: Paths = ()
    message: Paths = ()
    stack: Paths = ()
    service: Paths = ()
    host: Paths = ()
    pod: Paths = ()
    instance: Paths = ()
    pid: Paths = ()
    client_id: Paths = ()
    file: Paths = ()
    file_offset: Paths = ()

    def __or__(self, other: Layout) -> Layout:
        """Both layouts, this one's paths first."""
        return Layout(*(tuple(dict.fromkeys(getattr(self, f.name) + getattr(other, f.name))) for f in fields(self)))


def has_any(record: Record, *keys: str) -> bool:
    """Is the record a JSON object with one of these fields?"""
    document = record.document
    return isinstance(document, dict) and any(key in document for key in keys)


def json_format(name: str, order: int, layout: Layout, recognise: Callable[[Record], bool]) -> Format:
    """The format of records with one log line each."""

    def decode(record: Record) -> list[LogLine] | None:
        document = record.document
        return [line_of(document, layout)] if isinstance(document, dict) else None

    return Format(name, "logs", order, recognise, decode)


@cache
def any_layout() -> Layout:
    """What an undecoded JSON line may look like: like the lines of any format of ours (its `LINE`)."""
    layout = Layout()
    for module in pkgutil.iter_modules(formats.__path__):
        layout = layout | getattr(importlib.import_module(f"{formats.__name__}.{module.name}"), "LINE", Layout())
    return layout


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text (NaN and Infinity allowed), None where it is none or too deep to be meant."""
    try:
        text = text if isinstance(text, str) else text.decode()
        return msgspec.json.decode(text)
    except UnicodeError:
        return None
    except (msgspec.DecodeError, RecursionError):
        # Half a surrogate would be read here, too, but no such text can be written again.
        if ("NaN" not in text and "Infinity" not in text) or "\\ud" in text.lower():
            return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def as_text(value: Any) -> str | None:
    """A JSON value as text: an object or array as its JSON text, null as None."""
    if value is None or isinstance(value, str):
        return value
    try:
        return _encode(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a nest of thousands of arrays
        return None


def line_of(document: Mapping[str, Any], layout: Layout) -> LogLine:
    """What a JSON object says of itself."""
    at = _readings(layout)
    pod = _first(document, at["pod"])
    host = pod if pod is not None else _first(document, at["host"])
    instance, service = _first(document, at["instance"]), _first(document, at["service"])
    if instance is None and host is not None and (pid := _first(document, at["pid"])) is not None:
        instance = f"{host}:{pid}"
    if service is None and pod is not None:
        service = service_of_pod(pod)
    time = _first(document, at["time"])
    nanos = number(_first(document, at["nanos"])) if at["nanos"] else None
    seconds = number(time) if nanos is not None else None
    exact = epoch(seconds + nanos / 1e9) if seconds is not None and nanos is not None else None
    return LogLine(
        ts_ms=time_ms(time) if exact is None else exact,
        client=Identity(service=service, host=host, instance=instance, client_id=_first(document, at["client_id"])),
        level=_first(document, at["level"]),
        logger=_first(document, at["logger"]),
        thread=_first(document, at["thread"]),
        message=_first(document, at["message"]),
        stack=_first(document, at["stack"]),
        file=_first(document, at["file"]),
        file_offset=offset(_first(document, at["file_offset"])),
    )


@cache
def _readings(layout: Layout) -> Mapping[str, tuple[_Reading, ...]]:
    """Field of a layout → the ways in which each of its paths can be read."""
    by_field: dict[str, tuple[_Reading, ...]] = {}
    for name in (f.name for f in fields(layout)):
        paths = [re.findall(r"`[^`]+`|[^.]+", path) for path in getattr(layout, name)]
        parts = [tuple(part.strip("`") for part in path) for path in paths]
        by_field[name] = tuple((".".join(path), path if len(path) > 1 else ()) for path in parts)
    return by_field


def _first(document: Mapping[str, Any], readings: tuple[_Reading, ...]) -> str | None:
    """The first value that is found, as text."""
    for name, parts in readings:
        value = document.get(name)
        if value is None and parts:
            value = document
            for part in parts:
                value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            text = value if type(value) is str else as_text(value)
            if text is not None:
                return text
    return None
