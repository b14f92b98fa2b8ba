"""Snapshots as the exporter of groups publishes them, through the decoding and the windows of the job, to a lag."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kafka import TopicPartition
from pyspark.sql import SparkSession

from clienthealth import pipeline
from clienthealth.batches.lag import lag_rows, longest
from clienthealth.batches.state import RECORD
from clienthealth.decode import decode_metrics
from clienthealth.formats import formats
from clienthealth.settings import Settings
from clienthealth_exporters.group_offsets import Snapshots
from clienthealth_exporters.group_reader import Group, GroupsReading, Member, Offsets
from tests.raw_records import SAMPLES, raw_records, sample

RAW = """key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, partition int,
         offset bigint, timestamp timestamp"""
NOON_MS = 1_700_000_000_000 - 1_700_000_000_000 % 300_000
ORDERS = [TopicPartition("orders", number) for number in range(2)]


def published() -> list[tuple[Any, ...]]:
    """Eight minutes of a group that reads one partition and has stopped reading the other after two."""
    snapshots = Snapshots(Settings())
    rows = []
    for step in range(49):
        ts_ms = NOON_MS + 10_000 * step
        offsets = {
            ORDERS[0]: Offsets(100 * step, 100 * step + 5, 0),
            ORDERS[1]: Offsets(10 * min(step, 12), 10 * step + 1, 0),
        }
        owner = Member("web", "web-1", "/10.0.0.1")
        reading = GroupsReading(ts_ms, [Group("billing", "Stable", 1, offsets, {ORDERS[0]: owner})], {}, {})
        for snapshot in snapshots.of(reading):
            at = datetime.fromtimestamp(ts_ms / 1000, UTC)
            rows.append((None, json.dumps(snapshot).encode(), None, "client-metrics", 0, step, at))
    return rows


def of_metricbeat() -> list[tuple[Any, ...]]:
    """Four minutes of a group of two topics as Metricbeat tells it: a record for each partition, of one moment."""
    event = json.loads((SAMPLES / "metricbeat_kafka_consumergroup.json").read_bytes())
    rows: list[tuple[Any, ...]] = []
    for step in range(25):
        at = datetime.fromtimestamp(NOON_MS / 1000 + 10 * step, UTC)
        for topic, lag in (("orders", 5), ("refunds", 40 * step)):
            group = {**event["kafka"]["consumergroup"], "topic": topic, "offset": 100 * step, "consumer_lag": lag}
            told = {**event, "@timestamp": at.isoformat(), "kafka": {**event["kafka"], "consumergroup": group}}
            rows.append((None, json.dumps(told).encode(), None, "client-metrics", 0, len(rows), at))
    return rows


def test_records_of_one_partition_each_are_one_reading(spark: SparkSession) -> None:
    raw = spark.createDataFrame(of_metricbeat(), RAW)
    settings = Settings()
    readings = pipeline.group_readings(pipeline.group_records(raw, settings), settings)
    (record,) = longest(readings, settings.lag).mapInArrow(lag_rows(settings), RECORD).collect()
    state = json.loads(record["value"])
    assert (state["client"]["group"], state["samples"]) == ("billing", 25)
    orders, refunds = state["indicators"]["lag"]
    assert (orders["topic"], orders["records"], orders["state"]) == ("orders", 5, "OK")
    assert (refunds["topic"], refunds["records"], refunds["state"]) == ("refunds", 960, "WARN")
    assert orders["member"]["client_id"] == refunds["member"]["client_id"] == "billing-1"


def test_what_the_exporter_publishes_becomes_a_lag(spark: SparkSession) -> None:
    raw = spark.createDataFrame(published(), RAW)
    settings = Settings()
    readings = pipeline.group_readings(pipeline.group_records(raw, settings), settings)
    (record,) = longest(readings, settings.lag).mapInArrow(lag_rows(settings), RECORD).collect()
    assert record["key"] == "consumer-groups|default|billing"
    state = json.loads(record["value"])
    assert state["samples"] == 49
    assert state["client"]["kind"] == "group"
    healthy, stopped = state["indicators"]["lag"]
    assert healthy == {
        "topic": "orders",
        "partition": 0,
        "records": 5,
        "seconds": 0.5,
        "quality": "interpolated",
        "state": "OK",
        "committed_offset": 4800,
        "end_offset": 4805,
        "start_offset": 0,
        "commit_age_seconds": 0.0,
        "retention_used_ratio": 5 / 4805,
        "clamped": 0,
        "member": {"client_id": "web", "consumer_id": "web-1", "host": "/10.0.0.1"},
    }
    # Committed 120 at the twelfth reading; the record at 120 was the first of the next ten seconds, less one record.
    assert (stopped["records"], stopped["state"], stopped["member"]) == (361, "STOP", None)
    assert stopped["seconds"] == 361.0
    assert stopped["commit_age_seconds"] == 360.0
    assert state["indicators"]["group"] == {
        "status": "STOP",
        "max_lag": 361,
        "max_lag_seconds": 361.0,
        "sum_lag": 366,
        "members": 1,
        "clamped": 0,
    }


def test_only_formats_that_say_so_speak_of_groups(spark: SparkSession) -> None:
    records = [record for path in sorted(SAMPLES.iterdir()) if "log" not in path.name for record in sample(path.name)]
    rows = decode_metrics(raw_records(spark, records), Settings()).filter("error is null and client.kind = 'group'")
    assert {row["format"] for row in rows.select("format").collect()} == {"metricbeat_consumergroup"}
    assert {fmt.name for fmt in formats("metrics") if fmt.groups} == {"canonical", "metricbeat_consumergroup"}
