"""`stepping` makes the rows of the history: counts of input records, and changes of incidents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.monitor.incidents import Transition
from clienthealth.monitor.step import Published
from clienthealth.spark import stepping
from clienthealth.spark.decoding import Count
from clienthealth.spark.stepping import COUNT, QUALITY, Quality, counts_of, quality_of
from tests.support.stepped import Kept


def test_quality_sums_good_and_rejected_records_of_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("clienthealth.spark.stepping.time.time", lambda: now[0])
    state: Any = Kept()
    first = [Count(60_000, "a", None, 5, 2, 0, 0), Count(60_000, "a", "malformed-json", 2, 0, 0, 0)]
    second = [Count(60_000, "a", None, 1, 0, 0, 0), Count(60_000, "b", None, 1, 0, 0, 0)]
    given: list[Quality] = []
    for counts in (first, second, []):
        rows = {kind: value for kind, _, value, _ in stepping._counted([stepping._pack(counts)], state, 20)}
        assert counts_of(rows[COUNT] or b"") == counts
        given += quality_of(rows[QUALITY] or b"") if QUALITY in rows else []
        now[0] += 15
    assert given[0] == Quality(60_000, "a", 7, 2, 2, 1)
    assert sorted(row.topic for row in given[1:]) == ["a", "b"]
    assert [(row.records, row.rejected, row.batches) for row in given[1:]] == [(1, 0, 1), (1, 0, 1)]


def test_changes_of_an_incident_keep_their_order_within_a_batch() -> None:
    stalled, well = (Verdict("consumer-stalled", status, 120_000) for status in ("suspected", "ok"))
    again = Verdict("consumer-stalled", "suspected", 670_000)
    first, second = (Client("shop", "h", f"h:{n}", "c", "consumer") for n in (1, 2))
    # The second incident begins before the end of the window that ended the first incident.
    published = Published(
        changes=[
            Transition(first, stalled, "ok", "opened", 120_000),
            Transition(second, stalled, "ok", "opened", 120_000),
            Transition(first, well, "suspected", "closed", 690_000),
            Transition(first, again, "ok", "opened", 670_000),
        ]
    )
    rows = [json.loads(value or b"") for _, _, value, _ in stepping._rows(published, 0, 1_000, 900_000)[0]]
    assert [(row["instance"], row["change"], row["observed"]) for row in rows] == [
        ("h:1", "opened", 900_000),
        ("h:2", "opened", 900_000),
        ("h:1", "closed", 900_001),
        ("h:1", "opened", 900_002),
    ]
