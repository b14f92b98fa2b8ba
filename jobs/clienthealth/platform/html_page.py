"""Our pages: jinja2 templates in one frame, with their style inside, and nothing from elsewhere.

A page that is refreshed has one script, of our own server, that renews its <main> in place; without scripts the browser
loads the page again. What is not ours is escaped by the templates; `foreign` also keeps it from turning the direction
of what stands around it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

SCRIPT_PATH = "/page.js"


@cache
def script() -> str:
    """What a server of refreshed pages answers at SCRIPT_PATH."""
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


@cache
def style() -> Markup:
    """The style of all pages but the review, which is printed."""
    return Markup((Path(__file__).parent / "page.css").read_text(encoding="utf-8"))


@cache
def templates(package: str) -> Environment:
    """The templates of a package, which may extend `page.html.j2` and import `parts.html.j2`."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("clienthealth.platform", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["foreign"] = foreign
    environment.globals.update(style=style, script_path=SCRIPT_PATH, element=element)
    return environment


def rendered(package: str, template: str, **values: Any) -> str:
    """A page made of a package's template."""
    return templates(package).get_template(template).render(values) + "\n"


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An element of HTML or SVG. An attribute that is None or '' is left out; `class_` is class, `data_x` is data-x."""
    pairs = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
        if value not in (None, "")
    )
    return Markup("<{0}{1}>{2}</{0}>").format(tag, pairs, Markup("").join(map(escape, content)))


def foreign(text: object) -> Markup:
    """Text of someone else's."""
    return element("bdi", str(text))
