"""Our runbooks' Markdown as HTML, by markdown-it. No HTML in it passes through, and no link that runs a script."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def html(text: str) -> str:
    """CommonMark with tables; headings have ids, and a wide table scrolls by itself."""
    renderer = _renderer()
    tokens = renderer.parse(_COMMENT.sub("", text))
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(following.content))
    written: str = renderer.renderer.render(tokens, renderer.options, {})
    return written.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>").rstrip()


def slug(title: str) -> str:
    """The id of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")
