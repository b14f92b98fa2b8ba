"""Measure how costs of driver and task grow with the number of clients and failures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

from clienthealth.measure.packed import encode
from clienthealth.measure.packer import Packer
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.monitor.incidents import OpenIncident
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.spark import stepping
from clienthealth.spark.decoding import compressed, decompressed
from clienthealth.spark.self_monitoring import SelfMetrics
from clienthealth.spark.stepping import CHANGE, DRIVER, HEALTH, by_bucket, stepper, summary_of
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table

TITLE = "Growth with clients and failures"
FLEETS, UNHEALTHY = (5_000, 100_000, 500_000), (0.01, 0.10)
BUCKETS = 32
EVERY_MS, BATCHES, STUCK_FROM = 10_000, 24, 6
SLOPE_MS = 10.0
MIB = float(1 << 20)
NAMES = CLIENT_METRICS["producer"]


@dataclass(frozen=True)
class Grown:
    clients: int
    unhealthy: int
    changes: int
    step_ms: float
    driver_ms: float
    usual_bytes: int
    worst_bytes: int
    worst_driver_ms: float
    state_bytes: int


def measure(scope: Scope) -> Result:
    fleets = FLEETS[:1] if scope.quick else FLEETS
    grown = [_grown(clients, share) for clients in fleets for share in UNHEALTHY]
    most = grown[-1]
    slope = (most.driver_ms - grown[0].driver_ms) / max(1, most.clients - grown[0].clients) * 100_000
    taken = _taken_over(most.unhealthy)
    figures = [
        Figure("driver's CPU per batch: increase per 100,000 more clients", slope, "ms", SLOPE_MS),
        Figure(f"CPU of a task that takes over 1/32 of {most.unhealthy:,} open incidents", taken, "ms"),
    ]
    cpus = ["CPU of judging", "CPU per client", "CPU of the driver"]
    data = ["data to the driver", "while clients fail: data to the driver, CPU of the driver"]
    head = ["clients", "unhealthy clients", *cpus, *data, "state of a client"]
    how = (
        "The table shows the cost of a batch of 10 s. One process judges a 32nd of the clients, and the cost is "
        "multiplied by 32. The unhealthy clients hang in a callback from the seventh batch on."
    )
    return Result(figures, how, [Table(head, list(map(_row, grown)))])


def _row(grown: Grown) -> list[str]:
    step_ms = grown.step_ms * BUCKETS
    return [
        f"{grown.clients:,}",
        f"{grown.unhealthy:,}",
        f"{step_ms / 1000:.2f} s",
        f"{1000 * step_ms / grown.clients:.0f} µs",
        f"{grown.driver_ms:.1f} ms",
        f"{grown.usual_bytes / 1e3:.1f} kB",
        f"{grown.worst_bytes / 1e3:,.1f} kB, {grown.worst_driver_ms:.1f} ms",
        f"{grown.state_bytes / grown.clients:,.0f} B",
    ]


def _grown(clients: int, share: float) -> Grown:
    mine = clients // BUCKETS
    sick = round(mine * share)
    settings = Settings(monitor=dataclasses.replace(MonitorSettings(), buckets=1, max_clients=mine * 2))
    kept, metrics = _State(), SelfMetrics()
    state: Any = kept
    step_seconds: list[float] = []
    drivers: list[tuple[float, int]] = []
    changes = 0
    for chunk in _chunks(mine, sick):
        began = time.process_time()
        rows = stepping._judged(0, [chunk], state, settings, {})
        step_seconds.append(time.process_time() - began)
        assert sum(kind == HEALTH for kind, *_ in rows) >= mine
        changes += sum(kind == CHANGE for kind, *_ in rows)
        for_driver = [value or b"" for kind, _, value, _ in rows if kind in DRIVER]
        drivers.append((_driver(metrics, for_driver), sum(map(len, for_driver)) * BUCKETS))
    worst = max(drivers, key=lambda one: one[1])
    calm = drivers[-6:]
    print(
        f"  {clients:,} clients, {share:.0%}: {step_seconds[-1] * 1000:.0f} ms a bucket, {changes} changes", flush=True
    )
    return Grown(
        clients,
        sick * BUCKETS,
        changes,
        1000 * sum(step_seconds[-6:]) / 6,
        1000 * sum(seconds for seconds, _ in calm) / 6,
        max(size for _, size in calm),
        worst[1],
        1000 * worst[0],
        len(kept.value[0]) * BUCKETS,
    )


def _driver(metrics: SelfMetrics, rows: Sequence[bytes]) -> float:
    began = time.process_time()
    metrics.stepped([summary_of(value) for _ in range(BUCKETS) for value in rows], time.time())
    return time.process_time() - began


def _taken_over(incidents: int) -> float:
    evidence = Evidence(
        "metric", 1_000, "select-total stayed at 10213 for 40 s while the buffer filled from 12 % to 96 %"
    )
    verdict = Verdict("producer-callback-deadlock", "confirmed", 1_000, {}, (evidence,) * 4)
    opened = [
        OpenIncident(Client("shop", f"h-{n}", f"h-{n}:1", "p", "producer"), verdict, 2_000) for n in range(incidents)
    ]
    packed = by_bucket(opened, BUCKETS)
    sent = cloudpickle.dumps(stepper(Settings(), packed))  # type: ignore[no-untyped-call]
    began = time.process_time()
    cloudpickle.loads(sent)
    stepping._unpack_opened(decompressed(packed[0]))
    return 1000 * (time.process_time() - began)


def _chunks(clients: int, sick: int) -> Iterator[bytes]:
    begin_ms = int(time.time() * 1000) - BATCHES * EVERY_MS
    packer = Packer(1)
    slots = [
        packer.slot(
            Client(
                f"service-{n % 40}", f"host-{n}", f"host-{n}:4711", "order-producer", "producer", "java", "3.9.1", None
            )
        )
        for n in range(clients)
    ]
    config = {"buffer.memory": str(32 << 20), "request.timeout.ms": "30000"}
    for batch in range(BATCHES):
        well, ill = _values(batch, 0), _values(batch, max(0, batch - STUCK_FROM))
        for n, slot in enumerate(slots):
            ts_ms = begin_ms + batch * EVERY_MS + n % EVERY_MS
            values = ill if n < sick else well
            packer.reading(slot, ts_ms, values, "client-metrics", 0, batch * clients + n, config, EVERY_MS)
        (chunk,) = packer.chunks().values()
        assert packer.clock is not None
        chunk.clocks = [packer.clock]
        yield compressed(encode(chunk))


def _values(batch: int, stuck: int) -> list[float]:
    """Return a producer's metrics.

    `stuck`: number of batches since the producer's I/O thread began to hang; 0 if the I/O thread works.
    """
    alive = 100 + batch - stuck
    metrics = {
        "select-total": 500.0 * alive,
        "io-time-ns-total": alive * 1e8,
        "io-wait-time-ns-total": alive * 9e9,
        "record-send-total": 3000.0 * alive,
        "record-ack-total": 3000.0 * alive,
        "buffer-total-bytes": 32 * MIB,
        "buffer-available-bytes": max(0.0, 32 * MIB * (1 - stuck / 3)),
        "waiting-threads": 2.0 * (stuck > 3),
        "requests-in-flight": 1.0,
        "metadata-age": 12.0,
        "connection-count": 3.0,
    }
    return [metrics.get(name, float("nan")) for name in NAMES]


class _State:
    value: Any = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value
