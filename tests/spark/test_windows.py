"""Windows of readings: what belongs together, what is counted once, and the three measurements by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from clienthealth.formats import CLIENT, METRIC_NAMES, SNAPSHOT, TOPIC_METRIC_NAMES
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.verdicts import measured, per_client, quiet_records
from clienthealth.windows import client_windows, observations, process_windows, thinned

START = 1_795_208_640_000  # a full minute
SOURCE = StructType(
    [StructField("topic", StringType()), StructField("partition", StringType()), StructField("offset", LongType())]
)
ROW = StructType([*SNAPSHOT.fields, StructField("source", SOURCE)])
EVENT = """struct<ts_ms:bigint,signature:string,text:string,client_id:string,logger:string,level:string,thread:string,
captures:map<string,string>,source:struct<topic:string,partition:string,offset:bigint>>"""
DUMP = """struct<ts_ms:bigint,threads:array<struct<name:string,state:string,frames:array<string>,cpu_ms:double>>,
source:struct<topic:string,partition:string,offset:bigint>>"""


def reading(
    second: float,
    metrics: dict[str, float] | None = None,
    client_id: str = "p",
    kind: str = "producer",
    topics: list[dict[str, Any]] | None = None,
    delta: bool = False,
    instance: str = "h:1",
    case: str = "",
) -> tuple[Any, ...]:
    known = {name: float(value) for name, value in (metrics or {}).items()}
    values = tuple(known.get(name) for name in METRIC_NAMES)
    rows = [
        (t["topic"], t.get("partition"), t.get("thread"), None, tuple(t.get(name) for name in TOPIC_METRIC_NAMES))
        for t in topics or []
    ]
    who = (case, "h", instance, client_id, kind, "java", "3.9.1", None)
    return (
        START + int(second * 1000),
        who,
        values,
        rows,
        {},
        10_000,
        delta,
        None,
        ("client-metrics", "0", int(second)),
    )


def snapshots(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, ROW).withColumn("ts", F.timestamp_millis("ts_ms"))


def events(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    shaped = [
        {
            "client": {"service": row["case"], "host": "h", "instance": row.get("instance")},
            "event": {"ts_ms": START + row["ms"], "text": "x", **row["event"]} if "event" in row else None,
            "dump": {
                "ts_ms": START + row["ms"],
                "source": {"topic": "client-logs", "partition": "0", "offset": row["ms"]},
                **row["dump"],
            }
            if "dump" in row
            else None,
            "ts_ms": START + row["ms"],
        }
        for row in rows
    ]
    schema = f"client {SNAPSHOT['client'].dataType.simpleString()}, event {EVENT}, dump {DUMP}, ts_ms bigint"
    return spark.createDataFrame(shaped, schema).withColumn("ts", F.timestamp_millis("ts_ms"))


BUFFER = {"buffer-total-bytes": 1000.0}
CHUNKS = [
    {"topic": "slow", "thread": "0", "queue-chunks": 2.0},
    {"topic": "slow", "thread": "1", "queue-chunks": 1.0},
    {"topic": "fast", "thread": "0", "queue-chunks": 0.0},
]
SELECTOR = ("select-total", "io-time-ns-total", "io-wait-time-ns-total", "record-send-total")
#: Case → readings. Every case is a service of its own, so that all go through Spark at once.
CASES: dict[str, list[tuple[Any, ...]]] = {
    "apart": [reading(s, {"select-total": s}, c, case="apart") for s in (0, 10, 20, 40) for c in ("p", "q")],
    "order": [reading(s, {"select-total": s}, case="order") for s in (20, 0, 10, 10)],
    "merge": [reading(5, {"select-total": 7}, case="merge"), reading(5, {"waiting-threads": 2}, case="merge")],
    "delta": [reading(s, {"select-total": 10, "waiting-threads": 1}, delta=True, case="delta") for s in (0, 10, 20)],
    "kinds": [
        reading(0, {"select-total": 1}, "p", case="kinds"),
        reading(0, {"select-total": 1}, "q", case="kinds"),
        reading(0, {"records-lag-max": 1}, "c", "consumer", case="kinds"),
    ],
    "processes": [
        reading(0, {"select-total": 1}, "p", instance="h:1", case="processes"),
        reading(0, {"select-total": 1}, "q", instance="h:2", case="processes"),
    ],
    "unreported": [reading(0, {"records-lag-max": 1}, "c", "consumer", case="unreported")],
    "buffer": [
        reading(s, {**BUFFER, "buffer-available-bytes": 900 - 20 * s, "waiting-threads": 2}, case="buffer")
        for s in (0, 10, 20)
    ],
    "librdkafka": [
        reading(
            0,
            {**BUFFER, "buffer-available-bytes": 900, "queue-records": 80, "queue-records-limit": 100},
            case="librdkafka",
        )
    ],
    "unknown": [reading(s, {**BUFFER, "record-send-total": 5}, case="unknown") for s in (0, 10)],
    # Each 10 s: 8 s outside the selector for 80 records.
    "derived": [
        reading(s, dict(zip(SELECTOR, (10 * s, 0.5e8 * s, 1.5e8 * s, 8 * s), strict=True)), case="derived")
        for s in (0, 10, 20)
    ],
    "measured": [
        reading(s, {"select-total": s, "callback-time-avg": 12, "callback-time-max": 40}, case="measured")
        for s in (0, 10)
    ],
    "stuck": [
        reading(
            s, {**BUFFER, **dict(zip(SELECTOR, (5, 1, 1, 9), strict=True)), "buffer-available-bytes": 10}, case="stuck"
        )
        for s in (0, 10, 20)
    ],
    "culprit": [reading(0, {"max-lag": 0}, "c", "legacy-consumer", CHUNKS, case="culprit")],
}
THREAD = {"name": "kafka-producer-network-thread | lonely", "state": "WAITING", "frames": ["a.B.c"]}
LOGS: list[dict[str, Any]] = [
    {"case": "kinds", "ms": 1000, "event": {"signature": "buffer-exhausted"}},
    {"case": "kinds", "ms": 2000, "event": {"signature": "buffer-exhausted", "client_id": "q"}},
    {"case": "processes", "ms": 1, "instance": "h:2", "event": {"signature": "buffer-exhausted"}},
    {"case": "unreported", "ms": 1, "event": {"signature": "metadata-not-updated", "client_id": "silent"}},
    {"case": "unreported", "ms": 2, "dump": {"threads": [THREAD]}},
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """All cases as measured client windows."""
    readings = observations(snapshots(spark, [row for case in CASES.values() for row in case]))
    logs = thinned(events(spark, LOGS), streaming=False)
    windows = process_windows(readings.unionByName(logs, allowMissingColumns=True), MonitorSettings())
    return measured(client_windows(windows), Settings()).cache()


@pytest.fixture(scope="module")
def found(rows: DataFrame) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Case, client id and the window's first second → the row."""
    return {
        (r["client"]["service"], r["client"]["client_id"], (r["start_ms"] - START) // 1000): r
        for r in rows.toArrow().to_pylist()
    }


Found = dict[tuple[str, str, int], dict[str, Any]]


def known(values: list[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def test_a_reading_is_in_two_windows_and_the_clients_of_a_process_are_apart(found: Found) -> None:
    sizes = {(client, start): len(r["readings"]) for (case, client, start), r in found.items() if case == "apart"}
    assert sizes == {
        ("p", -30): 3, ("p", 0): 4, ("p", 30): 1, ("q", -30): 3, ("q", 0): 4, ("q", 30): 1,
    }  # fmt: skip


def test_readings_are_in_order_and_a_record_that_came_twice_counts_once(found: Found) -> None:
    assert [r["ts_ms"] - START for r in found["order", "p", 0]["readings"]] == [0, 10_000, 20_000]


def test_samples_of_one_moment_become_one_reading(found: Found) -> None:
    (made,) = found["merge", "p", 0]["readings"]
    assert known(made["values"]) == [7.0, 2.0]


def test_delta_totals_are_added_up(found: Found) -> None:
    readings = found["delta", "p", 0]["readings"]
    assert [known(r["values"]) for r in readings] == [[10.0, 1.0], [20.0, 1.0], [30.0, 1.0]]


def test_an_event_that_names_no_client_goes_to_all_clients_of_its_kind(found: Found) -> None:
    counts = {client: len(found["kinds", client, 0]["events"]) for client in ("p", "q", "c")}
    assert counts == {"p": 1, "q": 2, "c": 0}


def test_an_event_of_another_process_stays_away(found: Found) -> None:
    assert [len(found["processes", client, 0]["events"]) for client in ("p", "q")] == [0, 1]


def test_a_client_known_from_its_log_or_thread_alone_is_there(found: Found) -> None:
    assert found["unreported", "silent", 0]["client"]["kind"] == "producer"
    assert len(found["unreported", "lonely", 0]["dumps"]) == 1


def test_the_buffer_by_hand(found: Found) -> None:
    indicators = found["buffer", "p", 0]["indicators"]
    assert indicators["buffer_used_ratio"] == {"last": pytest.approx(0.5), "max": pytest.approx(0.5)}
    # 0.02 a second, half is left.
    assert indicators["buffer"]["seconds_to_full"] == pytest.approx(25.0)
    assert indicators["buffer"]["waiting_threads"] == 2.0


def test_a_librdkafka_buffer_is_as_full_as_its_fuller_limit(found: Found) -> None:
    assert found["librdkafka", "p", 0]["indicators"]["buffer_used_ratio"]["last"] == pytest.approx(0.8)


def test_what_is_not_known_is_not_there(found: Found) -> None:
    indicators = found["unknown", "p", 0]["indicators"]
    assert indicators["buffer_used_ratio"] is None
    assert indicators["callback_seconds"] == {"avg": None, "max": None, "p99": None, "source": "unknown"}


def test_callback_time_is_derived_from_the_time_outside_the_selector(found: Found) -> None:
    indicators = found["derived", "p", 0]["indicators"]
    assert indicators["io_thread_busy_ratio"] == pytest.approx(0.8)
    assert indicators["callback_seconds"]["avg"] == pytest.approx(0.1)
    assert indicators["callback_seconds"]["source"] == "derived"


def test_a_measured_callback_wins_over_a_derived_one(found: Found) -> None:
    callback = found["measured", "p", 0]["indicators"]["callback_seconds"]
    assert callback == {"avg": 0.012, "max": 0.04, "p99": None, "source": "measured"}


def test_an_io_thread_that_never_came_back_was_busy_all_the_time(found: Found) -> None:
    assert found["stuck", "p", 0]["indicators"]["io_thread_busy_ratio"] == 1.0


def test_the_culprit_topic_stands_out(found: Found) -> None:
    assert found["culprit", "c", 0]["indicators"]["queues"] == [
        {"topic": "slow", "used_ratio": 1.0, "records": None},
        {"topic": "fast", "used_ratio": 0.0, "records": None},
    ]


def test_a_storm_of_one_line_costs_ten_events_a_second(spark: SparkSession) -> None:
    ts_ms = (F.lit(START) + F.col("id") / 10).cast("long")
    text = F.lit(None).cast("string")
    storm = spark.range(0, 20_000).select(
        F.timestamp_millis(ts_ms).alias("ts"),
        F.from_json(F.lit('{"service": "shop", "host": "h"}'), CLIENT).alias("client"),
        F.struct(
            ts_ms.alias("ts_ms"),
            F.lit("consumer-metadata-fetch-failed").alias("signature"),
            F.lit("x").alias("text"),
            *(text.alias(name) for name in ("client_id", "logger", "level", "thread")),
            F.lit(None).cast("map<string,string>").alias("captures"),
            F.lit(None).cast("struct<topic:string,partition:string,offset:bigint>").alias("source"),
        ).alias("event"),
        F.lit(None).cast(DUMP).alias("dump"),
    )
    assert thinned(storm, streaming=False).count() == 20


def test_quiet_clients_become_records_without_python(rows: DataFrame) -> None:
    quiet = per_client(rows).transform(quiet_records)
    conf = rows.sparkSession.conf
    usual = str(conf.get("spark.sql.maxPlanStringLength"))
    conf.set("spark.sql.maxPlanStringLength", 50_000_000)
    plan = quiet._jdf.queryExecution().executedPlan().toString()
    conf.set("spark.sql.maxPlanStringLength", usual)
    assert "Scan" in plan and "more characters" not in plan
    assert "Python" not in plan
    assert "Arrow" not in plan
    assert "order|h:1|p" in {row["key"] for row in quiet.collect()}
