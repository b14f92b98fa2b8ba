"""Durations in a fixed amount of memory: their number, sum, maximum, and a histogram for quantiles."""

from __future__ import annotations

import math
from typing import NamedTuple

#: From one microsecond upward each bucket is a fifth wider than the one before; the last holds all of an hour and more.
SMALLEST_SECONDS = 1e-6
GROWTH = 2**0.25
BUCKETS = 128


class Summary(NamedTuple):
    """What some durations were, in seconds. `p99` is exact to a fifth and never more than `max`."""

    number: int
    avg: float
    max: float
    p99: float


class Durations:
    """Collects durations. Not safe for several threads at once: the owner holds a lock."""

    __slots__ = ("_buckets", "_count", "_max", "_sum")

    def __init__(self) -> None:
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._buckets = [0] * BUCKETS

    def add(self, seconds: float) -> None:
        """One more. A clock that went backwards counts as 0."""
        seconds = max(0.0, seconds)
        self._count += 1
        self._sum += seconds
        self._max = max(self._max, seconds)
        position = math.ceil(4 * math.log2(seconds / SMALLEST_SECONDS)) if seconds > SMALLEST_SECONDS else 0
        self._buckets[min(position, BUCKETS - 1)] += 1

    def drain(self) -> Summary | None:
        """What came since the last call; None where nothing did."""
        if not self._count:
            return None
        rank, seen = math.ceil(0.99 * self._count), 0
        bound = self._max
        for position, count in enumerate(self._buckets):
            seen += count
            if seen >= rank:
                bound = SMALLEST_SECONDS * GROWTH**position
                break
        summary = Summary(self._count, self._sum / self._count, self._max, min(self._max, bound))
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._buckets = [0] * BUCKETS
        return summary
