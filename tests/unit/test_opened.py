"""A monitor without a saved state takes over the incidents that are open in the history."""

from __future__ import annotations

import time
from typing import Any

import pytest

from clienthealth.measure.packed import Chunk, Clock, encode
from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.monitor.incidents import OpenIncident
from clienthealth.monitor.state import load
from clienthealth.settings import Settings
from clienthealth.spark import stepping
from clienthealth.spark.decoding import compressed, decompressed
from clienthealth.spark.restored import Opened
from clienthealth.spark.stepping import SUMMARY, by_bucket, summary_of
from tests.support.stepped import Kept

BUCKETS = Settings().monitor.buckets
INCIDENTS = [
    OpenIncident(
        Client("shop", f"h-{n}", f"h-{n}:1", "p", "producer"), Verdict("delivery-stalled", "confirmed", 1_000), 2_000
    )
    for n in range(3)
]


class Notes:
    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.files.get(name)

    def write(self, name: str, text: str) -> None:
        self.files[name] = text


def begun(notes: Notes) -> Opened:
    spark: Any = None
    checkpoint: Any = notes
    return Opened(spark, Settings(), checkpoint)


def test_they_are_read_until_every_bucket_has_them_and_its_batch_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def from_history(_: object, root: str) -> list[OpenIncident]:
        reads.append(root)
        return INCIDENTS

    monkeypatch.setattr("clienthealth.spark.history.open_incidents", from_history)
    notes = Notes()
    first = begun(notes)
    buckets = sorted(first.by_bucket)
    assert len(buckets) == 3
    first.committed()
    first.stepped([None, buckets[0], buckets[1]])
    first.committed()
    second = begun(notes)
    assert sorted(second.by_bucket) == buckets
    second.stepped(buckets)
    third = begun(notes)
    third.stepped(buckets)
    third.committed()
    assert begun(notes).by_bucket == {}
    assert len(reads) == 3


def test_a_bucket_without_a_state_takes_over_its_own_and_keeps_them_at_once() -> None:
    packed = by_bucket(INCIDENTS, BUCKETS)
    bucket, state = sorted(packed)[0], Kept()
    now_ms = int(time.time() * 1000)
    task = compressed(encode(Chunk(clocks=[Clock(now_ms, 0, now_ms)])))
    rows = stepping._judged(bucket, [task], state, Settings(), packed)  # type: ignore[arg-type]
    (summary,) = (summary_of(value or b"") for kind, _, value, _ in rows if kind == SUMMARY)
    assert summary.bucket == bucket
    (kept,) = load(decompressed(state.get[0]), BUCKETS).incidents.all
    assert (kept.client in [i.client for i in INCIDENTS], kept.verdict) == (True, INCIDENTS[0].verdict)
    assert kept.heard_ms >= now_ms
    assert 0 <= kept.seen_ms - (now_ms - 900_000) < 60_000
