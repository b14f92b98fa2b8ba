"""When a JVM's clients look as if a thread dump were worth taking. Cheap rules on two readings; they judge nothing.

A reason is *strong* where one of the failure modes would look like this. It is *weak* where an idle client looks the
same: then three dumps are enough until something changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clienthealth.model.metrics import QUEUE_DEFAULTS

#: A buffer this full is worth a look.
FULL_RATIO = 0.8
#: Without select-total (before 1.0) half a buffer must do.
HALF_FULL_RATIO = 0.5
#: metadata-age above this (seconds) means that there never was any metadata: the age counts from 1970.
NEVER_SECONDS = 1e8
#: A poll loop that is away this long is worth a look.
POLL_SECONDS = 30.0
#: Of how many chunks a queue of the Scala consumer is full.
CHUNKS = "queued.max.message.chunks"
WEAK_DUMPS = 3
PAIR = 2
#: Multiples of the least time between two dumps, while the suspicion lasts.
PAUSES = (1, 1, 2, 4)

Snapshot = Mapping[str, Any]


@dataclass(frozen=True)
class Reason:
    """Why a dump is worth taking, in words."""

    text: str
    strong: bool = True


class Suspicion:
    """The readings of one JVM, one after the other."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], Snapshot] = {}
        self._gone: dict[tuple[str, str], Snapshot] = {}
        self._was_sending: set[tuple[str, str]] = set()

    def reasons(self, snapshots: Sequence[Snapshot]) -> list[Reason]:
        """What is suspicious in this reading, compared with the one before."""
        now = {(snap["client"]["kind"], snap["client"]["client_id"]): snap for snap in snapshots}
        self._gone = {key: snap for key, snap in {**self._gone, **self._before}.items() if key not in now}
        reasons = [Reason(f"{client_id} ({kind}) is gone while its process lives") for kind, client_id in self._gone]
        for key, snap in now.items():
            reasons += self._of_client(key, self._before.get(key), snap)
        self._before = now
        return reasons

    def _of_client(self, key: tuple[str, str], before: Snapshot | None, now: Snapshot) -> Iterator[Reason]:
        kind, name = key
        rules = {"producer": _producer, "consumer": _consumer, "legacy-consumer": _legacy}
        for text in rules[kind](before, now):
            yield Reason(f"{name}: {text}")
        if kind == "producer" and before is not None:
            sent = _risen(before, now, "record-send-total")
            if sent:
                self._was_sending.add(key)
            elif sent == 0 and not _used(now) and (key in self._was_sending or not _sent(now)):
                yield Reason(f"{name}: no record was sent since the last reading", strong=False)


class DumpBudget:
    """How many dumps all JVMs together may give: when a cluster fails, all of their clients look suspicious at once.

    May be used by several threads. Times are seconds of any clock.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._most = max(per_minute, float(PAIR))
        self._left = self._most
        self._at: float | None = None
        self._lock = threading.Lock()

    def grants(self, dumps: int, now: float) -> bool:
        """Whether so many may be taken; then they count as taken."""
        with self._lock:
            if self._at is not None:
                self._left = min(self._most, self._left + (now - self._at) / 60 * self._per_minute)
            self._at = now
            if self._left < dumps:
                return False
            self._left -= dumps
            return True


class DumpPlan:
    """How often a JVM is asked for a dump: not again within `min_seconds`, and less often while nothing changes.

    Dumps are granted in pairs: that a thread stands still is seen in two of them only.
    """

    def __init__(self, min_seconds: float, budget: DumpBudget) -> None:
        self._min_seconds = min_seconds
        self._budget = budget
        self._last = float("-inf")
        self._taken = 0

    def due(self, reasons: Sequence[Reason], now: float) -> bool:
        """Whether to take a dump at this moment (seconds of any clock); a dump that is due counts as taken."""
        if not reasons:
            if now - self._last >= 2 * self._min_seconds:
                self._taken = 0
            return False
        if self._taken >= WEAK_DUMPS and not any(reason.strong for reason in reasons):
            return False
        pause = PAUSES[min(max(self._taken - 1, 0), len(PAUSES) - 1)] * self._min_seconds
        if now - self._last < pause or (self._taken % PAIR == 0 and not self._budget.grants(PAIR, now)):
            return False
        self._last = now
        self._taken += 1
        return True


def _producer(before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    metrics = now["metrics"]
    used = _used(now)
    ratio = used / metrics["buffer-total-bytes"] if used else 0.0
    waiting = metrics.get("waiting-threads", 0.0)
    if before is not None and (used > 0 or waiting > 0) and _risen(before, now, "select-total") == 0:
        yield f"select-total stands at {metrics['select-total']:.0f} with {used:.0f} bytes in the buffer"
    if waiting > 0:
        yield f"{waiting:.0f} threads wait for buffer memory"
    if ratio >= (FULL_RATIO if "select-total" in metrics else HALF_FULL_RATIO):
        yield f"the buffer is {ratio:.0%} full"
    ages = [reading["metrics"].get("metadata-age", 0.0) for reading in (before, now) if reading is not None]
    if len(ages) == 2 and min(ages) > NEVER_SECONDS:
        yield "it never had metadata of the cluster"
    errors = None if before is None else _risen(before, now, "record-error-total")
    if errors:
        yield f"{errors:.0f} records failed since the last reading"


def _consumer(before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    away = now["metrics"].get("last-poll-seconds-ago", 0.0)
    if away >= POLL_SECONDS:
        yield f"the last poll() was {away:.0f} s ago"


def _legacy(before: Snapshot | None, now: Snapshot) -> Iterator[str]:
    if before is None:
        return
    limit = float(now["config"].get(CHUNKS, QUEUE_DEFAULTS[CHUNKS]))
    chunks = _queues(now)
    stuck = [topic for topic, queue in chunks.items() if min(queue, _queues(before).get(topic, 0.0)) >= limit]
    starving = [topic for topic, queue in chunks.items() if queue == 0]
    if stuck and starving:
        yield f"the queue of {', '.join(stuck)} is full while {', '.join(starving)} got nothing"


def _queues(snapshot: Snapshot) -> dict[str, float]:
    """Chunks in the fullest queue of each topic."""
    by_topic: dict[str, float] = {}
    for reading in snapshot["topics"]:
        chunks = reading["metrics"].get("queue-chunks")
        if chunks is not None:
            by_topic[reading["topic"]] = max(chunks, by_topic.get(reading["topic"], 0.0))
    return by_topic


def _used(now: Snapshot) -> float:
    """Bytes of the buffer that are in use, 0 where that is not known."""
    total, available = (now["metrics"].get(f"buffer-{name}-bytes") for name in ("total", "available"))
    return float(total - available) if total and available is not None else 0.0


def _sent(now: Snapshot) -> float:
    return float(now["metrics"].get("record-send-total", 0.0))


def _risen(before: Snapshot, now: Snapshot, name: str) -> float | None:
    """By how much a counter rose; None where it is not known."""
    first, last = before["metrics"].get(name), now["metrics"].get(name)
    return None if first is None or last is None else last - first
