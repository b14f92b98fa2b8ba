"""Measure how fast the monitor processes a backlog of log lines."""

from __future__ import annotations

from tests.bench.backlog import WorkedOff, work_off
from tests.bench.lab import Lab
from tests.bench.log_lines import LOUD, PROCESSES, noise, storm, wrapped
from tests.bench.measurements import Scope
from tests.bench.publish import Filled, fill
from tests.bench.results import Figure, Result, Table

TITLE = "Speed with log lines"
TOPIC = "client-logs"
NOISE, STORM, TARGET = 2_400_000, 600_000, 150_000


def measure(scope: Scope) -> Result:
    kinds = (
        ("log lines without a Kafka message", noise, NOISE, TARGET),
        ("the same log lines in Filebeat's JSON", wrapped, NOISE, None),
        ("log lines that repeat one Kafka error", storm, STORM, None),
    )
    figures, rows = [], []
    for what, lines, usual, target in kinds:
        records = scope.backlog(usual)
        with Lab() as lab:
            lab.topics()
            filled = fill(lab.servers, TOPIC, lines(records), PROCESSES)
            settings = {"max_offsets_per_trigger": bound} if (bound := scope.batch(records)) else {}
            run = work_off(lab, "monitor", TOPIC, filled, **settings)
        if target is not None:
            figures.append(Figure(f"{what}: lines processed", run.rate, "/s", target, "least"))
        rows.append(_row(what, filled, run))
    parts = [f"CPU of {part}, µs" for part in ("JVM", "Python", "broker")]
    head = ["input", "bytes in a line", "lines/s", "CPU per line, µs", *parts, "peak memory, MB", "lines rejected"]
    how = (
        f"Each input has log lines of {PROCESSES} processes: {STORM:,} lines that repeat one Kafka error, or "
        f"{NOISE:,} other lines. One client logs {LOUD * 10} % of the errors. The measurement of the speed begins "
        "when a third of the lines is read."
    )
    return Result(figures, how, [Table(head, rows)])


def _row(what: str, filled: Filled, run: WorkedOff) -> list[str]:
    parts = [f"{run.part(part):.2f}" for part in ("jvm", "python", "broker")]
    begin = [what, f"{filled.mean_bytes:,}", f"{run.rate:,.0f}", f"{run.micros:.2f}"]
    return [*begin, *parts, f"{run.peak_mb:,.0f}", f"{run.rejected:,}"]
