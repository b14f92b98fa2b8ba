"""Render HTML pages from jinja2 templates. Pages load nothing from other servers.

Plots are inline SVG. Widths are in per cent and heights are in pixels, so that a wider page does not enlarge a plot's
text. Nothing is shown by colour alone.
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
_ACROSS = 1000
#: Beyond _LATE per cent of the width, there is no room to the right of a mark, so the mark's name is on the left.
_LATE = 88


@cache
def script() -> str:
    """Return the JavaScript that refreshes pages. A page's server must offer the script at SCRIPT_PATH."""
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


@cache
def style() -> Markup:
    """Return the CSS of all pages except the review, which has its own CSS for printing."""
    return Markup((Path(__file__).parent / "page.css").read_text(encoding="utf-8"))


@cache
def templates(package: str) -> Environment:
    """Return the jinja2 environment with a package's templates.

    The templates may extend `page.html.j2` and import `parts.html.j2`. Values are escaped, except in `.txt.j2`.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("clienthealth.platform", "")]),
        autoescape=lambda name: not str(name).endswith(".txt.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["foreign"] = foreign
    environment.filters["by_reason"] = by_reason
    environment.globals.update(style=style, script_path=SCRIPT_PATH, element=element)
    return environment


def rendered(package: str, template: str, **values: Any) -> str:
    """Return a package's template rendered with `values`. The text ends with a newline."""
    return templates(package).get_template(template).render(values) + "\n"


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Return an element of HTML or SVG. Content that is not Markup is escaped.

    `class_` sets the attribute `class`, and `data_x` sets `data-x`.
    """
    pairs = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
        if value not in (None, "")
    )
    return Markup("<{0}{1}>{2}</{0}>").format(tag, pairs, Markup("").join(map(escape, content)))


def foreign(text: object) -> Markup:
    """Return a <bdi> element with a text that is not ours, so that the text's direction does not affect the page."""
    return element("bdi", str(text))


def plot(height: int, title: str, text: str, body: Iterable[Markup]) -> Markup:
    """Return a plot as an SVG element. `height`: pixels. `title` and `text` describe the plot for screen readers."""
    words = element("title", title), element("desc", text)
    return element("svg", *words, *body, class_="plot", width="100%", height=height, role="img")


def line(class_: str, x1: str, x2: str, y1: float, y2: float, *content: Markup) -> Markup:
    """Return a straight line as an SVG element. `x1`, `x2`: per cent (`12%`); `y1`, `y2`: pixels."""
    return element("line", *content, class_=class_, x1=x1, x2=x2, y1=y1, y2=y2)


def tick(text: str, **where: object) -> Markup:
    """Return a small text, such as a name on an axis, as an SVG element. `where`: SVG attributes for the position."""
    return element("text", text, class_="tick", **where)


def grid(marks: Iterable[tuple[float, str]], top: int, bottom: int, names: bool = True) -> Iterator[Markup]:
    """Yield a vertical line for each mark of the time axis, and the mark's name below the line.

    `marks`: (position in per cent of the width, name). `top`, `bottom`: ends of the lines in pixels. `names`: False to
    leave out the names.
    """
    for x, name in marks:
        yield line("grid", f"{x}%", f"{x}%", top, bottom)
        if names:
            late = x > _LATE
            yield tick(name, x=f"{x}%", dx=-3 if late else 3, y=bottom + 14, text_anchor="end" if late else None)


def curves(height: int, drawn: Iterable[tuple[str, Sequence[tuple[float, float]]]]) -> Markup:
    """Return curves across the whole width of a plot. `height`: pixels. `drawn`: (CSS class, points) of each curve.

    A point is (position in per cent of the plot's width, pixels from the plot's top).
    """
    paths = [
        element("polyline", class_=class_, points=" ".join(f"{round(x * _ACROSS / 100, 1):g},{y:g}" for x, y in points))
        for class_, points in drawn
    ]
    size = {"x": 0, "y": 0, "width": "100%", "height": height}
    return element("svg", *paths, **size, viewBox=f"0 0 {_ACROSS} {height}", preserveAspectRatio="none")
