"""A document as HTML: one page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from clienthealth.platform.html_page import element
from clienthealth.review import document as doc


def section(part: doc.Section) -> Markup:
    """A section with its heading."""
    return element("section", element("h2", escape(part.title)) + _blocks(part.blocks), id=part.id)


def _blocks(blocks: Iterable[doc.Block]) -> Markup:
    return Markup("\n").join(map(_block, blocks))


def _block(block: doc.Block) -> Markup:
    match block:
        case doc.Heading(inner):
            return element("h3", inline(inner))
        case doc.Paragraph(inner, note):
            return element("p", inline(inner), class_="note" if note else "")
        case doc.Bullets(items, form):
            return element("ul", Markup("").join(element("li", inline(item)) for item in items), class_=form)
        case doc.Table():
            return _table(block)
        case doc.Heat(columns, rows):
            return _heat(columns, rows)
        case doc.Drawn(markup, title):
            return element("h3", escape(title)) + markup if title else markup
        case doc.Card(blocks):
            return element("article", _blocks(blocks), class_="theme")
        case doc.Pair(groups):
            return element("div", Markup("\n").join(element("div", _blocks(group)) for group in groups), class_="pair")


def inline(part: doc.Inline) -> Markup:
    """A piece of a line."""
    match part:
        case str():
            return escape(part)
        case tuple():
            return Markup("").join(map(inline, part))
        case doc.Name(text):
            return element("bdi", escape(text))
        case doc.Strong(inner):
            return element("b", inline(inner))
        case doc.Soft(inner):
            return element("span", inline(inner), class_="soft")
        case doc.Code(text):
            return element("code", escape(text))
        case doc.Badge(kind, word):
            return element("span", escape(word), class_=f"badge {kind}")
        case doc.Link(inner, url):
            return element("a", inline(inner), href=url) if url else inline(inner)
        case doc.Facts(facts):
            return element("ul", Markup("").join(element("li", inline(fact)) for fact in facts), class_="evidence")
        case doc.Picture(markup):
            return markup
        case doc.Seen(inner):
            return inline(inner)


def _table(table: doc.Table) -> Markup:
    caption = element("caption", escape(table.caption)) if table.caption else Markup("")
    head = Markup("").join(
        element("th", escape(column.name), scope="col", class_=_numeric(column)) for column in table.columns
    )
    rows = Markup("\n").join(_row(table, row) for row in table.rows)
    content = caption + element("thead", element("tr", head)) + element("tbody", rows)
    return element("table", content, class_="stack" if table.stacks else "")


def _row(table: doc.Table, row: Sequence[doc.Inline]) -> Markup:
    cells = [element("th", inline(row[0]), scope="row")]
    for column, cell in zip(table.columns[1:], row[1:], strict=True):
        # On a narrow screen label and value are two boxes, so that a value of several pieces needs one around it.
        content = element("span", inline(cell)) if isinstance(cell, tuple) else inline(cell)
        label = (column.label or column.name) if table.stacks else ""
        cells.append(element("td", content, class_=_numeric(column), data_label=label))
    return element("tr", Markup("").join(cells))


def _numeric(column: doc.Column) -> str:
    return "n" if column.number else ""


def _heat(columns: Sequence[str], rows: Sequence[doc.HeatRow]) -> Markup:
    head = Markup("").join(element("th", escape(name), scope="col") for name in ("Service", *columns))
    body = Markup("\n").join(
        element(
            "tr",
            element("th", inline(doc.Name(row.service)), scope="row")
            + Markup("").join(
                element("td", escape(cell.text), class_=cell.kind, title=cell.words) for cell in row.cells
            ),
        )
        for row in rows
    )
    return element("table", element("thead", element("tr", head)) + element("tbody", body), class_="heat")
