"""Plots as inline SVG, for all our pages: nothing is loaded, and text keeps its size at any width.

Widths are in per cent of the plot, heights in pixels. The style of each page gives the classes `plot`, `grid` and
`tick` their colours; no meaning is in a colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from clienthealth.platform.html_page import element

#: Units across a plot in which the points of its curves are given: a tenth of a per cent.
_ACROSS = 1000
#: Beyond it (per cent) the name of a mark stands before its line: behind it a plot of 240 pixels has no room.
_LATE = 88


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
