"""Clients that all stop reporting at once are recognised as gone, and keep their state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.monitor.incidents import Transition
from tests.support.stepped import START, Stepped, logged, snapshot

NOT_CLOSED, DEADLOCK = "producer-not-closed", "producer-callback-deadlock"
BUFFER = 33_554_432.0
CLIENTS = [f"p{number}" for number in range(20)]


def reading(second: float, client_id: str, every: float = 10, stuck: bool = False, used: float = 20_000) -> Any:
    moved = 0.0 if stuck else second
    metrics = {
        "record-send-total": 100.0 * moved,
        "record-error-total": 0.0,
        "select-total": 1000.0 + 50 * moved,
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": max(0.0, BUFFER * (1 - second / 100)) if stuck else BUFFER - used,
        "waiting-threads": 2.0 if stuck and second > 100 else 0.0,
    }
    return snapshot(second, metrics, client_id, instance=f"{client_id}:1", host=client_id, every=every)


def report(monitor: Stepped, begin: int, end: int, clients: list[str], every: int = 10, stuck: str = "") -> None:
    for second in range(begin, end, every):
        monitor.batch([reading(second, c, every, c == stuck) for c in clients], second + 1)


def wait(monitor: Stepped, begin: int, end: int, step: int = 10) -> dict[str, int]:
    gone: dict[str, int] = {}
    for second in range(begin, end, step):
        for key, value in monitor.batch([], second).records:
            if value is not None and json.loads(value).get("departed"):
                assert key not in gone, "reported once"
                gone[key] = second - begin
    return gone


def changes(monitor: Stepped) -> list[Transition]:
    return [change for published in monitor.published for change in published.changes]


@pytest.mark.parametrize("every", [10, 60, 300])
def test_clients_that_fall_silent_at_once_are_known_to_be_gone(every: int) -> None:
    monitor = Stepped()
    report(monitor, 0, 10 * every, CLIENTS, every)
    last = 9 * every
    gone = wait(monitor, last + 11, last + 1200, 20)
    assert len(gone) == len(CLIENTS)
    assert max(gone.values()) + 11 <= 2 * every + 60
    assert min(gone.values()) + 11 > 2 * every
    record = monitor.records["shop|p0:1|p0"]
    assert record["departed"]
    (verdict,) = record["verdicts"]
    assert verdict["status"] == "unknown" and "collectors" in verdict["reason"]
    assert not changes(monitor)


@pytest.mark.parametrize("late", [20, 31, 45, 600])
def test_silence_of_all_is_noticed_though_the_first_batch_of_it_comes_late(late: int) -> None:
    monitor = Stepped()
    report(monitor, 0, 100, CLIENTS)
    last = 91
    gone = wait(monitor, last + late, last + late + 120, 15)
    assert len(gone) == len(CLIENTS)
    # A client is gone after 50 s of silence. The first batch without data adds only 20 s (`AWAKE_MS`), however late the
    # batch comes. The next two batches add 15 s each, so the clients are gone 30 s after the first batch without data.
    assert set(gone.values()) == {30}


@pytest.mark.parametrize("trigger", [30, 60])
def test_silence_of_all_is_noticed_where_batches_are_seldom(trigger: int) -> None:
    monitor = Stepped()
    for second in range(0, 300, trigger):
        monitor.batch([reading(second - n, c) for c in CLIENTS for n in range(0, trigger, 10)], second + 1)
    assert len(wait(monitor, 300, 300 + 4 * trigger, trigger)) == len(CLIENTS)


def test_their_state_stays_and_returning_clients_are_as_before() -> None:
    monitor = Stepped()
    report(monitor, 0, 200, CLIENTS, stuck="p3")
    opened = [(c.client.client_id, c.verdict.mode, c.change) for c in changes(monitor)]
    assert ("p3", DEADLOCK, "opened") in opened
    gone = wait(monitor, 201, 801)
    assert len(gone) == len(CLIENTS)
    assert any(v["mode"] == DEADLOCK for v in monitor.records["shop|p3:1|p3"]["verdicts"]), "it goes on"
    back = [c for c in CLIENTS if c != "p7"]
    report(monitor, 800, 1000, back, stuck="p3")
    assert not monitor.records["shop|p0:1|p0"].get("departed")
    assert monitor.records["shop|p7:1|p7"]["departed"]
    assert "collectors" not in json.dumps(monitor.records["shop|p7:1|p7"])
    assert [(c.client.client_id, c.verdict.mode, c.change) for c in changes(monitor)] == opened


def test_what_a_client_logged_of_its_end_is_judged_at_once() -> None:
    monitor = Stepped()
    report(monitor, 0, 100, CLIENTS)
    end = logged(95, "producer-force-close", "p5", timeout="5000")
    end.host = "p5"
    monitor.batch([end], 100)
    wait(monitor, 101, 201)
    assert [(c.client.client_id, c.verdict.mode, c.change) for c in changes(monitor)] == [("p5", NOT_CLOSED, "opened")]
    assert monitor.records["shop|p5:1|p5"]["verdicts"][0]["status"] == "confirmed"


def test_a_suspended_monitor_accuses_no_client() -> None:
    monitor = Stepped()
    report(monitor, 0, 100, CLIENTS)
    monitor.batch([], 105)
    assert not wait(monitor, 3700, 3720)
    report(monitor, 3720, 3800, CLIENTS)
    assert not any(record.get("departed") for record in monitor.records.values())
    assert not changes(monitor)


def test_a_failure_that_is_over_when_they_report_again_is_closed() -> None:
    monitor = Stepped()
    report(monitor, 0, 200, CLIENTS, stuck="p3")
    well = [reading(second, c) for second in range(4000, 4200, 10) for c in CLIENTS]
    monitor.batch(well, 4200)
    deadlock_changes = [c.change for c in changes(monitor) if c.verdict.mode == DEADLOCK]
    assert (deadlock_changes[0], deadlock_changes[-1]) == ("opened", "closed")


def test_no_client_is_accused_if_only_groups_and_logs_go_on_arriving() -> None:
    monitor = Stepped()
    by_groups = Identity("kafka-groups", "", "default", "billing", "group", "broker", "classic")
    for second in range(0, 1000, 10):
        offsets = {"committed-offset": 100.0 * second, "end-offset": 100.0 * second}
        partitions = [TopicMetrics("orders", 0, None, None, offsets)]
        group = Snapshot(START + 1000 * second, by_groups, {"members": 1.0}, partitions, {}, 10_000)
        of_others = logged(second, "producer-started", f"job-{second}", service="batch")
        arrived = [] if 600 <= second < 800 else [reading(second, c) for c in CLIENTS]
        monitor.batch([*arrived, group, of_others], second + 1)
        if second == 790:
            assert monitor.records["shop|p0:1|p0"]["departed"]
    assert not monitor.records["shop|p0:1|p0"].get("departed")
    assert not changes(monitor)


@pytest.mark.parametrize(("every", "trigger"), [(120, 10), (10, 120)])
def test_a_jump_of_the_watermark_between_samples_is_no_outage(every: int, trigger: int) -> None:
    monitor, end = Stepped(), 10 * every
    for second in range(trigger, 60 * every, trigger):
        times = [time for time in range(second - trigger, second) if time % every == 0]
        alive = [(time, c) for time in times for c in CLIENTS if c != "p0"]
        full = [reading(time, "p0", every, used=BUFFER / 2) for time in times if time < end]
        monitor.batch([*full, *(reading(time, c, every) for time, c in alive)], second + 1)
    (opened, *_) = changes(monitor)
    assert (opened.client.client_id, opened.verdict.mode, opened.change) == ("p0", NOT_CLOSED, "opened")
    assert "p0:1" not in {client.instance for client in monitor.state.all_clients}


@pytest.mark.parametrize(("every", "silent"), [(10, 65), (30, 90), (60, 150)])
def test_no_client_is_accused_after_an_outage_of_a_minute_or_two(every: int, silent: int) -> None:
    monitor, begin = Stepped(), 12 * every
    for end in range(5, begin + silent + 8 * every, 5):
        times = [time for time in range(end - 5, end) if not begin <= time < begin + silent]
        arrived = [(time, n) for time in times for n in range(12) if (time - n * every // 12) % every == 0]
        monitor.batch([reading(time, f"p{n}", every, used=BUFFER / 2) for time, n in arrived], end + 1)
    assert not changes(monitor)
