"""Measure how long the monitor takes for a small batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence

from tests.bench import canonical
from tests.bench.checkpoints import Batch
from tests.bench.lab import Lab
from tests.bench.load import Load
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import Template, values
from tests.bench.usage import MONITOR, Usage

TITLE = "Duration of small batches"
TOPIC = "client-metrics"
TRIGGER_SECONDS, BURST_AFTER = 5, 1.5
TARGETS = {200: 0.7, 5_000: 1.0}


class Bursts:
    def __init__(self, template: Template, size: int) -> None:
        self._template, self._size = template, size
        self._last = int(time.time() / TRIGGER_SECONDS)
        self._number = 0

    def __call__(self, since: float, until: float) -> Iterable[tuple[str, bytes, bytes]]:
        slot = int((until - BURST_AFTER) / TRIGGER_SECONDS)
        if slot > self._last:
            self._last = slot
            half, reading = self._number % 2, self._number // 2
            self._number += 1
            for client in range(half * self._size, (half + 1) * self._size):
                key, value = self._template.record(values(client, reading, round(until * 1000)))
                yield TOPIC, key, value


def measure(scope: Scope) -> Result:
    figures, rows = [], []
    for size, target in TARGETS.items():
        with Lab() as lab:
            lab.topics()
            with lab.monitor(trigger_seconds=TRIGGER_SECONDS) as monitor:
                monitor.wait_for_queries()
                with Load(lab.servers, Bursts(canonical.producer(), size)):
                    monitor.watch(scope.seconds(90, 40))
                    since = time.time()
                    took = monitor.watch(scope.seconds(150, 40))
                until = time.time()
                (batches,) = monitor.checkpoints.batches(TOPIC).values()
                bursts = sum(b.planned >= since for b in _sized(batches, size))
                usage: Usage = monitor.usage
                cores = usage.cost(since, until).cores(*MONITOR)
        median = statistics.median(took)
        figures.append(Figure(f"a batch of {size:,} records: median duration", median, "s", target))
        rows.append([f"{size:,}", f"{bursts}", f"{median:.2f}", f"{max(took):.2f}", f"{cores:.2f}"])
    how = (
        f"Every {TRIGGER_SECONDS} s, a burst of records arrives. The time of a batch runs from its planning until all "
        f"its results are written. Batches of the first {scope.seconds(90, 40):.0f} s do not count."
    )
    return Result(
        figures,
        how,
        [Table(["records in a batch", "batches", "median, s", "longest, s", "cores of the monitor"], rows)],
    )


def _sized(batches: Sequence[Batch], size: int) -> Iterable[Batch]:
    before = 0
    for batch in batches:
        if batch.ends[TOPIC] - before == size:
            yield batch
        before = batch.ends[TOPIC]
