"""The part of Markdown that our runbooks use, as HTML. Everything is escaped: no HTML passes through."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\[(?P<text>[^\]]+)\]\((?P<link>[^)\s]+)\)|<(?P<url>https?://[^>\s]+)>"
)
_HEADING = re.compile(r"(#{1,4}) (.+)")
_ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*]|\d+\.) (?P<text>.*)")
_SAFE_LINK = re.compile(r"https?://|[\w./#-]+$")


def html(text: str) -> str:
    """Headings (with ids), paragraphs, lists, tables, fenced code, `code`, **bold** and links."""
    return "\n".join(_blocks(_COMMENT.sub("", text).split("\n")))


def slug(title: str) -> str:
    """The id of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        start = at
        if line.startswith("```"):
            at += 1
            while at < len(lines) and not lines[at].startswith("```"):
                at += 1
            yield f"<pre><code>{escape(chr(10).join(lines[start + 1 : at]))}</code></pre>"
            at += 1
        elif heading := _HEADING.fullmatch(line):
            level, title = len(heading[1]), heading[2]
            yield f'<h{level} id="{slug(title)}">{inline(title)}</h{level}>'
            at += 1
        elif line.startswith("|"):
            at = _while(lines, at, lambda text: text.startswith("|"))
            yield _table(lines[start:at])
        elif _ITEM.fullmatch(line):
            at = _while(lines, at, lambda text: text.startswith(" ") or bool(_ITEM.fullmatch(text)))
            yield _list(lines[start:at])
        elif line.strip():
            at = _while(lines, at, lambda text: bool(text.strip()) and not text.startswith(("#", "|", "```")))
            yield f"<p>{inline(' '.join(part.strip() for part in lines[start:at]))}</p>"
        else:
            at += 1


def _while(lines: list[str], at: int, holds: Callable[[str], bool]) -> int:
    at += 1
    while at < len(lines) and holds(lines[at]):
        at += 1
    return at


def inline(text: str) -> str:
    """One line's markup."""
    out, end = [], 0
    for found in _INLINE.finditer(text):
        out.append(escape(text[end : found.start()]))
        end = found.end()
        if found["code"]:
            out.append(f"<code>{escape(found['code'])}</code>")
        elif found["strong"]:
            out.append(f"<strong>{inline(found['strong'])}</strong>")
        else:
            target = found["url"] or found["link"]
            label = inline(found["text"]) if found["text"] else escape(target)
            out.append(f'<a href="{escape(target)}">{label}</a>' if _SAFE_LINK.match(target) else label)
    return "".join(out) + escape(text[end:])


def _table(lines: Iterable[str]) -> str:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    head, body = rows[0], [row for row in rows[1:] if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]

    def cells(tag: str, row: Iterable[str]) -> str:
        return "".join(f"<{tag}>{inline(cell.replace(chr(92) + '|', '|'))}</{tag}>" for cell in row)

    rendered = "".join(f"<tr>{cells('td', row)}</tr>" for row in body)
    header = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return f'<div class="scroll"><table>{header}<tbody>{rendered}</tbody></table></div>'


def _list(lines: Sequence[str]) -> str:
    first = _ITEM.fullmatch(lines[0])
    assert first
    items: list[tuple[str, list[str]]] = []
    for line in lines:
        found = _ITEM.fullmatch(line)
        if found and len(found["indent"]) <= len(first["indent"]):
            items.append((found["text"], []))
        elif found or items[-1][1]:
            items[-1][1].append(line)
        else:
            items[-1] = (f"{items[-1][0]} {line.strip()}", [])
    body = "".join(f"<li>{inline(text)}{_list(nested) if nested else ''}</li>" for text, nested in items)
    if first["mark"] in "-*":
        return f"<ul>{body}</ul>"
    number = int(first["mark"][:-1])
    return f'<ol start="{number}">{body}</ol>' if number > 1 else f"<ol>{body}</ol>"
