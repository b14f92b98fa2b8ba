"""When each consumer group is read next: one that is in use every time, one that stands or fails more and more seldom.

Most groups of a large cluster are of nobody any more. Nothing tells that a group committed but its offsets, so one that
has members is read every time. One without members can be moved by an administrator alone; a member that joins changes
its state, which the list of all groups tells at every reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka import TopicPartition

#: States of a group that nobody is in.
MEMBERLESS = ("Empty", "Dead")
#: A group waits for this share of the time for which nothing has changed.
SHARE = 0.1


@dataclass(slots=True)
class _Seen:
    """A group when it was read last: `at`, and `since` when it has been so. `committed`: a hash of its offsets."""

    state: str
    committed: int | None
    failing: str
    since: float
    at: float


class Pace:
    """Of all groups of a cluster. Times are in seconds of one clock; `longest`: no group waits for longer."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._seen: dict[str, _Seen] = {}

    def due(self, states: Mapping[str, str], now: float) -> set[str]:
        """Those to be read now. `states`: all groups that there are; others are forgotten."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in states}
        return {name for name, state in states.items() if self._due(self._seen.get(name), state, now)}

    def _due(self, seen: _Seen | None, state: str, now: float) -> bool:
        if seen is None or seen.state != state:
            return True
        if state not in MEMBERLESS and not seen.failing:
            return True
        return now - seen.at >= min(self._longest, SHARE * (seen.at - seen.since))

    def read(self, name: str, state: str, committed: Mapping[TopicPartition, int], now: float) -> None:
        """A group was read."""
        self._note(name, state, hash(frozenset(committed.items())), "", now)

    def failed(self, name: str, state: str, reason: str, now: float) -> None:
        """A group could not be read."""
        self._note(name, state, None, reason, now)

    def failing(self, waiting: set[str]) -> dict[str, str]:
        """Groups of those that could not be read last time, with the reason."""
        return {name: self._seen[name].failing for name in waiting if self._seen[name].failing}

    def _note(self, name: str, state: str, committed: int | None, failing: str, now: float) -> None:
        seen = self._seen.get(name)
        same = seen is not None and (seen.state, seen.committed, bool(seen.failing)) == (
            state,
            committed,
            bool(failing),
        )
        self._seen[name] = _Seen(state, committed, failing, seen.since if seen is not None and same else now, now)
