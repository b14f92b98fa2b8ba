"""Errors, retries and throttling of clients are decoded, judged and exported to Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import msgspec
import pytest

from clienthealth.diagnose.diagnosis import raw_record
from clienthealth.measure.client import client_indicators
from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.readings import Reading
from clienthealth.model.samples import UNNAMED, node
from clienthealth.read.decode import decode_metrics
from clienthealth.read.recordings import read
from clienthealth.settings import LagSettings, Settings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import record, wire
from tests.support.recorded import RECORDINGS
from tests.support.stepped import SETTINGS, START, Stepped

_LINE = re.compile(r'kafka_client_(\w+)\{.*client_id="([^"]+)"(?:,(\w+="[^"]*"))?\} (.+)')


def scraped(recording: str, delta: bool = False) -> dict[tuple[str, str, str | None], float]:
    records = [one for one in read([RECORDINGS / recording]) if one.stream != "logs"]
    now_ms = int(time.time() * 1000)
    stepped, states = Stepped(), States(Settings())
    decoded = (s for one in records for s in decode_metrics(raw_record(one), SETTINGS, now_ms).snapshots)
    stepped.batch(msgspec.structs.replace(s, delta=delta) for s in decoded)
    for key, value in stepped.published[0].records:
        states.put(key.encode(), value, now_ms)
    return exposed(states)


def exposed(states: States) -> dict[tuple[str, str, str | None], float]:
    lines = b"".join(Exporter(Settings(), states, lambda: None).metrics()).decode().splitlines()
    matches = [match.groups() for line in lines if (match := _LINE.fullmatch(line))]
    return {(client_id, name, label): float(value) for name, client_id, label, value in matches}


#: Calculated by hand from the first and last sample of a recording's last window.
RECORDED: Mapping[str, Mapping[tuple[str, str, str | None], float]] = {
    "not-enough-replicas-2.8": {
        ("feed-uploader", "producer_record_error_rate", None): 1056 / 20.212,
        ("feed-uploader", "producer_record_retry_rate", None): 21440 / 20.212,
        ("feed-uploader", "producer_record_send_rate", None): (49564 - 27932) / 20.212,
        ("feed-uploader", "producer_record_error_total", None): 2117,
        ("feed-uploader", "producer_record_retry_total", None): 47660,
        ("feed-uploader", "producer_record_send_total", None): 49564,
        ("feed-uploader", "producer_batch_size_bytes", None): 16376.572702331961,
    },
    "consumer-rejoins-3.9": {
        ("order-billing", "consumer_rebalance_rate", None): 1 / 21.178,
        ("order-billing", "consumer_rebalance_seconds", None): 0.025,
        ("order-api", "producer_slowest_broker_latency_seconds", 'broker="1"'): 0.004914572864321608,
    },
    "healthy-3.9": {
        ("order-billing", "consumer_commit_latency_seconds", 'stat="avg"'): 0.0035,
        ("order-billing", "consumer_commit_latency_seconds", 'stat="max"'): 0.005,
    },
}


@pytest.mark.parametrize("recording", RECORDED)
def test_prometheus_gets_what_a_real_client_reports(recording: str) -> None:
    values = scraped(recording)
    assert {series: values[series] for series in RECORDED[recording]} == pytest.approx(RECORDED[recording])


def test_what_is_zero_of_nearly_all_clients_has_a_series_while_it_is_not() -> None:
    rare = {"producer_record_error_rate", "producer_record_retry_rate", "throttle_seconds", "consumer_rebalance_rate"}
    rare.add("failed_authentication_rate")
    assert rare.isdisjoint(name for _, name, _ in scraped("healthy-3.9"))


def test_a_metric_that_no_client_has_gives_no_series() -> None:
    assert {name for client_id, name, _ in scraped("consumer-rejoins-3.9") if client_id == "order-billing"}.isdisjoint(
        {"consumer_commit_latency_seconds", "producer_slowest_broker_latency_seconds", "producer_batch_size_bytes"}
    )
    assert not any(name.startswith("producer_slowest") for _, name, _ in scraped("not-enough-replicas-2.8"))


def measured(kind: str, *readings: Mapping[str, float]) -> Mapping[str, object]:
    client = Client(service="s", host="h", instance="i", client_id="c", kind=kind)  # type: ignore[arg-type]
    rows = tuple(Reading(START + 10_000 * at, metrics) for at, metrics in enumerate(readings))
    (indicators,) = client_indicators(ClientWindow(client, START, START + 60_000, rows).table, LagSettings())
    return indicators


def test_times_are_seconds_and_rates_are_of_the_window() -> None:
    averages = {"produce-throttle-time-avg": 250.0, "slowest-node": 3.0, "slowest-node-latency-avg": 1902.8}
    producer = measured(
        "producer", {"record-error-total": 7.0}, averages, {"record-error-total": 10.0, "batch-size-avg": 0.0}
    )
    assert producer["record_error_rate"] == 3 / 20
    assert producer["throttle_seconds"] == 0.25
    assert producer["slowest_broker"] == {"id": 3.0, "latency_seconds": 1.9028}
    assert "batch_size_bytes" not in producer, "a client before 1.0 that sent none"
    consumer = measured("consumer", {"fetch-throttle-time-avg": 40.0, "commit-latency-max": 61.0})
    assert (consumer["throttle_seconds"], consumer["commit_latency_seconds"]) == (0.04, {"max": 0.061})


def test_compression_and_authentications_that_brokers_refuse() -> None:
    refused = [{"failed-authentication-total": total, "compression-rate-avg": 0.25} for total in (2.0, 2.0, 5.0)]
    producer = measured("producer", *refused)
    assert (producer["compression_ratio"], producer["failed_authentication_rate"]) == (0.25, 3 / 20)
    assert measured("consumer", *refused)["failed_authentication_rate"] == 3 / 20
    assert "compression_ratio" not in measured("producer", {"compression-rate-avg": 0.0}), "none was sent yet"
    states, now_ms = States(Settings()), int(time.time() * 1000)
    for client_id, indicators in (("refused", producer), ("let-in", measured("producer", *refused[:2]))):
        key, value, _ = wire(record(client_id=client_id, indicators=indicators, end_ms=now_ms))
        states.put(key, value, now_ms)
    values = exposed(states)
    assert values["refused", "failed_authentication_rate", None] == 3 / 20
    assert values["refused", "producer_compression_ratio", None] == values["let-in", "producer_compression_ratio", None]
    assert ("let-in", "failed_authentication_rate", None) not in values


def test_records_per_second_and_connections() -> None:
    consumed = measured("consumer", {"records-consumed-total": 100.0}, {"records-consumed-total": 350.0})
    assert consumed["records_consumed_rate"] == 25.0
    assert measured("producer", {"connection-count": 4.0})["connections"] == 4.0


@pytest.mark.parametrize("totals", [[], [5.0], [5.0, 0.0]], ids=["none", "one reading", "a restart"])
def test_a_rate_that_cannot_be_known_is_none(totals: list[float]) -> None:
    assert "rebalance_rate" not in measured("consumer", {}, *({"rebalance-total": total} for total in totals))


@pytest.mark.parametrize(
    ("name", "broker"),
    [
        (None, None),
        ("node-3", 3),
        ("0", 0),
        ("node-2147483646", 1),
        ("coordinator-2", 2),
        ("node--1", UNNAMED),
        ("bootstrap-0", UNNAMED),
        ("kafka-1.example.org", UNNAMED),
    ],
)
def test_a_node_is_a_broker(name: str | None, broker: int | None) -> None:
    assert node(name) == broker


def test_a_client_that_sends_deltas_has_no_counters() -> None:
    counters = {"producer_record_send_total", "consumer_records_consumed_total"}
    assert counters <= {name for _, name, _ in scraped("healthy-3.9")}
    of_deltas = {name for _, name, _ in scraped("healthy-3.9", delta=True)}
    assert counters.isdisjoint(of_deltas) and "producer_record_send_rate" in of_deltas
