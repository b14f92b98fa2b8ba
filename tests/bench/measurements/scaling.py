"""Measure how much faster two and four Spark executors process the same input than one executor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clienthealth.model.errors import ServiceError
from clienthealth.settings import Settings
from deploy.demo.stack import QUICK_START
from deploy.supply import dist
from tests.bench import canonical
from tests.bench.event_log import BatchTime, batches
from tests.bench.lab import Lab
from tests.bench.measurements import Scope
from tests.bench.publish import Filled, fill, readings
from tests.bench.results import Figure, Result, Table
from tests.support.cpu_share import join, pinned, share
from tests.support.spark_cluster import SparkCluster, submission

TITLE = "One, two and four executors"
TOPIC = "client-metrics"
EXECUTORS = (1, 2, 4)
CORES = 0.22
RECORDS, CLIENTS, BATCH = 1_500_000, 20_000, 300_000
PARTITIONS, STATES = 4, 8
HEAP_MB = 640
EFFICIENCY = 0.8
LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Scaled:
    executors: int
    times: Sequence[BatchTime]

    @property
    def rate(self) -> float:
        return sum(b.records for b in self.times) / sum(b.seconds for b in self.times)

    def share(self, name: str) -> float:
        return float(100 * sum(getattr(b, name) for b in self.times) / sum(b.tasks for b in self.times))

    @property
    def filled(self) -> float:
        return float(100 * sum(b.tasks for b in self.times) / sum(b.busy for b in self.times) / self.executors)

    @property
    def driver(self) -> float:
        return sum(b.driver * b.seconds for b in self.times) / len(self.times)


def measure(scope: Scope) -> Result:
    records = scope.backlog(RECORDS)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ServiceError("two cores are needed, one of them for the executors; this process may use only one")
    with pinned(cores[1:]), Lab() as lab:
        lab.topics(partitions=PARTITIONS)
        filled = fill(lab.servers, TOPIC, readings(canonical.producer(), records, CLIENTS), CLIENTS)
        (package,) = (path for path in dist.build(lab.folder / "dist") if path.suffix == ".whl")
        batch = min(BATCH, records // 4)
        scaled = [_scaled(lab, executors, cores[:1], package, filled, batch) for executors in EXECUTORS]
    one = scaled[0].rate
    efficiency = {s.executors: s.rate / one / s.executors for s in scaled}
    figures = [
        Figure("four executors: speed relative to linear scaling", efficiency[4], "×", EFFICIENCY, "least"),
        Figure("one executor: records processed per core", one / CORES, "/s"),
    ]
    times = ["a batch, s", "driver, s", "executors at work", "shuffle", "commit of state"]
    head = ["executors", "records/s", "relative to linear scaling", *times]
    rows = [
        [
            f"{s.executors} × {CORES} core",
            f"{s.rate:,.0f}",
            f"{efficiency[s.executors]:.2f}",
            f"{sum(b.seconds for b in s.times) / len(s.times):.1f}",
            f"{s.driver:.1f}",
            f"{s.filled:.0f} %",
            f"{s.share('shuffle'):.1f} %",
            f"{s.share('state'):.1f} %",
        ]
        for s in scaled
    ]
    how = (
        f"Executors read {filled.records:,} snapshots of {CLIENTS:,} clients, in batches of {BATCH:,}. Each executor "
        f"gets {CORES} core, and all executors share one core. *At work* is the part of a stage's time in which "
        "executors had tasks. *Shuffle* and *commit* are parts of the time of all tasks."
    )
    return Result(figures, how, [Table(head, rows)], [])


def _scaled(lab: Lab, executors: int, cores: Sequence[int], package: Path, filled: Filled, batch: int) -> Scaled:
    name = f"executors-{executors}"
    log = lab.folder / f"{name}-events"
    log.mkdir()
    with ExitStack() as stack:
        # QUICK_START turns off the compiler C2, which takes minutes of CPU in each executor.
        cluster = stack.enter_context(SparkCluster(lab.folder / f"{name}-spark", HEAP_MB + 400, QUICK_START))
        groups = [stack.enter_context(share(CORES)) for _ in range(executors)]
        with pinned(cores):
            workers = cluster.add(executors)
        for group, worker in zip(groups, workers, strict=True):
            if group is None:
                raise ServiceError("cannot create control groups: run as root, or delegate the controller `cpu`")
            join(group, worker.pid)

        def launch(settings: Settings, config: Path) -> tuple[Sequence[str], Mapping[str, str]]:
            events = {"spark__eventLog__enabled": "true", "spark__eventLog__dir": log.as_uri()}
            events["spark__eventLog__compress"] = "false"
            options = {"spark__cores__max": str(executors), "spark__scheduler__minRegisteredResourcesRatio": "1.0"}
            return submission(cluster, settings, config, package, **events, **options)

        with lab.monitor(
            name, launch, shuffle_partitions=STATES, max_offsets_per_trigger=batch, heap_mb=HEAP_MB
        ) as monitor:
            monitor.work_off(TOPIC, filled.records, LIMIT_SECONDS)
        # A cgroup that still has processes cannot be removed.
        for worker in list(cluster.workers):
            cluster.lose(worker)
    times = batches(log)
    scaled = Scaled(executors, times[len(times) // 2 :])
    print(f"  {executors} executors: {scaled.rate:,.0f} records/s, driver {scaled.driver:.1f} s a batch", flush=True)
    return scaled
