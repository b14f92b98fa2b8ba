"""A client whose metrics arrive one per record (prometheus-kafka-adapter, jmxtrans) is judged like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth import naming, pipeline
from clienthealth.decode import decode_metrics
from clienthealth.judging import judge_windows, window
from clienthealth.records import Reading, TopicReading, Verdict
from clienthealth.settings import Settings
from tests.raw_records import ARRIVED, Raw, raw_records
from tests.scenarios._making import T0, at
from tests.scenarios.producer_callback_deadlock import SCENARIOS

DEADLOCK = SCENARIOS[0].window.readings
STYLES = ("canonical", "adapter", "jmxtrans")
EVENTS = """ts timestamp, client struct<service:string,host:string,instance:string,client_id:string>,
event struct<ts_ms:bigint,signature:string,text:string,client_id:string,logger:string,level:string,thread:string,
captures:map<string,string>,source:struct<topic:string,partition:int,offset:bigint>>,
dump struct<ts_ms:bigint,threads:array<struct<name:string,state:string,frames:array<string>,cpu_ms:double>>,
source:struct<topic:string,partition:int,offset:bigint>>"""


def stuck_consumer() -> list[Reading]:
    """A consumer that has not polled since T0, with two partitions of which one falls behind."""
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
    """MBean group, attribute, value, and whose it is where not the client's."""
    for topic in (None, *reading.topics):
        for name, value in (topic or reading).metrics.items():
            groups = [g for g, names in naming.JAVA.items() if name in names and g.startswith(kind)]
            yield (groups[-1] if topic else groups[0]), name, value, topic


def adapter(client_id: str, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    for group, name, value, topic in samples(kind, reading):
        labels = {"job": "adapter", "host": "web-1", "instance": "web-1:7", "client_id": client_id}
        if topic:
            labels |= {"topic": topic.topic} | ({} if topic.partition is None else {"partition": str(topic.partition)})
        yield {
            "timestamp": datetime.fromtimestamp(reading.ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": str(value),
            "name": naming.micrometer(group, name),
            "labels": labels,
        }


def jmxtrans(client_id: str, kind: str, reading: Reading) -> Iterator[dict[str, Any]]:
    for group, name, value, topic in samples(kind, reading):
        if topic and topic.partition is None:
            continue  # Which of several names is the topic's, a keyspace does not tell.
        place = f".{topic.topic}.{topic.partition}" if topic else ""
        yield {
            "keyspace": f"servers.web-1_7.kafka_{kind}.{client_id}{place}.{group}.{name}",
            "value": str(value),
            "timestamp": reading.ts_ms // 1000,
            "tags": {"app": "jmxtrans"},
        }


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> pipeline.Inputs:
    """The same readings of two clients in three formats, each as a service of its own."""
    values = [
        value
        for style in (canonical, adapter, jmxtrans)
        for client_id, (kind, readings) in CLIENTS.items()
        for reading in readings
        for value in style(client_id, kind, reading)
    ]
    raw = raw_records(spark, [Raw("m", json.dumps(value).encode(), n) for n, value in enumerate(values)])
    metrics = decode_metrics(raw, Settings(), F.lit(ARRIVED)).cache()
    nothing: DataFrame = spark.createDataFrame([], EVENTS)
    return pipeline.Inputs(metrics, nothing, nothing)


@pytest.fixture(scope="module")
def windows(inputs: pipeline.Inputs) -> dict[tuple[str, str], dict[str, Any]]:
    """Style and client → its whole window, measured."""
    rows = pipeline.clients(inputs, Settings()).filter(F.col("start_ms") == T0)
    return {(r["client"]["service"], r["client"]["client_id"]): r for r in rows.toArrow().to_pylist()}


@pytest.mark.parametrize("style", STYLES)
def test_a_reading_is_whole_again(windows: dict[tuple[str, str], dict[str, Any]], style: str) -> None:
    for client_id, (_, readings) in CLIENTS.items():
        found = windows[style, client_id]
        read = window(found["client"], found).readings
        assert [(r.ts_ms, r.metrics) for r in read] == [(r.ts_ms, dict(r.metrics)) for r in readings]


@pytest.mark.parametrize("style", STYLES[1:])
def test_its_measurements_and_verdicts_are_those_of_whole_readings(
    windows: dict[tuple[str, str], dict[str, Any]], style: str
) -> None:
    for client_id in CLIENTS:
        whole, joined = windows["canonical", client_id], windows[style, client_id]
        assert joined["indicators"] == whole["indicators"]
        assert joined["suspected"] == whole["suspected"]
        verdicts, expected = (
            [(v.mode, v.status, v.since_ms, v.detail) for v in verdicts_of(row)] for row in (joined, whole)
        )
        assert verdicts == expected
    deadlock = next(v for v in verdicts_of(windows[style, "orders"]) if v.mode == "producer-callback-deadlock")
    assert deadlock.status == "confirmed"


def verdicts_of(row: dict[str, Any]) -> list[Verdict]:
    return judge_windows([window(row["client"], row)], {}, 0)


def test_its_departure_is_judged_by_all_that_it_said_last(inputs: pipeline.Inputs) -> None:
    gone = [
        (row["client"]["service"], window(row["client"], row))
        for row in pipeline.absences(inputs, Settings()).toArrow().to_pylist()
        if row["client"]["client_id"] == "orders"
    ]
    found = {style: [(v.status, v.detail) for v in judge_windows([seen], {}, 0, absence=True)] for style, seen in gone}
    assert set(found) == set(STYLES)
    assert found["adapter"] == found["jmxtrans"] == found["canonical"]
    ((status, detail),) = found["canonical"]
    assert (status, detail["cause"], detail["lost_bytes"]) == (
        "suspected",
        "exit-without-close",
        [0, 65_536 + 35 * 200_000],
    )
