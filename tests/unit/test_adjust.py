"""THE list of adjustments: its order, what each one changes, and that a verdict names those that changed it."""

from __future__ import annotations

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.modes import Look
from clienthealth.monitor.adjust import ADJUSTMENTS, NOBODY, UNHEARD, Attached, Context, Reporting, adjust

DEADLOCK, NOT_CLOSED, STALLED = "producer-callback-deadlock", "producer-not-closed", "delivery-stalled"
CLIENT = Client("shop", "h", "h:1", "p", kind="producer")


def line(ts_ms: int) -> Evidence:
    return Evidence("log", ts_ms, f"a line at {ts_ms}", Source("app.log", 0, ts_ms))


def attached(last_ms: int = 0) -> Context:
    return Context(attached=Attached(Look(ClientWindow(CLIENT, 0, 0), True, False), samples=100, last_ms=last_ms))


def test_stages_follow_each_other_and_every_entry_says_why_it_is_there() -> None:
    assert list(dict.fromkeys(entry.stage for entry in ADJUSTMENTS)) == ["window", "moment", "shown"]
    assert len({entry.name for entry in ADJUSTMENTS}) == len(ADJUSTMENTS)
    assert all(entry.why.endswith(".") and entry.place.endswith(".") for entry in ADJUSTMENTS)


def test_an_adjustment_that_knows_nothing_changes_nothing() -> None:
    verdict = Verdict(STALLED, "suspected", since_ms=5, evidence=(line(7),))
    for stage in ("window", "moment", "shown"):
        assert adjust(stage, [verdict], Context()) == [verdict]


def test_a_failure_began_no_earlier_than_its_client() -> None:
    (verdict,) = adjust("window", [Verdict(STALLED, "suspected", 1000, evidence=(line(9000),))], Context(starts=[4000]))
    assert (verdict.since_ms, verdict.adjusted) == (4000, ("not-before-start",))


def test_a_line_waits_for_the_next_sample_but_not_for_ever() -> None:
    found = Verdict(STALLED, "suspected", 10_000, evidence=(line(10_000),))
    (waiting,) = adjust("window", [found], Context(reporting=Reporting(10_000, 15_000, 0)))
    assert (waiting.status, waiting.reason, waiting.adjusted) == ("unknown", UNHEARD, ("await-samples",))
    for reporting in (Reporting(10_000, 21_001, 0), Reporting(10_000, 15_000, 25_001)):
        assert adjust("window", [found], Context(reporting=reporting)) == [found]
    opened = Context(reporting=Reporting(10_000, 15_000, 0), incidents={STALLED: found})
    assert adjust("window", [found], opened) == [found]


def test_silence_of_all_is_the_end_of_none_but_of_clients_that_logged_it() -> None:
    quiet, logged = Verdict(NOT_CLOSED, "suspected"), Verdict(NOT_CLOSED, "confirmed", evidence=(line(1),))
    first, second = adjust("moment", [quiet, logged], Context(all_silent=True))
    assert (first.reason, second) == (NOBODY, logged)


def test_a_failure_explains_its_symptoms_and_takes_the_evidence_of_the_end_that_it_explains() -> None:
    held = Verdict(DEADLOCK, "confirmed", 1, evidence=(line(100_000),))
    lost = Verdict(NOT_CLOSED, "confirmed", 1, evidence=(Evidence("absence", 120_000, "4 MiB were left"),))
    deadlock, end = adjust("moment", [held, lost], attached(last_ms=120_000))
    assert [fact.text for fact in deadlock.evidence] == ["a line at 100000", "4 MiB were left"]
    assert end.reason == f"what it shows is explained by {DEADLOCK}"
    assert end.adjusted == ("recorded-end", "explained")
    # A deadlock that was over 90 s before the recording ended does not explain its end.
    _, end = adjust("moment", [held, lost], attached(last_ms=190_001))
    assert (end.status, end.adjusted) == ("suspected", ("recorded-end",))


def test_a_weaker_failure_explains_no_surer_one() -> None:
    suspicion = Verdict(DEADLOCK, "suspected", 1, evidence=(line(1),))
    sure = Verdict(STALLED, "confirmed", 1, evidence=(line(1),))
    assert adjust("moment", [suspicion, sure], Context()) == [suspicion, sure]


def test_what_is_shown_of_an_open_incident_is_all_of_it() -> None:
    incident = Verdict(STALLED, "confirmed", 1, evidence=(line(1), line(2)))
    shown = adjust("shown", [Verdict(DEADLOCK, "ok")], Context(incidents={STALLED: incident}))
    assert [(verdict.mode, verdict.status, verdict.since_ms) for verdict in shown] == [
        (DEADLOCK, "ok", None),
        (STALLED, "confirmed", 1),
    ]


def test_ok_needs_all_evidence_to_be_read() -> None:
    known = Attached(Look(ClientWindow(CLIENT, 0, 0), True, False), unread="part of the evidence could not be read: x")
    (verdict,) = adjust("shown", [Verdict("cross-topic-blocking", "ok")], Context(attached=known))
    assert (verdict.status, verdict.reason) == ("unknown", "part of the evidence could not be read: x")
    assert verdict.adjusted == ("unproven-ok",)
