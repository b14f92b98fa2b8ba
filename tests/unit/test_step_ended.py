"""If a second copy of a client's data arrives after the client's end, no new incident opens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clienthealth.settings import MonitorSettings, Settings
from tests.support.stepped import Stepped, logged, snapshot

BUFFER = 33_554_432.0


def producer(second: float, instance: str, born: float = 0, stuck_since: float = 1e9) -> Any:
    metrics = {
        "select-total": 50 * (min(second, stuck_since) - born),
        "record-send-total": 100 * (min(second, stuck_since) - born),
        "record-error-total": 0,
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": max(0, BUFFER - max(0, second - stuck_since) * BUFFER / 60),
        "waiting-threads": 2 if second - stuck_since > 60 else 0,
    }
    return snapshot(second, metrics, "p", instance=instance)


def run(monitor: Stepped, until: int, *arriving: tuple[int, Sequence[Any]]) -> list[tuple[str, str, str]]:
    by_batch: dict[int, list[Any]] = {}
    for delay, inputs in arriving:
        for one in inputs:
            second = (one.ts_ms - 1_795_208_640_000) / 1000 + delay
            by_batch.setdefault(int(second // 10), []).append(one)
    busy, waiting = {number // 6 for number in by_batch}, list[Any]()
    for n in range(until // 10):
        waiting += [snapshot(10 * n, {"select-total": 10 * n}, "other", instance="o:1", host="o"), *by_batch.get(n, [])]
        if n // 6 in busy or n % 6 == 5:
            monitor.batch(waiting, 10 * n + 10)
            waiting = []
    changes = [change for published in monitor.published for change in published.changes]
    return [(c.client.instance, c.verdict.mode, c.change) for c in changes if c.change != "escalated"]


def test_an_hour_that_is_sent_again_opens_no_incident_of_gone_clients() -> None:
    monitor = Stepped()
    stuck = [producer(s, "h:1", stuck_since=120) for s in range(0, 400, 10)]
    well = [producer(s, "h:2", born=410) for s in range(420, 2600, 10)]
    changes = run(monitor, 2600, (0, [*stuck, *well]), (2000, stuck))
    assert changes == [
        ("h:1", "producer-callback-deadlock", "opened"),
        ("h:1", "producer-callback-deadlock", "closed"),
    ]
    assert sum(published.late for published in monitor.published) == len(stuck)


def test_data_that_is_sent_again_with_new_data_counts_once() -> None:
    monitor = Stepped()
    for end in range(10, 1400, 10):
        begin = 300 if end == 900 else end - 10
        mine = [] if 600 < end < 900 else [producer(s, "h:1") for s in range(begin, end, 10)]
        monitor.batch([snapshot(end - 10, {"select-total": end}, "other", instance="o:1", host="o"), *mine], end)
    minutes = [row["minute"] for row in monitor.minutes if row["client_id"] == "p"]
    assert len(minutes) == len({*minutes}) > 10


def test_an_end_is_reported_once_though_its_data_comes_again_an_hour_later() -> None:
    readings = [producer(s, "h:1") for s in range(0, 200, 10)]
    end = [logged(200, "producer-closing", "p", timeout="5000"), logged(205, "producer-force-close", "p")]
    changes = run(Stepped(), 5400, (0, [*readings, *end]), (4500, [*readings, *end]))
    assert changes == [("h:1", "producer-not-closed", "opened"), ("h:1", "producer-not-closed", "closed")]


def test_a_log_file_shipped_again_repeats_no_failure_of_clients_without_metrics() -> None:
    failed = [logged(s, "topic-not-in-metadata", "q", topic="t", waitMs="60000") for s in range(100, 250, 5)]
    changes = run(Stepped(), 3000, (0, failed), (2000, failed))
    assert changes == [("h", "send-blocked-on-metadata", "opened"), ("h", "send-blocked-on-metadata", "closed")]


def test_a_client_that_returns_is_judged() -> None:
    first = [producer(s, "job") for s in range(0, 60, 10)]
    second = [producer(s, "job", born=600, stuck_since=620) for s in range(610, 800, 10)]
    changes = run(Stepped(), 800, (0, [*first, *second]))
    assert changes == [("job", "producer-callback-deadlock", "opened")]


def test_of_no_more_is_it_known_than_there_may_be_clients() -> None:
    monitor = Stepped(Settings(monitor=MonitorSettings(buckets=1, max_clients=10)))
    inputs = [producer(100 * n + s, f"h:{n}") for n in range(20) for s in (0, 10)]
    run(monitor, 2200, (0, inputs))
    assert len(monitor.state.ended) == 10
