"""A document as a page and as text: what each block becomes in both, by hand."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from clienthealth.review import as_html, as_markdown
from clienthealth.review import document as doc

DOT = Markup("<i></i>")


@pytest.mark.parametrize(
    ("inline", "on_the_page", "in_the_text"),
    [
        ("5 < 6 | a_b", "5 &lt; 6 | a_b", r"5 \< 6 \| a\_b"),
        (doc.Name("<b>\n# x"), "<bdi>&lt;b&gt;\n# x</bdi>", r"\<b\> \# x"),
        (("a ", doc.Strong("b")), "a <b>b</b>", "a **b**"),
        (doc.Soft(doc.Name("s")), '<span class="soft"><bdi>s</bdi></span>', "*s*"),
        (doc.Code("x.toml"), "<code>x.toml</code>", "`x.toml`"),
        (doc.Badge("ok", "met"), '<span class="badge ok">met</span>', "met"),
        (doc.Badge("bad", "missed"), '<span class="badge bad">missed</span>', "**missed**"),
        (doc.Link("a", "http://x/(y) z"), '<a href="http://x/(y) z">a</a>', "[a](http://x/%28y%29%20z)"),
        (doc.Link("a", ""), "a", "a"),
        (doc.Facts((doc.Name("f"),)), '<ul class="evidence"><li><bdi>f</bdi></li></ul>', "<br>• f"),
        (("1", doc.BREAK, "2 s"), "1<br>2 s", "1, 2 s"),
        (doc.Picture(DOT, "three"), "<i></i>", "three"),
        (doc.Seen((doc.Picture(DOT), "red")), "<i></i>red", ""),
    ],
)
def test_a_piece_of_a_line(inline: doc.Inline, on_the_page: str, in_the_text: str) -> None:
    assert as_html.inline(inline) == on_the_page
    assert text(doc.Paragraph(("", inline))) == in_the_text


def text(block: doc.Block) -> str:
    document = doc.Document("t", "p", [], [], [doc.Section("s", "S", [block])], [])
    return as_markdown.text(document).partition("## S")[2].strip()


def page(block: doc.Block) -> str:
    return str(as_html.section(doc.Section("s", "S", [block]))).removeprefix('<section id="s"><h2>S</h2>')[
        : -len("</section>")
    ]


COLUMNS = (doc.Column("Who"), doc.Column("How many", number=True, label="Many"))


@pytest.mark.parametrize(
    ("block", "on_the_page", "in_the_text"),
    [
        (doc.Heading("h"), "<h3>h</h3>", "### h"),
        (doc.Paragraph("p", note=True), '<p class="note">p</p>', "p"),
        (doc.Bullets(("a", "b"), "facts"), '<ul class="facts"><li>a</li><li>b</li></ul>', "- a\n- b"),
        (
            doc.Bullets((doc.Seen("red"), "x: y", "z"), "key"),
            '<ul class="key"><li>red</li><li>x: y</li><li>z</li></ul>',
            "x: y; z",
        ),
        (
            doc.Table(COLUMNS, [("a", ("1", " ", doc.Soft("x")))], "What"),
            '<table class="stack"><caption>What</caption><thead><tr><th scope="col">Who</th>'
            '<th scope="col" class="n">How many</th></tr></thead><tbody><tr><th scope="row">a</th>'
            '<td class="n" data-label="Many"><span>1 <span class="soft">x</span></span></td></tr></tbody></table>',
            "What\n\n| Who | How many |\n| --- | ---: |\n| a | 1 *x* |",
        ),
        (
            doc.Table(COLUMNS, [("a", "1")], stacks=False),
            '<table><thead><tr><th scope="col">Who</th><th scope="col" class="n">How many</th></tr></thead>'
            '<tbody><tr><th scope="row">a</th><td class="n">1</td></tr></tbody></table>',
            "| Who | How many |\n| --- | ---: |\n| a | 1 |",
        ),
        (
            doc.Heat(("Mon",), [doc.HeatRow("s", [doc.Cell("some", "3*", "3 of 9")])]),
            '<table class="heat"><thead><tr><th scope="col">Service</th><th scope="col">Mon</th></tr></thead><tbody>'
            '<tr><th scope="row"><bdi>s</bdi></th><td class="some" title="3 of 9">3*</td></tr></tbody></table>',
            "| Service | Mon |\n| --- | ---: |\n| s | 3\\* |",
        ),
        (doc.Drawn(DOT, "Plot"), "<h3>Plot</h3><i></i>", ""),
        (
            doc.Card((doc.Heading("h"), doc.Paragraph("p"))),
            '<article class="theme"><h3>h</h3>\n<p>p</p></article>',
            "### h\n\np",
        ),
        (
            doc.Pair(((doc.Paragraph("a"),), (doc.Paragraph("b"),))),
            '<div class="pair"><div><p>a</p></div>\n<div><p>b</p></div></div>',
            "a\n\nb",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_block(block: doc.Block, on_the_page: str, in_the_text: str) -> None:
    assert page(block) == on_the_page
    assert text(block) == in_the_text


def test_the_text_begins_with_title_answers_and_figures() -> None:
    document = doc.Document("T", "week 1", [("Why?", "Because.")], [doc.Figure("Lost", "3", "target 0")], [], [])
    assert as_markdown.text(document) == "# T\n\nweek 1\n\n**Why?** Because.\n\n- Lost: 3 (target 0)\n"
