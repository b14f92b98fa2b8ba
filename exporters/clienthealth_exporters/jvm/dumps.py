"""Decide why and when to take thread dumps of JVMs, and make log records of them.

A reason is *weak* if it can also hold for an idle client, else *strong*. While a JVM has only weak reasons, at most
three dumps are taken.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clienthealth.model.clients import ClientProcess
from clienthealth.model.readings import Reading, TopicReading
from clienthealth.model.telemetry import Snapshot
from clienthealth.modes import TwoReadings, modes

DUMP_DATASET = "kafka.thread-dump"
#: Brokers accept records up to a megabyte by default.
MAX_DUMP_BYTES = 900_000
WEAK_DUMPS = 3
PAIR = 2
#: Pauses between dumps while a reason persists, in multiples of `[jvm] dump_min_seconds`.
PAUSES = (1, 1, 2, 4)


@dataclass(frozen=True)
class Reason:
    """A reason to take a thread dump. `text`: the reason in words, as the log shows it."""

    text: str
    strong: bool = True


class Suspicion:
    """Compare each sample with the previous sample, to find reasons for a thread dump."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], Snapshot] = {}
        self._gone: dict[tuple[str, str], Snapshot] = {}
        self._was_sending: set[tuple[str, str]] = set()

    def reasons(self, snapshots: Sequence[Snapshot]) -> list[Reason]:
        """Return the reasons to take a thread dump now."""
        now = {(snap.client.kind or "", snap.client.client_id or ""): snap for snap in snapshots}
        self._gone = {key: snap for key, snap in {**self._gone, **self._before}.items() if key not in now}
        reasons = [
            Reason(f"{client_id} ({kind}) is gone, but its process still runs") for kind, client_id in self._gone
        ]
        for key, snap in now.items():
            (kind, name), before = key, self._before.get(key)
            readings = TwoReadings(None if before is None else _reading(before), _reading(snap), snap.config)
            for mode in modes().values():
                if kind in mode.kinds:
                    reasons += [Reason(f"{name}: {text}") for text in mode.worth_a_dump(readings, mode.thresholds)]
            if kind != "producer":
                continue
            sent, known = readings.risen("record-send-total"), snap.metrics.get("record-send-total")
            if sent:
                self._was_sending.add(key)
            elif sent == 0 and not readings.used_bytes and (key in self._was_sending or not known):
                reasons.append(Reason(f"{name}: no record was sent since the previous sample", strong=False))
        self._before = now
        return reasons


class DumpBudget:
    """Limits the number of dumps of all JVMs together. Thread-safe.

    `per_minute`: maximum number of dumps per minute on average.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._most = max(per_minute, float(PAIR))
        self._left = self._most
        self._at: float | None = None
        self._lock = threading.Lock()

    def grants(self, dumps: int, now: float) -> bool:
        """Return whether the budget allows further dumps. Dumps that are allowed are recorded as taken.

        `dumps`: number of further dumps. `now`: seconds of a monotonic clock.
        """
        with self._lock:
            if self._at is not None:
                self._left = min(self._most, self._left + (now - self._at) / 60 * self._per_minute)
            self._at = now
            if self._left < dumps:
                return False
            self._left -= dumps
            return True


class DumpPlan:
    """Decides when to take dumps of one JVM.

    `min_seconds`: minimum pause between two dumps. While a reason persists, the pauses become longer. `budget`: the
    budget from which dumps are taken in pairs, because a thread is known to be stuck only after two dumps.
    """

    def __init__(self, min_seconds: float, budget: DumpBudget) -> None:
        self._min_seconds = min_seconds
        self._budget = budget
        self._last = float("-inf")
        self._taken = 0

    def due(self, reasons: Sequence[Reason], now: float) -> bool:
        """Return whether a dump is due for `reasons`. A dump that is due is recorded as taken.

        `now`: seconds of a monotonic clock.
        """
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


def _reading(snapshot: Snapshot) -> Reading:
    topics = (TopicReading(part.topic, part.partition, part.thread, part.metrics) for part in snapshot.topics)
    return Reading(snapshot.ts_ms or 0, snapshot.metrics, tuple(topics))


def dump_record(process: ClientProcess, ts_ms: int, dump: str, reason: str) -> dict[str, Any]:
    """Return a thread dump as one log record in the Elastic Common Schema."""
    record = {
        "@timestamp": datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "log.level": "INFO",
        "log.logger": __name__,
        "message": shortened(dump),
        "service.name": process.service,
        "host.name": process.host,
        "service.node.name": process.instance,
        "labels": {"reason": reason},
        "event.dataset": DUMP_DATASET,
    }
    return {name: value for name, value in record.items() if value}


def shortened(dump: str, limit: int = MAX_DUMP_BYTES) -> str:
    """Return the dump, cut to `limit` bytes of UTF-8 by leaving out whole threads.

    Threads with `kafka` in their name or stack, and the thread `DestroyJavaVM`, are kept before other threads.
    """
    if len(dump.encode()) <= limit:
        return dump
    head, *threads = dump.split('\n\n"')
    left = limit - len(head.encode())
    kept: set[int] = set()
    kafka = [thread.startswith("DestroyJavaVM") or "kafka" in thread for thread in threads]
    for at in sorted(range(len(threads)), key=lambda at: (not kafka[at], at)):
        left -= len(threads[at].encode()) + 3
        if left < 0:
            break
        kept.add(at)
    return '\n\n"'.join([head, *(threads[at] for at in sorted(kept))])
