"""The exporter shows a client's newest record until the record is too old."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.exposition import page
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, deadlock, group, healthy, key, record, wire

KEY = key("orders-api", "web-7:31337", "order-producer")


class Clock:
    def __init__(self) -> None:
        self.now = NOW_MS / 1000

    def __call__(self) -> float:
        return self.now


def put(states: States, document: dict[str, Any], at_ms: int | None = None) -> None:
    name, value, written = wire(document)
    states.put(name, value, written if at_ms is None else at_ms)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def states(clock: Clock) -> States:
    return States(Settings(), clock)


def rendered(states: States) -> str:
    return "".join(page(states.shown(states.live(), 1000, {}), 1000, {}))


def shown(states: States) -> list[tuple[str, int]]:
    return [(state.key.rsplit("|", 1)[1], state.window_end - NOW_MS) for state in states.live()]


def test_newest_window_counts_whatever_the_order(states: States) -> None:
    put(states, record(end_ms=NOW_MS))
    put(states, record(end_ms=NOW_MS - 30_000))
    assert shown(states) == [("order-producer", 0)]
    put(states, record(end_ms=NOW_MS + 30_000))
    assert shown(states) == [("order-producer", 30_000)]


def test_same_window_again_replaces(states: States) -> None:
    put(states, record(worst="ok"))
    put(states, deadlock())
    assert [state.urgency for state in states.live()] == [30]


def test_tombstone_removes(states: States) -> None:
    put(states, record())
    assert rendered(states)
    states.put(KEY, None, NOW_MS)
    assert (states.live(), rendered(states)) == ([], "")
    states.put(KEY, None, NOW_MS)


def test_an_old_tombstone_that_is_read_again_removes_no_newer_state(states: States) -> None:
    put(states, deadlock())
    states.put(KEY, None, NOW_MS - 1)
    assert shown(states) == [("order-producer", 0)]


def test_an_old_tombstone_that_is_read_again_removes_no_group_of_another_exporter(clock: Clock) -> None:
    states = States(replace(Settings(), prometheus=replace(Settings().prometheus, shard="1/2")), clock)
    for number in range(20):
        put(states, group(f"billing-{number}"))
    name, *_ = states._elsewhere
    states.put(name.encode(), None, NOW_MS - 1)
    assert name in states._elsewhere
    states.put(name.encode(), None, NOW_MS)
    assert name not in states._elsewhere


OTHER = record(client_id="another")


def other_writes(states: States, clock: Clock) -> None:
    put(states, OTHER, at_ms=round(1000 * clock.now))


def names(states: States) -> list[str]:
    return sorted(state.key.rsplit("|", 1)[1] for state in states.live())


def test_series_vanish_after_the_time_to_live(states: States, clock: Clock) -> None:
    put(states, record())
    clock.now += 900
    other_writes(states, clock)
    assert names(states) == ["another", "order-producer"]
    clock.now += 1
    other_writes(states, clock)
    assert names(states) == ["another"]
    assert "order-producer" not in rendered(states)


@pytest.mark.parametrize(("seconds", "unknown"), [(195, False), (196, True), (100_000, True)])
def test_without_input_no_client_is_ok_and_no_failure_ends(
    states: States, clock: Clock, seconds: int, unknown: bool
) -> None:
    put(states, deadlock())
    put(states, healthy(1))
    put(states, record(client_id="left", departed=True))
    clock.now += seconds
    deadlocked, *others = states.live()
    ok, left = sorted(others, key=lambda state: state.departed)
    assert [deadlocked.urgency, ok.urgency] == [30, 10 if unknown else 0]
    assert left.departed and not left.stale, "what is known to have gone has gone"
    assert {v.status for v in ok.record.verdicts} == {"unknown" if unknown else "ok"}
    reasons = {v.reason for v in ok.record.verdicts if v.reason}
    assert all(reason.startswith("no data since ") for reason in reasons) and bool(reasons) == unknown
    text = rendered(states)
    mine = [line for line in text.splitlines() if 'client_id="invoices"' in line]
    assert any('status="unknown"} 1' in line for line in mine) == unknown
    assert any("kafka_client_up{" in line for line in mine) != unknown
    assert ("kafka_client_producer_buffer_used_ratio" in text) != unknown
    assert 'status="confirmed"} 1' in text


def test_a_client_that_reports_again_is_judged_again(states: States, clock: Clock) -> None:
    put(states, record(worst="ok"))
    clock.now += 600
    assert [state.urgency for state in states.live()] == [10]
    put(states, record(worst="ok", end_ms=NOW_MS + 600_000), at_ms=NOW_MS + 600_000)
    assert [(state.urgency, state.stale) for state in states.live()] == [(0, False)]


def test_a_slow_reporter_has_as_much_time_as_its_window_is_long(states: States, clock: Clock) -> None:
    put(states, record(worst="ok") | {"window_start": NOW_MS - 1_200_000})
    clock.now += 1_305
    assert [state.urgency for state in states.live()] == [0]
    clock.now += 1
    assert [state.urgency for state in states.live()] == [10]


def test_age_is_that_of_the_record_and_not_of_its_window(states: States, clock: Clock) -> None:
    put(states, record(end_ms=NOW_MS - 86_400_000), at_ms=NOW_MS)
    assert len(states.live()) == 1


def test_record_without_a_timestamp_is_as_old_as_its_window(states: States) -> None:
    put(states, record(end_ms=NOW_MS - 901_000), at_ms=-1)
    put(states, OTHER)
    assert names(states) == ["another"]


def test_departure_replaces_the_windows_that_overlap_it(states: States) -> None:
    """A client's departure may be followed by the record of a window that ends 15 s later."""
    put(states, record(end_ms=NOW_MS))
    put(states, record(end_ms=NOW_MS - 15_000, departed=True))
    assert [state.departed for state in states.live()] == [True]
    put(states, record(end_ms=NOW_MS))
    assert [state.departed for state in states.live()] == [True], "a late window of the life before"


def test_returned_client_is_no_longer_gone(states: States) -> None:
    put(states, record(end_ms=NOW_MS - 15_000, departed=True))
    put(states, record(end_ms=NOW_MS + 30_000))
    assert [state.departed for state in states.live()] == [False]
    put(states, record(end_ms=NOW_MS - 40_000, departed=True))
    assert [state.departed for state in states.live()] == [False], "a departure of long ago"


def test_worst_first(states: States) -> None:
    for one in (
        healthy(1),
        group("idle", status="IDLE"),
        group("stuck", status="STALL"),
        group("new", status="UNKNOWN"),
        group("stopped", status="STOP"),
        record(client_id="blind", worst="unknown"),
        record(client_id="suspect", worst="suspected"),
        deadlock(),
    ):
        put(states, one)
    order = [state.key.rsplit("|", 1)[1] for state in states.live()]
    assert order == ["order-producer", "suspect", "stopped", "stuck", "new", "blind", "invoices", "idle"]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"window_end": 1, "client": null}',
        b'{"window_end": 1, "client": {"instance": 5}}',
        b'{"window_end": 1, "client": {"service": "s"}}',
        b'{"window_end": "1", "client": {"instance": "i"}}',
        b'{"window_end": NaN, "client": {"instance": "i"}}',
        b'{"window_end": 1, "client": {"instance": "i"}, "verdicts": [{}]}',
        b'{"window_end": 1, "client": {"instance": "i"}, "verdicts": [{"mode": "m", "status": "great"}]}',
        b'{"window_end": 1, "client": {"instance": "i"}, "verdicts": [{"mode": 1, "status": "ok"}]}',
        b'{"window_end": 1, "client": {"instance": "i"}, "verdicts": [{"mode": "m", "status": "ok", "evidence": [1]}]}',
        b'{"window_end": 1, "client": {"instance": "i"}, "indicators": [1]}',
    ],
)
def test_unreadable_record_is_counted_and_the_known_state_stays(states: States, value: bytes) -> None:
    put(states, record())
    states.put(KEY, value, NOW_MS)
    assert states.decode_errors == 1
    assert shown(states) == [("order-producer", 0)]


def test_a_newer_schema_is_counted_and_logged_once_a_minute(
    states: States, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds in (0, 1, 60):
        clock.now += seconds
        states.put(KEY, json.dumps({**record(), "schema": 2}).encode(), NOW_MS)
    assert states.decode_errors == 3 and states.live() == []
    assert caplog.messages == [
        f"{n} records could not be read; the last error: schema 2 is not known: this program reads up to schema 1"
        for n in (1, 3)
    ]


def test_fields_of_a_later_version_are_no_error(states: States) -> None:
    later = record(more=1)
    later["client"]["colour"] = "blue"
    put(states, later)
    assert states.decode_errors == 0 and len(states.live()) == 1


def test_the_list_is_rebuilt_only_after_a_change(states: States, clock: Clock) -> None:
    put(states, record())
    listed = states.live()
    clock.now += 10
    assert states.live() is listed
    put(states, healthy())
    assert states.live() is not listed


def test_newest_is_the_youngest_moment_spoken_of(states: States) -> None:
    assert states.newest is None
    put(states, record(end_ms=NOW_MS - 50_000))
    put(states, healthy(end_ms=NOW_MS - 90_000))
    assert states.newest == NOW_MS / 1000 - 50
    assert json.loads(states.live()[0].raw)["window_end"] == NOW_MS - 90_000


def test_newest_is_no_later_than_its_record_when_a_clients_clock_is_ahead(states: States) -> None:
    put(states, record(last_seen=NOW_MS + 290_000))
    assert (states.newest, states.newest_of) == (NOW_MS / 1000, {"clients": NOW_MS / 1000})
