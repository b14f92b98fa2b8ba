"""Our pages: jinja2 templates in one frame, with their style inside, and nothing from elsewhere.

A page that is refreshed has one script, of our own server, that renews its <main> in place; without scripts the browser
loads the page again. What is not ours is escaped by the templates; `foreign` also keeps it from turning the direction
of what stands around it.

Plots are inline SVG, whose text keeps its size at any width. Widths are in per cent of the plot, heights in pixels. The
style of each page gives the classes `plot`, `grid` and `tick` their colours; no meaning is in a colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from clienthealth.model.wording import by_reason

SCRIPT_PATH = "/page.js"
#: Units across a plot in which the points of its curves are given: a tenth of a per cent.
_ACROSS = 1000
#: Beyond it (per cent) the name of a mark stands before its line: behind it a plot of 240 pixels has no room.
_LATE = 88


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
    environment.filters["by_reason"] = by_reason
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


def plot(height: int, title: str, text: str, body: Iterable[Markup]) -> Markup:
    """Return the plot; `text` says in words what it shows."""
    words = element("title", title), element("desc", text)
    return element("svg", *words, *body, class_="plot", width="100%", height=height, role="img")


def line(class_: str, x1: str, x2: str, y1: float, y2: float, *content: Markup) -> Markup:
    """Return a straight line."""
    return element("line", *content, class_=class_, x1=x1, x2=x2, y1=y1, y2=y2)


def tick(text: str, **where: object) -> Markup:
    """Return a small text, such as a name on an axis."""
    return element("text", text, class_="tick", **where)


def grid(marks: Iterable[tuple[float, str]], top: int, bottom: int, names: bool = True) -> Iterator[Markup]:
    """Return a vertical line for each mark of the time axis, with its name below."""
    for x, name in marks:
        yield line("grid", f"{x}%", f"{x}%", top, bottom)
        if names and x > _LATE:
            yield tick(name, x=f"{x}%", dx=-3, y=bottom + 14, text_anchor="end")
        elif names:
            yield tick(name, x=f"{x}%", dx=3, y=bottom + 14)


def curves(height: int, drawn: Iterable[tuple[str, Sequence[tuple[float, float]]]]) -> Markup:
    """Return curves over the whole width; points are per cent from the left and pixels from the top, by class."""
    paths = [
        element("polyline", class_=class_, points=" ".join(f"{round(x * _ACROSS / 100, 1):g},{y:g}" for x, y in points))
        for class_, points in drawn
    ]
    size = {"x": 0, "y": 0, "width": "100%", "height": height}
    return element("svg", *paths, **size, viewBox=f"0 0 {_ACROSS} {height}", preserveAspectRatio="none")
