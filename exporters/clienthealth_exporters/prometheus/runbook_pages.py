"""The runbooks, served by the exporter itself, so that the link of an alert works where there is nothing else."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from clienthealth.platform import html_page
from clienthealth.settings.links import RUNBOOKS
from clienthealth_exporters.prometheus import markdown

#: In a checkout this is a link to alerts/runbooks; a wheel carries the files.
FOLDER = Path(__file__).parent / "runbooks"
_NAME = re.compile(r"[a-z0-9-]+")


def names() -> list[str]:
    """All runbooks there are: one per failure mode, one per measurement, one for the monitor itself."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


def page(name: str) -> str | None:
    """A runbook as a page, None where there is none of this name."""
    if not _NAME.fullmatch(name) or name not in names():
        return None
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    body = f'<main class="text">{markdown.html(text)}</main>'
    return html_page.page(f"{name} · runbook", f"{html_page.crumbs(('Runbooks', RUNBOOKS))}{body}")


def index() -> str:
    """The list of all runbooks."""
    links = "".join(f'<li><a href="{RUNBOOKS}/{escape(name)}">{escape(name)}</a></li>' for name in names())
    body = f'<main class="text"><h1>Runbooks</h1><ul>{links}</ul></main>'
    return html_page.page("Runbooks", html_page.crumbs() + body)
