"""The plots of a client's last hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from clienthealth.model import wording
from clienthealth.platform import plots
from clienthealth.platform.html_page import element
from clienthealth_exporters.prometheus.history import HOUR_SECONDS

#: Of the plot, and of the times below it, in pixels.
_HEIGHT, _AXIS = 56, 18
_QUARTER_SECONDS = 900
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
    """Return a measurement over the last hour, None where nothing is known of it."""
    values = [value for _, value in points if value is not None]
    if not values:
        return None
    words = _WORDS[name]
    top = 1.0 if name in ("Buffer", "Topic queue") else max(*values, 1e-9) * 1.05
    span = f"{words(min(values))} to {words(max(values))}"
    summary = f"{name}, last hour: {span}, last {words(values[-1])}, {len(values)} readings"
    stretches = _stretches(points, now, top)
    body = [
        *plots.grid(_quarters(now), 0, _HEIGHT),
        *(plots.line("grid", "0", "100%", y, y) for y in (0.5, _HEIGHT - 0.5)),
        plots.tick(words(top), x=2, y=12),
        plots.curves(_HEIGHT, [("curve", stretch) for stretch in stretches if len(stretch) > 1]),
        *(element("circle", cx=f"{x:.2f}%", cy=y, r=1.5) for (x, y), *more in stretches if not more),
    ]
    drawn = plots.plot(_HEIGHT + _AXIS, name, summary, body)
    return element("figure", drawn, element("figcaption", summary, class_="small"))


def _quarters(now: float) -> list[tuple[float, str]]:
    """Return the quarters of an hour, in UTC, the newest first."""
    newest = int(now - now % _QUARTER_SECONDS)
    ends = range(newest, int(now) - HOUR_SECONDS, -_QUARTER_SECONDS)
    return [(round(_across(end, now), 2), f"{datetime.fromtimestamp(end, UTC):%H:%M}") for end in ends]


def _across(at: float, now: float) -> float:
    return 100 * (1 - min(1.0, max(0.0, (now - at) / HOUR_SECONDS)))


def _stretches(points: Sequence[Point], now: float, top: float) -> list[list[tuple[float, float]]]:
    """Return the points of each stretch of readings that follow each other."""
    stretches: list[list[tuple[float, float]]] = [[]]
    last = 0.0
    for at, value in points:
        if value is None or at - last > _GAP_SECONDS:
            stretches.append([])
        if value is not None:
            stretches[-1].append((_across(at, now), round(1 + (_HEIGHT - 2) * (1 - min(1.0, value / top)), 1)))
        last = at
    return [stretch for stretch in stretches if stretch]
