"""Each incident is opened once, may escalate, and is closed or withdrawn."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Count, Evidence, Status, Verdict
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.incidents import Departure, Incidents, OpenIncident
from clienthealth.monitor.recovery import GONE_MS, expired, without_explained
from clienthealth.monitor.state import BucketState
from clienthealth.monitor.window_verdicts import merged
from clienthealth.settings import Settings

CLIENT = Client("orders", "web-7", "web-7:31337", "order-producer", "producer")
MODE = "producer-callback-deadlock"


def verdict(status: Status, since_ms: int | None = None, text: str = "fact", mode: str = MODE) -> Verdict:
    evidence = (Evidence("metric", since_ms or 0, text),) if since_ms else ()
    return Verdict(mode, status, since_ms, evidence=evidence)


def test_a_fault_opens_once_and_its_onset_is_the_earliest_seen() -> None:
    book = Incidents()
    first = book.judged(CLIENT, [verdict("suspected", 40_000)], end_ms=60_000)
    again = book.judged(CLIENT, [verdict("suspected", 35_000)], end_ms=90_000)
    assert [(c.change, c.previous, c.ts_ms) for c in first] == [("opened", "ok", 40_000)]
    assert again == []
    assert book.of_client(CLIENT.key)[MODE].verdict.since_ms == 35_000


def test_a_suspicion_that_is_confirmed_escalates_and_keeps_all_evidence() -> None:
    book = Incidents()
    book.judged(CLIENT, [verdict("suspected", 40_000, "buffer full")], end_ms=60_000)
    changes = book.judged(CLIENT, [verdict("confirmed", 50_000, "select-total stayed still")], end_ms=90_000)
    assert [(c.change, c.previous, c.verdict.status) for c in changes] == [("escalated", "suspected", "confirmed")]
    assert [e.text for e in changes[0].verdict.evidence] == ["buffer full", "select-total stayed still"]
    assert changes[0].verdict.since_ms == 40_000


def test_a_confirmed_incident_does_not_ease_while_it_lasts() -> None:
    book = Incidents()
    book.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000)
    assert book.judged(CLIENT, [verdict("suspected", 70_000)], end_ms=90_000) == []
    assert book.of_client(CLIENT.key)[MODE].verdict.status == "confirmed"


def test_it_closes_when_a_later_window_is_fine_and_not_on_an_older_or_unknown_one() -> None:
    book = Incidents()
    book.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000)
    assert book.judged(CLIENT, [verdict("ok")], end_ms=60_000) == []
    assert book.judged(CLIENT, [verdict("unknown")], end_ms=90_000) == []
    closed = book.judged(CLIENT, [verdict("ok")], end_ms=90_000)
    assert [(c.change, c.previous, c.verdict.status, c.ts_ms) for c in closed] == [
        ("closed", "confirmed", "ok", 90_000)
    ]
    assert not list(book.all)


def test_what_a_client_suffered_from_is_over_when_it_has_gone() -> None:
    book = Incidents()
    book.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000)
    book.judged(CLIENT, [verdict("confirmed", 60_000, mode="producer-not-closed")], end_ms=60_000)
    gone = Departure(departed_ms=60_000, heard_ms=65_000, offset_ms=0, alone=True)
    noted = book.departed(book.of_client(CLIENT.key)[MODE], gone, {"lost_records": [3, 4]})
    assert (noted.departed_ms, noted.heard_ms, noted.verdict.detail) == (60_000, 65_000, {"lost_records": [3, 4]})
    closed = book.close(noted, "closed", 70_000)
    assert (closed.verdict.mode, closed.change, closed.ts_ms) == (MODE, "closed", 70_000)
    assert closed.verdict.detail == {"lost_records": [3, 4]}
    assert set(book.of_client(CLIENT.key)) == {"producer-not-closed"}


def test_what_is_over_is_closed_by_the_clock_of_its_client() -> None:
    state = BucketState(time_ms=7_200_000 + 290_000 + GONE_MS)
    state.incidents.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000, offset_ms=7_200_000)
    state.incidents.sign_of_life(CLIENT.key, 290_000, offset_ms=7_200_000)
    assert expired(Bucket(state, Settings()), set()) == []
    state.time_ms += 1
    assert [(c.change, c.ts_ms) for c in expired(Bucket(state, Settings()), set())] == [("closed", 290_000)]


@pytest.mark.parametrize(("status", "change"), [("suspected", "withdrawn"), ("confirmed", "closed")])
def test_what_another_fault_explains_was_no_fault_of_its_own(status: Status, change: str) -> None:
    book = Incidents()
    found: dict[str, Status] = {MODE: "confirmed", "delivery-stalled": status, "consumer-stalled": "confirmed"}
    book.judged(CLIENT, [verdict(found[mode], 40_000, mode=mode) for mode in found], end_ms=60_000)
    over = without_explained(book, CLIENT.key, 70_000)
    assert [(c.verdict.mode, c.change, c.ts_ms) for c in over] == [("delivery-stalled", change, 70_000)]
    assert without_explained(book, CLIENT.key, 80_000) == []


def test_ok_does_not_close_what_shows_no_recovery() -> None:
    book = Incidents()
    book.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000)
    assert book.judged(CLIENT, [verdict("ok")], end_ms=90_000, recovered=lambda mode: False) == []
    assert [c.change for c in book.judged(CLIENT, [verdict("ok")], end_ms=120_000)] == ["closed"]


def test_an_incident_of_a_nameless_process_becomes_that_of_its_client() -> None:
    book = Incidents()
    nameless = msgspec.structs.replace(CLIENT, client_id="")
    book.judged(nameless, [verdict("confirmed", 40_000)], end_ms=60_000)
    changes = book.moved(next(book.all), CLIENT)
    assert [(c.client.client_id, c.change) for c in changes] == [("", "moved"), (CLIENT.client_id, "opened")]
    assert changes[1].verdict.since_ms == 40_000
    assert [incident.client for incident in book.all] == [CLIENT]


def test_read_back_after_a_restart_it_repeats_nothing() -> None:
    stored = OpenIncident(CLIENT, verdict("confirmed", 40_000), seen_ms=40_000)
    book = Incidents([stored])
    assert book.judged(CLIENT, [verdict("confirmed", 40_000)], end_ms=60_000) == []
    assert [incident.client for incident in book.all] == [CLIENT]


def blocked(status: Status, slots: dict[int, float], threads: int, name: str = "failed_sends") -> Verdict:
    detail = {"cause": "topic-missing", name: round(sum(slots.values())), "blocked_threads": threads}
    counts = (Count(name, "log", slots),)
    return merged([Verdict("send-blocked-on-metadata", status, 40_000, detail, counts=counts)])


def test_what_windows_counted_is_summed_up_and_none_of_it_twice() -> None:
    book = Incidents()
    windows = (
        (60_000, blocked("suspected", {0: 3, 30_000: 2}, 8)),
        (90_000, blocked("confirmed", {30_000: 4, 60_000: 1}, 2)),
        (90_000, blocked("confirmed", {30_000: 4, 60_000: 6}, 2)),
        (120_000, blocked("suspected", {60_000: 5, 90_000: 7}, 1)),
    )
    for end_ms, one in windows:
        book.judged(CLIENT, [one], end_ms)
    (incident,) = book.all
    assert incident.verdict.detail == {"cause": "topic-missing", "failed_sends": 3 + 4 + 6 + 7, "blocked_threads": 8}


def test_an_incident_of_the_release_before_is_counted_on() -> None:
    before = dataclasses.replace(
        blocked("confirmed", {}, 8), detail={"failed_sends": 9, "blocked_threads": 8}, counts=()
    )
    book = Incidents([OpenIncident(CLIENT, before, seen_ms=60_000)])
    book.judged(CLIENT, [blocked("confirmed", {30_000: 4, 60_000: 2}, 2)], 90_000)
    book.judged(CLIENT, [blocked("confirmed", {60_000: 3, 90_000: 5}, 2)], 120_000)
    (incident,) = book.all
    assert (incident.verdict.detail["failed_sends"], incident.verdict.detail["blocked_threads"]) == (9 + 3 + 5, 8)


def test_of_a_long_incident_only_the_newest_half_minutes_are_kept_apart() -> None:
    book = Incidents()
    for at in range(0, 300 * 30_000, 30_000):
        book.judged(CLIENT, [blocked("confirmed", {at: 1, at + 30_000: 2}, 1)], at + 60_000)
    (incident,) = book.all
    assert incident.verdict.detail["failed_sends"] == 1 + 300 * 2
    assert all(len(count.slots) <= 64 for count in incident.verdict.counts)


def test_momentary_facts_go_with_their_window() -> None:
    book = Incidents()
    waits = Verdict("delivery-stalled", "suspected", 1, {"first_expiry_in_seconds": 12.0, "stalled_seconds": 41.0})
    book.judged(CLIENT, [merged([waits])], 60_000)
    expired = Verdict("delivery-stalled", "confirmed", 1, {"records_expired": 5, "stalled_seconds": 30.0})
    book.judged(CLIENT, [merged([expired])], 90_000)
    (incident,) = book.all
    assert incident.verdict.detail == {"records_expired": 5, "stalled_seconds": 41.0}


def test_the_cause_that_a_line_names_outranks_what_numbers_suggest_later() -> None:
    shown = verdict("confirmed", 1, mode="send-blocked-on-metadata")
    line = (Evidence("log", 1, "Partition 17 of topic orders is not present in metadata"),)
    named = dataclasses.replace(shown, detail={"cause": "partition-missing"}, evidence=line)
    guessed = dataclasses.replace(shown, detail={"cause": "topic-missing"})
    assert merged([named, guessed]).detail["cause"] == "partition-missing"
    assert merged([guessed, guessed]).detail["cause"] == "topic-missing"
