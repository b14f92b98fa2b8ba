"""Hand-made pushes (KIP-714) lead to verdicts on clients."""

from __future__ import annotations

from collections.abc import Mapping

import zstandard
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from clienthealth.model.telemetry import Snapshot
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import Settings
from tests.support.raw_records import Raw
from tests.support.stepped import START, Stepped

EVERY_SECONDS = 300
TOTALS = ("select.total", "io.time.ns.total", "io.wait.time.ns.total", "record.send.total", "record.error.total")


def push(number: int, values: Mapping[str, float]) -> list[Snapshot]:
    data = MetricsData()
    resource = data.resource_metrics.add()
    for key, text in (("client_id", "p"), ("client_instance_id", "x1"), ("client_source_address", "10.0.0.7")):
        resource.resource.attributes.add(key=key).value.string_value = text
    end = (START + 1000 * EVERY_SECONDS * number) * 1_000_000
    metrics = resource.scope_metrics.add().metrics
    for name, value in values.items():
        metric = metrics.add(name=f"org.apache.kafka.producer.{name}")
        points = metric.sum.data_points if name in TOTALS else metric.gauge.data_points
        if name in TOTALS:
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
        start = end - EVERY_SECONDS * 1_000_000_000 if name in TOTALS else 0
        points.add(start_time_unix_nano=start, time_unix_nano=end, as_double=value)
    packed = zstandard.ZstdCompressor().compress(data.SerializeToString())
    decoded = decode_metrics(Raw("client-metrics", packed).record, Settings(), end // 1_000_000)
    assert decoded.errors == []
    return decoded.snapshots


WELL = {
    "select.total": 30_000.0,
    "io.time.ns.total": 3e10,
    "io.wait.time.ns.total": 2.7e11,
    "record.send.total": 15_000.0,
    "record.error.total": 0.0,
    "buffer.total.bytes": 33554432.0,
    "buffer.available.bytes": 33500000.0,
    "waiting.threads": 0.0,
    "metadata.age": 10.0,
    "requests.in.flight": 1.0,
}
STUCK = WELL | {
    "select.total": 0.0,
    "io.time.ns.total": 0.0,
    "io.wait.time.ns.total": 0.0,
    "record.send.total": 0.0,
    "buffer.available.bytes": 0.0,
    "waiting.threads": 3.0,
    "metadata.age": 4000.0,
}


def test_pushes_every_five_minutes_give_verdicts() -> None:
    monitor = Stepped()
    statuses = []
    for number in range(12):
        (snapshot,) = push(number, STUCK if number >= 5 else WELL)
        assert (snapshot.interval_ms, snapshot.delta) == (1000 * EVERY_SECONDS, True)
        monitor.batch([snapshot], number * EVERY_SECONDS + 1.0)
        ((_, record),) = monitor.records.items()
        verdicts = {verdict["mode"]: verdict["status"] for verdict in record["verdicts"]}
        statuses.append(verdicts["producer-callback-deadlock"])
    assert record["client"]["client_id"] == "p"
    assert record["window_end"] - record["window_start"] == 4_000 * EVERY_SECONDS
    assert statuses == ["unknown"] * 2 + ["ok"] * 3 + ["unknown"] + ["suspected"] * 6
