"""Verdicts of overlapping windows made one, and evidence kept short."""

from __future__ import annotations

from clienthealth.batches.steps import steps_of
from clienthealth.health import verdict_from_json, verdict_json
from clienthealth.judging import evidence_of, merged, window
from clienthealth.records import Evidence, Source, Verdict

MODE = "producer-callback-deadlock"


def test_the_worst_window_holds_with_the_earliest_onset() -> None:
    windows = [
        Verdict(MODE, "suspected", 10, evidence=(Evidence("log", 10, "a"),)),
        Verdict(MODE, "confirmed", 20, detail={"cause": "x"}, evidence=(Evidence("metric", 20, "b"),)),
        Verdict(MODE, "unknown", reason="fewer than 3 readings"),
    ]
    result = merged(windows)
    assert (result.status, result.since_ms, result.detail) == ("confirmed", 10, {"cause": "x"})
    assert [e.text for e in result.evidence] == ["a", "b"]


def test_a_window_that_can_be_judged_outweighs_one_that_cannot() -> None:
    result = merged([Verdict(MODE, "ok"), Verdict(MODE, "unknown", reason="fewer than 3 readings")])
    assert (result.status, result.reason) == ("ok", None)


def test_of_each_kind_of_evidence_the_first_and_the_newest_are_kept() -> None:
    facts = [Evidence("metric", t, f"m{t}") for t in range(10)] + [Evidence("log", 4, "l4"), Evidence("log", 4, "l4")]
    assert [e.text for e in evidence_of(facts)] == ["m0", "l4", "m8", "m9"]


def test_a_verdict_survives_its_wire_form() -> None:
    fact = Evidence("thread-dump", 5, "stuck", Source("client-logs", 1, 42))
    verdict = Verdict(MODE, "confirmed", 5, {"cause": "get-in-callback"}, (fact,))
    assert verdict_from_json(verdict_json(verdict)) == verdict


def test_a_row_becomes_a_window_without_what_is_unknown() -> None:
    who = {
        "service": "s", "host": None, "instance": "i", "client_id": "c", "kind": "legacy-consumer",
        "library": None, "version": None, "group": None,
    }  # fmt: skip
    reading = {
        "ts_ms": 7, "values": [None, 2.0, 3.0, None, None, None], "source": {"topic": "t", "partition": 0, "offset": 9},
        "topics": [{"topic": "a", "partition": None, "thread": "0", "values": [None] * 6 + [5.0]}],
    }  # fmt: skip
    seen = window(
        who,
        {"start_ms": 0, "end_ms": 60_000, "readings": [reading], "events": None, "dumps": [], "config": None},
    )
    assert seen.client.host == ""
    assert seen.readings[0].metrics == {"min-fetch-rate": 2.0, "messages-total": 3.0}
    assert seen.readings[0].topics[0].metrics == {"queue-records": 5.0}
    assert seen.readings[0].source == Source("t", 0, 9)


def quiet(end_ms: int, status: str) -> dict[str, object]:
    return {"end_ms": end_ms, "suspected": [], "quiet": [{"mode": MODE, "status": status, "reason": None}]}


def statuses(windows: list[dict[str, object]]) -> list[tuple[int, str]]:
    steps = steps_of({"client": {}, "windows": windows}, {}, 0)
    return [(end_ms, verdict.status) for end_ms, (verdict,) in steps]


def test_a_batch_of_two_windows_is_one_step_and_a_backlog_one_per_window() -> None:
    assert statuses([quiet(60, "ok")]) == [(60, "ok")]
    assert statuses([quiet(90, "unknown"), quiet(60, "ok")]) == [(90, "ok")]
    backlog = [quiet(60, "confirmed"), quiet(90, "confirmed"), quiet(120, "ok"), quiet(150, "ok")]
    assert statuses(backlog) == [(90, "confirmed"), (120, "confirmed"), (150, "ok")]
