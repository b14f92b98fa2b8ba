"""Check that the site contains all pages, and that a broken link stops the build of the site."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from clienthealth.model.errors import InputError
from deploy.supply import site
from tests.laws.pages import pages

pytestmark = pytest.mark.long


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found: Mapping[str, str | None] = dict(attrs)
        self.links += [link for name in ("href", "src") if (link := found.get(name))]
        if found.get("id"):
            self.anchors.add(str(found["id"]))


def test_every_link_between_pages_leads_somewhere(tmp_path: Path) -> None:
    assert site.build(tmp_path / "site") > 30
    read = {path: Page(path) for path in (tmp_path / "site").rglob("*.html")}
    followed = 0
    for path, page in read.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert there.is_file(), (path, link)
            if there in read and parts.fragment:
                assert unquote(parts.fragment) in read[there].anchors, (path, link)
                followed += 1
    assert followed > 100
    left_out = {page for page in pages() if not (tmp_path / "site" / page).with_suffix(".html").exists()}
    assert not [page for page in left_out if page.startswith(("deploy/", "alerts/runbooks/", "exporters/"))]


def test_links_that_lead_nowhere_fail_it_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Here\n\n[a](other.md#not-there) [b](missing.md)\n", "utf-8")
    (tmp_path / "other.md").write_text("# Other\n\n## There\n", "utf-8")
    with pytest.raises(InputError) as raised:
        site.build(tmp_path / "site", tmp_path)
    assert "README.md:3" in str(raised.value)
    assert "not-there" in str(raised.value) and "missing.md" in str(raised.value)
    assert not (tmp_path / "site").exists()
