"""Small plots as SVG, made on the server; each describes in words what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from clienthealth.model import wording
from clienthealth.platform.html_page import element
from clienthealth_exporters.prometheus.history import HOUR_SECONDS

_WIDTH, _HEIGHT = 240, 56
#: Below it the times, at every quarter of an hour.
_AXIS, _TICK_SECONDS = 14, 900
#: Readings further apart are not joined: nothing is known of the time between.
_GAP_SECONDS = 180.0
Point = tuple[float, float | None]

_WORDS: dict[str, Callable[[float], str]] = {
    "Buffer": wording.percent,
    "Callback": wording.latency,
    "Topic queue": wording.percent,
    "Lag": lambda value: f"{wording.count(value)} records",
}


def plot(name: str, points: Sequence[Point], now: float) -> Markup | None:
    """A measurement over the last hour, None where nothing is known of it."""
    values = [value for _, value in points if value is not None]
    if not values:
        return None
    words = _WORDS[name]
    share = name in ("Buffer", "Topic queue")
    top = 1.0 if share else max(*values, 1e-9) * 1.05
    span = f"{words(min(values))} to {words(max(values))}"
    summary = f"{name}, last hour: {span}, last {words(values[-1])}, {len(values)} readings"
    lines = [
        element("polyline", points=line)
        if " " in line
        else element("circle", cx=line.partition(",")[0], cy=line.partition(",")[2], r=1.5)
        for line in _lines(points, now, top)
    ]
    frame = element("path", class_="frame", d=f"M0 {_HEIGHT - 0.5}H{_WIDTH}M0 .5H{_WIDTH}")
    scale = element("text", words(top), x=2, y=10)
    drawn = element(
        "svg", frame, *_ticks(now), scale, *lines, viewBox=f"0 0 {_WIDTH} {_HEIGHT + _AXIS}", role="img",
        aria_label=summary,
    )  # fmt: skip
    return element("figure", drawn, element("figcaption", summary, class_="small"), class_="plot")


def _ticks(now: float) -> Iterator[Markup]:
    """The quarters of an hour, in UTC."""
    at = now - now % _TICK_SECONDS
    while at > now - HOUR_SECONDS:
        x = round(_WIDTH * (1 - (now - at) / HOUR_SECONDS), 1)
        yield element("path", class_="frame", d=f"M{x} {_HEIGHT}v3")
        if 12 < x < _WIDTH - 12:
            clock = f"{datetime.fromtimestamp(at, UTC):%H:%M}"
            yield element("text", clock, x=x, y=_HEIGHT + _AXIS - 2, text_anchor="middle")
        at -= _TICK_SECONDS


def _lines(points: Sequence[Point], now: float, top: float) -> list[str]:
    """The stretches of readings that follow each other, as SVG has the points of a line."""
    stretches: list[list[str]] = [[]]
    last = 0.0
    for at, value in points:
        if value is None or at - last > _GAP_SECONDS:
            stretches.append([])
        if value is not None:
            x = _WIDTH * (1 - min(1.0, max(0.0, (now - at) / HOUR_SECONDS)))
            y = 1 + (_HEIGHT - 2) * (1 - min(1.0, value / top))
            stretches[-1].append(f"{x:.1f},{y:.1f}")
        last = at
    return [" ".join(stretch) for stretch in stretches if stretch]
