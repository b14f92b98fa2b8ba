"""Check that a verdict's numbers cover the whole incident, and count no event twice."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import pytest

from clienthealth.diagnose.diagnosis import pack, raw_record
from clienthealth.measure.packed import Chunk, decode, encode
from clienthealth.measure.packer import Packer
from clienthealth.model.verdicts import Verdict
from clienthealth.modes.consumer_stalled.rules import ID as CONSUMER_STALLED
from clienthealth.modes.delivery_stalled.rules import ID as DELIVERY_STALLED
from clienthealth.modes.producer_callback_deadlock.rules import ID as DEADLOCK
from clienthealth.modes.send_blocked_on_metadata.rules import ID as METADATA
from clienthealth.monitor.state import BucketState, load, save
from clienthealth.monitor.step import step
from clienthealth.read.recordings import read
from tests.support.recorded import DECODERS, RECORDINGS, SETTINGS, verdicts

NUMBERS = (
    # Eight workers log the line "not present in metadata" four times each.
    ("send-blocked-topic-3.9", METADATA, "failed_sends", 32, 32),
    ("send-blocked-topic-3.9", METADATA, "blocked_threads", 8, 8),
    ("send-blocked-topic-3.9", METADATA, "longest_block_seconds", 20.0, 20.003),
    # The application's own count, cb_failed, is 217.
    ("evidence/3_topic_missing", METADATA, "failed_sends", 210, 217),
    ("send-blocked-cluster-4.1", METADATA, "failed_sends", 32, 32),
    # The true number of expired records is the last sample's record-error-total.
    ("delivery-stalled-3.9", DELIVERY_STALLED, "records_expired", 795, 795),
    ("delivery-stalled-4.1", DELIVERY_STALLED, "records_expired", 795, 795),
    ("delivery-swallowed-3.9", DELIVERY_STALLED, "records_expired", 605, 605),
    # The log shows five expulsions from the group.
    ("consumer-rejoins-3.9", CONSUMER_STALLED, "times_expired", 5, 5),
    ("consumer-stalled-3.9", CONSUMER_STALLED, "times_expired", 1, 1),
    ("evidence/2_deadlock_client39", DEADLOCK, "waiting_threads", 2, 2),
)


@pytest.mark.parametrize(("name", "mode", "number", "least", "truth"), NUMBERS)
def test_in_the_post_mortem(name: str, mode: str, number: str, least: float, truth: float) -> None:
    (verdict,) = (v for of in verdicts(RECORDINGS / name).values() for v in of if v.mode == mode and v.unhealthy)
    assert least <= verdict.detail[number] <= truth


@pytest.mark.parametrize(("name", "mode", "number", "least", "truth"), [NUMBERS[0], NUMBERS[5]])
@pytest.mark.parametrize("seconds", [7, 40])
def test_in_the_stream(name: str, mode: str, number: str, least: float, truth: float, seconds: int) -> None:
    assert least <= streamed(RECORDINGS / name, mode, seconds).detail[number] <= truth


def streamed(folder: Path, mode: str, seconds: int) -> Verdict:
    state, now_ms = BucketState(), int(time.time() * 1000)
    for begin, chunk in batches(folder, 1000 * seconds):
        step(state, [chunk], SETTINGS, begin + 1000 * seconds)
        state = load(save(state, 1), 1)
    assert state.time_ms < now_ms
    (verdict,) = (incident.verdict for incident in state.incidents.all if incident.verdict.mode == mode)
    return verdict


def batches(folder: Path, ms: int) -> list[tuple[int, Chunk]]:
    decoded = []
    for record in read([folder]):
        raw = raw_record(record)
        one = DECODERS[record.stream](raw, SETTINGS, int(time.time() * 1000))
        times = [s.ts_ms for s in one.snapshots if s.ts_ms] + [line.ts_ms for line in one.lines if line.ts_ms]
        if times:
            decoded.append((min(times) // ms * ms, one, raw.source))
    chunks = []
    for begin, batch in groupby(sorted(decoded, key=lambda item: item[0]), key=lambda item: item[0]):
        packer = Packer(1)
        for _, one, source in batch:
            pack(one, source, packer)
        for chunk in packer.chunks().values():
            chunk.clocks = [packer.clock] if packer.clock else []
            chunks.append((begin, decode(encode(chunk))))
    return chunks
