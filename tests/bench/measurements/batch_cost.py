"""Measure the CPU time of the monitor's start, and of small batches without pauses."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench import canonical
from tests.bench.lab import Lab, Launch, launch_of
from tests.bench.measurements import Scope
from tests.bench.publish import fill, readings
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import MONITOR, Cost

TITLE = "CPU of a small batch and of the monitor's start"
TOPIC = "client-metrics"
RECORDS, BATCHES, WARM = 200, 60, 30
LIMIT_SECONDS = 1200.0
TARGETS = {"batch": 0.7, "memory": 900.0}


@dataclass(frozen=True)
class Run:
    start: Cost
    batch: Cost
    memory_mb: float

    def row(self, name: str) -> list[str]:
        batch = [f"{self.batch.cpu(*parts):.3f}" for parts in (MONITOR, *((part,) for part in MONITOR))]
        start = [f"{self.start.seconds:.1f}", f"{self.start.cpu(*MONITOR):.1f}"]
        return [name, *batch, f"{self.batch.seconds:.2f}", *start, f"{self.memory_mb:,.0f}"]


def measure(scope: Scope) -> Result:
    before = launch_of(scope.before) if scope.before else None
    batches = 30 if scope.quick else BATCHES
    with Lab() as lab:
        lab.topics()
        filled = fill(lab.servers, TOPIC, readings(canonical.producer(), RECORDS * batches, RECORDS), RECORDS)
        runs = {"monitor": _run(lab, "monitor", filled.records)}
        if before is not None:
            runs[f"{scope.before}"] = _run(lab, "before", filled.records, before)
    run = runs["monitor"]
    figures = [
        Figure(f"CPU of a batch of {RECORDS} records", run.batch.cpu(*MONITOR), "s", TARGETS["batch"]),
        Figure("CPU of the monitor's start, until the first batch is committed", run.start.cpu(*MONITOR), "s"),
        Figure("memory after small batches (shared memory is counted once)", run.memory_mb, "MB", TARGETS["memory"]),
    ]
    how = (
        f"The monitor starts without checkpoint and history. The monitor then reads batches of {RECORDS} snapshots "
        f"without a pause between them. The first {WARM} batches do not count. Children are programs that the JVM "
        "started."
    )
    parts = [f"CPU of {part}, s" for part in ("JVM", "Python", "children")]
    times = ["duration of a batch, s", "duration of the start, s", "CPU of the start, s"]
    head = ["program", "CPU of a batch, s", *parts, *times, "memory, MB"]
    return Result(figures, how, [Table(head, [run.row(name) for name, run in runs.items()])])


def _run(lab: Lab, name: str, records: int, launch: Launch | None = None) -> Run:
    with lab.monitor(name, launch, trigger_seconds=0, max_offsets_per_trigger=RECORDS) as monitor:
        monitor.work_off(TOPIC, records, LIMIT_SECONDS)
        usage, ends = monitor.usage, [at for at, _ in monitor.checkpoints.worked_off(TOPIC)]
        warm = min(WARM, len(ends) // 2)
        cost, number = usage.cost(ends[warm], ends[-1]), len(ends) - 1 - warm
        batch = Cost(cost.seconds / number, {part: cpu / number for part, cpu in cost.parts.items()})
        run = Run(usage.cost(monitor.started, ends[0]), batch, usage.proportional_mb("monitor"))
    print(f"  {' | '.join(run.row(name))}", flush=True)
    return run
