"""The frame of our pages: HTML with its style inside, and nothing from elsewhere.

A page that is refreshed has one script, of our own server, that renews its <main> in place; without scripts the browser
loads the page again.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path


@cache
def _style() -> str:
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


SCRIPT_PATH = "/page.js"


@cache
def script() -> str:
    """What a server of refreshed pages answers at SCRIPT_PATH."""
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


def page(title: str, body: str, refresh_seconds: int | None = None) -> str:
    """A whole page. `title` is escaped here; `body` is HTML and must be escaped already."""
    refresh = (
        f'<noscript><meta http-equiv="refresh" content="{refresh_seconds}"></noscript>'
        f'<script src="{SCRIPT_PATH}" data-seconds="{refresh_seconds}" defer></script>'
        if refresh_seconds
        else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">{refresh}'
        f"<title>{escape(title)}</title><style>{_style()}</style></head><body>{body}</body></html>\n"
    )


def foreign(text: str) -> str:
    """Text of someone else's, escaped, and kept from turning the direction of what stands around it."""
    return f"<bdi>{escape(text)}</bdi>"


def crumbs(*links: tuple[str, str]) -> str:
    """The way back to the overview, then to the pages given as (text, address)."""
    links_to = "".join(f' › <a href="{escape(address)}">{escape(text)}</a>' for text, address in links)
    return f'<nav class="crumbs"><a href="/">Kafka client health</a>{links_to}</nav>'
