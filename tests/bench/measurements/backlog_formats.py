"""Measure how fast the complete monitor processes a backlog in each metrics format that other tools write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.bench import samples
from tests.bench.backlog import work_off
from tests.bench.lab import PARTITIONS, Lab
from tests.bench.measurements import Scope
from tests.bench.publish import fill, readings
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import Pattern

TITLE = "Other formats of metrics, 5,000 clients each"
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
                f"{name}, {filled.mean_bytes / 1000:.1f} kB, snapshots/s",
                run.rate * template.clients,
                "/s",
                wanted.target,
                "least",
                note=f"{run.rate:,.0f} records/s" if template.clients > 1 else "",
            )
        )
        rows.append(
            [name, f"{filled.mean_bytes:,}", f"{template.clients}", f"{run.rate:,.0f}", f"{run.micros:.1f}"]
            + [f"{run.part(part):.1f}" for part in ("jvm", "python", "broker")]
            + [f"{run.peak_mb:,.0f}", f"{run.states:,}", f"{run.accused:,}", f"{run.rejected:,}"]
        )
    head = ["", "bytes", "clients in a record", "records/s", "CPU µs/record", "JVM", "Python", "broker", "peak MB"]
    how = (
        f"The monitor, with all sinks, reads samples of healthy clients from {PARTITIONS} partitions. A batch has a "
        "sixth of the records. The speed is measured once a third of the records has been read. A record about two "
        "clients counts as two snapshots."
    )
    return Result(figures, how, [Table([*head, "states", "accused", "rejects"], rows)])
