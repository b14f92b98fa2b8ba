"""Headers of our broker plugin name the client of a push."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from clienthealth.model.telemetry import Snapshot
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import IdentitySettings, Settings
from tests.support.raw_records import ARRIVED_MS, Raw

HEADERS = {
    "format": "otlp_metrics_protobuf",
    "client_id": "order-producer-2",
    "client_instance_id": "RP0VM2GySX-Pujo0Uh1iCQ",
    "client_address": "10.0.0.7",
    "principal": "User:ANONYMOUS",
    "listener": "PLAINTEXT",
    "terminating": "false",
    "broker_time_ms": str(ARRIVED_MS),
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.1.2",
}


def push(**headers: str) -> Raw:
    """Return a push of a client with a clock that is 1 h ahead."""
    data = MetricsData()
    end = (ARRIVED_MS + 3_600_000) * 1_000_000
    for name, value, topic in (
        ("producer.record.send.total", 100.0, None),
        ("producer.buffer.available.bytes", 4096.0, None),
        ("producer.topic.record.send.total", 7.0, "orders"),
    ):
        metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=f"org.apache.kafka.{name}")
        points = metric.sum.data_points if name.endswith("total") else metric.gauge.data_points
        if name.endswith("total"):
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
        point = points.add(start_time_unix_nano=end - 30 * 10**9, time_unix_nano=end, as_double=value)
        if topic:
            point.attributes.add(key="topic").value.string_value = topic
    return Raw("client-metrics", data.SerializeToString(), headers=HEADERS | headers)


def read(raw: Raw, identity: IdentitySettings | None = None) -> Snapshot:
    settings = replace(Settings(), identity=identity or IdentitySettings())
    decoded = decode_metrics(raw.record, settings, ARRIVED_MS)
    assert decoded.errors == []
    (snapshot,) = decoded.snapshots
    return snapshot


def test_a_push_is_one_snapshot_at_the_time_of_the_broker() -> None:
    snapshot = read(push())
    assert snapshot.metrics == {"record-send-total": 100.0, "buffer-available-bytes": 4096.0, "terminating": 0.0}
    assert [(part.topic, part.metrics) for part in snapshot.topics] == [("orders", {"record-send-total": 7.0})]
    assert (snapshot.ts_ms, snapshot.interval_ms, snapshot.delta) == (ARRIVED_MS, 30_000, True)
    client = snapshot.client
    assert (client.client_id, client.kind, client.library, client.version) == (
        "order-producer-2",
        "producer",
        "java",
        "4.1.2",
    )
    assert (client.host, client.instance) == ("10.0.0.7", "10.0.0.7:RP0VM2GySX-Pujo0Uh1iCQ")


@pytest.mark.parametrize(
    ("header", "interval_ms"),
    [("10000", 10_000), ("300000", 300_000), ("-1", 30_000), ("soon", 30_000), ("9" * 30, 60_000), ("0", 60_000)],
)
def test_brokers_since_4_2_send_the_push_interval(header: str, interval_ms: int) -> None:
    """A header `push_interval_ms` with other characters than digits is ignored.

    The snapshot's interval is then 30 s, the time that the push covers.
    """
    assert read(push(push_interval_ms=header)).interval_ms == interval_ms


@pytest.mark.parametrize("metric", ["", "org.apache.kafka.admin.client.connection.count"])
def test_a_push_of_an_admin_client_holds_nothing_and_is_no_reject(metric: str) -> None:
    data = MetricsData()
    if metric:
        point = data.resource_metrics.add().scope_metrics.add().metrics.add(name=metric).gauge.data_points.add()
        point.time_unix_nano, point.as_double = ARRIVED_MS * 1_000_000, 1.0
    headers = HEADERS | {"client_id": "stock-streams-admin"}
    decoded = decode_metrics(
        Raw("client-metrics", data.SerializeToString(), headers=headers).record, Settings(), ARRIVED_MS
    )
    assert (decoded.format, decoded.snapshots, decoded.errors) == ("otlp_metrics_protobuf", [], [])
    alone = Raw("client-metrics", data.SerializeToString(), headers={"format": "otlp_metrics_protobuf"})
    assert decode_metrics(alone.record, Settings(), ARRIVED_MS).errors == ["no-metrics" if metric else "empty"]


def test_the_last_push_is_marked() -> None:
    assert read(push(terminating="true")).metrics["terminating"] == 1.0
    assert read(push()).metrics["terminating"] == 0.0


@pytest.mark.parametrize(
    ("name", "version", "library", "library_version"),
    [
        ("apache-kafka-java", "4.1.2", "java", "4.1.2"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", "librdkafka", "2.16.0"),
        ("confluent-kafka-go", "2.10.1-librdkafka-2.10.1", "librdkafka", "2.10.1"),
        ("librdkafka", "2.16.0", "librdkafka", "2.16.0"),
        ("another", "1.0", "another", "1.0"),
    ],
)
def test_the_library_is_the_one_below_the_binding(name: str, version: str, library: str, library_version: str) -> None:
    client = read(push(client_software_name=name, client_software_version=version)).client
    assert (client.library, client.version) == (library, library_version)


@pytest.mark.parametrize(
    ("headers", "service"),
    [
        ({}, "order-producer"),
        ({"principal": "User:orders"}, "orders"),
        ({"principal": "User:CN=orders,OU=shop,O=Example"}, "orders"),
        ({"client_id": "producer-1"}, None),
        ({"client_id": "rdkafka"}, None),
        ({"client_id": "consumer-billing-eu-3"}, "billing-eu"),
        ({"client_id": "edge-41", "principal": "User:shared"}, "shared"),
    ],
)
def test_the_service_is_the_principal_or_the_client_id(headers: dict[str, str], service: str | None) -> None:
    assert read(push(**headers)).client.service == (service or "")


def test_the_operator_chooses_the_order_and_gives_a_table() -> None:
    table = ("User:sh*=platform", "order-*=orders-api", "10.0.*=edge")
    shared = push(principal="User:shared")
    assert read(shared, IdentitySettings(push_services=table)).client.service == "platform"
    assert read(push(), IdentitySettings(push_services=table)).client.service == "orders-api"
    assert read(push(client_id="p"), IdentitySettings(push_services=table)).client.service == "edge"
    first_id = IdentitySettings(push_service=("client_id", "table"), push_services=table)
    assert read(shared, first_id).client.service == "order-producer"


def test_an_address_gets_the_name_that_logs_have() -> None:
    client = read(push(), IdentitySettings(push_hosts=("10.0.0.7=web-7",))).client
    assert (client.host, client.instance) == ("web-7", "10.0.0.7:RP0VM2GySX-Pujo0Uh1iCQ")


def test_two_processes_with_one_client_id_stay_apart() -> None:
    one, other = read(push()).client, read(push(client_instance_id="another")).client
    assert one.instance != other.instance
