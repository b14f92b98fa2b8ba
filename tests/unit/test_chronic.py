"""A failure that lasts hours is one incident from onset to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from clienthealth.measure.packed import LogEntry
from clienthealth.model.telemetry import Snapshot
from clienthealth.monitor.incidents import Transition
from tests.support.chronic import FAILURES, NOT_CLOSED, Failure
from tests.support.rows import long_after
from tests.support.stepped import SHOWN_SHORTLY, START, Stepped, snapshot

BEGIN = 60
#: Duration (s) of a failure. `step` keeps no data for longer than an hour.
LONG = 7_200
CLOSED_SECONDS = 120
BY_LOG = ("send-blocked-on-metadata", "consumer-shutdown-loop", "delivery-stalled")
BY_METRICS = (
    "producer-callback-deadlock",
    "send-blocked-on-metadata",
    "cross-topic-blocking",
    "delivery-stalled",
    "consumer-stalled",
)


def others(until: float, every: int = 10) -> Iterator[Snapshot]:
    for second in range(-120, int(until), every):
        yield snapshot(second, {"select-total": second + 1000}, "other", instance="o:1", host="o", every=every)


def changes(monitor: Stepped, mode: str) -> list[Transition]:
    return [c for published in monitor.published for c in published.changes if c.verdict.mode == mode]


def check(monitor: Stepped, failure: Failure, end: float, sure: bool = True) -> None:
    transitions = changes(monitor, failure.mode)
    kinds = [change.change for change in transitions]
    assert kinds in (["opened", "closed"], ["opened", "escalated", "closed"]), kinds
    assert {change.client.client_id for change in transitions} == {failure.client_id}
    first, last = transitions[0], transitions[-1]
    onset = ((first.verdict.since_ms or 0) - START) / 1000 - BEGIN
    assert -30 <= onset <= 90
    # The incident may end at the last sample, up to a minute before the failure ends.
    assert -61 <= (last.ts_ms - START) / 1000 - end <= CLOSED_SECONDS
    assert any(change.verdict.status == "confirmed" for change in transitions[:-1]) == sure


def ids(failure: Failure) -> str:
    return failure.mode


@pytest.mark.parametrize("failure", long_after(2, FAILURES), ids=ids)
def test_two_hours_of_a_failure_are_one_incident(failure: Failure) -> None:
    end = BEGIN + LONG
    out, back = 3000, 3600
    inputs: list[Snapshot | LogEntry] = [*failure.snapshots(BEGIN, LONG, every=60)]
    if failure.mode not in BY_METRICS:
        inputs += failure.log_entries(BEGIN, LONG, lines_a_second=2, each=10)
    else:
        inputs += failure.log_entries(BEGIN, 2400, lines_a_second=5, each=10)
    inputs += failure.dumps(BEGIN, 1200)
    inputs += others(end + 900, every=60)
    monitor = Stepped(SHOWN_SHORTLY)
    arrived = (one for one in inputs if not out <= ((one.ts_ms or 0) - START) / 1000 < back)
    in_batches(monitor, arrived)
    check(monitor, failure, end)


def in_batches(monitor: Stepped, inputs: Iterable[Snapshot | LogEntry]) -> None:
    by_batch: dict[float, list[Snapshot | LogEntry]] = {}
    for one in sorted(inputs, key=lambda one: one.ts_ms or 0):
        second = ((one.ts_ms or 0) - START) / 1000
        length = 60.0 if second > LONG + 300 else 10.0 if second < 300 or second > LONG - 180 else 300.0
        by_batch.setdefault((second // length + 1) * length, []).append(one)
    for second, batch in by_batch.items():
        monitor.batch(batch, second)


@pytest.mark.long
@pytest.mark.parametrize("failure", [f for f in FAILURES if f.mode in BY_METRICS], ids=ids)
def test_metrics_alone_keep_an_incident_open(failure: Failure) -> None:
    monitor, end = Stepped(SHOWN_SHORTLY), BEGIN + 900
    monitor.batches([*failure.snapshots(BEGIN, 900), *others(end + 300)], 10)
    check(monitor, failure, end, sure=failure.mode != "send-blocked-on-metadata")


@pytest.mark.parametrize("lines_a_second", long_after(1, [20, None]), ids=["thinned", "all"])
@pytest.mark.parametrize("failure", long_after(1, [f for f in FAILURES if f.mode in BY_LOG]), ids=ids)
def test_logs_alone_keep_an_incident_open_and_it_is_their_clients(failure: Failure, lines_a_second: int | None) -> None:
    seconds = 300 if lines_a_second else 150
    monitor, end = Stepped(), BEGIN + seconds
    monitor.batches([*failure.log_entries(BEGIN, seconds, lines_a_second), *others(end + 300)], 10)
    transitions = changes(monitor, failure.mode)
    assert [change.change for change in transitions] in (["opened", "closed"], ["opened", "escalated", "closed"])
    assert -30 <= (transitions[-1].ts_ms - START) / 1000 - end <= CLOSED_SECONDS


def test_records_left_behind_are_one_incident_shown_for_an_hour() -> None:
    monitor = Stepped()
    monitor.batches(
        [*NOT_CLOSED.snapshots(BEGIN, 600), *NOT_CLOSED.log_entries(BEGIN, 600), *others(7200, every=30)], 30
    )
    (opened, closed) = changes(monitor, NOT_CLOSED.mode)
    assert (opened.change, closed.change) == ("opened", "closed")
    assert 3600 <= (closed.ts_ms - opened.ts_ms) / 1000 <= 3700
    key = opened.client.key
    values = [value for published in monitor.published for name, value in published.records if name == key]
    gone = [value for value in values if value and b'"departed":true' in value]
    assert len(gone) >= 12, "once in five minutes"
    assert values[-1] is None
