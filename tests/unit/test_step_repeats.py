"""If a gateway repeats a client's last sample, the client's verdicts become `unknown`."""

from __future__ import annotations

from typing import Any

from tests.support.stepped import Stepped, snapshot


def producer(second: float, sampled: float) -> Any:
    """Return a sample that was taken at `sampled` and passed on at `second`."""
    metrics = {
        "select-total": 50 * sampled,
        "record-send-total": 100 * sampled,
        "buffer-total-bytes": 1e6,
        "buffer-available-bytes": 9e5,
        "metadata-age": sampled % 300,
    }
    return snapshot(second, metrics, "p")


def consumer(second: float, sampled: float) -> Any:
    metrics = {
        "select-total": 20 * sampled,
        "last-poll-seconds-ago": 0,
        "time-between-poll-max": 500,
        "records-consumed-total": 100 * sampled,
        "fetch-total": 2 * sampled,
        "records-lag-max": 10,
        "assigned-partitions": 4,
    }
    return snapshot(second, metrics, "c", "consumer")


def statuses(monitor: Stepped, client_id: str) -> set[str]:
    return {verdict["status"] for verdict in monitor.records[f"shop|h:1|{client_id}"]["verdicts"]}


def test_a_repeated_sample_proves_nothing_about_its_client() -> None:
    monitor = Stepped()
    for second in range(0, 600, 10):
        monitor.batch([producer(second, min(second, 200)), consumer(second, min(second, 200))], second + 10)
        if second == 190:
            assert statuses(monitor, "p") == statuses(monitor, "c") == {"ok"}
    assert statuses(monitor, "p") == statuses(monitor, "c") == {"unknown"}
    assert not any(published.changes for published in monitor.published)


def test_an_idle_client_shows_that_time_passes() -> None:
    monitor = Stepped()
    for second in range(0, 100, 10):
        idle = producer(second, 0)
        idle.metrics |= {"metadata-age": float(second), "buffer-available-bytes": 1e6}
        monitor.batch([idle], second + 10)
    reasons = [verdict.get("reason") or "" for verdict in monitor.records["shop|h:1|p"]["verdicts"]]
    assert not any("again and again" in reason for reason in reasons)
