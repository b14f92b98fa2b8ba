"""Check that a client is `ok` only if every failure mode of its kind was judged."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.diagnose.outcome import HEALTHY, Diagnosis, exit_code
from clienthealth.diagnose.story import stories
from clienthealth.model.clients import Client
from clienthealth.model.health_record import Written, decode, encoded, verdicts_json, worst
from clienthealth.model.verdicts import STATUS_ORDER, Status, Verdict
from clienthealth.modes import modes
from clienthealth.monitor.state import BucketState
from clienthealth.monitor.step import step
from clienthealth_exporters.prometheus.services import standing
from tests.support.recorded import SETTINGS, chunks, folders, verdicts

CLIENT = Client("orders", "web-7", "web-7:1", "order-producer", "producer")
statuses = st.lists(st.sampled_from(STATUS_ORDER), max_size=5)


def mode_verdicts(each: list[Status]) -> list[Verdict]:
    return [Verdict(mode, status) for mode, status in zip(modes(), each, strict=False)]


@settings(deadline=None)
@given(statuses)
def test_what_is_published_is_ok_only_where_all_is(each: list[Status]) -> None:
    judged = mode_verdicts(each)
    written = Written(
        window_start=0,
        window_end=60_000,
        client=encoded(CLIENT),
        samples=6,
        indicators={},
        verdicts=verdicts_json(judged),
        worst=worst(judged),
        last_seen=60_000,
    )
    record = decode(written.encode())
    unhealthy = [status for status in each if status in ("suspected", "confirmed")]
    assert (record.worst == "ok") == (set(each) == {"ok"})
    assert (record.worst in ("suspected", "confirmed")) == bool(unhealthy)
    assert (standing(record) == "partial") == (not unhealthy and {"ok", "unknown"} <= set(each))


@settings(deadline=None)
@given(statuses)
def test_what_older_releases_published_is_read_so(each: list[Status]) -> None:
    was = max(each, key=STATUS_ORDER.index, default="unknown")
    row = {"window_end": 60_000, "client": {"instance": "i"}, "worst": was}
    rows = [{"mode": verdict.mode, "status": verdict.status} for verdict in mode_verdicts(each)]
    record = decode(json.dumps({**row, "verdicts": rows}).encode())
    assert (record.worst == "ok") == (set(each) == {"ok"})


@settings(deadline=None)
@given(statuses)
def test_the_post_mortem_reports_it(each: list[Status]) -> None:
    clients = [(CLIENT, mode_verdicts(each))]
    (story,) = stories(Diagnosis(clients))
    assert (story.status == "ok") == (set(each) == {"ok"}) == (exit_code(Diagnosis(clients)) == HEALTHY)
    if story.status == "unknown" and "ok" in each:
        assert story.headline == f"Nothing found in {each.count('ok')} of {len(each)} failure modes"


#: LARGE: recordings that together take half of this test's time.
LARGE = ("shutdown-loop-a", "shutdown-loop-b", "shutdown-loop-c", "legacy-broker-crash-18s")
RECORDED = [pytest.param(one, id=one.name, marks=[pytest.mark.long] * (one.name in LARGE)) for one in folders()]


@pytest.mark.parametrize("folder", RECORDED)
def test_of_recordings(folder: Path) -> None:
    published = step(BucketState(), chunks(folder), SETTINGS, int(time.time() * 1000))
    assert published.records
    for _, value in published.records:
        record = decode(value or b"")
        assert record.worst != "ok" or {verdict.status for verdict in record.verdicts} == {"ok"}
    for client, judged in verdicts(folder).items():
        assert worst(judged) != "ok" or {verdict.status for verdict in judged} == {"ok"}, client
