"""A verdict names the adjustments that changed it (see `clienthealth.monitor.adjust`)."""

from __future__ import annotations

from typing import get_args, get_type_hints

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, Reading, Source
from clienthealth.model.verdicts import Evidence, Proof, Status, Verdict
from clienthealth.modes import Look, modes
from clienthealth.modes.circumstances import CIRCUMSTANCES
from clienthealth.modes.facts import Confusion
from clienthealth.monitor.adjust import ADJUSTMENTS, ALL_SILENT, AWAITING_METRICS, Attached, Context, Reporting, adjust

DEADLOCK, NOT_CLOSED, STALLED = "producer-callback-deadlock", "producer-not-closed", "delivery-stalled"
CLIENT = Client("shop", "h", "h:1", "p", kind="producer")


def line(ts_ms: int) -> Evidence:
    return Evidence("log", ts_ms, f"a line at {ts_ms}", Source("app.log", 0, ts_ms))


def attached(last_ms: int = 0) -> Context:
    return Context(attached=Attached(Look(ClientWindow(CLIENT, 0, 0), True, False), samples=100, last_ms=last_ms))


def test_stages_follow_each_other_and_every_entry_has_a_reason() -> None:
    assert list(dict.fromkeys(entry.stage for entry in ADJUSTMENTS)) == ["window", "moment", "shown"]
    assert len({entry.name for entry in ADJUSTMENTS}) == len(ADJUSTMENTS)
    assert all(entry.why.endswith(".") and (entry.change.__doc__ or "").rstrip().endswith(".") for entry in ADJUSTMENTS)


def test_an_adjustment_that_knows_nothing_changes_nothing() -> None:
    verdict = Verdict(STALLED, "suspected", since_ms=5, evidence=(line(7),))
    for stage in ("window", "moment", "shown"):
        assert adjust(stage, [verdict], Context()) == [verdict]


NO_ANSWER = "no data shows that brokers answered the client at that time"


def alibis(status: Status, *proofs: Proof, readings: tuple[Reading, ...] = ()) -> Verdict:
    mode = modes()[DEADLOCK]
    found = Verdict(DEADLOCK, status, 1, evidence=(Evidence("metric", 60_000, "it stands"),), proofs=proofs)
    window = ClientWindow(CLIENT, 0, 70_000, readings=readings)
    (verdict,) = adjust("window", [found], Context(mode=mode, window=window))
    return verdict


def answers(*totals: int) -> tuple[Reading, ...]:
    return tuple(
        Reading(
            10_000 * at,
            {
                "select-total": 90.0 * at,
                "request-total": 10.0 * at,
                "response-total": float(total),
                "connection-count": 1.0,
            },
        )
        for at, total in enumerate(totals)
    )


def test_a_fact_that_proves_the_failure_refutes_all_that_looks_like_it() -> None:
    proven = alibis("confirmed", Proof("thread-dump", True))
    assert (proven.status, proven.not_ruled_out, proven.proofs) == ("confirmed", (), ())
    assert proven.ruled_out[0] == "back-pressure (by a thread dump)"
    assert len(proven.ruled_out) == len(modes()[DEADLOCK].confusions)


def test_without_contradicting_data_a_suspicion_stays_and_names_what_would_decide() -> None:
    capped = alibis("confirmed", Proof("metric", False))
    assert (capped.status, capped.adjusted) == ("suspected", ("alibis",))
    assert capped.not_ruled_out == (
        "a broker outage or a broker that hangs (two thread dumps ten seconds apart would settle it)",
        "a long garbage collection (a thread dump would settle it)",
    )


def test_a_circumstance_refutes_what_it_is_asked_for_and_shows_what_happens_instead() -> None:
    served = alibis("confirmed", Proof("metric", False), readings=answers(0, 10, 20, 30, 40, 50, 60))
    assert (served.status, served.not_ruled_out) == ("confirmed", ())
    assert "a broker outage or a broker that hangs (its brokers answered at that moment)" in served.ruled_out
    away = alibis("confirmed", Proof("metric", False), readings=answers(0, 10, 20, 20, 20, 20, 20))
    assert (away.status, away.adjusted) == ("unknown", ("alibis",))
    assert away.reason == "it may be a broker outage or a broker that hangs: no broker answered the client for 40 s"


def test_a_proof_that_needs_brokers_which_nothing_shows_refutes_all_but_their_outage() -> None:
    (outage,) = alibis("suspected", Proof("metric", True, "brokers-answer", None, NO_ANSWER)).not_ruled_out
    assert outage.startswith("a broker outage")
    assert alibis("confirmed", Proof("metric", True, "brokers-answer", True, "they did")).not_ruled_out == ()


def test_lines_that_may_be_about_another_client_rule_nothing_out() -> None:
    quoted = alibis("suspected", Proof("log", True, "own-lines", None, "a log line about another client"))
    assert (quoted.ruled_out, quoted.not_ruled_out[-1]) == ((), "a log line about another client")


def test_every_circumstance_that_a_mode_may_name_is_known() -> None:
    named = get_args(get_type_hints(Confusion)["unless"])
    assert set(named) == {"", *CIRCUMSTANCES}


def test_a_failure_began_no_earlier_than_its_client() -> None:
    (verdict,) = adjust("window", [Verdict(STALLED, "suspected", 1000, evidence=(line(9000),))], Context(starts=[4000]))
    assert (verdict.since_ms, verdict.adjusted) == (4000, ("not-before-start",))


def test_a_line_waits_for_the_next_sample_but_not_for_ever() -> None:
    found = Verdict(STALLED, "suspected", 10_000, evidence=(line(10_000),))
    (waiting,) = adjust("window", [found], Context(reporting=Reporting(10_000, 15_000, 0)))
    assert (waiting.status, waiting.reason, waiting.adjusted) == ("unknown", AWAITING_METRICS, ("await-samples",))
    for reporting in (Reporting(10_000, 21_001, 0), Reporting(10_000, 15_000, 25_001)):
        assert adjust("window", [found], Context(reporting=reporting)) == [found]
    opened = Context(reporting=Reporting(10_000, 15_000, 0), incidents={STALLED: found})
    assert adjust("window", [found], opened) == [found]


def test_lines_that_go_on_do_not_put_the_verdict_off_again_and_again() -> None:
    mode = modes()[STALLED]
    lines = [LogEvent(1000 * at, "records-expired", "expired") for at in range(10, 30)]
    found = Verdict(STALLED, "suspected", 10_000, evidence=(line(29_000),))
    for begun, status in ((0, "suspected"), (15, "unknown")):
        window = ClientWindow(CLIENT, 0, 60_000, logs=tuple(lines[begun:]))
        known = Context(mode=mode, window=window, reporting=Reporting(10_000, 25_000, 0))
        (verdict,) = adjust("window", [found], known)
        assert verdict.status == status


def test_silence_of_all_is_the_end_of_none_but_of_clients_that_logged_it() -> None:
    quiet, logged = Verdict(NOT_CLOSED, "suspected"), Verdict(NOT_CLOSED, "confirmed", evidence=(line(1),))
    first, second = adjust("moment", [quiet, logged], Context(all_silent=True))
    assert (first.reason, second) == (ALL_SILENT, logged)


def test_a_failure_explains_its_symptoms_and_takes_the_evidence_of_the_end_that_it_explains() -> None:
    held = Verdict(DEADLOCK, "confirmed", 1, evidence=(line(100_000),))
    lost = Verdict(NOT_CLOSED, "confirmed", 1, evidence=(Evidence("absence", 120_000, "4 MiB were left"),))
    deadlock, end = adjust("moment", [held, lost], attached(last_ms=120_000))
    assert [fact.text for fact in deadlock.evidence] == ["a line at 100000", "4 MiB were left"]
    assert end.reason == f"{DEADLOCK} explains the evidence of this failure"
    assert end.adjusted == ("recorded-end", "explained")
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
