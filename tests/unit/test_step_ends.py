"""A log line about a client's end counts only for the process that logged it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from clienthealth.monitor.incidents import Transition
from tests.support.stepped import Stepped, logged, snapshot

NOT_CLOSED, METADATA = "producer-not-closed", "send-blocked-on-metadata"
OTHER = "other"
BUFFER = 33_554_432.0


def reading(second: float, instance: str, used: float = 0.0, client_id: str = "p") -> Any:
    metrics = {
        "record-send-total": 100.0 * second,
        "record-error-total": 0.0,
        "select-total": 1000.0 + 50 * second,
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": BUFFER - used,
    }
    return snapshot(second, metrics, client_id, instance=instance)


def run(monitor: Stepped, inputs: Sequence[Any], until: int) -> None:
    others = [
        snapshot(second, {"select-total": 1000 + second}, OTHER, instance="o:1", host="o")
        for second in range(0, until, 10)
    ]
    monitor.batches([*inputs, *others], 10, OTHER)


def changes(monitor: Stepped, mode: str = NOT_CLOSED) -> list[Transition]:
    return [c for published in monitor.published for c in published.changes if c.verdict.mode == mode]


def verdict(monitor: Stepped, key: str, mode: str = NOT_CLOSED) -> dict[str, Any]:
    mode_verdicts = [v for v in monitor.records[key]["verdicts"] if v["mode"] == mode]
    assert len(mode_verdicts) == 1
    return dict(mode_verdicts[0])


def forced_close(second: float, instance: str | None = None) -> list[Any]:
    return [
        logged(second, "producer-closing", "p", instance=instance, timeout="5000"),
        logged(second + 5, "producer-force-close", "p", instance=instance, timeout="5000"),
    ]


def test_a_killed_deadlocked_client_is_one_failure_with_its_possible_loss() -> None:
    monitor = Stepped()
    stuck = {
        "select-total": 4000.0,
        "record-send-total": 900.0,
        "record-error-total": 0.0,
        "buffer-total-bytes": BUFFER,
    }
    full = [
        snapshot(second, {**stuck, "buffer-available-bytes": max(0.0, BUFFER * (1 - (second - 60) / 100))}, "p")
        for second in range(60, 180, 10)
    ]
    killed = logged(178, "process-killed", pid="1")
    run(monitor, [*(reading(second, "h:1") for second in range(0, 60, 10)), *full, killed], 400)
    assert changes(monitor) == []
    opened, *_, closed = changes(monitor, "producer-callback-deadlock")
    assert (opened.change, closed.change, closed.previous) == ("opened", "closed", "confirmed")
    assert closed.verdict.detail["lost_bytes"] == [0, 33_554_432]
    end = verdict(monitor, "shop|h:1|p")
    assert (end["status"], end["reason"]) == (
        "unknown",
        "producer-callback-deadlock explains the evidence of this failure",
    )


@pytest.mark.parametrize("instance", [None, "h:1"], ids=["nameless", "named"])
@pytest.mark.parametrize("logs", [True, False], ids=["goes on logging", "silent"])
def test_the_forced_close_of_a_process_is_not_its_successors(instance: str | None, logs: bool) -> None:
    monitor = Stepped()
    inputs = [reading(s, "h:1", 4e6) for s in range(0, 60, 10)] + forced_close(55, instance)
    inputs += [logged(66, "producer-config", "p", instance=instance and "h:2")]
    inputs += [reading(s, "h:2", 1000.0) for s in range(70, 170, 10)]
    if logs:
        inputs += [logged(s, "connection-failed", "p", instance=instance and "h:2") for s in range(100, 400, 20)]
    run(monitor, inputs, 400)
    assert {(c.client.instance, c.change) for c in changes(monitor)} >= {("h:1", "opened")}
    successor = verdict(monitor, "shop|h:2|p")
    if logs:
        assert successor["status"] == "unknown"
        assert "still logs" in successor["reason"]
        assert {c.client.instance for c in changes(monitor)} == {"h:1"}
    else:
        assert successor["status"] == "suspected"
    assert verdict(monitor, "shop|h:1|p")["status"] == "confirmed"


def test_what_a_log_line_proves_lost_stays_lost_when_a_new_process_takes_the_name() -> None:
    monitor = Stepped()
    inputs = [reading(s, "h:1", 4e6) for s in range(0, 60, 10)] + forced_close(55, "h:1")
    run(monitor, inputs, 240)
    assert [change.change for change in changes(monitor)] == ["opened"]
    monitor.batch([reading(s, "h:1") for s in range(240, 280, 10)], 290)
    assert [change.change for change in changes(monitor)] == ["opened", "closed"]


def test_an_agent_that_fails_alone_proves_nothing_whatever_waits_in_the_buffer() -> None:
    monitor = Stepped()
    inputs = [logged(0, "producer-config", "p"), *(reading(s, "h:1", 8e6) for s in range(0, 100, 10))]
    inputs += [logged(s, "connection-failed", "p") for s in range(0, 300, 20)]
    run(monitor, inputs, 300)
    assert verdict(monitor, "shop|h:1|p")["status"] == "unknown"
    assert not changes(monitor)


def test_a_forced_close_on_a_node_with_two_pods_accuses_one_of_them() -> None:
    monitor = Stepped()
    inputs = [reading(s, "a", 4e6) for s in range(0, 100, 10)] + [reading(s, "b", 1e3) for s in range(3, 110, 10)]
    inputs += [*forced_close(100), logged(0, "producer-config", "p"), logged(1, "producer-config", "p")]
    run(monitor, inputs, 300)
    assert verdict(monitor, "shop|a|p")["status"] == "suspected", "its buffer was fuller than those of healthy ones"
    assert verdict(monitor, "shop|b|p")["status"] == "unknown"
    assert [(c.client.instance, c.verdict.status) for c in changes(monitor)] == [("a", "suspected")]


def test_a_service_with_short_lived_clients_opens_no_tickets() -> None:
    monitor = Stepped()
    inputs: list[Any] = []
    for begin in range(0, 20 * 40, 40):
        process = f"h:{begin}"
        inputs += [logged(begin, "producer-config", "p"), logged(begin + 0.01, "producer-started", "p")]
        inputs += [reading(begin + s, process, 20_000.0) for s in (2, 12, 22, 30)]
        inputs += [logged(begin + 31, "producer-closing", "p", timeout="30000")]
        inputs += [logged(begin + 31.5, "producer-unregistered", "p")]
    run(monitor, inputs, 1000)
    assert not changes(monitor)


def test_a_successors_good_close_is_not_the_predecessors() -> None:
    monitor = Stepped()
    inputs = [logged(0, "producer-config", "p", instance="h:1"), *(reading(s, "h:1", 4e6) for s in range(2, 60, 10))]
    inputs += [logged(62, "producer-config", "p", instance="h:2"), *(reading(s, "h:2") for s in range(64, 100, 10))]
    inputs += [logged(97, "producer-closing", "p", instance="h:2")]
    run(monitor, inputs, 300)
    assert verdict(monitor, "shop|h:1|p")["status"] == "confirmed"
    assert verdict(monitor, "shop|h:2|p")["status"] == "ok"


def test_without_instances_the_close_of_its_successor_is_no_proof_either_way() -> None:
    monitor = Stepped()
    inputs = [logged(0, "producer-config", "p"), *(reading(s, "h:1", 1e4) for s in range(2, 60, 10))]
    inputs += [logged(62, "producer-config", "p"), *(reading(s, "h:2") for s in range(64, 100, 10))]
    inputs += [logged(97, "producer-closing", "p")]
    run(monitor, inputs, 300)
    assert verdict(monitor, "shop|h:1|p")["status"] == "unknown"
    assert verdict(monitor, "shop|h:2|p")["status"] == "ok"


@pytest.mark.parametrize("instance", [None, "h:1"], ids=["nameless", "named"])
def test_what_a_process_suffered_from_is_not_its_successors(instance: str | None) -> None:
    monitor = Stepped()
    failed = [
        logged(s, "topic-not-in-metadata", "p", instance=instance, topic="t", waitMs="60000") for s in range(40, 70, 10)
    ]
    inputs: list[Any] = [
        snapshot(s, {"record-send-total": 7, "record-error-total": max(0, s / 10 - 3), "select-total": 1}, "p")
        for s in range(0, 70, 10)
    ]
    inputs += failed
    inputs += [reading(s, "h:2") for s in range(75, 300, 10)]
    run(monitor, inputs, 300)
    assert {c.client.instance for c in changes(monitor, METADATA)} == {"h:1"}


def test_a_successor_that_logs_keeps_no_incident_of_its_predecessor_open() -> None:
    deadlock = "producer-callback-deadlock"
    monitor = Stepped()
    inputs: list[Any] = []
    for second in range(0, 200, 10):
        stuck = {
            "select-total": 500.0,
            "record-send-total": 100.0,
            "buffer-total-bytes": BUFFER,
            "buffer-available-bytes": max(0.0, BUFFER * (1 - second / 100)),
            "waiting-threads": 2.0 if second > 100 else 0.0,
        }
        inputs.append(snapshot(second, stuck, "p", instance="h:1"))
    inputs += [reading(s, "h:2") for s in range(210, 600, 10)]
    inputs += [logged(s, "connection-failed", "q") for s in range(205, 600, 5)]
    run(monitor, inputs, 600)
    deadlock_changes = changes(monitor, deadlock)
    assert [c.change for c in deadlock_changes][-1] == "closed"
    assert {c.client.instance for c in deadlock_changes} == {"h:1"}
    closed_in = [n for n, p in enumerate(monitor.published) for c in p.changes if c.change == "closed"]
    assert max(closed_in) * 10 < 300, "when it has gone"


def test_what_was_killed_on_its_host_before_its_last_reading_was_another() -> None:
    """An idle pod is OOM-killed at 100 s; a busy pod on its host reports until 300 s."""
    monitor = Stepped()
    idle = [
        snapshot(s, {"buffer-total-bytes": BUFFER, "buffer-available-bytes": BUFFER}, "q") for s in range(0, 100, 10)
    ]
    busy = [reading(s, "h:2", 2e5) for s in range(0, 300, 10)]
    run(monitor, [*idle, *busy, logged(100, "process-killed-for-memory", pid="1")], 500)
    assert not changes(monitor)
    assert verdict(monitor, "shop|h:2|p")["status"] == "unknown"


def test_what_was_killed_when_it_fell_silent_was_its_process() -> None:
    monitor = Stepped()
    busy = [reading(s, "h:2", 2e5) for s in range(0, 300, 10)]
    run(monitor, [*busy, logged(298, "process-killed-for-memory", pid="1")], 500)
    assert [(c.client.instance, c.verdict.detail["cause"]) for c in changes(monitor)] == [("h:2", "killed")]
