"""OTLP protobuf metrics are decoded to the same values with and without cached layouts."""

from __future__ import annotations

import random
import struct
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA as DELTA,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

from clienthealth.read.decode import Decoded, decode_metrics
from clienthealth.read.formats import otlp_metrics_protobuf
from clienthealth.read.formats.otlp_metrics_protobuf import Shapes
from clienthealth.settings import IdentitySettings, Settings
from tests.support.raw_records import ARRIVED_MS, Raw

SETTINGS = Settings()
AT_NS = 1795200030000 * 1_000_000
TOTALS = ("producer.record.send.total", "producer.select.total", "consumer.fetch.manager.records.consumed.total")
GAUGES = ("producer.buffer.available.bytes", "producer.record.queue.time.avg", "consumer.fetch.manager.records.lag")
ODD = (float("nan"), float("inf"), -1.0, 0.0, 1e300)


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> Shapes:
    fresh = Shapes()
    monkeypatch.setattr(otlp_metrics_protobuf, "_SHAPES", fresh)
    return fresh


def decoded(value: bytes) -> Decoded:
    return decode_metrics(Raw("t", value).record, SETTINGS, ARRIVED_MS)


def push(layout: int, numbers: int) -> MetricsData:
    laid, numbers_dice = random.Random(layout), random.Random(numbers)
    data = MetricsData()
    at, since = AT_NS + numbers_dice.randrange(60) * 10**9, AT_NS - numbers_dice.randrange(1, 60) * 10**9
    for n in range(laid.randrange(1, 3)):
        resource = data.resource_metrics.add()
        for name, value in (("client_id", f"c-{layout}-{n}"), ("service.name", "s"), ("service.instance.id", "i")):
            resource.resource.attributes.add(key=name).value.string_value = value
        for _ in range(laid.randrange(1, 3)):
            metrics = resource.scope_metrics.add().metrics
            for _ in range(laid.randrange(1, 8)):
                add(metrics, laid, numbers_dice, at, since)
    return data


def add(metrics: Any, laid: random.Random, dice: random.Random, at: int, since: int) -> None:
    kind = laid.choice(("total", "delta", "gauge", "other", "histogram"))
    if kind == "other":
        metrics.add(name="jvm.memory.used").gauge.data_points.add(as_int=dice.getrandbits(60), time_unix_nano=at)
        return
    if kind == "histogram":
        named = metrics.add(name=laid.choice(("kafkaesque.latency", "org.apache.kafka.producer.latency")))
        if laid.random() < 0.5:
            named.exponential_histogram.data_points.add(count=dice.getrandbits(20), scale=2, sum=dice.random())
            return
        point = named.histogram.data_points.add(count=dice.getrandbits(20))
        point.bucket_counts.extend(dice.getrandbits(20) for _ in range(4))
        return
    metric: Metric = metrics.add(name="org.apache.kafka." + laid.choice(GAUGES if kind == "gauge" else TOTALS))
    if kind != "gauge":
        metric.sum.aggregation_temporality = DELTA if kind == "delta" else CUMULATIVE
    points = metric.gauge.data_points if kind == "gauge" else metric.sum.data_points
    for _ in range(laid.randrange(1, 4)):
        number: NumberDataPoint = points.add(time_unix_nano=at)
        if kind != "gauge" or laid.random() < 0.2:
            number.start_time_unix_nano = since
        for name in ("topic", "partition", "node_id"):
            if laid.random() < 0.4:
                named = laid.choice(("a.b", "a_b", "c")) if name == "topic" else str(laid.randrange(3))
                number.attributes.add(key=name).value.string_value = named
        if laid.random() < 0.1:
            number.flags = 1
        if laid.random() < 0.3:
            number.as_int = dice.randrange(-1, 10**9)
        else:
            number.as_double = dice.choice((*ODD, dice.random() * 1e6))


def in_order(decoded: Decoded) -> Any:
    return sorted(msgspec.json.encode(snapshot, order="sorted") for snapshot in decoded.snapshots)


@pytest.mark.parametrize("layout", range(60))
def test_cached_shapes_give_the_same_as_json(layout: int) -> None:
    for numbers in range(4):
        data = push(layout, numbers)
        result = decoded(data.SerializeToString())
        as_json = decoded(without_flagged(data).encode())
        assert in_order(result) == in_order(as_json)
        assert len(result.errors) == len(as_json.errors)


def without_flagged(data: MetricsData) -> str:
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in (*metric.gauge.data_points, *metric.sum.data_points):
                    if point.flags:
                        point.ClearField("value")
    return MessageToJson(data)


def one(value: dict[str, Any], name: str = "org.apache.kafka.producer.select.total") -> bytes:
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="client_id").value.string_value = "c"
    metric = resource.scope_metrics.add().metrics.add(name=name)
    metric.gauge.data_points.add(time_unix_nano=AT_NS, start_time_unix_nano=AT_NS - 10**9, **value)
    return data.SerializeToString()


def metrics_of(value: bytes) -> dict[str, float]:
    (snapshot,) = decoded(value).snapshots
    return snapshot.metrics


def test_numbers_of_the_same_size_are_distinguished_by_their_encoding() -> None:
    as_double, as_int = one({"as_double": 7.0}), one({"as_int": 7})
    assert len(as_double) == len(as_int)
    for _ in range(2):
        assert metrics_of(as_double) == metrics_of(as_int) == {"select-total": 7.0}
    assert metrics_of(one({"as_double": 9.0})) == metrics_of(one({"as_int": 9})) == {"select-total": 9.0}


def test_what_differs_in_numbers_alone_is_not_taken_apart_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_of(one({"as_double": 7.0})) == {"select-total": 7.0}
    monkeypatch.setattr(otlp_metrics_protobuf, "_metric", lambda *_: pytest.fail("its shape is known"))
    assert metrics_of(one({"as_double": 9.0})) == {"select-total": 9.0}


def test_fields_in_another_order_are_read() -> None:
    usual = one({"as_double": 7.0})
    assert metrics_of(usual) == {"select-total": 7.0}
    start, end = (struct.pack("<BQ", tag, at) for tag, at in ((0x11, AT_NS - 10**9), (0x19, AT_NS)))
    value = b"\x21" + struct.pack("<d", 5.0)
    point = usual[usual.index(start) : usual.index(start) + 27]
    for n, parts in enumerate(((end, start, value), (value, start, end), (start, value, end))):
        for _ in range(2):
            result = decoded(usual.replace(point, b"".join(parts)))
            assert [snapshot.metrics for snapshot in result.snapshots] == [{"select-total": 5.0}], n
            assert result.snapshots[0].ts_ms == AT_NS // 1_000_000


def test_the_same_bytes_mean_another_client_under_other_settings() -> None:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="kafka.producer.select_total")
    point = metric.gauge.data_points.add(time_unix_nano=AT_NS, as_double=1.0)
    for name in ("client_id", "app"):
        point.attributes.add(key=name).value.string_value = f"by {name}"
    value = data.SerializeToString()
    for name in ("client_id", "app", "client_id"):
        settings = Settings(identity=IdentitySettings(otlp_client_id=(name,)))
        (snapshot,) = decode_metrics(Raw("t", value).record, settings, ARRIVED_MS).snapshots
        assert snapshot.client.client_id == f"by {name}"


def test_a_broken_scope_is_counted_and_the_rest_is_read() -> None:
    data = MetricsData.FromString(one({"as_double": 7.0}))
    whole = data.resource_metrics[0].SerializeToString()
    broken = whole + b"\x12\x0bkafka.\xff\xff\xff\xff\xff"
    result = decoded(b"\x0a" + bytes((len(broken),)) + broken)
    assert [snapshot.metrics for snapshot in result.snapshots] == [{"select-total": 7.0}]
    assert result.errors == ["wrong-types"]


def test_what_is_remembered_is_bounded(shapes: Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_metrics_protobuf, "REMEMBERED_BYTES", 10_000)
    for n in range(500):
        decoded(one({"as_double": 7.0}, name=f"org.apache.kafka.producer.n{n}"))
    assert sum(len(shape.meanings) for of in shapes._of_size.values() for shape in of.values()) < 10_000 / 50


def test_each_report_of_a_resource_is_a_sample() -> None:
    """The Collector puts several reports of an agent into one message."""
    data = MetricsData()
    for second, free in ((0, 32.0), (10, 16.0), (20, 0.0)):
        resource = data.resource_metrics.add()
        resource.resource.attributes.add(key="client_id").value.string_value = "c"
        metric = resource.scope_metrics.add().metrics.add(name="kafka.producer.buffer_available_bytes")
        metric.gauge.data_points.add(time_unix_nano=AT_NS + second * 10**9, as_double=free)
    snapshots = decoded(data.SerializeToString()).snapshots
    assert [(snapshot.ts_ms, snapshot.metrics["buffer-available-bytes"]) for snapshot in snapshots] == [
        (1795200030000, 32.0), (1795200040000, 16.0), (1795200050000, 0.0),
    ]  # fmt: skip
