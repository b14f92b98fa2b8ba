"""A client that continues under a new instance name counts as the same client."""

from __future__ import annotations

from typing import Any

import pytest

from clienthealth.monitor.incidents import Transition
from tests.support.stepped import Stepped, logged, snapshot

BUFFER = 33_554_432.0
NOT_CLOSED, DEADLOCK = "producer-not-closed", "producer-callback-deadlock"


def producer(second: float, instance: str, born: float = 0, stuck_since: float = 1e9, delta: bool = False) -> Any:
    went = min(second, stuck_since) - born
    filled = 8e6 + max(0, second - stuck_since) * BUFFER / 60
    metrics = {
        "record-send-total": 100 * went,
        "record-error-total": 0,
        "select-total": 50 * went,
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": max(0, BUFFER - filled),
        "waiting-threads": 2 if filled >= BUFFER else 0,
    }
    return snapshot(second, metrics, "p", instance=instance, delta=delta)


def run(monitor: Stepped, inputs: list[Any], until: int = 400) -> list[Transition]:
    others = [snapshot(s, {"select-total": s}, "other", instance="o:1", host="o") for s in range(0, until, 10)]
    monitor.batches([*inputs, *others], 10)
    return [change for published in monitor.published for change in published.changes]


STARTED = [logged(0, "producer-config", "p"), logged(0.1, "producer-started", "p")]


def test_a_client_with_a_new_instance_name_has_not_ended() -> None:
    monitor = Stepped()
    inputs = [producer(s, "h:1") for s in range(5, 200, 10)] + [producer(s, "pod-x") for s in range(205, 400, 10)]
    assert run(monitor, [*STARTED, *inputs]) == []
    assert [client.instance for client in monitor.state.all_clients if client.client_id == "p"] == ["pod-x"]
    gone = [key for published in monitor.published for key, value in published.records if value is None]
    assert gone == ["shop|h:1|p"]
    minutes = [row["minute"] for row in monitor.minutes if row["client_id"] == "p"]
    assert len(minutes) == len(set(minutes)) >= 3


def test_what_it_suffers_from_is_one_failure_of_one_client() -> None:
    monitor = Stepped()
    inputs = [producer(s, "h:1", stuck_since=100) for s in range(0, 200, 10)]
    inputs += [producer(s, "pod-x", stuck_since=100) for s in range(205, 400, 10)]
    changes = [c for c in run(monitor, inputs) if c.verdict.mode == DEADLOCK]
    assert [(c.client.instance, c.change) for c in changes] == [
        ("h:1", "opened"),
        ("h:1", "escalated"),
        ("h:1", "moved"),
        ("pod-x", "opened"),
    ]
    assert changes[-1].verdict.since_ms == changes[0].verdict.since_ms


@pytest.mark.parametrize(
    "successor",
    [
        [producer(s, "h:2", born=201) for s in range(205, 400, 10)],
        [*(producer(s, "h:2") for s in range(205, 400, 10)), logged(203, "producer-config", "p", instance="h:2")],
        [producer(s, "h:2", delta=True) for s in range(205, 400, 10)],
        [producer(s, "h:2", born=-3000) for s in range(205, 400, 10)],
    ],
    ids=["counts from nothing", "was started", "reports no totals", "counted more before"],
)
def test_one_that_only_follows_it_is_another(successor: list[Any]) -> None:
    monitor = Stepped()
    changes = run(monitor, [*STARTED, *(producer(s, "h:1") for s in range(5, 200, 10)), *successor])
    assert ("h:1", NOT_CLOSED, "opened") in [(c.client.instance, c.verdict.mode, c.change) for c in changes]


def test_replicas_beside_each_other_stay_two() -> None:
    monitor = Stepped()
    first = [s for s in range(0, 400, 10) if not 100 <= s < 110]
    run(monitor, [*(producer(s, "a") for s in first), *(producer(s, "b") for s in range(103, 400, 10))])
    assert {client.instance for client in monitor.state.all_clients if client.client_id == "p"} == {"a", "b"}
