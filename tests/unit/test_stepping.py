"""`step` sums the numbers of input records per minute and topic for the history."""

from __future__ import annotations

from typing import Any

import pytest

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
