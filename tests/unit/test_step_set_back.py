"""After a jump of its clock, a client is judged by the data sent after the jump."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stepped import START, Stepped, snapshot

BUFFER = 33_554_432.0
DEADLOCK = "producer-callback-deadlock"


def producer(second: float, shift: float, stuck_since: float) -> Any:
    metrics = {
        "select-total": 50 * min(second, stuck_since),
        "record-send-total": 100 * min(second, stuck_since),
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": max(0, BUFFER - max(0, second - stuck_since) * BUFFER / 60),
        "waiting-threads": 2 if second - stuck_since > 60 else 0,
    }
    return snapshot(second + shift, metrics, "p")


def run(monitor: Stepped, until: int, shifts: list[tuple[int, int]], stuck_since: float) -> list[tuple[str, int]]:
    changes: list[tuple[str, int]] = []
    for second in range(0, until, 10):
        shift = next(by for since, by in reversed(shifts) if since <= second)
        others = [
            snapshot(second, {"select-total": second}, f"o{n}", instance=f"o{n}:1", host=f"o{n}") for n in range(5)
        ]
        published = monitor.batch([*others, producer(second, shift, stuck_since)], second + 10)
        changes += [(change.change, second) for change in published.changes]
    return changes


@pytest.mark.parametrize("shifts", [[(0, 0), (300, -300)], [(0, 270), (300, 0)], [(0, 0), (200, 270), (300, 0)]])
def test_a_failure_after_a_clock_was_set_back_is_seen_as_soon_and_as_one(shifts: list[tuple[int, int]]) -> None:
    monitor = Stepped()
    (opened, begin), (escalated, sure) = run(monitor, 800, shifts, 380)
    assert (opened, escalated) == ("opened", "escalated")
    assert begin <= 410 and sure <= 420
    incident = monitor.state.incidents.of_client("shop|h:1|p")[DEADLOCK]
    assert (incident.verdict.since_ms or 0) - START == 1000 * (380 + shifts[-1][1])


@pytest.mark.parametrize("shifts", [[(0, 0), (300, -300)], [(0, 0), (200, 270), (300, 0)]])
def test_a_healthy_client_stays_ok_when_its_clock_is_set_back(shifts: list[tuple[int, int]]) -> None:
    monitor = Stepped()
    assert run(monitor, 800, shifts, 1e9) == []
    assert {v["status"] for v in monitor.records["shop|h:1|p"]["verdicts"] if v["mode"] == DEADLOCK} == {"ok"}


def test_a_reading_that_comes_late_or_twice_sets_no_clock_back() -> None:
    monitor = Stepped()
    for second in range(0, 600, 10):
        late = [producer(second - 100, 0, 1e9)] if second >= 100 and second % 50 == 0 else []
        monitor.batch([producer(second, 0, 1e9), *late], second + 10)
    monitor.batch([producer(480, 0, 1e9)], 610)
    assert monitor.state.clients.last.tolist() == [START + 590_000]
