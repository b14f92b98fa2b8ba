"""If a log line arrives before its process's metrics of the same time, the line waits for these metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from clienthealth.measure.packed import LogEntry
from clienthealth.model.telemetry import Snapshot
from clienthealth.monitor.intake import AHEAD_MS, AWAKE_MS, LONGEST_MS
from tests.support.stepped import SETTINGS, START, Stepped, logged, snapshot

SECONDS = range(0, 1200, 10)
WELL = {"record-send-rate": 100, "buffer-available-bytes": 32e6, "buffer-total-bytes": 33e6, "record-error-rate": 0}


def readings(begin: int, end: int, service: str = "shop") -> list[Snapshot | LogEntry]:
    return [snapshot(second, WELL, service=service) for second in SECONDS if begin <= second < end]


def lines(begin: int, end: int, service: str = "shop") -> list[Snapshot | LogEntry]:
    return [logged(second, "buffer-exhausted", "p", service) for second in range(5, 1200, 60) if begin <= second < end]


def shown(monitor: Stepped) -> list[dict[str, Any]]:
    return [json.loads(value) for p in monitor.published for _, value in p.records if value is not None]


def test_lines_that_are_ten_minutes_ahead_are_judged_with_the_readings_of_their_time() -> None:
    def both(begin: int, end: int) -> list[Snapshot | LogEntry]:
        return [*lines(begin, end), *lines(max(600, begin), end, "late")]

    def metrics(at: int) -> list[Snapshot | LogEntry]:
        return [*readings(at, at + 60), *(readings(at, at + 60, "late") if at >= 600 else ())]

    monitor, together = Stepped(), Stepped()
    for at in range(0, 1200, 60):
        monitor.batch([*metrics(at), *(both(at + 600, at + 660) if at else both(0, 660))], 1300 + at / 60)
        together.batch([*metrics(at), *both(at, at + 60)], 1300 + at / 60)
        assert all(entry.ts_ms > monitor.state.time_ms for entry in monitor.state.waiting)
        assert all(entry.ts_ms <= monitor.state.time_ms + AHEAD_MS for entry in monitor.state.log_entries)
    assert not monitor.state.waiting
    records = shown(monitor)
    assert {(r["client"]["library"], r["client"]["instance"]) for r in records} == {("java", "h:1")}
    assert all(record["samples"] for record in records)
    ends = [
        [(c.client.key, c.change, c.verdict.mode) for p in m.published for c in p.changes] for m in (monitor, together)
    ]
    assert ends[0] == ends[1]
    assert len(monitor.state.log_entries) == len(together.state.log_entries)


def test_lines_of_a_process_that_is_known_to_report_nothing_are_judged_at_once() -> None:
    monitor = Stepped()
    monitor.batch([*readings(0, 60), *lines(0, 60, "silent")], 70)
    monitor.batch([*readings(60, 120), *lines(60, 700, "silent"), *lines(60, 700)], 1000)
    assert {entry.service for entry in monitor.state.waiting} == {"shop"}
    assert max(entry.ts_ms for entry in monitor.state.log_entries if entry.service == "silent") == START + 665_000


def test_without_readings_nothing_waits() -> None:
    monitor = Stepped()
    monitor.batch(lines(0, 1200), 1300)
    assert not monitor.state.waiting
    assert len(monitor.state.log_entries) + monitor.published[0].late > 0


def test_a_batch_without_readings_has_caught_up() -> None:
    monitor = Stepped()
    monitor.batch([*readings(0, 60), *lines(0, 600)], 1300)
    assert monitor.state.waiting
    monitor.batch([], 1301)
    assert not monitor.state.waiting
    assert max(entry.ts_ms for entry in monitor.state.log_entries) == START + 545_000


def test_none_waits_longer_than_the_bound_nor_more_than_is_allowed() -> None:
    monitor = Stepped()
    monitor.batch([*readings(0, 60), *lines(0, 600)], 1300)
    for step in range(LONGEST_MS // AWAKE_MS):
        assert monitor.state.waiting
        monitor.batch([snapshot(60 + step / 10, WELL)], 5000 + step * AWAKE_MS / 1000)
    assert not monitor.state.waiting
    settings = replace(SETTINGS, monitor=replace(SETTINGS.monitor, max_events=5 * SETTINGS.monitor.buckets))
    few = Stepped(settings)
    few.batch([*readings(0, 60), *lines(0, 600)], 1300)
    assert not few.state.waiting


@pytest.mark.parametrize("second", [30, 90])
def test_lines_that_are_as_new_as_the_metrics_wait_for_nothing(second: int) -> None:
    monitor = Stepped()
    monitor.batch([*readings(0, 60), *lines(60, 100), *lines(600, 700, "ahead")], 110)
    assert not monitor.state.waiting
