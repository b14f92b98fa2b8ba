"""Measure how fast the monitor processes a backlog in other tools' metrics formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.bench import samples
from tests.bench.backlog import work_off
from tests.bench.lab import Lab
from tests.bench.measurements import Scope
from tests.bench.publish import fill, readings
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import Pattern

TITLE = "Speed with snapshots in other formats"
TOPIC, CLIENTS = "client-metrics", 5_000


class _Format(NamedTuple):
    template: Callable[[], Pattern]
    records: int
    target: float


FORMATS: Mapping[str, _Format] = {
    "librdkafka statistics": _Format(samples.librdkafka, 1_200_000, 25_000),
    "Telegraf": _Format(samples.telegraf, 1_200_000, 25_000),
    "Jolokia": _Format(samples.jolokia, 1_200_000, 25_000),
    "OTLP JSON": _Format(samples.otlp, 400_000, 10_000),
    "OTLP protobuf": _Format(samples.otlp_protobuf, 400_000, 10_000),
}


def measure(scope: Scope) -> Result:
    figures, rows = [], []
    for name, wanted in FORMATS.items():
        template = wanted.template()
        records = scope.backlog(wanted.records)
        with Lab() as lab:
            lab.topics()
            filled = fill(lab.servers, TOPIC, readings(template, records, CLIENTS // template.clients), CLIENTS)
            run = work_off(lab, "monitor", TOPIC, filled, max_offsets_per_trigger=records // 6)
        figures.append(
            Figure(
                f"{name}: snapshots of {filled.mean_bytes / 1000 / template.clients:.1f} kB processed",
                run.rate * template.clients,
                "/s",
                wanted.target,
                "least",
            )
        )
        rows.append(
            [name, f"{filled.mean_bytes:,}", f"{template.clients}", f"{run.rate:,.0f}", f"{run.micros:.1f}"]
            + [f"{run.part(part):.1f}" for part in ("jvm", "python", "broker")]
            + [f"{run.peak_mb:,.0f}", f"{run.accused:,}", f"{run.rejected:,}"]
        )
    parts = [f"CPU of {part}, µs" for part in ("JVM", "Python", "broker")]
    head = ["format", "bytes per record", "clients per record", "records/s", "CPU per record, µs", *parts]
    how = (
        f"The monitor reads snapshots of {CLIENTS:,} healthy clients. The measurement of the speed begins when "
        "a third of the records is read. An OTLP record has snapshots of two clients."
    )
    return Result(figures, how, [Table([*head, "peak memory, MB", "clients accused", "records rejected"], rows)])
