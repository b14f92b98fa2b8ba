"""Measure whether the monitor keeps up with a large live fleet, and what a record costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench import canonical
from tests.bench.lab import Lab
from tests.bench.load import Load, Steady
from tests.bench.measurements import Scope
from tests.bench.publish import ends
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import MONITOR, Cost

TITLE = "100,000 clients that report every 10 s"
TOPIC = "client-metrics"
FEW, MANY, INTERVAL_SECONDS = 5_000, 100_000, 10
CORES, MEGABYTES, RATIO = 1.2, 4000.0, 1.3
#: Maximum age of unread input: two report intervals plus the time between batches.
BEHIND_SECONDS = 30.0
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Live:
    """The result of a run. `behind`: seconds of unread input, measured repeatedly (unread records / `rate`)."""

    clients: int
    seconds: float
    rate: float
    worked_off: int
    cost: Cost
    peak_mb: float
    jvm_mb: float
    behind: Sequence[float]
    sent_rate: float
    states: int

    @property
    def micros(self) -> float:
        return self.cost.per_record(self.worked_off, *MONITOR)


def measure(scope: Scope) -> Result:
    many = MANY // 10 if scope.quick else MANY
    few = FEW // 10 if scope.quick else FEW
    rate = many / INTERVAL_SECONDS
    short, long = scope.seconds(240, 90), scope.seconds(600, 90)
    since_ms = round((time.time() - (short + 120) * rate / few * INTERVAL_SECONDS) * 1000)
    small = _live(few, rate, short, since_ms)
    large = _live(many, rate, long, None)
    worst = max(large.behind, default=0.0)
    ratio = large.micros / small.micros
    figures = [
        Figure(
            f"{many:,} clients, a sample every {INTERVAL_SECONDS} s: cores", large.cost.cores(*MONITOR), "cores", CORES
        ),
        Figure(
            f"{many:,} clients, a sample every {INTERVAL_SECONDS} s: memory of all processes",
            large.peak_mb,
            "MB",
            MEGABYTES,
        ),
        Figure(
            f"{many:,} clients, a sample every {INTERVAL_SECONDS} s: longest delay until a record is read",
            worst,
            "s",
            BEHIND_SECONDS,
        ),
        Figure(f"{many:,} clients: CPU per record, relative to the same figure for {few:,} clients", ratio, "×", RATIO),
    ]
    delays = ["median delay, s", "longest delay, s"]
    cores = [f"cores of {part}" for part in ("JVM", "Python", "broker")]
    head = ["clients", "records/s sent", "records/s processed", *delays, *cores, "CPU per record, µs"]
    rows = [
        [f"{live.clients:,}", f"{live.sent_rate:,.0f}", f"{live.worked_off / live.seconds:,.0f}"]
        + [f"{statistics.median(live.behind):.1f}", f"{max(live.behind):.1f}"]
        + [f"{live.cost.cores(part):.2f}" for part in ("jvm", "python", "broker")]
        + [f"{live.micros:.1f}", f"{live.peak_mb:,.0f}", f"{live.jvm_mb:,.0f}"]
        for live in (small, large)
    ]
    how = (
        f"For {long:.0f} s, each of {many:,} producers sends a snapshot of 1.5 kB every {INTERVAL_SECONDS} s. All "
        f"producers together send {rate:,.0f} records per second. An earlier run lasted {short:.0f} s: {few:,} "
        f"producers together sent {rate:,.0f} records per second. Only the second half of each run counts. The delay "
        "is the number of unread records, divided by the records sent per second."
    )
    return Result(figures, how, [Table([*head, "peak memory, MB", "memory of JVM, MB"], rows)])


def _live(clients: int, rate: float, seconds: float, since_ms: int | None) -> Live:
    with Lab() as lab:
        lab.topics()
        with lab.monitor() as monitor:
            monitor.wait_for_queries()
            with Load(lab.servers, Steady(TOPIC, canonical.producer(), clients, rate, since_ms)) as load:
                monitor.watch(seconds / 2, LOOK_SECONDS)
                since, sent, before = time.time(), load.sent, monitor.checkpoints.count(TOPIC)
                behind = []
                while time.time() < since + seconds / 2:
                    monitor.watch(LOOK_SECONDS, LOOK_SECONDS)
                    behind.append((ends(lab.servers, TOPIC) - monitor.checkpoints.count(TOPIC)) / rate)
                    if len(behind) % 6 == 1:
                        print(f"  {clients:,} clients: {behind[-1]:.1f} s behind", flush=True)
                until = time.time()
                usage = monitor.usage
                return Live(
                    clients=clients,
                    seconds=until - since,
                    rate=rate,
                    worked_off=monitor.checkpoints.count(TOPIC) - before,
                    cost=usage.cost(since, until),
                    peak_mb=usage.peak_mb("jvm", "python"),
                    jvm_mb=usage.peak_mb("jvm"),
                    behind=behind,
                    sent_rate=(load.sent - sent) / (until - since),
                    states=len(monitor.states()),
                )
