"""What a review consists of, before it is drawn: sections of headings, sentences, tables and lists.

The page (`as_html`) and the text (`as_markdown`) are two views of it. All text is escaped by them, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup


@dataclass(frozen=True)
class Name:
    """A text of others, such as a client's id: its direction of writing must not turn ours."""

    text: str


@dataclass(frozen=True)
class Strong:
    """What matters most in a sentence."""

    inner: Inline


@dataclass(frozen=True)
class Soft:
    """What says less than the words around it."""

    inner: Inline


@dataclass(frozen=True)
class Code:
    """What is typed as it stands."""

    text: str


@dataclass(frozen=True)
class Badge:
    """A state. `kind`: ok, warn, bad or none."""

    kind: str
    word: str


@dataclass(frozen=True)
class Link:
    """Without a `url` the text alone."""

    inner: Inline
    url: str


@dataclass(frozen=True)
class Facts:
    """Evidence, fact by fact."""

    facts: Sequence[Name]


@dataclass(frozen=True)
class Picture:
    """A small drawing within a line; the text has `words` in its place."""

    markup: Markup
    words: str = ""


#: The end of a line within a cell.
BREAK = Picture(Markup("<br>"), ", ")


@dataclass(frozen=True)
class Seen:
    """What explains a colour or a drawing: the text, which has none, leaves it out."""

    inner: Inline


Inline: TypeAlias = str | Name | Strong | Soft | Code | Badge | Link | Facts | Picture | Seen | tuple["Inline", ...]


@dataclass(frozen=True)
class Heading:
    """Within a section."""

    inner: Inline


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more. `note`: it explains what stands above it."""

    inner: Inline
    note: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list. `form` of it on the page: '', `facts` (side by side) or `key` (of colours and signs)."""

    items: Sequence[Inline]
    form: str = ""


@dataclass(frozen=True)
class Column:
    """`label`: its name beside each value, where a narrow screen shows rows as cards."""

    name: str
    number: bool = False
    label: str = ""


@dataclass(frozen=True)
class Table:
    """The first column names the row. `stacks`: a narrow screen shows its rows as cards."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Inline]]
    caption: str = ""
    stacks: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell of a heat strip. `kind`: none, some, much, blind; `text` is short, `words` say it in full."""

    kind: str
    text: str
    words: str


@dataclass(frozen=True)
class HeatRow:
    """A service's row of a heat strip."""

    service: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Heat:
    """A row per service, a column per stretch of time."""

    columns: Sequence[str]
    rows: Sequence[HeatRow]


@dataclass(frozen=True)
class Drawn:
    """What only a page can show, with a heading where it has one: the text leaves it out."""

    markup: Markup
    title: str = ""


@dataclass(frozen=True)
class Card:
    """Blocks that belong together."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Pair:
    """Groups of blocks that stand side by side where there is room."""

    groups: Sequence[Sequence[Block]]


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Heat | Drawn | Card | Pair


@dataclass(frozen=True)
class Section:
    """`id`: its anchor on the page. `short`: its name in the list of sections."""

    id: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Figure:
    """A number that stands at the top of a review, and what it is to be held against."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Document:
    """A whole review. `headline`: questions with their answers."""

    title: str
    period: str
    headline: Sequence[tuple[str, str]]
    figures: Sequence[Figure]
    sections: Sequence[Section]
    definitions: Sequence[tuple[str, str]]
