"""Calculate the results for an input without Spark or Kafka."""

from __future__ import annotations

import base64
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from clienthealth.measure.packed import Chunk, decode
from clienthealth.modes import catalogue
from clienthealth.monitor.incidents import change_row
from clienthealth.monitor.state import BucketState
from clienthealth.monitor.step import step
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings
from clienthealth.spark.decoding import RAW, decoder, decompressed
from tests.chaos import load
from tests.chaos.published import Row

TYPES = (pa.binary(), pa.int32(), pa.binary(), pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())


@dataclass
class Rows:
    rows: list[Row] = field(default_factory=list)

    def look(self) -> list[Row]:
        return self.rows


@dataclass
class Calculated:
    """The calculated history. The column `observed` of `verdicts` holds a batch number instead of a time."""

    minutes: Rows = field(default_factory=Rows)
    verdicts: Rows = field(default_factory=Rows)


def calculated(parts: Sequence[load.Slice], cuts: int, settings: Settings, now_ms: int) -> Calculated:
    chosen, offset, batch = random.Random(cuts), 0, 0
    states: dict[int, BucketState] = defaultdict(BucketState)
    tables = Calculated()
    *parts, last = parts
    for part in [*parts, *(load.Slice(last.number, last.begin_ms, records) for records in last.portions(0))]:
        ends = [*sorted(chosen.sample(range(1, len(part.records)), cuts if part in parts else 0)), len(part.records)]
        for begin, end in zip([0, *ends], ends, strict=False):
            by_bucket = _chunks(part.records[begin:end], offset, settings)
            offset += end - begin
            batch += 1
            for bucket in range(settings.monitor.buckets):
                given = by_bucket.get(bucket, [])
                if bucket in states or any(chunk.all_clients or chunk.log_entries or chunk.groups for chunk in given):
                    published = step(states[bucket], given, settings, now_ms)
                    tables.minutes.rows += published.minutes
                    tables.verdicts.rows += (json.loads(change_row(change, batch)) for change in published.changes)
    return tables


def _chunks(records: Sequence[load.Published], first: int, settings: Settings) -> dict[int, list[Chunk]]:
    tasks: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for offset, record in enumerate(records, first):
        headers = [{"key": key, "value": base64.b64encode(value).decode()} for key, value in record.headers]
        topic = {"metrics": settings.topics.metrics, "logs": settings.topics.logs}[record.stream][0]
        row = (record.value, None, None, json.dumps(headers) if headers else None, topic)
        tasks[topic, record.partition(2)].append((*row, record.partition(2), offset, record.ts_ms))
    by_bucket: dict[int, list[Chunk]] = defaultdict(list)
    for rows in tasks.values():
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
        for batch in decoder(settings, literals(catalogue()))([pa.RecordBatch.from_arrays(arrays, names=list(RAW))]):
            for bucket, data in zip(*(batch.column(name).to_pylist() for name in ("bucket", "data")), strict=True):
                if bucket >= 0:
                    by_bucket[bucket].append(decode(decompressed(data)))
    return by_bucket
