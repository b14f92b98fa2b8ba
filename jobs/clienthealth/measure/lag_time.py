"""When was the record at an offset produced? Read from how the end offset moved over time.

An end offset of 200 at noon says that record 199 existed at noon and record 200 did not. Between two such points
time is interpolated; before the oldest it is extrapolated along the whole history. Lag in seconds is the time since
the first unread record was produced. The method is kafka-lag-exporter's, with Datadog's bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Quality = Literal["exact", "interpolated", "extrapolated", "unknown"]


class Point(NamedTuple):
    """The end offset at a time (any unit, here milliseconds)."""

    offset: int
    time: float


def compressed(points: Iterable[tuple[int, float]]) -> list[Point]:
    """End offsets in order of time, of each stretch in which nothing was produced only the first and the last."""
    seen = list(points)
    inner = [
        p for before, p, after in zip(seen, seen[1:], seen[2:], strict=False) if before[0] < p[0] or p[0] < after[0]
    ]
    return list(map(Point._make, [*seen[:1], *inner, *seen[1:][-1:]]))


def produced_at(history: Sequence[Point], offset: int) -> tuple[float, Quality] | None:
    """The time at which the record at `offset` was produced, from end offsets that never fall.

    An offset that stood at the end for a while was produced after that while, so the newest point counts. None where
    the end offset has been the same all the time: then nothing is known of how fast it moves.
    """
    if not history or history[0].offset == history[-1].offset:
        return None
    newest = bisect_right(history, offset, key=lambda point: point.offset) - 1
    if newest < 0 or newest == len(history) - 1:
        first, last = history[0], history[-1]
        slope = (last.time - first.time) / (last.offset - first.offset)
        nearest = last if newest >= 0 else first
        return nearest.time + (offset - nearest.offset) * slope, "extrapolated"
    before, after = history[newest], history[newest + 1]
    share = (offset - before.offset) / (after.offset - before.offset)
    return before.time + share * (after.time - before.time), "interpolated"


def seconds_behind(
    history: Sequence[Point], offset: int, now_ms: float, max_extrapolation_seconds: float
) -> tuple[float | None, Quality]:
    """Seconds since the record at `offset`, the first unread one, was produced; finite and ≥ 0, or None.

    Never more than `max_extrapolation_seconds` before the oldest end offset that was seen.
    """
    if history and offset >= history[-1].offset:
        return 0.0, "exact"
    produced = produced_at(history, offset)
    if produced is None:
        return None, "unknown"
    time, quality = produced
    earliest = history[0].time - max_extrapolation_seconds * 1000
    return max(0.0, now_ms - max(time, earliest)) / 1000, quality
