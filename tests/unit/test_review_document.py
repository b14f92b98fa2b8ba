"""A document as a page and as text: what each block becomes in both, by hand."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from clienthealth.review import as_html, as_markdown
from clienthealth.review.document import (
    BREAK,
    Badge,
    Block,
    Bullets,
    Card,
    Cell,
    Code,
    Column,
    Document,
    Drawn,
    Facts,
    Figure,
    Heading,
    Heat,
    HeatRow,
    Inline,
    Link,
    Name,
    Pair,
    Paragraph,
    Picture,
    Section,
    Seen,
    Soft,
    Strong,
    Table,
)

DOT = Markup("<i></i>")


@pytest.mark.parametrize(
    ("inline", "on_the_page", "in_the_text"),
    [
        ("5 < 6 | a_b", "5 &lt; 6 | a_b", r"5 \< 6 \| a\_b"),
        (Name("<b>\n# x"), "<bdi>&lt;b&gt;\n# x</bdi>", r"\<b\> \# x"),
        (("a ", Strong("b")), "a <b>b</b>", "a **b**"),
        (Soft(Name("s")), '<span class="soft"><bdi>s</bdi></span>', "*s*"),
        (Code("x.toml"), "<code>x.toml</code>", "`x.toml`"),
        (Badge("ok", "met"), '<span class="badge ok">met</span>', "met"),
        (Badge("bad", "missed"), '<span class="badge bad">missed</span>', "**missed**"),
        (Link("a", "http://x/(y) z"), '<a href="http://x/(y) z">a</a>', "[a](http://x/%28y%29%20z)"),
        (Link("a", ""), "a", "a"),
        (Facts((Name("f"),)), '<ul class="evidence"><li><bdi>f</bdi></li></ul>', "<br>• f"),
        (("1", BREAK, "2 s"), "1<br>2 s", "1, 2 s"),
        (Picture(DOT, "three"), "<i></i>", "three"),
        (Seen((Picture(DOT), "red")), "<i></i>red", ""),
    ],
)
def test_a_piece_of_a_line(inline: Inline, on_the_page: str, in_the_text: str) -> None:
    assert as_html.inline(inline) == on_the_page
    assert text(Paragraph(("", inline))) == in_the_text


def text(block: Block) -> str:
    document = Document("t", "p", [], [], [Section("s", "S", [block])], [])
    return as_markdown.text(document).partition("## S")[2].strip()


def page(block: Block) -> str:
    return str(as_html.section(Section("s", "S", [block]))).removeprefix('<section id="s"><h2>S</h2>')[
        : -len("</section>")
    ]


COLUMNS = (Column("Who"), Column("How many", number=True, label="Many"))


@pytest.mark.parametrize(
    ("block", "on_the_page", "in_the_text"),
    [
        (Heading("h"), "<h3>h</h3>", "### h"),
        (Paragraph("p", note=True), '<p class="note">p</p>', "p"),
        (Bullets(("a", "b"), "facts"), '<ul class="facts"><li>a</li><li>b</li></ul>', "- a\n- b"),
        (
            Bullets((Seen("red"), "x: y", "z"), "key"),
            '<ul class="key"><li>red</li><li>x: y</li><li>z</li></ul>',
            "x: y; z",
        ),
        (
            Table(COLUMNS, [("a", ("1", " ", Soft("x")))], "What"),
            '<table class="stack"><caption>What</caption><thead><tr><th scope="col">Who</th>'
            '<th scope="col" class="n">How many</th></tr></thead><tbody><tr><th scope="row">a</th>'
            '<td class="n" data-label="Many"><span>1 <span class="soft">x</span></span></td></tr></tbody></table>',
            "What\n\n| Who | How many |\n| --- | ---: |\n| a | 1 *x* |",
        ),
        (
            Table(COLUMNS, [("a", "1")], stacks=False),
            '<table><thead><tr><th scope="col">Who</th><th scope="col" class="n">How many</th></tr></thead>'
            '<tbody><tr><th scope="row">a</th><td class="n">1</td></tr></tbody></table>',
            "| Who | How many |\n| --- | ---: |\n| a | 1 |",
        ),
        (
            Heat(("Mon",), [HeatRow("s", [Cell("some", "3*", "3 of 9")])]),
            '<table class="heat"><thead><tr><th scope="col">Service</th><th scope="col">Mon</th></tr></thead><tbody>'
            '<tr><th scope="row"><bdi>s</bdi></th><td class="some" title="3 of 9">3*</td></tr></tbody></table>',
            "| Service | Mon |\n| --- | ---: |\n| s | 3\\* |",
        ),
        (Drawn(DOT, "Plot"), "<h3>Plot</h3><i></i>", ""),
        (Card((Heading("h"), Paragraph("p"))), '<article class="theme"><h3>h</h3>\n<p>p</p></article>', "### h\n\np"),
        (
            Pair(((Paragraph("a"),), (Paragraph("b"),))),
            '<div class="pair"><div><p>a</p></div>\n<div><p>b</p></div></div>',
            "a\n\nb",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_block(block: Block, on_the_page: str, in_the_text: str) -> None:
    assert page(block) == on_the_page
    assert text(block) == in_the_text


def test_the_text_begins_with_title_answers_and_figures() -> None:
    document = Document("T", "week 1", [("Why?", "Because.")], [Figure("Lost", "3", "target 0")], [], [])
    assert as_markdown.text(document) == "# T\n\nweek 1\n\n**Why?** Because.\n\n- Lost: 3 (target 0)\n"
