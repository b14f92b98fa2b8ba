"""The runbooks, served by the exporter itself, so that the link of an alert works where there is nothing else.

Their Markdown becomes HTML by markdown-it. No HTML in it passes through, and no link that runs a script.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from clienthealth.configuration.installation import RUNBOOKS
from clienthealth.platform.html_page import element
from clienthealth_exporters.prometheus.client_card import page as rendered

#: In a checkout this is a link to alerts/runbooks; a wheel carries the files.
FOLDER = Path(__file__).parent / "runbooks"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_NAME = re.compile(r"[a-z0-9-]+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def names() -> list[str]:
    """All runbooks there are: one per failure mode, one per measurement, one for the monitor itself."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


def page(name: str) -> str | None:
    """A runbook as a page, None where there is none of this name."""
    if not _NAME.fullmatch(name) or name not in names():
        return None
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return _page(f"{name} · runbook", Markup(html(text)), "../", ("Runbooks", f"..{RUNBOOKS}"))


def index() -> str:
    """The list of all runbooks."""
    links = [element("li", element("a", name, href=f".{RUNBOOKS}/{name}")) for name in names()]
    return _page("Runbooks", element("h1", "Runbooks") + element("ul", *links), "./")


def _page(title: str, content: Markup, home: str, *links: tuple[str, str]) -> str:
    return rendered("text.html.j2", refresh=None, title=title, content=content, links=links, home=home)


def html(text: str) -> str:
    """CommonMark with tables; headings have ids, and a wide table scrolls by itself."""
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^a-z0-9]+", "-", following.content.lower()).strip("-"))
    written: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return written.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>").rstrip()
