"""A batch writes its rows, and reports deadly records that it skips."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest
from pyspark.sql import SparkSession

from clienthealth.model.readings import Source
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.spark import batch, history
from clienthealth.spark.self_monitoring import SelfMetrics
from clienthealth.spark.stepping import ROWS, Summary


def test_a_skipped_record_is_reported_and_counted_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(batch, "write", lambda rows, settings: written.extend(rows.collect()))
    metrics, other = SelfMetrics(), MagicMock()
    left_out = batch.Batch(Settings(), metrics, other, threading.Event(), other, other, None, other, other)
    metrics.counted([left_out._skipped(spark, Source("client-metrics", 2, 88))])
    ((topic, key, value, headers),) = written
    assert (topic, key, value) == ("client-rejects", None, None)
    assert {name: value.decode() for name, value in headers} == {
        "reject_reason": "fatal: the monitor ended whenever it read this record",
        "source_topic": "client-metrics",
        "source_partition": "2",
        "source_offset": "88",
    }
    labels = {"reason": "fatal", "source_topic": "client-metrics"}
    assert metrics.registry.get_sample_value("kafka_client_health_records_rejected_total", labels) == 1


def test_a_small_batch_is_written_by_one_task_and_into_one_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(batch, "write", lambda rows, settings: written.extend(rows.collect()))
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "of-a-test")
    settings, root = Settings(monitor=MonitorSettings(history=str(tmp_path))), str(tmp_path)
    history.create(spark, root)
    minute = {"minute": 1795208640000, "service": "shop", "instance": "h:1", "client_id": "p", "kind": "producer"}
    rows = [
        ("summary", None, msgspec.msgpack.encode(Summary(rows={"health": 2, "reject": 1, "minute": 2})), None),
        ("health", b"a", b"1", None),
        ("minute", None, json.dumps(minute | {"status": "ok", "samples": 6}).encode(), None),
        ("reject", b"r", None, '[{"key": "reject_reason", "value": "bm8="}]'),
        ("health", b"b", b"2", None),
        ("minute", None, json.dumps(minute | {"client_id": "q", "lag_records": 2.0}).encode(), None),
    ]
    frame = spark.createDataFrame(rows, ROWS).repartition(2)
    other = MagicMock()
    other.writes.return_value, other.again, other.not_counted.side_effect = None, None, list
    batch.Batch(settings, SelfMetrics(), other, threading.Event(), other, other, None, other, other)._work(frame, 7)
    assert sorted((row["topic"], row["key"], row["value"]) for row in written) == [
        ("client-health", b"a", b"1"),
        ("client-health", b"b", b"2"),
        ("client-rejects", b"r", None),
    ]
    assert [row["headers"] for row in written if row["headers"]] == [[("reject_reason", bytearray(b"no"))]]
    minutes = history.read(spark, root, "minutes").orderBy("client_id").collect()
    assert [(row["client_id"], row["status"], row["samples"], row["lag_records"]) for row in minutes] == [
        ("p", "ok", 6, None),
        ("q", None, None, 2),
    ]
    at = {(str(row["day"]), row["minute"].timestamp(), row["schema_version"]) for row in minutes}
    assert at == {("2026-11-20", 1795208640, 1)}
    log = (tmp_path / f"minutes/_delta_log/{1:020}.json").read_text().splitlines()
    (added,) = (json.loads(line)["add"] for line in log if line.startswith('{"add"'))
    bounds = json.loads(added["stats"])["maxValues"]
    assert "minute" in bounds and "client_id" not in bounds
