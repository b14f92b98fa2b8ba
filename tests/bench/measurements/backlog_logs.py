"""Measure how fast the monitor processes a backlog of log lines."""

from __future__ import annotations

from tests.bench.backlog import WorkedOff, work_off
from tests.bench.lab import PARTITIONS, Lab
from tests.bench.log_lines import LOUD, PROCESSES, SECONDS, noise, storm, wrapped
from tests.bench.measurements import Scope
from tests.bench.publish import Filled, fill
from tests.bench.results import Figure, Result, Table

TITLE = "Log lines"
TOPIC = "client-logs"
NOISE, STORM, TARGET = 2_400_000, 600_000, 150_000


def measure(scope: Scope) -> Result:
    kinds = (
        ("log lines with nothing of Kafka, lines/s", noise, NOISE, TARGET),
        ("the same in Filebeat's JSON, lines/s", wrapped, NOISE, None),
        ("a storm of one signature, lines/s", storm, STORM, None),
    )
    figures, rows = [], []
    for what, lines, usual, target in kinds:
        records = scope.backlog(usual)
        with Lab() as lab:
            lab.topics()
            filled = fill(lab.servers, TOPIC, lines(records), PROCESSES)
            settings = {"max_offsets_per_trigger": bound} if (bound := scope.batch(records)) else {}
            run = work_off(lab, "monitor", TOPIC, filled, **settings)
        figures.append(Figure(what, run.rate, "/s", target, "least"))
        rows.append(_row(what, filled, run))
    head = ["", "bytes", "lines/s", "CPU µs/line", "JVM", "Python", "broker", "peak MB", "rejects"]
    how = (
        f"The monitor, with all sinks, reads log lines of {PROCESSES} processes within {SECONDS} s from {PARTITIONS} "
        f"partitions. There are {NOISE:,} lines. Only the storm of one signature has {STORM:,} lines; one client logs "
        f"{LOUD} of 10 of them. The speed is measured once a third of the lines has been read."
    )
    return Result(figures, how, [Table(head, rows)])


def _row(what: str, filled: Filled, run: WorkedOff) -> list[str]:
    parts = [f"{run.part(part):.2f}" for part in ("jvm", "python", "broker")]
    begin = [what.removesuffix(", lines/s"), f"{filled.mean_bytes:,}", f"{run.rate:,.0f}", f"{run.micros:.2f}"]
    return [*begin, *parts, f"{run.peak_mb:,.0f}", f"{run.rejected:,}"]
