"""The page and the text of a review are equal in content."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clienthealth.review.clusters import side_by_side, write_all
from clienthealth.review.model import Review
from clienthealth.review.render import details
from tests.support.review_example import everything, html, markdown, review

LINES = ("h2", "h3", "p", "caption", "li", "tr")

PLOTS = ["Buffersclientminutesbypeakuse", "Laggroupminutesbyrecordsbehind"]
KEYS = ("nodatanotjudged", "Allservices1left")


class Lines(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.inside: list[str] = []
        self.hidden: list[str] = []
        self.feed(page.partition("<main>")[2].partition("</main>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "svg" or dict(attrs).get("class") in ("key", "timeline"):
            self.hidden.append(tag)
        if self.hidden:
            return
        if tag in LINES and "tr" not in self.inside:
            self.lines.append("")
            self.inside.append(tag)
        if tag in ("th", "td"):
            self.lines[-1] += "|"

    def handle_endtag(self, tag: str) -> None:
        if self.hidden:
            if tag == self.hidden[-1]:
                self.hidden.pop()
        elif self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if self.inside and not self.hidden:
            self.lines[-1] += data


def on_the_page(page: str) -> list[str]:
    lines = (f"{line}|" if line.startswith("|") else line for line in Lines(page).lines)
    return [plain(line) for line in lines if plain(line)]


def in_the_text(text: str) -> list[str]:
    body = text[text.index("\n## ") :]
    body = re.sub(r"\]\([^)]*\)", "", body).replace("<br>", " ")
    return [plain(line) for line in body.splitlines() if plain(line) and not set(line) <= set("|-: ")]


def plain(line: str) -> str:
    cells = line.replace("\\|", "").strip().removeprefix("|").removesuffix("|").split("|")
    return "|".join(re.sub(r"\W+", "", cell) for cell in (cells[:-1] if len(cells) > 10 else cells))


def different(pages: list[str], text: str) -> tuple[list[str], list[str]]:
    shown, written = [line for page in pages for line in on_the_page(page)], in_the_text(text)
    return [line for line in shown if line not in written], [line for line in written if line not in shown]


@pytest.mark.parametrize(
    "reviewed", [everything("orders_api*1"), review(), review(pages=None)], ids=["all", "", "mute"]
)
def test_page_and_text_have_the_same_content(reviewed: Review) -> None:
    only_page, only_text = different([html(reviewed), details(reviewed)], markdown(reviewed))
    assert only_page == PLOTS
    assert [line for line in only_text if not line.startswith(KEYS)] == []


def test_page_and_text_of_several_clusters_have_the_same_content(tmp_path: Path) -> None:
    reviews = [everything("orders-api"), review()]
    named = [dataclasses.replace(one, cluster=f"c{n}") for n, one in enumerate(reviews)]
    page, text, _ = (file.read_text("utf-8") for file in write_all(side_by_side(named), tmp_path)[""])
    assert different([page], text) == ([], [])


def test_the_list_of_sections_leads_to_each_of_them() -> None:
    front, page = html(review()), details(review())
    ids = re.findall(r'<section id="([\w-]+)"', page)
    navs = [text.partition("<nav")[2].partition("</nav>")[0] for text in (front, page)]
    assert re.findall(r'href="review-details.html#([\w-]+)"', navs[0]) == [*ids, "words"]
    assert re.findall(r'href="#([\w-]+)"', navs[1]) == [*ids, "words"]
    assert "<footer" not in front and '<footer id="words">' in page
    assert len(ids) == 11 and '<a href="review.html">' in page


def test_the_first_page_is_one_table_and_what_to_do_by_name() -> None:
    page = html(everything("orders-api"))
    assert page.count("<table") == page.count("<section") == 1
    for asked in ("What happened?", "Whose is it?", "What to do?"):
        assert f"<b>{asked}</b>" in page
    assert "Trend against the week before" in page and "Noise budget" in page
    assert "anywhere" not in page + details(everything("orders-api"))


def test_a_link_of_the_text_cannot_end_early() -> None:
    text = markdown(everything("orders-api"))
    assert "](https://grafana.example/d/x?a=%28b%29)" in text
