"""Each example file of a metrics format is decoded to the expected readings."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from clienthealth.measure.packed import client_of
from clienthealth.model.clients import Client, key_parts
from clienthealth.model.samples import Samples, Subject
from clienthealth.model.telemetry import Identity, RawRecord, Snapshot
from clienthealth.model.values import number
from clienthealth.read.decode import Decoded, decode_any, decode_metrics
from clienthealth.read.formats import Format, formats
from clienthealth.settings import IdentitySettings, MonitorSettings, Settings
from tests.support.golden_metrics import AT, GOLDEN, KEYS, Row
from tests.support.metrics_cases import CASES, OWN_ATTRIBUTE, REJECTED, P, otlp, record
from tests.support.raw_records import ARRIVED_MS, SAMPLES, Raw, sample


def decoded(raw: Raw, settings: Settings | None = None) -> Decoded:
    return decode_metrics(raw.record, settings or Settings(), ARRIVED_MS)


def rows(result: Decoded) -> list[Row]:
    return [
        *({**non_empty(snapshot), "format": result.format} for snapshot in result.snapshots),
        *({"format": result.format, "error": error} for error in result.errors),
    ]


def non_empty(snapshot: Snapshot) -> Row:
    row: Row = json.loads(msgspec.json.encode(snapshot))
    client = {name: value for name, value in row["client"].items() if value}
    topics = [_topic(topic) for topic in row["topics"]]
    fields = {name: value for name, value in row.items() if value} | {"client": client}
    return fields | {"metrics": _rounded(row["metrics"])} | ({"topics": topics} if topics else {})


def _topic(topic: Row) -> Row:
    fields = {name: value for name, value in topic.items() if value is not None}
    return fields | {"metrics": _rounded(topic["metrics"])}


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in metrics.items()}


def _sorted(listed: list[Row]) -> list[Row]:
    return sorted(listed, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("name", GOLDEN)
def test_each_sample_gives_the_expected_result(name: str) -> None:
    records = (Raw(r.topic, r.value, r.offset, KEYS.get(name)) for r in sample(name))
    assert _sorted([row for raw in records for row in rows(decoded(raw))]) == _sorted(GOLDEN[name])


@pytest.mark.parametrize("name", CASES)
def test_each_variant_gives_the_expected_result(name: str) -> None:
    value, expected = CASES[name]
    assert _sorted(rows(decoded(record(name, value)))) == _sorted(expected)


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_read_is_rejected_with_its_reason(name: str) -> None:
    value, reason = REJECTED[name]
    result = decoded(record(name, value))
    assert [error.split(":")[0] for error in result.errors] == [reason]
    assert result.snapshots == []


def test_a_setting_names_the_attribute_that_identifies_a_client() -> None:
    settings = Settings(identity=IdentitySettings(otlp_client_id=("x.kafka",)))
    (row,) = rows(decoded(record("own", OWN_ATTRIBUTE), settings))
    assert row["client"] == P


def test_each_sample_that_is_of_metrics_has_its_expectation() -> None:
    names = [path.name for path in SAMPLES.iterdir()]
    known = {name for name in names if any(decoded(raw).format for raw in sample(name))}
    assert known == set(GOLDEN), "write what each sample must become into GOLDEN of tests/support/golden_metrics.py"


def test_every_format_is_asked_in_an_order_without_ties() -> None:
    orders = [fmt.order for fmt in formats("metrics")]
    assert orders == sorted(set(orders))


CANONICAL = {
    "ts": AT,
    "client": {"service": "s", "host": "h", "instance": "i", "client_id": "p", "kind": "producer"},
    "metrics": {"io-ratio": 0.5},
}


def canonical(**changed: Any) -> bytes:
    return json.dumps(CANONICAL | changed).encode()


def test_a_header_names_the_format() -> None:
    value = canonical(resourceMetrics=otlp()["resourceMetrics"])
    assert decoded(Raw("x", value)).format == "canonical"
    assert decoded(Raw("x", value, headers={"format": "otlp_metrics"})).format == "otlp_metrics"
    assert decoded(Raw("x", value, headers={"format": "unknown"})).format == "canonical"
    assert decoded(Raw("x", b"7", headers={"format": "canonical"})).errors == ["unknown-format"]


def test_identity_is_of_the_record_then_of_its_headers_then_of_its_key() -> None:
    value = canonical(client={"client_id": "own", "service": " "})
    headers = {"service": "by header", "kind": "CONSUMER", "client_id": "not this", "library": "java"}
    (snapshot,) = decoded(Raw("x", value, key=b"by key|by key|by key", headers=headers)).snapshots
    client = snapshot.client
    assert (client.service, client.instance, client.client_id) == ("by header", "by key", "own")
    assert (client.kind, client.library, client.host) == ("consumer", "java", None)


def test_without_an_instance_the_host_replaces_it() -> None:
    (snapshot,) = decoded(Raw("x", canonical(client={"client_id": "c", "kind": "consumer", "host": "h"}))).snapshots
    assert (snapshot.client.service, snapshot.client.instance) == ("", "h")


@pytest.mark.parametrize("header", ["instance", "host"])
@pytest.mark.parametrize("name", GOLDEN)
def test_the_key_is_as_fine_as_what_is_judged(name: str, header: str) -> None:
    """Two instances of a service send equal bytes. Only a header distinguishes the two instances."""

    def replica(named: str) -> list[Client]:
        raw = (Raw(r.topic, r.value, r.offset, None, {"service": "shop", header: named}) for r in sample(name))
        return [client_of(snapshot.client) for one in raw for snapshot in decoded(one).snapshots]

    for one, other in zip(replica("pod-1"), replica("pod-2"), strict=True):
        if one.kind != "group" and (one.identity, one.process) != (other.identity, other.process):
            assert one.key != other.key, "a format that reads the record's `instance` gives its `host` too"


@pytest.mark.parametrize(
    ("headers", "key", "instance"),
    [
        ({"instance": "pod-1", "host": "node-1"}, b"shop|by-key|x", "pod-1"),
        ({}, b"shop|pod-1|x", "pod-1"),
        ({"host": "node-1"}, None, "node-1:ledger#consumer-1"),
        ({}, None, "ledger#consumer-1"),
    ],
)
def test_replicas_on_librdkafka_are_distinguished(headers: dict[str, str], key: bytes | None, instance: str) -> None:
    (record,) = sample("librdkafka_stats_consumer.json")
    (snapshot,) = decoded(Raw(record.topic, record.value, record.offset, key, headers)).snapshots
    assert (snapshot.client.instance, snapshot.client.client_id) == (instance, "ledger")


def test_a_partition_that_a_librdkafka_consumer_lost_has_no_lag() -> None:
    (record,) = sample("librdkafka_stats_consumer.json")
    stats = json.loads(record.value or b"")
    (topic,) = stats["topics"].values()
    topic["partitions"]["1"] = topic["partitions"]["0"] | {"partition": 1, "desired": False, "consumer_lag": 10**9}
    (snapshot,) = decoded(Raw(record.topic, json.dumps(stats).encode())).snapshots
    kept, lost = (one.metrics for one in snapshot.topics)
    assert ("records-lag" in lost, lost["records-consumed-total"]) == (False, kept["records-consumed-total"])
    assert snapshot.metrics["records-lag-max"] == kept["records-lag"]


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("s|i|c", ("s", "i", "c")),
        ("s|i|c|d", ("s", "i", "c|d")),
        (r"a\|b|c\\|\|", ("a|b", "c\\", "|")),
        (r"CORP\web|i|c", (r"CORP\web", "i", "c")),
        (r"a\|b|i|c|d", ("a|b", "i", "c|d")),
        ("||", ("", "", "")),
        ("s|i", None),
        (r"s\|i|c", None),
        ("s|i|c\\", ("s", "i", "c\\")),
    ],
)
def test_a_key_names_service_instance_and_client(key: str, parts: tuple[str, ...] | None) -> None:
    assert key_parts(key) == parts


def test_a_key_that_is_no_text_names_no_client() -> None:
    value = canonical(client={"kind": "producer"})
    assert decoded(Raw("x", value, key=b"\xff|i|c")).errors == ["missing-identity: client_id"]


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"client": ' + b"[" * 5_000 + b"]" * 5_000 + b', "metrics": {}}',
        canonical(metrics={"io-ratio": 10**4000}),
        b'{"ts": ' + b"9" * 5_000 + b', "client": {}, "metrics": {"io-ratio": 1e400, "metadata-age": -1e400}}',
        b'{"client": {"client_id": "\\ud800"}, "metrics": {"io-ratio": 1}}',
        b'{"client": {}, "client": 7, "metrics": {}, "metrics": []}',
        b'{"metrics": [{"fields": null}], "": 0}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_nothing_that_json_can_hold_raises(value: bytes) -> None:
    result = decode_any(Raw("x", value, key=b"s|i|c").record, Settings(), ARRIVED_MS)
    assert len(result.snapshots) + len(result.lines) + len(result.errors) == 1


def test_half_a_surrogate_is_no_character() -> None:
    value = json.dumps({**CANONICAL, "client": {"client_id": "\ud83d\ude00 \udc00 \\ud800", "kind": "producer"}})
    (snapshot,) = decoded(Raw("x", value.encode())).snapshots
    assert snapshot.client.client_id == "\U0001f600 \ufffd \\ud800"


def test_numbers_that_are_none_are_unknown_and_the_others_count() -> None:
    metrics = '{"io-ratio": 0.5, "metadata-age": 1e400, "select-total": %s, "waiting-threads": true}' % ("9" * 400)
    value = canonical().replace(b'{"io-ratio": 0.5}', metrics.encode())
    (snapshot,) = decoded(Raw("x", value)).snapshots
    assert snapshot.metrics == {"io-ratio": 0.5}


@pytest.mark.parametrize("broken", ["recognise", "decode"])
def test_a_mistake_in_a_format_costs_the_record_only(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def mistaken(_: object) -> Any:
        raise ZeroDivisionError("oops")

    functions: dict[str, Any] = {"recognise": lambda _: True, "decode": lambda _: [], broken: mistaken}
    fmt = Format("inhouse", "metrics", 1, **functions)
    monkeypatch.setattr("clienthealth.read.decode._by_name", lambda _: {"inhouse": fmt})
    expected = {"recognise": "unknown-format", "decode": "wrong-types: ZeroDivisionError: oops"}
    assert decoded(Raw("x", b"{}")).errors == [expected[broken]]


def test_a_limit_of_size_is_a_setting() -> None:
    settings = Settings(monitor=MonitorSettings(max_record_bytes=10))
    assert decoded(Raw("x", canonical()), settings).errors == ["oversized"]


def test_a_record_may_be_a_view_of_memory() -> None:
    raw = Raw("x", canonical()).record
    view = RawRecord(memoryview(b"x" + canonical())[1:], raw.source, raw.ts_ms)
    assert decode_metrics(view, Settings(), ARRIVED_MS) == decode_metrics(raw, Settings(), ARRIVED_MS)


def test_in_mixed_input_metrics_are_distinguished_from_logs() -> None:
    def kind(value: bytes, **headers: str) -> tuple[str | None, int, int]:
        result = decode_any(Raw("x", value, key=b"s|i|c", headers=headers).record, Settings(), ARRIVED_MS)
        return result.format, len(result.snapshots), len(result.lines)

    assert kind(canonical()) == ("canonical", 1, 0)
    assert kind(b"2026-11-20 18:40:31,204 ERROR [main] com.example.App - no") == ("plain_text", 0, 1)
    assert kind(canonical(message="it is a log"), format="json_log") == ("json_log", 0, 1)


def test_samples_taken_together_are_those_taken_one_by_one() -> None:
    dice = random.Random(7)
    largest = int(sys.float_info.max)
    odd = (None, True, "7", "NaN", -1, -1.0, float("nan"), float("inf"), 10**400, largest, largest + 1, 1e308, 0, -0.0)
    names = ("select-total", "io-ratio", "waiting-threads", "records-lag")
    for _ in range(5_000):
        together, one_by_one = Samples(AT, Identity()), Samples(AT, Identity())
        for _ in range(dice.randrange(1, 4)):
            topic, partition, node = dice.choice((None, "t")), dice.choice((None, 1)), dice.choice((None, 1, 2))
            subject = Subject("c", "producer", topic, partition, node=node)
            spelled = dice.choices(names, k=dice.randrange(5))
            values = [dice.choice(odd) if dice.random() < 0.2 else dice.choice((1, 2.5, 3)) for _ in spelled]
            together.add_all(subject, spelled, values)
            one_by_one.add(subject, None, None)
            for name, value in zip(spelled, values, strict=True):
                one_by_one.add(subject, name, number(value))
        assert repr(together.snapshots()) == repr(one_by_one.snapshots())


def test_the_same_fields_of_telegraf_are_of_a_client_or_of_one_of_its_brokers() -> None:
    fields = {"select_total": 7, "request_latency_avg": 2.5}

    def metrics(name: str, **tags: str) -> list[Mapping[str, float]]:
        point = {"name": name, "fields": fields, "tags": {"client_id": "p", **tags}, "timestamp": 1795200030}
        return [snapshot.metrics for snapshot in decoded(Raw("x", json.dumps(point).encode(), key=b"s|i|")).snapshots]

    whole, of_node = {"select-total": 7.0, "request-latency-avg": 2.5}, {"request-latency-avg": 2.5}
    slowest = {"slowest-node": 3.0, "slowest-node-latency-avg": 2.5}
    for _ in range(2):
        assert metrics("kafka_producer") == [whole]
        assert metrics("kafka_producer", node_id="node-3") == [of_node | slowest]
        assert metrics("app") == []


def test_the_same_attributes_mean_what_their_mbean_measures() -> None:
    attributes = {"record-send-total": 5, "request-latency-avg": 2.5, "Count": 6, "t-1.records-lag": 4}

    def metrics_of(mbean: str) -> Row:
        read = {"request": {"type": "read", "mbean": mbean}, "value": attributes, "timestamp": AT, "status": 200}
        (snapshot,) = decoded(Raw("x", json.dumps(read).encode(), key=b"s|i|")).snapshots
        return {**snapshot.metrics, **{topic.topic: topic.metrics for topic in snapshot.topics}}

    fetches = "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=c"
    lag = {"records-lag": 4.0}
    for _ in range(2):
        assert metrics_of("kafka.producer:type=producer-metrics,client-id=c") == {
            "record-send-total": 5.0,
            "request-latency-avg": 2.5,
            "t": lag,
        }
        assert metrics_of("kafka.producer:type=producer-topic-metrics,client-id=c,topic=u") == {
            "u": {"record-send-total": 5.0},
            "t": lag,
        }
        assert metrics_of("kafka.producer:type=producer-node-metrics,client-id=c,node-id=node-3") == {
            "request-latency-avg": 2.5,
            "slowest-node": 3.0,
            "slowest-node-latency-avg": 2.5,
            "t": lag,
        }
        assert metrics_of(fetches) == {"fetch-requests-total": 6.0, "t": lag}
        assert metrics_of(f"{fetches},brokerHost=b") == {"t": lag}
