"""The input of a campaign of faults: what it says does not hang on how it is cut into batches."""

from __future__ import annotations

import base64
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from clienthealth.incidents import Transition
from clienthealth.logs.events import LITERALS
from clienthealth.settings import Settings
from clienthealth.step import step
from clienthealth.step.state import BucketState
from clienthealth.streaming.decoding import RAW, decoder, decompressed
from clienthealth.windows.packed import Chunk, decode
from tests.chaos import load
from tests.chaos.compare import CLIENT
from tests.support import fake_registry

BEGIN_MS = 1_795_208_640_000
NOW_MS = BEGIN_MS + 86_400_000
TYPES = (pa.binary(), pa.int32(), pa.binary(), pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())


def chunks(records: Sequence[load.Published], first: int, settings: Settings) -> dict[int, list[Chunk]]:
    """What a batch of these records decodes to, by bucket: a task for each partition."""
    tasks: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for offset, record in enumerate(records, first):
        headers = [{"key": key, "value": base64.b64encode(value).decode()} for key, value in record.headers]
        topic = f"client-{record.stream}"
        row = (record.value, None, None, json.dumps(headers) if headers else None, topic)
        tasks[topic, record.partition(2)].append((*row, record.partition(2), offset, record.ts_ms))
    by_bucket: dict[int, list[Chunk]] = defaultdict(list)
    for rows in tasks.values():
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
        for batch in decoder(settings, LITERALS)([pa.RecordBatch.from_arrays(arrays, names=list(RAW))]):
            for bucket, data in zip(*(batch.column(name).to_pylist() for name in ("bucket", "data")), strict=True):
                if bucket >= 0:
                    by_bucket[bucket].append(decode(decompressed(data)))
    return by_bucket


def stepped(parts: Sequence[load.Slice], cuts: int, settings: Settings) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Minutes, and incidents by client and mode: the statuses that they reached.

    `cuts`: of each slice, by chance, but of the last, which is read as in real time.
    """
    chosen, offset = random.Random(cuts), 0
    states: dict[int, BucketState] = defaultdict(BucketState)
    minutes: list[dict[str, Any]] = []
    changes: list[Transition] = []
    *parts, last = parts
    for part in [*parts, *(load.Slice(last.number, last.begin_ms, records) for records in last.portions(0))]:
        ends = [*sorted(chosen.sample(range(1, len(part.records)), cuts if part in parts else 0)), len(part.records)]
        for begin, end in zip([0, *ends], ends, strict=False):
            by_bucket = chunks(part.records[begin:end], offset, settings)
            offset += end - begin
            for bucket in range(settings.monitor.buckets):
                given = by_bucket.get(bucket, [])
                if not states[bucket].empty or any(chunk.whos or chunk.log_entries or chunk.groups for chunk in given):
                    published = step(states[bucket], given, settings, NOW_MS)
                    minutes += published.minutes
                    changes += published.changes
    by_minute = {tuple(row[name] for name in ("minute", *CLIENT)): row for row in minutes}
    assert len(by_minute) == len(minutes)
    reached: dict[Any, list[str]] = defaultdict(list)
    for change in changes:
        of = reached[change.client.key, change.verdict.mode]
        if change.change == "opened":
            of.append(change.verdict.status)
        elif change.change == "escalated":
            of[-1] = change.verdict.status
    return by_minute, dict(reached)


@pytest.fixture(scope="module")
def parts() -> list[load.Slice]:
    """So many slices that each recording of a failure is in one, and one more."""
    return load.slices(1, range(len(load.FAILING) + 1), BEGIN_MS)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """With the registry that the fleet needs."""
    registry = fake_registry.Registry()
    with fake_registry.serving(registry, fake_registry.always):
        yield registry.settings


def test_minutes_and_incidents_do_not_hang_on_the_batches(parts: list[load.Slice], settings: Settings) -> None:
    minutes, reached = stepped(parts, 3, settings)
    whole_minutes, whole_reached = stepped(parts, 0, settings)
    assert minutes == whole_minutes
    assert reached == whole_reached
    assert not any(row.get("clock_skew_seconds") for row in minutes.values())
    incidents = {(key.split("|")[0].rpartition("-")[0], mode) for key, mode in reached}
    assert incidents >= {(name, mode) for name, mode in load.FAILING.items()}
    assert not {name for name, _ in incidents} & set(load.HARMLESS)
    assert load.AVRO in {client for (_, _, _, client, _) in minutes}
    assert reached["service-0|web-0:100|client-0", "producer-callback-deadlock"] == ["confirmed"]


def test_a_backlog_of_half_an_hour_in_one_batch_says_the_same(parts: list[load.Slice], settings: Settings) -> None:
    whole = load.Slice(0, BEGIN_MS, tuple(record for part in parts[:5] for record in part.records))
    assert stepped([whole, parts[5]], 0, settings) == stepped(parts[:6], 0, settings)


def test_the_same_seed_gives_the_same_records() -> None:
    assert load.slices(3, range(2), BEGIN_MS) == load.slices(3, range(2), BEGIN_MS)
    assert load.slices(3, range(2), BEGIN_MS) != load.slices(4, range(2), BEGIN_MS)
