"""With `[topics] services`, a team's topic cannot report on other teams' clients."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from clienthealth.configuration import load
from clienthealth.measure.packed import decode as unpacked
from clienthealth.model.errors import SettingsError
from clienthealth.modes import catalogue
from clienthealth.read.decode import decode_logs, decode_metrics
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings, TopicSettings
from clienthealth.spark.decoding import COUNTS, RAW, REJECTS, Count, Reject, _Task, decompressed
from tests.support.raw_records import ARRIVED_MS, Raw
from tests.unit.test_pushed import push

SETTINGS = replace(
    Settings(),
    topics=TopicSettings(
        metrics=("payments-metrics", "client-metrics"),
        logs=("payments-logs",),
        services=("payments-metrics=payments", "payments-metrics=payments-*", "payments-logs=payments*"),
    ),
)


def snapshot(service: str | None) -> bytes:
    client = {"service": service, "host": "h", "instance": "h:1", "client_id": "p", "kind": "producer"}
    return json.dumps({"ts": ARRIVED_MS, "client": client, "metrics": {"select-total": 7}, "topics": []}).encode()


def line(service: str | None) -> bytes:
    return json.dumps(
        {
            "@timestamp": "2026-11-20T18:24:00.000Z",
            "log": {"level": "INFO", "logger": "org.apache.kafka.clients.producer.KafkaProducer"},
            "message": "[Producer clientId=p] Closing the Kafka producer with timeoutMillis = 0 ms.",
            "host": {"name": "h"},
            **({"service": {"name": service}} if service else {}),
        }
    ).encode()


@pytest.mark.parametrize(
    ("topic", "service", "read"),
    [
        ("payments-metrics", "payments", True),
        ("payments-metrics", "payments-eu", True),
        ("payments-metrics", "orders", False),
        ("payments-metrics", "Payments", False),
        ("payments-metrics", None, False),
        ("client-metrics", "orders", True),
    ],
)
def test_a_snapshot_counts_on_a_topic_that_speaks_of_its_service(topic: str, service: str | None, read: bool) -> None:
    decoded = decode_metrics(Raw(topic, snapshot(service)).record, SETTINGS, ARRIVED_MS)
    assert [one.client.service for one in decoded.snapshots] == ([service] if read else [])
    assert decoded.errors == ([] if read else [f"foreign-service: {service or ''!r} on {topic}"])


@pytest.mark.parametrize(("service", "read"), [("payments", True), ("orders", False), (None, False)])
def test_so_does_a_line(service: str | None, read: bool) -> None:
    decoded = decode_logs(Raw("payments-logs", line(service)).record, SETTINGS, ARRIVED_MS)
    assert len(decoded.lines) == int(read)
    assert decoded.errors == ([] if read else [f"foreign-service: {service or ''!r} on payments-logs"])


def test_a_key_that_names_another_service_is_no_way_round() -> None:
    raw = Raw("payments-metrics", snapshot(None), key=b"orders|h:1|p")
    decoded = decode_metrics(raw.record, SETTINGS, ARRIVED_MS)
    assert (decoded.snapshots, decoded.errors) == ([], ["foreign-service: 'orders' on payments-metrics"])


def test_a_pushing_client_is_identified_by_the_broker_and_not_by_its_payload() -> None:
    honest = push(principal="User:payments")
    data = MetricsData.FromString(honest.value or b"")
    for resource in data.resource_metrics:
        for name, value in (
            ("service.name", "orders"),
            ("service.instance.id", "of-another"),
            ("host.name", "of-another"),
            ("client_id", "of-another"),
        ):
            resource.resource.attributes.add(key=name).value.string_value = value
    forged = replace(honest, value=data.SerializeToString())
    clients = [decode_metrics(raw.record, Settings(), ARRIVED_MS).snapshots[0].client for raw in (honest, forged)]
    assert clients[0] == clients[1]
    assert clients[0].service == "payments"


def test_the_monitor_rejects_what_is_foreign_also_where_it_reads_fast() -> None:
    topics = ["payments-metrics", "client-metrics", "payments-metrics", "payments-metrics"]
    services = ["orders", "orders", "orders", "payments"]
    rows = len(topics)
    columns: dict[str, pa.Array] = {
        "value": pa.array([snapshot(service) for service in services], pa.binary()),
        "size": pa.array([None] * rows, pa.int32()),
        "key": pa.array([None] * rows, pa.binary()),
        "headers": pa.array([None] * rows, pa.string()),
        "topic": pa.array(topics),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "ts_ms": pa.array(np.full(rows, ARRIVED_MS), pa.int64()),
    }
    task = _Task(SETTINGS, literals(catalogue()))
    (output,) = task.run([pa.RecordBatch.from_arrays([columns[name] for name in RAW], names=list(RAW))])
    readings: list[str] = []
    rejects: list[tuple[int, str]] = []
    counts: dict[tuple[str, str | None], int] = {}
    for bucket, data in zip(*(column.to_pylist() for column in output.columns), strict=True):
        if bucket == COUNTS:
            counts = {
                (count.topic, count.reason): count.records for count in msgspec.msgpack.decode(data, type=list[Count])
            }
        elif bucket > REJECTS:
            readings += [client.service for client in unpacked(decompressed(data)).all_clients]
        else:
            rejects += [(one.offset, one.reason) for one in msgspec.msgpack.decode(data, type=list[Reject])]
    assert sorted(readings) == ["orders", "payments"]
    assert rejects == [(at, "foreign-service: 'orders' on payments-metrics") for at in (0, 2)]
    assert counts == {
        ("client-metrics", None): 1,
        ("payments-metrics", None): 1,
        ("payments-metrics", "foreign-service"): 2,
    }


def test_a_rule_that_binds_no_topic_is_an_error() -> None:
    with pytest.raises(SettingsError, match="services: topic 'payment' is listed neither in metrics nor in logs"):
        load(None, {"KAFKA_HEALTH_TOPICS_SERVICES": "payment=payments"})
