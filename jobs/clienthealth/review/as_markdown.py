"""A document as Markdown: names and evidence from clients cannot become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clienthealth.review import document as doc

_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def text(document: doc.Document) -> str:
    """The whole review."""
    parts = [f"# {_escaped(document.title)}", _escaped(document.period)]
    parts += [f"**{_escaped(question)}** {_escaped(sentence)}" for question, sentence in document.headline]
    parts.append("\n".join(f"- {_escaped(f'{f.name}: {f.value} ({f.note})')}" for f in document.figures))
    parts += [_section(section) for section in document.sections]
    return "\n\n".join(parts) + "\n"


def _section(section: doc.Section) -> str:
    return "\n\n".join((f"## {_escaped(section.title)}", *_blocks(section.blocks)))


def _blocks(blocks: Iterable[doc.Block]) -> list[str]:
    return [part for block in blocks for part in _block(block) if part]


def _block(block: doc.Block) -> Sequence[str]:
    match block:
        case doc.Heading(inner):
            return (f"### {_inline(inner)}",)
        case doc.Paragraph(inner):
            return (_inline(inner),)
        case doc.Bullets(items, "key"):
            return ("; ".join(filter(None, map(_inline, items))),)
        case doc.Bullets(items):
            return ("\n".join(f"- {_inline(item)}" for item in items),)
        case doc.Table():
            return _table(block)
        case doc.Heat(columns, rows):
            listed = [[_escaped(row.service), *(_escaped(cell.text) for cell in row.cells)] for row in rows]
            return ("\n".join(_lines(("Service", *columns), ["---", *["---:"] * len(columns)], listed)),)
        case doc.Drawn():
            return ()
        case doc.Card(blocks):
            return _blocks(blocks)
        case doc.Pair(groups):
            return [part for group in groups for part in _blocks(group)]


def _inline(part: doc.Inline) -> str:
    match part:
        case str() | doc.Name():
            return _escaped(part.text if isinstance(part, doc.Name) else part)
        case tuple():
            return "".join(map(_inline, part))
        case doc.Strong(inner):
            return f"**{_inline(inner)}**"
        case doc.Soft(inner):
            return f"*{_inline(inner)}*"
        case doc.Code(text):
            return f"`{text}`"
        case doc.Badge(kind, word):
            return f"**{_escaped(word)}**" if kind == "bad" else _escaped(word)
        case doc.Link(inner, url):
            address = re.sub(r"[\s()<>|\\]", lambda match: f"%{ord(match[0]):02X}", url)
            return f"[{_inline(inner)}]({address})" if url else _inline(inner)
        case doc.Facts(facts):
            return "".join(f"<br>• {_inline(fact)}" for fact in facts)
        case doc.Picture(_, words):
            return _escaped(words)
        case doc.Seen():
            return ""


def _escaped(words: str) -> str:
    """On one line, without a sign that Markdown takes for its own."""
    return _MARKUP.sub(r"\\\1", re.sub(r"[\r\n\t]+", " ", words))


def _table(table: doc.Table) -> Sequence[str]:
    bars = ["---:" if column.number else "---" for column in table.columns]
    names = [column.name for column in table.columns]
    return _escaped(table.caption), "\n".join(
        _lines(names, bars, [[_inline(cell) for cell in row] for row in table.rows])
    )


def _lines(names: Sequence[str], bars: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (map(_escaped, names), bars, *rows)]
