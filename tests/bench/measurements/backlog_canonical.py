"""Measure how fast the monitor, Kafka Streams and a bare Spark query read samples in our own format."""

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

TITLE = "Canonical snapshots, 1.5 kB, 5,000 clients"
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
    figure = Figure("CPU per record: older commit, relative to this one", ratio, "×", note=f"{commit}: {rate:,.0f}/s")
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
        Figure("canonical, records/s", mine.rate, "/s", other.rate, "least", other.rate, f"{ratio:.2f} × the peer"),
        Figure("canonical, records/s relative to the peer (aim)", ratio, "×", AIM, "least"),
        Figure("CPU per record", mine.micros, "µs", MICROS, "most", other.total),
        Figure("peak memory of the monitor", mine.peak_mb, "MB", peer=other.peak_mb),
    ]
    head = ["", "records/s", "CPU µs/record", "JVM", "Python", "broker", "with the start", "peak MB", "of it JVM"]
    rows = [_our_row(number, run) for number, run in enumerate(ours, 1)]
    rows += [_peer_row(number, run) for number, run in enumerate(peers, 1)]
    rows.append(["Spark reads and drops", f"{reading.rate:,.0f}", f"{reading.micros:.1f}", *[""] * 6])
    how = (
        f"The monitor, with all sinks, reads {filled.records:,} snapshots ({filled.mean_bytes:,} bytes each) of "
        f"{filled.clients:,} clients from {PARTITIONS} partitions. Its speed is measured once a third of the records "
        f"has been read. The peer is Kafka Streams {peer.KAFKA_STREAMS} on the same topic. It calculates five "
        "indicators in windows of 60 s every 30 s. It has RocksDB and a changelog, but no verdicts and no output. The "
        "second half of its run counts. CPU is that of the program and the broker. `Spark reads and drops`: Spark's "
        "Kafka source writes into `noop`."
    )
    notes = [
        f"pass {number}: {run.states:,} clients reported, {run.accused:,} of them accused, {run.rejected:,} rejects, "
        f"{run.batches} batches, {run.seconds:.0f} s including the start"
        for number, run in enumerate(ours, 1)
    ]
    return Result(figures, how, [Table(head, rows)], notes)


def _our_row(number: int, run: WorkedOff) -> list[str]:
    parts = [f"{run.part(part):.1f}" for part in ("jvm", "python", "broker")]
    rest = [f"{run.total_micros:.1f} µs", f"{run.peak_mb:,.0f}", f"{run.jvm_mb:,.0f}"]
    return [f"monitor, pass {number}", f"{run.rate:,.0f}", f"{run.micros:.1f}", *parts, *rest]


def _peer_row(number: int, run: PeerPass) -> list[str]:
    parts = [f"{run.micros:.1f}", "–", f"{run.broker_micros:.1f}"]
    rest = [f"{run.cold_rate:,.0f}/s", f"{run.peak_mb:,.0f}", ""]
    return [f"Kafka Streams, pass {number}", f"{run.rate:,.0f}", f"{run.total:.1f}", *parts, *rest]
