"""Measure the time from a client's failure to its record on `client-health`."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from tests.bench import canonical
from tests.bench.lab import PARTITIONS, Lab, Monitor
from tests.bench.load import Load
from tests.bench.measurements import Scope
from tests.bench.results import NEVER, Figure, Result, Table
from tests.bench.templates import BUFFER_BYTES, Template, values

TITLE = "Time from a failure to its verdict"
TOPIC = "client-metrics"
DEADLOCK, NOT_CLOSED = "producer-callback-deadlock", "producer-not-closed"
TARGETS = {DEADLOCK: 40.0, NOT_CLOSED: 85.0}
INTERVAL_SECONDS = 10.0
FAILING, EXITING, HEALTHY = 50, 20, 50
FILLS_IN = (25.0, 60.0)
UNSENT = BUFFER_BYTES // 20
PATIENCE_SECONDS = 150.0


@dataclass
class Fate:
    client: int
    mode: str | None
    phase: float
    fills_in: float
    onset: float | None = None

    def values(self, at: float) -> dict[bytes, int] | None:
        failed = self.onset is not None and at >= self.onset
        if failed and self.mode == NOT_CLOSED:
            return None
        # The counters of a stuck client keep the values that they had at the onset.
        moved_until = self.onset if failed and self.onset is not None else at
        fields = values(self.client, 0, round(at * 1000))
        seconds = int((moved_until % 1_000_000) * 10)
        fields |= {
            b"selects": seconds * 2,
            b"sent": seconds * 30,
            b"io_ns": seconds * 10**6,
            b"wait_ns": seconds * 10**8,
        }
        if self.mode == NOT_CLOSED:
            fields[b"available"] = BUFFER_BYTES - UNSENT
        if failed and self.onset is not None:
            filled = min(1.0, (at - self.onset) / self.fills_in)
            fields[b"available"] = round(BUFFER_BYTES * (1 - filled))
            fields[b"waiting"] = 4 if filled == 1.0 else 0
        return fields


@dataclass
class Fleet:
    fates: Sequence[Fate]
    template: Template = field(default_factory=canonical.producer)

    def __call__(self, since: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
        for fate in self.fates:
            if int((until - fate.phase) / INTERVAL_SECONDS) > int((since - fate.phase) / INTERVAL_SECONDS):
                fields = fate.values(until)
                if fields is not None:
                    yield TOPIC, *self.template.record(fields)


def measure(scope: Scope) -> Result:
    random_ = random.Random(1)
    failing, exiting, healthy = (10, 5, 10) if scope.quick else (FAILING, EXITING, HEALTHY)
    modes = [DEADLOCK] * failing + [NOT_CLOSED] * exiting + [None] * healthy
    fates = [
        Fate(client, mode, random_.uniform(0, INTERVAL_SECONDS), random_.uniform(*FILLS_IN))
        for client, mode in enumerate(modes)
    ]
    spread = scope.seconds(240, 60)
    with Lab() as lab:
        lab.topics()
        with lab.monitor() as monitor, Load(lab.servers, Fleet(fates)):
            monitor.wait_for_queries()
            verdicts = Verdicts(lab.servers, monitor.settings.topics.health)
            monitor.watch(scope.seconds(120, 60), INTERVAL_SECONDS)
            begin = time.time()
            for fate in fates:
                fate.onset = begin + random_.uniform(1, spread) if fate.mode else None
            _wait(verdicts, fates, monitor, begin + spread + PATIENCE_SECONDS)
            verdicts.close()
    return _result(fates, verdicts.first)


class Verdicts:
    def __init__(self, servers: str, topic: str) -> None:
        self.first: dict[tuple[int, str], float] = {}
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "fetch.wait.max.ms": 50})
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])

    def read(self, seconds: float) -> None:
        until = time.time() + seconds
        while time.time() < until:
            message = self._consumer.poll(0.1)
            value = message.value() if message is not None and not message.error() else None
            if value is None or (b'"suspected"' not in value and b'"confirmed"' not in value):
                continue
            state = json.loads(value)
            for verdict in state.get("verdicts", []):
                if verdict["status"] in ("suspected", "confirmed"):
                    client = int(state["client"]["host"].removeprefix("host-"))
                    self.first.setdefault((client, verdict["mode"]), time.time())

    def close(self) -> None:
        self._consumer.close()


def _wait(verdicts: Verdicts, fates: Sequence[Fate], monitor: Monitor, until: float) -> None:
    wanted = {(fate.client, fate.mode) for fate in fates if fate.mode}
    while time.time() < until and not wanted <= verdicts.first.keys():
        verdicts.read(10)
        monitor.watch(0)
        print(f"  {len(wanted & verdicts.first.keys())} of {len(wanted)} verdicts", flush=True)


def _result(fates: Sequence[Fate], first: Mapping[tuple[int, str], float]) -> Result:
    figures, rows, notes = [], [], []
    for mode, target in TARGETS.items():
        mine = [fate for fate in fates if fate.mode == mode]
        seconds = sorted(
            first[fate.client, mode] - fate.onset
            for fate in mine
            if fate.onset is not None and (fate.client, mode) in first
        )
        seconds += [float("inf")] * (len(mine) - len(seconds))
        finite = [s for s in seconds if s != float("inf")]
        p95 = seconds[min(len(seconds) - 1, round(0.95 * len(seconds)))]
        shown = min(p95, NEVER)
        figures.append(Figure(f"{mode}: time to the verdict for 95 % of the failures", shown, "s", target))
        rows.append(
            [mode, f"{len(finite)} of {len(mine)}"]
            + ([f"{statistics.median(finite):.1f}", f"{shown:.1f}", f"{max(finite):.1f}"] if finite else ["", "", ""])
        )
    right = {(fate.client, fate.mode) for fate in fates}
    wrong = sorted(key for key in first if key not in right)
    accused = [f"client {client}: {mode}" for client, mode in wrong]
    notes.append(f"Clients with a wrong verdict: {', '.join(accused) if accused else 'none'}")
    count = len(fates) - sum(fate.mode is not None for fate in fates)
    how = (
        f"Live producers report every {INTERVAL_SECONDS:.0f} s and fail at random moments; {count} other producers "
        "stay healthy. The time runs from the failure until a consumer gets the verdict *suspected* or *confirmed*."
    )
    return Result(
        figures, how, [Table(["failure mode", "failures found", "median, s", "95 %, s", "longest, s"], rows)], notes
    )
