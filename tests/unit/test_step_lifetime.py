"""An incident lasts as long as its failure."""

from __future__ import annotations

from typing import Any

import pytest

from clienthealth.model.telemetry import Snapshot
from clienthealth.monitor.incidents import Transition
from tests.support.stepped import START, Stepped, logged, snapshot

DEADLOCK, LOOP = "producer-callback-deadlock", "consumer-shutdown-loop"
BUFFER = 4_194_304.0
LOOKUP = "offset-manager-lookup-failed"
OTHER = "other"


def changes(monitor: Stepped, mode: str) -> list[Transition]:
    return [c for published in monitor.published for c in published.changes if c.verdict.mode == mode]


def incident_changes(monitor: Stepped, mode: str) -> list[tuple[str, str]]:
    return [(c.client.client_id, c.change) for c in changes(monitor, mode)]


def at(change: Transition) -> float:
    return (change.ts_ms - START) / 1000


def producer(second: int, stuck_since: int, until: int) -> dict[str, float]:
    standing = stuck_since <= second < until
    moved = min(second, stuck_since) + max(0, second - until)
    free = max(0.0, BUFFER * (1 - max(0, second - stuck_since) / 30)) if standing else BUFFER
    return {
        "select-total": 1000.0 + 50 * moved,
        "record-send-total": 1000.0 + 10 * moved,
        "buffer-total-bytes": BUFFER,
        "buffer-available-bytes": free,
        "waiting-threads": 2.0 if standing and not free else 0.0,
    }


def test_a_deadlock_seen_by_metrics_alone_is_one_incident_however_long_it_lasts() -> None:
    monitor, end = Stepped(), 1800
    inputs: list[Snapshot] = []
    for second in range(0, end + 240, 10):
        inputs += [snapshot(second, producer(second, 120, end), "p"), snapshot(second, {"select-total": second}, OTHER)]
        inputs[-2].config = {"request.timeout.ms": "30000"}
    monitor.batches(inputs, 30)
    first, *others, last = changes(monitor, DEADLOCK)
    assert [c.change for c in (first, *others, last)] in (
        ["opened", "closed"],
        ["opened", "escalated", "closed"],
    )
    assert 110 <= at(first) <= 130
    # The limit of 150 s is the sum of 30 s until the last failing window ends, 60 s without failure, and two batches of
    # 30 s.
    assert 0 < at(last) - end <= 150


def test_a_fault_that_comes_and_goes_is_one_incident() -> None:
    monitor, end, inputs = Stepped(), 1200, list[Snapshot]()
    for second in range(0, end + 400, 10):
        phase, moved = second % 80, second // 80 * 40 + min(second % 80, 40)
        standing = second < end and phase >= 40
        selects = moved if second < end else end / 2 + second - end
        metrics = {
            "select-total": 1000.0 + 50 * selects,
            "record-send-total": 1000.0 + 10 * selects,
            "buffer-total-bytes": BUFFER,
            "buffer-available-bytes": BUFFER * (1 - (phase - 40) / 40) if standing else BUFFER,
            "waiting-threads": 0.0,
        }
        inputs += [snapshot(second, metrics, "p"), snapshot(second, {"select-total": second}, OTHER)]
    monitor.batches(inputs, 10)
    first, *others, last = changes(monitor, DEADLOCK)
    assert (first.change, [c.change for c in others], last.change) == ("opened", ["escalated"], "closed")
    assert at(first) == 40
    assert 1200 < at(last) <= 1380


@pytest.mark.parametrize("every", [10, 15, 30])
def test_a_recovery_closes_an_incident_however_often_the_client_reports(every: int) -> None:
    monitor = Stepped()
    monitor.batches([snapshot(s, producer(s, 600, 720), every=every) for s in range(0, 1200, every)], 10)
    *_, last = changes(monitor, DEADLOCK)
    assert last.change == "closed"
    assert 0 < at(last) - 720 <= 240


def storm(second: int) -> list[Any]:
    """Return the log lines of one second: at most twenty."""
    return [logged(second + n / 200, LOOKUP, thread="worker", address="kafka-1:9092") for n in range(20)]


def consumer(second: int) -> Snapshot:
    return snapshot(second, {"fetch-requests-total": 10.0 * second}, "group", "legacy-consumer")


@pytest.mark.long
def test_a_loop_with_a_thinned_log_stays_one_incident_until_its_process_is_gone() -> None:
    monitor = Stepped()
    begin, end = 120, 1120
    for second in range(0, 1600, 5):
        batch: list[Any] = [snapshot(second, {"select-total": second}, OTHER)] if second % 10 == 0 else []
        if second < begin and second % 10 == 0:
            batch.append(consumer(second))
        if begin <= second < end:
            batch += [line for s in range(second, second + 5) for line in storm(s)]
        monitor.batch(batch, second)
    transitions = incident_changes(monitor, LOOP)
    assert transitions[0] == ("group", "opened")
    assert transitions[-1] == ("group", "closed")
    assert {client for client, _ in transitions} == {"group"}
    assert (
        [change for _, change in transitions].count("opened")
        == [change for _, change in transitions].count("closed")
        == 1
    )
    assert -1 <= at(changes(monitor, LOOP)[-1]) - end <= 0


def test_a_shutdown_that_completes_ends_the_incident_at_once() -> None:
    monitor = Stepped()
    for second in range(0, 240, 5):
        batch: list[Any] = [snapshot(second, {"select-total": second}, OTHER)]
        if second < 100:
            batch += [line for s in range(second, second + 5) for line in storm(s)]
        if second == 100:
            batch.append(logged(101, "connector-shutdown-completed", tookMs="101000"))
        monitor.batch(batch, second)
    assert incident_changes(monitor, LOOP)[-1][1] == "closed"
    assert at(changes(monitor, LOOP)[-1]) <= 190


def test_lines_of_a_nameless_process_count_for_its_client_once_that_is_known() -> None:
    monitor = Stepped()
    for second in range(0, 120, 5):
        batch: list[Any] = [snapshot(second, {"select-total": second}, OTHER)]
        if second < 60:
            batch += [line for s in range(second, second + 5) for line in storm(s)]
        if second >= 60 and second % 10 == 0:
            batch.append(consumer(second))
        monitor.batch(batch, second)
    opened = [(c, change) for c, change in incident_changes(monitor, LOOP) if change in ("opened", "moved")]
    assert opened == [("", "opened"), ("", "moved"), ("group", "opened")]
    transitions = changes(monitor, LOOP)
    assert transitions[0].verdict.since_ms == next(c for c in transitions if c.client.client_id).verdict.since_ms


def test_a_process_that_named_its_client_at_its_start_is_never_nameless() -> None:
    monitor = Stepped()
    others = [snapshot(second, {"select-total": second}, OTHER) for second in range(0, 720, 5)]
    named = logged(5, "legacy-client-named", client="group")
    monitor.batches([*others, named, *(line for second in range(600, 720) for line in storm(second))], 5, OTHER)
    transitions = incident_changes(monitor, LOOP)
    assert transitions[0] == ("group", "opened")
    assert {client for client, _ in transitions} == {"group"}


@pytest.mark.long
def test_without_any_input_no_client_is_gone() -> None:
    monitor = Stepped()
    begin, out, back, end = 120, 900, 1500, 2100
    for second in range(0, end + 300, 5):
        if out <= second < back:
            continue
        batch: list[Any] = []
        if second % 10 == 0 and not back <= second < back + 40:
            batch.append(snapshot(second, {"select-total": second}, OTHER))
        if second % 10 == 5:
            batch.append(snapshot(second, {"select-total": second}, "another", instance="h:2", host="h2"))
        if begin <= second < end:
            batch += [line for s in range(second, second + 5) for line in storm(s)]
        monitor.batch(batch, second)
    assert [change for _, change in incident_changes(monitor, LOOP)] == ["opened", "escalated", "closed"]
    assert -1 <= at(changes(monitor, LOOP)[-1]) - end <= 0
    assert not any(record.get("departed") for record in monitor.records.values())
    assert not any(b"departed" in value for p in monitor.published for _, value in p.records if value)
