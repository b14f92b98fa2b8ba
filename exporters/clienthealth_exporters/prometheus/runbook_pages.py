"""The runbooks, served by the exporter itself, so that the link of an alert works where there is nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup

from clienthealth.platform.html_page import element
from clienthealth.settings.links import RUNBOOKS
from clienthealth_exporters.prometheus import markdown
from clienthealth_exporters.prometheus.client_card import page as rendered

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
    return _page(f"{name} · runbook", Markup(markdown.html(text)), "../", ("Runbooks", f"..{RUNBOOKS}"))


def index() -> str:
    """The list of all runbooks."""
    links = [element("li", element("a", name, href=f".{RUNBOOKS}/{name}")) for name in names()]
    return _page("Runbooks", element("h1", "Runbooks") + element("ul", *links), "./")


def _page(title: str, content: Markup, home: str, *links: tuple[str, str]) -> str:
    return rendered("text.html.j2", refresh=None, title=title, content=content, links=links, home=home)
