"""Input topics that are not there: told once, with what to do, and again when they are there."""

from __future__ import annotations

import logging
from unittest.mock import MagicMock

import pytest

from clienthealth.self_monitoring.metrics import SelfMetrics
from clienthealth.settings import Settings
from clienthealth.streaming.losses import Losses


def test_a_topic_that_is_not_there_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    losses = Losses(MagicMock(), Settings(), SelfMetrics())
    there = losses._admin.listTopics.return_value.names.return_value.get
    there.return_value = {"client-logs"}
    losses.look({})
    losses.look({})
    assert caplog.text.count("the topic client-metrics is not there") == 1
    assert "'kafka-health init' creates topics" in caplog.text
    assert "client-logs" not in caplog.text
    there.return_value = {"client-logs", "client-metrics"}
    losses.look({})
    losses.look({})
    assert caplog.text.count("the topic client-metrics is there now") == 1
