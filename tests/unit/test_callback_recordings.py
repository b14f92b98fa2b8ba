"""The callback latency is derived from recordings of real producers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from clienthealth.measure.client import client_indicators
from clienthealth.settings import LagSettings
from tests.support.recorded import RECORDINGS, clients
from tests.support.stacked import stacked

#: Intervals between samples (s). Recordings have an interval of 1 s, and most fleets have an interval of 10 s.
every_interval = pytest.mark.parametrize("interval", [1, 10])

Indicators = list[dict[str, Any]]


@cache
def indicators(recording: str, interval: int) -> Indicators:
    recorded = clients(RECORDINGS / "evidence" / recording, 1000 * interval if interval > 1 else 0)
    (client,) = (client for client in recorded if client.client.kind == "producer")
    windows = [
        window
        for window in client.windows
        if window.readings and window.readings[-1].ts_ms - window.readings[0].ts_ms >= 49_000
    ]
    assert windows
    return client_indicators(stacked(windows), LagSettings())


@every_interval
def test_a_healthy_io_thread_waits(interval: int) -> None:
    for w in indicators("c1_healthy", interval):
        assert 0 <= w["io_thread_busy_ratio"] <= 0.05
        assert 0 < w["callback_seconds"]["avg"] < 0.001


@every_interval
def test_a_callback_of_a_tenth_of_a_second(interval: int) -> None:
    for w in indicators("c7_slow_callback", interval):
        assert 0.8 <= w["io_thread_busy_ratio"] <= 0.9
        assert w["callback_seconds"]["avg"] == pytest.approx(0.1, rel=0.1)
        assert w["callback_seconds"]["source"] == "derived"


@every_interval
def test_back_pressure_is_no_slow_callback(interval: int) -> None:
    assert all(0 <= w["io_thread_busy_ratio"] <= 0.1 for w in indicators("c4_backpressure", interval))


@every_interval
def test_a_deadlocked_io_thread_is_busy_all_the_time(interval: int) -> None:
    *_, before_last, last = indicators("2_deadlock_client39", interval)
    for w in (before_last, last):
        assert w["io_thread_busy_ratio"] == 1.0
        assert w["callback_seconds"] == {"source": "unknown"}
