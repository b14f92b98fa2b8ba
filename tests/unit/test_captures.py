"""The decoder reads records that real collectors and serializers have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clienthealth.model.telemetry import Snapshot
from clienthealth.read.decode import Decoded, decode_logs, decode_metrics
from clienthealth.settings import Settings
from tests.support.fake_registry import Registry, serving
from tests.support.raw_records import Raw

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
NOW_MS = 1_796_000_000_000


def metrics(path: str, value: bytes | None = None, settings: Settings | None = None) -> Decoded:
    content = (CAPTURES / path).read_bytes() if value is None else value
    return decode_metrics(Raw(path, content).record, settings or Settings(), NOW_MS)


def only(decoded: Decoded) -> Snapshot:
    assert decoded.errors == []
    (snapshot,) = decoded.snapshots
    return snapshot


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_confluents_serializers(name: str) -> None:
    document: dict[str, Any] = json.loads((CAPTURES / "confluent-kafka" / "registry.json").read_text())
    registry = Registry(document["answers"])
    with serving(registry):
        snapshot = only(metrics(f"confluent-kafka/{name}.bin", settings=registry.settings))
    assert (snapshot.client.client_id, snapshot.client.kind, snapshot.ts_ms) == ("p", "producer", 1795200030000)
    assert snapshot.metrics == {"waiting-threads": 2.0}
    # JSON is decoded without a schema, so the registry is not asked.
    assert bool(registry.asked) == (name != "json")


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("jolokia2.influx", "influx"),
        ("jolokia2.json", "telegraf"),
        ("prometheus-1.influx", "influx"),
        ("prometheus-2.influx", "influx"),
        ("prometheus-2.json", "telegraf"),
        ("prometheus-2.prom", "prometheus_text"),
    ],
)
def test_telegraf(name: str, fmt: str) -> None:
    content = (CAPTURES / "telegraf" / name).read_bytes()
    values: dict[str, float] = {}
    topics: dict[str, float] = {}
    for record in [content] if fmt == "prometheus_text" else content.splitlines():
        decoded = metrics(name, record)
        assert (decoded.format, decoded.errors) == (fmt, [])
        for snapshot in decoded.snapshots:
            client = snapshot.client
            assert (client.client_id, client.kind, client.host) == ("shop-producer", "producer", "scraper")
            assert client.instance is not None and client.instance.startswith("scraper:")
            values |= snapshot.metrics
            for topic in snapshot.topics:
                assert topic.topic == "orders_v2"
                topics |= topic.metrics
    expected = {"buffer-total-bytes": 33554432.0, "waiting-threads": 0.0}
    assert 0 < values["buffer-available-bytes"] <= 33554432.0
    assert values.items() >= {**expected, "record-send-total": 106.0}.items()
    assert values["select-total"] > 106
    assert topics == {"record-send-total": 106.0, "record-error-total": 0.0}


@pytest.mark.parametrize(
    ("name", "fmt", "sent"),
    [
        ("otel-collector/metrics.proto", "otlp_metrics_protobuf", 194.0),
        ("otel-collector/metrics.json", "otlp_metrics", 194.0),
        ("otel-javaagent/metrics.gzip", "otlp_metrics_protobuf", 194.0),
    ],
)
def test_the_opentelemetry_collector_and_agent_of_a_producer(name: str, fmt: str, sent: float) -> None:
    decoded = metrics(name)
    snapshot = only(decoded)
    assert decoded.format == fmt
    client = snapshot.client
    assert (client.client_id, client.kind, client.service, client.host) == (
        "shop-producer",
        "producer",
        "shop",
        "shop-1",
    )
    assert (snapshot.metrics["buffer-total-bytes"], snapshot.metrics["waiting-threads"]) == (33554432.0, 0.0)
    (topic,) = snapshot.topics
    assert topic.topic == "orders_v2"
    assert topic.metrics == {"record-error-total": 0.0, "record-send-total": sent}


def test_the_opentelemetry_agent_as_3_will_be_with_and_without_the_switch() -> None:
    snapshot = only(metrics("otel-javaagent/v3-preview-on.json"))
    assert (snapshot.client.client_id, snapshot.metrics["buffer-total-bytes"]) == ("shop-producer", 33554432.0)
    off = metrics("otel-javaagent/v3-preview-off.json")
    (reason,) = off.errors
    assert off.snapshots == []
    assert reason.startswith("no-metrics: ") and "-Dotel.instrumentation.kafka-clients-metrics.enabled=true" in reason


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("otel-collector/logs.proto", "otlp_logs_protobuf"),
        ("otel-collector/logs.json", "otlp_logs"),
        ("otel-javaagent/logs.gzip", "otlp_logs_protobuf"),
    ],
)
def test_the_opentelemetry_collector_and_agent_of_its_log(name: str, fmt: str) -> None:
    decoded = decode_logs(Raw(name, (CAPTURES / name).read_bytes()).record, Settings(), NOW_MS)
    assert (decoded.format, decoded.errors) == (fmt, [])
    messages = [line.message for line in decoded.lines]
    assert messages[0] is not None and messages[0].startswith("ProducerConfig values")
    assert "[Producer clientId=shop-producer] Instantiated an idempotent producer." in messages
    assert {(line.client.service, line.client.host, line.level) for line in decoded.lines} == {
        ("shop", "shop-1", "INFO")
    }
