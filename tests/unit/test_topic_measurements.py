"""The measurements of queues and lag by topic equal values that were calculated by hand."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import pytest

from clienthealth.measure.client import client_indicators, minute_figures
from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Kind
from clienthealth.model.readings import Reading, TopicReading
from clienthealth.settings import LagSettings
from tests.scenarios import _making as making
from tests.support.stacked import stacked

LIMITS = LagSettings(allowed_lag={"batch-*/audit": 50, "*/audit": 20})


def of(client_id: str, kind: Kind, readings: list[Reading], group: str | None = None, **config: str) -> ClientWindow:
    client = msgspec.structs.replace(making.client(kind), client_id=client_id, group=group)
    options = {name.replace("_", "."): value for name, value in config.items()}
    return ClientWindow(client, making.T0, making.at(60), tuple(readings), config=options)


def lagging(
    client_id: str,
    *lags: dict[str, float],
    totals: list[float] | None = None,
    rate: float | None = 10.0,
    paused: tuple[str, ...] = (),
    group: str | None = None,
    kind: Kind = "consumer",
    **more: list[float],
) -> ClientWindow:
    readings = []
    for i, by_partition in enumerate(lags):
        metrics = {name.replace("_", "-"): values[i] for name, values in more.items()}
        if kind == "consumer":
            metrics["records-consumed-total"] = 100.0 * i if totals is None else totals[i]
            metrics |= {} if rate is None else {"records-consumed-rate": rate}
        topics = tuple(
            TopicReading(
                name.rpartition("-")[0],
                int(name.rpartition("-")[2]),
                None,
                {"records-lag": lag, "paused": float(name in paused)},
            )
            for name, lag in by_partition.items()
        )
        readings.append(Reading(making.at(10 * i), metrics, topics))
    return of(client_id, kind, readings, group)


def one(*lags: float, topic: str = "orders-3") -> list[dict[str, float]]:
    return [{topic: lag} for lag in lags]


CASES = {
    "rising": lagging("rising", *one(100, 200, 300, 400)),
    "falling": lagging("falling", *one(400, 300, 200)),
    "reads nothing": lagging("reads nothing", *one(400, 400, 400), totals=[3, 3, 3]),
    "reads nothing, by rate": lagging("reads nothing, by rate", *one(4, 4, 4), totals=[0, 0, 0], rate=0.0),
    "idle": lagging("idle", *one(0, 0, 0), totals=[3, 3, 3]),
    "young": lagging("young", *one(100, 200)),
    "one dip": lagging("one dip", *one(1000, 1200, 1190, 1600, 1800, 2000)),
    "noise": lagging("noise", *one(300, 310, 290, 330, 280, 320)),
    # The lag grows, but stays below the 1,000 records that the consumer reads in ten seconds.
    "keeps up": lagging("keeps up", *one(100, 115, 130, 145), rate=100.0),
    "many": lagging("many", *({"a-0": 10 * i, "a-1": 0, "b-0": 500.0 + 100 * i} for i in range(4)), paused=("a-0",)),
    "given up": lagging("given up", {"a-0": 5, "a-1": 7}, {"a-0": 5, "a-1": 7}, {"a-1": 0}),
    "no lag reported": lagging("no lag reported", {}, {}, {}),
    "allowed": lagging("allowed", *one(10, 25, 40, topic="audit-0"), rate=None, group="batch-7"),
    "fetches": lagging("fetches", *one(0, 0, 0), fetch_total=[7, 7, 8]),
    "stuck": lagging("stuck", *one(0, 0, 0, 0), fetch_total=[7, 8, 8, 8]),
    "stuck Scala": lagging("stuck Scala", *one(0, 0, 0), kind="legacy-consumer", fetch_requests_total=[8, 8, 8]),
    "not allowed": lagging("not allowed", *one(10, 25, 40, topic="audit-0"), rate=None, group="web"),
}


def queueing(
    client_id: str, kind: Kind, *topics: TopicReading, limit: float | None = None, **config: str
) -> ClientWindow:
    metrics: dict[str, float] = {}
    if kind == "producer":
        metrics = {"queue-records": 12.0} | ({} if limit is None else {"queue-records-limit": limit})
    return of(client_id, kind, [Reading(making.at(1), metrics, topics)], **config)


def topic(name: str, partition: int | None = None, thread: str | None = None, **metrics: float) -> TopicReading:
    return TopicReading(name, partition, thread, {metric.replace("_", "-"): value for metric, value in metrics.items()})


QUEUES = {
    # A queue holds two chunks by default. The fullest queue of a topic determines the topic's used ratio.
    "old Scala consumer": queueing(
        "old Scala consumer",
        "legacy-consumer",
        topic("orders", thread="a-0", queue_chunks=1),
        topic("orders", thread="a-1", queue_chunks=2),
        topic("audit", thread="a-0", queue_chunks=0),
    ),
    "old Scala consumer with room": queueing(
        "old Scala consumer with room",
        "legacy-consumer",
        topic("orders", thread="a-0", queue_chunks=2),
        queued_max_message_chunks="8",
    ),
    # The fuller partition's queue holds 60,000 of 100,000 records. Both queues together hold 8 of 64 MiB.
    "librdkafka consumer": queueing(
        "librdkafka consumer",
        "consumer",
        topic("orders", 0, queue_records=60_000, queue_bytes=4 * 2**20),
        topic("orders", 1, queue_records=10_000, queue_bytes=4 * 2**20),
    ),
    "librdkafka consumer of large records": queueing(
        "librdkafka consumer of large records",
        "consumer",
        topic("orders", 0, queue_records=500, queue_bytes=768 * 1024),
        queued_max_messages_kbytes="1024",
        queued_min_messages="1000",
    ),
    "librdkafka producer": queueing(
        "librdkafka producer",
        "producer",
        topic("orders", 0, queue_records=70_000),
        topic("orders", 1, queue_records=20_000),
        topic("audit", 0, queue_records=1_000),
        limit=100_000,
    ),
    "kafka-python producer": queueing("kafka-python producer", "producer", topic("orders", record_send_total=1)),
    "Java consumer": queueing("Java consumer", "consumer", topic("orders", 0, records_lag=5)),
    "odd options": queueing(
        "odd options",
        "consumer",
        topic("b", 0, queue_records=50_000),
        topic("a", 0, queue_bytes=1),
        queued_min_messages="x",
        queued_max_messages_kbytes="0",
    ),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    windows = [*CASES.values(), *QUEUES.values()]
    by_client: dict[str, dict[str, Any]] = {}
    for kind in ("producer", "consumer", "legacy-consumer"):
        same_kind = [window for window in windows if window.client.kind == kind]
        indicators = client_indicators(stacked(same_kind), LIMITS)
        by_client |= {window.client.client_id: row for window, row in zip(same_kind, indicators, strict=True)}
    return by_client


@pytest.fixture
def reported(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    return {client: rows[client]["lag"] for client in CASES}


def test_the_lag_that_a_consumer_reports(reported: dict[str, list[dict[str, Any]]]) -> None:
    assert reported["rising"] == [
        {"topic": "orders", "partition": 3, "records": 400, "quality": "exact", "state": "WARN", "paused": False}
    ]
    assert reported["idle"][0]["seconds"] == 0.0
    assert reported["no lag reported"] == []
    unknown = {"topic": "orders", "partition": 3, "quality": "unknown", "state": "UNKNOWN", "paused": False}
    assert reported["stuck"] == reported["stuck Scala"] == [unknown]


def test_its_state(reported: dict[str, list[dict[str, Any]]]) -> None:
    states = {name: [row["state"] for row in rows] for name, rows in reported.items()}
    assert states == {
        "rising": ["WARN"],
        "falling": ["OK"],
        "reads nothing": ["UNKNOWN"],
        "reads nothing, by rate": ["UNKNOWN"],
        "idle": ["OK"],
        "young": ["UNKNOWN"],
        "one dip": ["WARN"],
        "noise": ["OK"],
        "keeps up": ["OK"],
        "many": ["UNKNOWN", "OK", "WARN"],
        "given up": ["OK"],
        "no lag reported": [],
        "allowed": ["OK"],
        "fetches": ["OK"],
        "stuck": ["UNKNOWN"],
        "stuck Scala": ["UNKNOWN"],
        "not allowed": ["WARN"],
    }


def test_partitions_are_distinguished(reported: dict[str, list[dict[str, Any]]]) -> None:
    assert [(row["topic"], row["partition"], row["records"], row["paused"]) for row in reported["many"]] == [
        ("a", 0, 30, True),
        ("a", 1, 0, False),
        ("b", 0, 800, False),
    ]
    assert [(row["topic"], row["partition"]) for row in reported["given up"]] == [("a", 1)]


def test_the_queue_of_a_producer_is_known_without_a_limit_too(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["kafka-python producer"]["buffer"] == {"queued_records": 12.0}
    assert "buffer_used_ratio" not in rows["kafka-python producer"]
    assert rows["librdkafka producer"]["buffer_used_ratio"] == {"last": 0.00012, "max": 0.00012}


def test_the_saturation_of_queues(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    ratios = {
        client: {queue["topic"]: (queue["used_ratio"], queue.get("records")) for queue in rows[client]["queues"]}
        for client in QUEUES
    }
    assert ratios == {
        "old Scala consumer": {"orders": (1.0, None), "audit": (0.0, None)},
        "old Scala consumer with room": {"orders": (0.25, None)},
        "librdkafka consumer": {"orders": (0.6, 70_000.0)},
        "librdkafka consumer of large records": {"orders": (0.75, 500.0)},
        "librdkafka producer": {"orders": (0.9, 90_000.0), "audit": (0.01, 1_000.0)},
        "kafka-python producer": {},
        "Java consumer": {},
        "odd options": {"b": (0.5, 50_000.0)},
    }


def test_one_window_alone_gives_the_same(rows: dict[str, dict[str, Any]]) -> None:
    for window in (*CASES.values(), *QUEUES.values()):
        assert client_indicators(window.table, LIMITS) == [rows[window.client.client_id]]


def figures(*windows: ClientWindow) -> list[dict[str, Any]]:
    return [defaultdict(lambda: None, row) for row in minute_figures(stacked(windows))]


def test_the_history_keeps_the_fullest_queue_and_the_partition_furthest_behind() -> None:
    (producer,) = figures(QUEUES["librdkafka producer"])
    assert (producer["queue_used_ratio_max"], producer["queue_topic"]) == (0.9, "orders")
    assert (producer["buffer_used_ratio_max"], producer["callback_source"]) == (0.00012, "unknown")
    many, idle, stuck, silent = figures(*(CASES[name] for name in ("many", "idle", "stuck", "no lag reported")))
    assert (many["lag_records"], many["lag_seconds"], many["lag_topic"]) == (800, None, "b")
    assert (idle["lag_records"], idle["lag_seconds"], idle["lag_topic"]) == (0, 0.0, "orders")
    assert (stuck["lag_records"], stuck["lag_seconds"], stuck["lag_topic"]) == (None, None, "orders")
    assert not silent


def test_a_window_sees_only_its_own_readings() -> None:
    rising = CASES["rising"]
    both = stacked([rising, dataclasses.replace(rising, readings=rising.readings[2:])])
    assert len(both.ts) == 4
    assert [row["lag"][0]["state"] for row in client_indicators(both, LIMITS)] == ["WARN", "UNKNOWN"]
    assert [row["lag"][0]["state"] for row in client_indicators(both.at(np.array([1])), LIMITS)] == ["UNKNOWN"]


def test_records_per_second_of_each_topic_of_a_consumer_that_has_several() -> None:
    def reading(seconds: int, *totals: tuple[str, int, float]) -> Reading:
        topics = tuple(TopicReading(t, p, None, {"records-consumed-total": value}) for t, p, value in totals)
        return Reading(making.at(seconds), {}, topics)

    first = reading(0, ("orders", 0, 100.0), ("orders", 1, 50.0), ("audit", 0, 7.0))
    last = reading(40, ("orders", 0, 400.0), ("orders", 1, 150.0), ("audit", 0, 7.0), ("late", 0, 9.0))
    (several,) = client_indicators(of("several", "consumer", [first, reading(20), last]).table, LIMITS)
    assert several["topic_rates"] == [{"topic": "orders", "consumed_rate": 10}, {"topic": "audit", "consumed_rate": 0}]
    single = [reading(s, ("orders", 0, 10.0 * s)) for s in (0, 20, 40)]
    (alone,) = client_indicators(of("alone", "consumer", single).table, LIMITS)
    assert "topic_rates" not in alone
