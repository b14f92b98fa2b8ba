"""Small plots as SVG, made on the server; each describes in words what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from clienthealth.model import wording
from clienthealth_exporters.prometheus.history import HOUR_SECONDS

_WIDTH, _HEIGHT = 240, 56
#: Readings further apart are not joined: nothing is known of the time between.
_GAP_SECONDS = 180.0
Point = tuple[float, float | None]

_WORDS: dict[str, Callable[[float], str]] = {
    "Buffer": wording.percent,
    "Callback": wording.short_seconds,
    "Topic queue": wording.percent,
    "Lag": lambda value: f"{wording.count(value)} records",
}


def plot(name: str, points: Sequence[Point], now: float) -> str:
    """A measurement over the last hour, '' where nothing is known of it."""
    values = [value for _, value in points if value is not None]
    if not values:
        return ""
    words = _WORDS[name]
    share = name in ("Buffer", "Topic queue")
    top = 1.0 if share else max(*values, 1e-9) * 1.05
    span = f"{words(min(values))} to {words(max(values))}"
    summary = f"{name}, last hour: {span}, last {words(values[-1])}, {len(values)} readings"
    lines = "".join(
        f'<polyline points="{line}"/>'
        if " " in line
        else f'<circle cx="{line.partition(",")[0]}" cy="{line.partition(",")[2]}" r="1.5"/>'
        for line in _lines(points, now, top)
    )
    return (
        f'<figure class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(summary)}">'
        f'<path class="frame" d="M0 {_HEIGHT - 0.5}H{_WIDTH}M0 .5H{_WIDTH}"/>{lines}</svg>'
        f'<figcaption class="small">{escape(summary)}</figcaption></figure>'
    )


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
