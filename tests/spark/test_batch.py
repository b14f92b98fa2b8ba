"""Test what a batch reports about a skipped record that killed the monitor when it was read."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from clienthealth.model.readings import Source
from clienthealth.settings import Settings
from clienthealth.spark import batch
from clienthealth.spark.self_monitoring import SelfMetrics


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
