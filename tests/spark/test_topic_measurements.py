"""What clients tell of their topics: queues and own lag, from snapshots through decoding and windows, by hand."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth import pipeline
from clienthealth.indicators.lag_state import climbs
from clienthealth.indicators.records_lag import climbs as native_climbs
from clienthealth.settings import LagSettings, Settings
from tests.raw_records import ARRIVED, Raw, raw_records

#: A window of 60 s begins here, an hour before the records arrive.
START_MS = round(ARRIVED.timestamp() * 1000) - 3_600_000
SETTINGS = Settings(lag=LagSettings(allowed_lag={"batch-*/audit": 50, "*/audit": 20}))


def snapshots(
    client_id: str,
    *readings: dict[str, float],
    totals: list[float] | None = None,
    rate: float | None = 10.0,
    paused: tuple[str, ...] = (),
    group: str | None = None,
    kind: str = "consumer",
    **more: list[float],
) -> list[Raw]:
    """Snapshots 10 s apart: the lag by `topic-partition` of each, and the client's consumption so far.

    `more`: further metrics, `_` for a hyphen, with the value of each snapshot.
    """
    found: list[Raw] = []
    for i, lags in enumerate(readings):
        metrics: dict[str, Any] = {
            "records-consumed-total": 100.0 * i if totals is None else totals[i],
            "records-consumed-rate": rate,
            **{name.replace("_", "-"): values[i] for name, values in more.items()},
        }
        topics = [
            {
                "topic": name.rpartition("-")[0],
                "partition": int(name.rpartition("-")[2]),
                "thread": None,
                "metrics": {"records-lag": lag, "paused": float(name in paused)},
            }
            for name, lag in lags.items()
        ]
        client = {
            "service": "web",
            "host": "h",
            "instance": "h:1",
            "client_id": client_id,
            "kind": kind,
            "group": group,
        }
        row = {"ts": START_MS + 10_000 * i, "client": client, "metrics": metrics, "topics": topics}
        found.append(Raw("client-metrics", json.dumps(row).encode(), len(found)))
    return found


def one(*lags: float, topic: str = "orders-3") -> list[dict[str, float]]:
    return [{topic: lag} for lag in lags]


CASES = {
    "rising": snapshots("rising", *one(100, 200, 300, 400)),
    "falling": snapshots("falling", *one(400, 300, 200)),
    "reads nothing": snapshots("reads nothing", *one(400, 400, 400), totals=[3, 3, 3]),
    "reads nothing, by rate": snapshots("reads nothing, by rate", *one(4, 4, 4), totals=[0, 0, 0], rate=0.0),
    "idle": snapshots("idle", *one(0, 0, 0), totals=[3, 3, 3]),
    "young": snapshots("young", *one(100, 200)),
    "one dip": snapshots("one dip", *one(1000, 1200, 1190, 1600, 1800, 2000)),
    "noise": snapshots("noise", *one(300, 310, 290, 330, 280, 320)),
    # 1.5 a second, but ten seconds of what it consumes is more than its lag.
    "keeps up": snapshots("keeps up", *one(100, 115, 130, 145), rate=100.0),
    "many": snapshots("many", *({"a-0": 10 * i, "a-1": 0, "b-0": 500.0 + 100 * i} for i in range(4)), paused=("a-0",)),
    "given up": snapshots("given up", {"a-0": 5, "a-1": 7}, {"a-0": 5, "a-1": 7}, {"a-1": 0}),
    "no lag told": snapshots("no lag told", {}, {}, {}),
    "allowed": snapshots("allowed", *one(10, 25, 40, topic="audit-0"), rate=None, group="batch-7"),
    "fetches": snapshots("fetches", *one(0, 0, 0), fetch_total=[7, 7, 8]),
    "stuck": snapshots("stuck", *one(0, 0, 0, 0), fetch_total=[7, 8, 8, 8]),
    "stuck Scala": snapshots("stuck Scala", *one(0, 0, 0), kind="legacy-consumer", fetch_requests_total=[8, 8, 8]),
    "not allowed": snapshots("not allowed", *one(10, 25, 40, topic="audit-0"), rate=None, group="web"),
}


def queueing(
    client_id: str,
    kind: str,
    *topics: dict[str, Any],
    limit: float | None = None,
    config: dict[str, str] | None = None,
) -> list[Raw]:
    """One snapshot with figures of queues: `topic` and metrics of each entry."""
    row = {
        "ts": START_MS + 1000,
        "client": {"service": "web", "host": "h", "instance": "h:1", "client_id": client_id, "kind": kind},
        "metrics": {"queue-records-limit": limit, "queue-records": 12.0, "last-poll-seconds-ago": 1.0, "max-lag": 1.0},
        "topics": [
            {
                "topic": entry.pop("topic"),
                "partition": entry.pop("partition", None),
                "thread": entry.pop("thread", None),
                "metrics": entry,
            }
            for entry in topics
        ],
        "config": config or {},
    }
    return [Raw("client-metrics", json.dumps(row).encode(), 0)]


QUEUES = {
    # Of the chunks of two threads the fuller queue counts; two chunks are the default.
    "old Scala consumer": queueing(
        "old Scala consumer",
        "legacy-consumer",
        {"topic": "orders", "thread": "a-0", "queue-chunks": 1},
        {"topic": "orders", "thread": "a-1", "queue-chunks": 2},
        {"topic": "audit", "thread": "a-0", "queue-chunks": 0},
    ),
    "old Scala consumer with room": queueing(
        "old Scala consumer with room",
        "legacy-consumer",
        {"topic": "orders", "thread": "a-0", "queue-chunks": 2},
        config={"queued.max.message.chunks": "8"},
    ),
    # By records 60,000 of the default 100,000 of the fuller partition; by bytes 8 of 64 MiB of both.
    "librdkafka consumer": queueing(
        "librdkafka consumer",
        "consumer",
        {"topic": "orders", "partition": 0, "queue-records": 60_000, "queue-bytes": 4 * 2**20},
        {"topic": "orders", "partition": 1, "queue-records": 10_000, "queue-bytes": 4 * 2**20},
    ),
    "librdkafka consumer of large records": queueing(
        "librdkafka consumer of large records",
        "consumer",
        {"topic": "orders", "partition": 0, "queue-records": 500, "queue-bytes": 768 * 1024},
        config={"queued.max.messages.kbytes": "1024", "queued.min.messages": "1000"},
    ),
    # Of 100,000 records that it may hold.
    "librdkafka producer": queueing(
        "librdkafka producer",
        "producer",
        {"topic": "orders", "partition": 0, "queue-records": 70_000},
        {"topic": "orders", "partition": 1, "queue-records": 20_000},
        {"topic": "audit", "partition": 0, "queue-records": 1_000},
        limit=100_000,
    ),
    "kafka-python producer": queueing("kafka-python producer", "producer", {"topic": "orders", "record-send-total": 1}),
    "Java consumer": queueing("Java consumer", "consumer", {"topic": "orders", "partition": 0, "records-lag": 5}),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The indicators `lag` and `queues` of the window that holds all readings, by client."""
    records = [record for case in (*CASES.values(), *QUEUES.values()) for record in case]
    inputs = pipeline.decoded(raw_records(spark, records), raw_records(spark, []), SETTINGS)
    found = pipeline.clients(inputs, SETTINGS).filter(f"start_ms = {START_MS}")
    named = found.selectExpr("client.client_id", "to_json(indicators) as told").collect()
    return {row["client_id"]: json.loads(row["told"]) for row in named}


@pytest.fixture
def told(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    """The lag that consumers tell, by client."""
    return {client: rows[client]["lag"] for client in CASES}


def test_the_lag_that_a_consumer_tells(told: dict[str, list[dict[str, Any]]]) -> None:
    assert told["rising"] == [
        {"topic": "orders", "partition": 3, "records": 400, "quality": "exact", "state": "WARN", "paused": False}
    ]
    assert told["idle"][0]["seconds"] == 0.0
    assert told["no lag told"] == []
    unknown = {"topic": "orders", "partition": 3, "quality": "unknown", "state": "UNKNOWN", "paused": False}
    assert told["stuck"] == told["stuck Scala"] == [unknown]


def test_its_state(told: dict[str, list[dict[str, Any]]]) -> None:
    states = {name: [row["state"] for row in rows] for name, rows in told.items()}
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
        "no lag told": [],
        "allowed": ["OK"],
        "fetches": ["OK"],
        "stuck": ["UNKNOWN"],
        "stuck Scala": ["UNKNOWN"],
        "not allowed": ["WARN"],
    }


def test_partitions_are_told_apart(told: dict[str, list[dict[str, Any]]]) -> None:
    assert [(row["topic"], row["partition"], row["records"], row["paused"]) for row in told["many"]] == [
        ("a", 0, 30, True),
        ("a", 1, 0, False),
        ("b", 0, 800, False),
    ]
    assert [(row["topic"], row["partition"]) for row in told["given up"]] == [("a", 1)]


def test_a_climb_is_the_same_here_and_for_groups(spark: SparkSession) -> None:
    random_ = random.Random(1)
    made = [
        [(10_000 * i, float(random_.randrange(200) + trend * i)) for i in range(random_.randrange(10))]
        for trend in (0, 10, 15, 50)
        for _ in range(50)
    ]
    rows = spark.createDataFrame([(series,) for series in made], "series array<struct<ts_ms:bigint,records:double>>")
    found = [row[0] for row in rows.select(native_climbs(F.col("series"), 1.0)).collect()]
    assert found == [climbs([(ts_ms / 1000, lag) for ts_ms, lag in series], 1.0) for series in made]
    assert 20 < sum(found) < 180


def test_the_queue_of_a_producer_is_known_without_a_limit_too(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["kafka-python producer"]["buffer"] == {"queued_records": 12.0}
    assert "buffer_used_ratio" not in rows["kafka-python producer"]
    assert rows["librdkafka producer"]["buffer_used_ratio"] == {"last": 0.00012, "max": 0.00012}


def test_the_saturation_of_queues(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    found = {
        client: {queue["topic"]: (queue["used_ratio"], queue.get("records")) for queue in rows[client]["queues"]}
        for client in QUEUES
    }
    assert found == {
        "old Scala consumer": {"orders": (1.0, None), "audit": (0.0, None)},
        "old Scala consumer with room": {"orders": (0.25, None)},
        "librdkafka consumer": {"orders": (0.6, 70_000.0)},
        "librdkafka consumer of large records": {"orders": (0.75, 500.0)},
        "librdkafka producer": {"orders": (0.9, 90_000.0), "audit": (0.01, 1_000.0)},
        "kafka-python producer": {},
        "Java consumer": {},
    }
