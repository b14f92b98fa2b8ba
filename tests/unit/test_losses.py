"""The monitor reports a missing topic once, and counts lost records."""

from __future__ import annotations

import logging
from unittest.mock import MagicMock

import pytest

from clienthealth.settings import Settings
from clienthealth.spark.losses import Losses
from clienthealth.spark.self_monitoring import SelfMetrics


def test_a_missing_topic_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    losses = Losses(MagicMock(), Settings(), SelfMetrics())
    there = losses._admin.listTopics.return_value.names.return_value.get
    there.return_value = {"client-logs"}
    losses.look({})
    losses.look({})
    assert caplog.text.count("the topic client-metrics does not exist") == 1
    assert "with 'kafka-health init'" in caplog.text
    assert "client-logs" not in caplog.text
    there.return_value = {"client-logs", "client-metrics"}
    losses.look({})
    losses.look({})
    assert caplog.text.count("the topic client-metrics exists now and is read") == 1


def test_unread_records_are_counted_from_the_start_until_spark_does(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = SelfMetrics()
    losses = Losses(MagicMock(), Settings(), metrics)
    losses._admin.listTopics.return_value.names.return_value.get.return_value = {"client-metrics", "client-logs"}
    ends = {("client-metrics", 0): 700, ("client-metrics", 1): 300, ("client-logs", 0): 50}
    monkeypatch.setattr(losses, "_offsets", lambda positions, which: {where: ends[where] for where in positions})

    def waits(topic: str) -> float | None:
        labels = {"source_topic": topic, "query": "monitor"}
        return metrics.registry.get_sample_value("kafka_client_health_input_lag_records", labels)

    losses.look({("client-metrics", 0): 600, ("client-metrics", 1): 100, ("client-logs", 0): 50})
    assert (waits("client-metrics"), waits("client-logs")) == (300, 0)
    ends["client-logs", 0] = 60
    losses.look({("client-metrics", 0): 600, ("client-metrics", 1): 100, ("client-logs", 0): 50})
    assert waits("client-logs") == 10
    metrics.batches = 1
    ends["client-logs", 0] = 70
    losses.look({("client-logs", 0): 50})
    assert waits("client-logs") == 10, "Spark reports it now, as of the time when the batch was planned"


def test_what_is_deleted_is_counted_once_and_nothing_where_all_was_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = SelfMetrics()
    losses = Losses(MagicMock(), Settings(), metrics)
    losses._admin.listTopics.return_value.names.return_value.get.return_value = {"client-metrics", "client-logs"}
    first = {("client-metrics", 0): 600, ("client-logs", 0): 75}
    monkeypatch.setattr(losses, "_offsets", lambda positions, which: {where: first[where] for where in positions})
    for _ in range(2):
        losses.look({("client-metrics", 0): 600, ("client-logs", 0): 50})
    assert [r.message for r in caplog.records] == ["25 records of client-logs/0 were deleted before they were read"]
    for topic, lost in (("client-logs", 25), ("client-metrics", 0)):
        labels = {"source_topic": topic}
        assert metrics.registry.get_sample_value("kafka_client_health_lost_records_total", labels) == lost
