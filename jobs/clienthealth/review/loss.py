"""Records lost: how many at least and at most, and whether that is more than the objective allows.

What incidents tell is an interval. Its end is open (None) where a client lost records that were not counted, or not
all. So the objective is met or missed only where that is true of every number of the interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["met", "missed", "not known", "no data"]

#: At least and at most; None: nobody knows how many at most.
Range = tuple[int, int | None]


@dataclass(frozen=True)
class Loss:
    """Records lost in a period, and the state of the objective."""

    records: Range = (0, 0)
    state: State = "no data"

    @property
    def none(self) -> bool:
        """Is it certain that nothing is known to be lost?"""
        return self.records == (0, 0)

    @property
    def met(self) -> bool:
        """Nothing speaks against the objective."""
        return self.state in ("met", "no data")

    def as_json(self) -> dict[str, Any]:
        """All its numbers; `at_most` is null where nobody knows."""
        return {"at_least": self.records[0], "at_most": self.records[1], "state": self.state}


def of_service(records: Range, target: int, observed: bool) -> Loss:
    """What a service lost, judged. `observed`: was any of its clients judged in the period?"""
    low, high = records
    if records == (0, 0) and not observed:
        return Loss(records, "no data")
    if low > target:
        return Loss(records, "missed")
    return Loss(records, "met" if high is not None and high <= target else "not known")


def of_all(services: Iterable[Loss]) -> Loss:
    """What all lost together; its state is that of the worst service, because the target is one for each."""
    losses = list(services)
    states = {loss.state for loss in losses}
    order: tuple[State, ...] = ("missed", "not known", "met")
    return Loss(add(loss.records for loss in losses), next((s for s in order if s in states), "no data"))


def add(ranges: Iterable[Range]) -> Range:
    """Their sum: open where one of them is."""
    low, high = 0, 0
    is_open = False
    for least, most in ranges:
        low += least
        high += most or 0
        is_open = is_open or most is None
    return low, None if is_open else high
