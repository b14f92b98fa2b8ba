"""A client with one metric per record (prometheus-kafka-adapter, jmxtrans) gets the usual verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from clienthealth.diagnose.diagnosis import bucket_of, pack
from clienthealth.measure.client import client_indicators
from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.packer import Packer
from clienthealth.model import metric_names
from clienthealth.model.readings import Reading, TopicReading
from clienthealth.model.verdicts import Verdict
from clienthealth.monitor.window_verdicts import judge_windows
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import LagSettings, Settings
from tests.scenarios._making import T0, at
from tests.scenarios.producer_callback_deadlock import SCENARIOS
from tests.support.raw_records import ARRIVED_MS, Raw
from tests.support.recorded import Recorded

DEADLOCK = next(one.window.readings for one in SCENARIOS if one.name == "deadlock-64-mib-10-s")
STYLES = ("canonical", "adapter", "jmxtrans")


def stuck_consumer() -> list[Reading]:
    return [
        Reading(
            at(second),
            {"last-poll-seconds-ago": second, "poll-idle-ratio-avg": 0.0, "records-lag-max": 100 + 10 * second},
            (
                TopicReading("orders_v2", None, None, {"records-consumed-total": 50.0, "records-consumed-rate": 0.0}),
                TopicReading("orders_v2", 0, None, {"records-lag": 100 + 10 * second}),
                TopicReading("orders_v2", 1, None, {"records-lag": 0.0}),
            ),
        )
        for second in range(0, 60, 10)
    ]


CLIENTS = {"orders": ("producer", DEADLOCK), "billing": ("consumer", stuck_consumer())}


def canonical(client_id: str, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    yield {
        "ts": reading.ts_ms,
        "client": {
            "service": "canonical",
            "host": "web-1",
            "instance": "web-1:7",
            "client_id": client_id,
            "kind": kind,
            "library": "java",
            "version": None,
        },
        "metrics": dict(reading.metrics),
        "topics": [{"topic": t.topic, "partition": t.partition, "metrics": dict(t.metrics)} for t in reading.topics],
        "interval_ms": 60_000,
    }


def samples(kind: str, reading: Reading) -> Iterator[tuple[str, str, float, TopicReading | None]]:
    for topic in (None, *reading.topics):
        for name, value in (topic or reading).metrics.items():
            groups = [g for g, names in metric_names.JAVA.items() if name in names and g.startswith(kind)]
            yield (groups[-1] if topic else groups[0]), name, value, topic


def adapter(client_id: str, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    for group, name, value, topic in samples(kind, reading):
        labels = {"job": "adapter", "host": "web-1", "instance": "web-1:7", "client_id": client_id}
        if topic:
            labels |= {"topic": topic.topic} | ({} if topic.partition is None else {"partition": str(topic.partition)})
        yield {
            "timestamp": datetime.fromtimestamp(reading.ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": str(value),
            "name": metric_names.micrometer(group, name),
            "labels": labels,
        }


def jmxtrans(client_id: str, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    for group, name, value, topic in samples(kind, reading):
        if topic and topic.partition is None:
            # A dot joins client id and topic in jmxtrans's field `keyspace`, and client ids contain dots, too. Only the
            # number of a partition shows where the topic begins.
            continue
        suffix = f".{topic.topic}.{topic.partition}" if topic else ""
        yield {
            "keyspace": f"servers.web-1_7.kafka_{kind}.{client_id}{suffix}.{group}.{name}",
            "value": str(value),
            "timestamp": reading.ts_ms // 1000,
            "tags": {"app": "jmxtrans"},
        }


@pytest.fixture(scope="module")
def clients() -> dict[tuple[str, str], Recorded]:
    packer = Packer(1)
    values = [
        value
        for style in (canonical, adapter, jmxtrans)
        for client_id, (kind, readings) in CLIENTS.items()
        for reading in readings
        for value in style(client_id, kind, reading)
    ]
    for n, value in enumerate(values):
        raw = Raw("m", json.dumps(value).encode(), n).record
        pack(decode_metrics(raw, Settings(), ARRIVED_MS), raw.source, packer)
    bucket = bucket_of(packer.chunks().values(), Settings())
    recorded = [Recorded(bucket, number) for number in range(len(bucket.state.all_clients))]
    return {(one.client.service, one.client.client_id): one for one in recorded}


def window(client: Recorded) -> ClientWindow:
    (first,) = (window for window in client.windows if window.start_ms == T0)
    return first


@pytest.mark.parametrize("style", STYLES)
def test_a_reading_is_whole_again(clients: dict[tuple[str, str], Recorded], style: str) -> None:
    for client_id, (_, readings) in CLIENTS.items():
        read = window(clients[style, client_id]).readings
        assert [(r.ts_ms, r.metrics) for r in read] == [(r.ts_ms, dict(r.metrics)) for r in readings]


@pytest.mark.parametrize("style", STYLES[1:])
def test_its_measurements_and_verdicts_are_those_of_whole_readings(
    clients: dict[tuple[str, str], Recorded], style: str
) -> None:
    for client_id in CLIENTS:
        joined, whole = window(clients[style, client_id]), window(clients["canonical", client_id])
        measured = [client_indicators(one.table, LagSettings()) for one in (joined, whole)]
        assert measured[0] == measured[1]
        assert judged_by_style(judge_windows([joined], {})) == judged_by_style(judge_windows([whole], {}))
    deadlock = judge_windows([window(clients[style, "orders"])], {})
    assert next(v.status for v in deadlock if v.mode == "producer-callback-deadlock") == "confirmed"


def judged_by_style(verdicts: list[Verdict]) -> list[object]:
    return [(v.mode, v.status, v.since_ms, v.detail) for v in verdicts]


def test_its_departure_is_judged_by_its_last_metrics(clients: dict[tuple[str, str], Recorded]) -> None:
    verdicts = {
        style: [(v.status, v.detail) for v in judge_windows([clients[style, "orders"].departure], {}, absence=True)]
        for style in STYLES
    }
    assert verdicts["adapter"] == verdicts["jmxtrans"] == verdicts["canonical"]
    ((status, detail),) = verdicts["canonical"]
    assert (status, detail["cause"], detail["lost_bytes"]) == (
        "suspected",
        "exit-without-close",
        [0, 65_536 + 35 * 200_000],
    )
