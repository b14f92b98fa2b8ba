"""The monitor's port serves metrics and probes. The probes notice a hanging query."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from dataclasses import replace

import msgspec
import pytest
from prometheus_client import generate_latest

from clienthealth.model.errors import ServiceError
from clienthealth.platform.web import Request
from clienthealth.settings import Settings
from clienthealth.spark.decoding import COUNTS, Count, decoder
from clienthealth.spark.self_monitoring import HUNG_SECONDS, QUERY, Port, SelfMetrics, serve
from tests.support.raw_records import ARRIVED_MS, Raw, sample
from tests.support.streamed import arrow


class Monitor:
    def __init__(self) -> None:
        self.now = 0.0
        self.last: float | None = None
        self.port = Port(SelfMetrics().registry, lambda: self.last, lambda: self.now)

    def probes(self) -> tuple[int, int]:
        healthz, readyz = (int(self.port(Request(path, {})).status) for path in ("/healthz", "/readyz"))
        return healthz, readyz


def test_a_start_has_its_time_and_no_more() -> None:
    monitor = Monitor()
    assert monitor.probes() == (200, 503)
    monitor.now = HUNG_SECONDS
    assert monitor.probes() == (200, 503)
    monitor.now += 1
    assert monitor.probes() == (503, 503)


def test_a_query_that_hangs_turns_both_bad_until_a_batch_ends() -> None:
    monitor = Monitor()
    monitor.now = monitor.last = 50.0
    assert monitor.probes() == (200, 200)
    monitor.now = 50.0 + HUNG_SECONDS + 1
    assert monitor.probes() == (503, 503)
    monitor.last = monitor.now
    assert monitor.probes() == (200, 200)


def test_groups_do_not_count_for_the_age_of_client_data() -> None:
    (client,), (group,) = sample("kafka_python_producer_metrics.json"), sample("metricbeat_kafka_consumergroup.json")
    key = b"pricing|pricing-0:17|pricing-py"
    raws = [replace(client, topic="client-metrics", key=key), replace(group, topic="client-metrics", offset=1)]
    (read,) = decoder(Settings(), ("Kafka",))([arrow(raws, ARRIVED_MS)])
    by_bucket = dict(zip(*(column.to_pylist() for column in read.columns), strict=True))
    counts = msgspec.msgpack.decode(by_bucket[COUNTS], type=list[Count])
    metrics = SelfMetrics()
    metrics.counted(counts)
    text = generate_latest(metrics.registry).decode()
    newest = 'kafka_client_health_newest_event_timestamp_seconds{of="%s",source_topic="client-metrics"} %s'
    assert newest % ("clients", "1.795212e+09") in text
    assert newest % ("groups", "1.79520003e+09") in text
    assert sum(count.records for count in counts) == 2


def test_a_client_with_an_impossible_value_is_read_all_the_same() -> None:
    client = {"service": "s", "instance": "i", "client_id": "p", "kind": "producer"}
    snapshot = {"ts": 1795200030000, "client": client, "metrics": {"buffer-total-bytes": 1e30, "select-total": 7}}
    metrics = SelfMetrics()
    metrics.counted(counted(Raw("client-metrics", json.dumps(snapshot).encode()), ARRIVED_MS))
    text = generate_latest(metrics.registry).decode()
    rejected = 'kafka_client_health_records_rejected_total{reason="impossible-value",source_topic="client-metrics"} 1.0'
    newest = 'newest_event_timestamp_seconds{of="clients",source_topic="client-metrics"} 1.79520003e+09'
    assert rejected in text and newest in text


@pytest.mark.parametrize("arrived_ms", [-1, 10**15, 2**62])
def test_an_impossible_time_of_a_record_is_replaced_by_the_time_of_reading(arrived_ms: int) -> None:
    """Brokers before 4.0 accept records with any time."""
    (count,) = counted(Raw("client-metrics", b"{"), arrived_ms)
    assert abs(count.minute_ms / 1000 - time.time()) < 120


def counted(raw: Raw, arrived_ms: int) -> list[Count]:
    (read,) = decoder(Settings(), ("Kafka",))([arrow([raw], arrived_ms)])
    by_bucket = dict(zip(*(column.to_pylist() for column in read.columns), strict=True))
    counts: list[Count] = msgspec.msgpack.decode(by_bucket[COUNTS], type=list[Count])
    return counts


def test_metrics_and_probes_are_served_and_follow_the_batches() -> None:
    metrics = SelfMetrics()
    last = "kafka_client_health_last_batch_timestamp_seconds"
    answer = Port(metrics.registry, lambda: metrics.registry.get_sample_value(last, {"query": QUERY}))
    with serve("127.0.0.1", 0, answer) as server:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{server.url}/readyz", timeout=60)
        metrics.gauges["last_batch_timestamp_seconds"].labels(QUERY).set_to_current_time()
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=60) as response:
            assert response.read() == b"ok\n"
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=")
            assert b"# TYPE kafka_client_health_last_batch_timestamp_seconds gauge" in response.read()
        server.shutdown()


def test_labels_of_the_installation_stand_on_every_series_of_the_monitor() -> None:
    metrics = SelfMetrics()
    metrics.progressed({
        "name": QUERY,
        "durationMs": {},
        "sources": [{"latestOffset": {"client-logs": {"0": 9}}, "endOffset": {"client-logs": {"0": 4}}}],
    })  # fmt: skip
    text = generate_latest(metrics.labelled({"cluster": "eu", "env": "prod"})).decode()
    series = [line for line in text.splitlines() if not line.startswith("#")]
    lag = (
        'kafka_client_health_input_lag_records{cluster="eu",env="prod",query="monitor",source_topic="client-logs"} 5.0'
    )
    assert lag in series
    assert len(series) > 20 and all('{cluster="eu",env="prod"' in line for line in series)


def test_a_taken_port_is_reported_with_its_setting() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ServiceError, match=r"\[monitor\] metrics_port"),
    ):
        SelfMetrics().serve("127.0.0.1", taken.getsockname()[1], {})
