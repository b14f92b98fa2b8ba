"""Measure how fast the monitor, Kafka Streams and bare Spark read our own format."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from tests.bench import canonical, peer, raw
from tests.bench.backlog import WorkedOff, work_off
from tests.bench.lab import PARTITIONS, Lab, launch_of
from tests.bench.measurements import Scope
from tests.bench.peer import PeerPass
from tests.bench.publish import Filled, fill, readings
from tests.bench.results import Figure, Result, Table

TITLE = "Speed with snapshots in the canonical format"
RECORDS, CLIENTS, PASSES = 2_000_000, 5_000, 3
TOPIC = "client-metrics"
AIM, MICROS = 1.3, 28.0


def measure(scope: Scope) -> Result:
    records = scope.backlog(RECORDS)
    with Lab() as lab:
        lab.topics()
        filled = fill(lab.servers, TOPIC, readings(canonical.producer(), records, CLIENTS), CLIENTS)
        settings = {"max_offsets_per_trigger": bound} if (bound := scope.batch(records)) else {}
        ours: list[WorkedOff] = []
        before: list[WorkedOff] = []
        peers: list[PeerPass] = []
        for number in range(1, 2 if scope.quick else PASSES + 1):
            peers.append(peer.run(lab, f"peer-{number}", TOPIC, filled, PARTITIONS))
            ours.append(work_off(lab, f"monitor-{number}", TOPIC, filled, **settings))
            if scope.before:
                launch = launch_of(scope.before)
                before.append(work_off(lab, f"before-{number}", TOPIC, filled, launch=launch, **settings))
        reading = raw.read(lab, TOPIC, filled)
    result = _result(ours, peers, reading, filled)
    return _beside(result, ours, before, scope.before) if scope.before else result


def _beside(result: Result, ours: Sequence[WorkedOff], before: Sequence[WorkedOff], commit: str) -> Result:
    ratio = statistics.median(b.micros / a.micros for a, b in zip(ours, before, strict=True))
    rate = statistics.median(run.rate for run in before)
    figure = Figure(
        "canonical snapshots: CPU per record of an older commit, relative to this one",
        ratio,
        "×",
        note=f"{commit}: {rate:,.0f}/s",
    )
    rows = [[f"{commit}, {cells[0]}", *cells[1:]] for cells in (_our_row(n, run) for n, run in enumerate(before, 1))]
    table, *others = result.tables
    return replace(
        result, figures=[*result.figures, figure], tables=[replace(table, rows=[*table.rows, *rows]), *others]
    )


def _result(ours: Sequence[WorkedOff], peers: Sequence[PeerPass], reading: raw.Read, filled: Filled) -> Result:
    mine = sorted(ours, key=lambda run: run.rate)[len(ours) // 2]
    other = sorted(peers, key=lambda run: run.rate)[len(peers) // 2]
    ratio = statistics.median(a.rate / b.rate for a, b in zip(ours, peers, strict=True))
    figures = [
        Figure("canonical snapshots processed", mine.rate, "/s", other.rate, "least", other.rate),
        Figure("canonical snapshots: speed relative to Kafka Streams", ratio, "×", AIM, "least"),
        Figure("canonical snapshots: CPU per record", mine.micros, "µs", MICROS, "most", other.total),
    ]
    parts = [f"CPU of {part}, µs" for part in ("JVM", "Python", "broker")]
    head = ["program", "records/s", "CPU per record, µs", *parts, "peak memory, MB", "memory of JVM, MB"]
    rows = [_our_row(number, run) for number, run in enumerate(ours, 1)]
    rows += [_peer_row(number, run) for number, run in enumerate(peers, 1)]
    rows.append(["Spark query that drops all records", f"{reading.rate:,.0f}", f"{reading.micros:.1f}", *["–"] * 5])
    how = (
        f"The monitor and Kafka Streams {peer.KAFKA_STREAMS} each read {filled.records:,} snapshots of "
        f"{filled.clients:,} clients, in the monitor's own JSON ({filled.mean_bytes:,} bytes each). "
        "Kafka Streams calculates five indicators every 30 s, but no verdicts. Speed and CPU exclude the warm-up: the "
        "first third of the records for the monitor, and the first half for Kafka Streams."
    )
    return Result(figures, how, [Table(head, rows)])


def _our_row(number: int, run: WorkedOff) -> list[str]:
    parts = [f"{run.part(part):.1f}" for part in ("jvm", "python", "broker")]
    rest = [f"{run.peak_mb:,.0f}", f"{run.jvm_mb:,.0f}"]
    return [f"monitor, pass {number}", f"{run.rate:,.0f}", f"{run.micros:.1f}", *parts, *rest]


def _peer_row(number: int, run: PeerPass) -> list[str]:
    parts = [f"{run.micros:.1f}", "–", f"{run.broker_micros:.1f}"]
    rest = [f"{run.peak_mb:,.0f}", "–"]
    return [f"Kafka Streams, pass {number}", f"{run.rate:,.0f}", f"{run.total:.1f}", *parts, *rest]
