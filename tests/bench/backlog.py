"""Measure speed and CPU cost of the warmed-up monitor on a topic's backlog."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clienthealth.model.errors import ServiceError
from tests.bench.lab import Lab
from tests.bench.publish import Filled
from tests.bench.usage import Cost

LIMIT_SECONDS = 1200.0
WARM_AFTER = 1 / 3


@dataclass(frozen=True)
class WorkedOff:
    """The speed after start and warm-up. `rate` is in records/s, and `cost` is in µs of CPU per record."""

    rate: float
    warm_records: int
    cost: Cost
    peak_mb: float
    jvm_mb: float
    states: int
    accused: int
    rejected: int

    @property
    def micros(self) -> float:
        return self.cost.per_record(self.warm_records)

    def part(self, name: str) -> float:
        return self.cost.per_record(self.warm_records, name)


def warm(progress: Sequence[tuple[float, int]], records: int) -> tuple[tuple[float, int], tuple[float, int]]:
    begin = next((step for step in progress if step[1] >= records * WARM_AFTER), None)
    if begin is None or begin[1] >= progress[-1][1]:
        raise ServiceError("no batch was left after the warm-up: measure more records")
    return begin, progress[-1]


def work_off(lab: Lab, name: str, topic: str, filled: Filled, **settings: Any) -> WorkedOff:
    with lab.monitor(name, trigger_seconds=0, **settings) as monitor:
        monitor.work_off(topic, filled.records, LIMIT_SECONDS)
        progress = monitor.checkpoints.worked_off(topic)
        (since, before), (until, after) = warm(progress, filled.records)
        usage, states = monitor.usage, monitor.states()
        run = WorkedOff(
            rate=(after - before) / (until - since),
            warm_records=after - before,
            cost=usage.cost(since, until),
            peak_mb=usage.peak_mb("jvm", "python"),
            jvm_mb=usage.peak_mb("jvm"),
            states=len(states),
            accused=sum(b'"suspected"' in state or b'"confirmed"' in state for state in states.values()),
            rejected=_rejected(monitor),
        )
    print(
        f"  {name}: {run.rate:,.0f} records/s warm, CPU {run.micros:.1f} µs a record "
        f"(JVM {run.part('jvm'):.1f} + Python {run.part('python'):.1f} + broker {run.part('broker'):.1f}), "
        f"{run.peak_mb:,.0f} MB, {run.states:,} states, {run.accused:,} accused, {run.rejected:,} rejects",
        flush=True,
    )
    return run


def _rejected(monitor: Any) -> int:
    time.sleep(1)
    rejected: int = monitor.rejected()
    return rejected
