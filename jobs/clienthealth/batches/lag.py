"""Lag windows of consumer groups → their records on `client-health`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clienthealth.batches.state import RECORD, state_json
from clienthealth.batches.steps import ArrowFunction
from clienthealth.health import client_json
from clienthealth.indicators.lag import Observation, Partition, group_lag
from clienthealth.judging import client
from clienthealth.settings import LagSettings, Settings
from clienthealth.sinks.kafka import write

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = ("key", "committed_offset", "end_offset", "start_offset", "commit_timestamp_ms")


class LagBatch:
    """Lag windows of consumer groups → their records on `client-health`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        settings = self._settings
        records = longest(batch, settings.lag).mapInArrow(lag_rows(settings), RECORD)
        write(records, settings, settings.topics.health)


def longest(windows: DataFrame, limits: LagSettings) -> DataFrame:
    """Of the windows that hold a group's newest reading the one that reaches back farthest.

    That is the one that ends next. The others go before anything is shuffled: the readings are many.
    """
    ends_next = F.col("last_ms") >= F.unix_millis("window.end") - limits.slide_seconds * 1000
    kept = F.struct("newest", "readings", F.unix_millis("window.start").alias("start_ms"))
    return (
        windows.filter(ends_next)
        .groupBy("service", "instance", "client_id")
        .agg(F.max_by(kept, "last_ms").alias("window"))
        .select("window.*")
    )


def lag_rows(settings: Settings) -> ArrowFunction:
    """A function for `mapInArrow`: the readings of groups → their records."""
    limits = settings.lag

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = [_record(row, limits) for row in _rows(batch)]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=pa.schema({"key": pa.string(), "value": pa.string()}))

    return judge


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """One group at a time, its readings still in Arrow: as Python objects those of all are ten times as large."""
    newest, readings, starts = (batch.column(name) for name in ("newest", "readings", "start_ms"))
    for position in range(batch.num_rows):
        yield {
            "newest": newest[position].as_py(),
            "readings": readings[position].values,
            "start_ms": starts[position].as_py(),
        }


def _record(row: dict[str, Any], limits: LagSettings) -> dict[str, str]:
    newest = row["newest"]
    who = client(newest["client"])
    times = row["readings"].field("ts_ms").to_pylist()
    last_ms = max(times)
    histories, owners = _histories(row["readings"], times, last_ms, newest["partitions"] or ())
    state = {
        "window_start": row["start_ms"],
        "window_end": last_ms,
        "client": client_json(dataclasses.replace(who, kind="group")),
        "samples": len(set(times)),
        "indicators": group_lag(who.group or who.client_id, histories, owners, newest["members"], limits),
    }
    return {"key": who.key, "value": state_json(state, [], last_seen=last_ms)}


def _histories(
    readings: pa.StructArray, times: list[int], last_ms: int, named: Iterable[dict[str, Any]]
) -> tuple[dict[Partition, list[Observation]], dict[Partition, Any]]:
    """What was seen of each partition of the last reading, in order of time, and the member that owns it."""
    partitions = readings.field("partitions")
    seen = partitions.flatten()
    lengths = partitions.value_lengths().fill_null(0).to_pylist()
    when = [ts_ms for ts_ms, length in zip(times, lengths, strict=True) for _ in range(length)]
    by_key: dict[int, list[Observation]] = {}
    numbers = (seen.field(name).to_pylist() for name in NUMBERS)
    for ts_ms, key, *offsets in sorted(zip(when, *numbers, strict=True), key=itemgetter(0)):
        by_key.setdefault(key, []).append((ts_ms, *offsets))
    alone = (name for name in seen.field("name").drop_null().to_pylist())
    names = {name["key"]: name for name in (*alone, *named)}
    now = sorted(
        ((names[key]["topic"], names[key]["partition"]), key)
        for key, history in by_key.items()
        if history[-1][0] == last_ms and key in names
    )
    return {where: by_key[key] for where, key in now}, {where: names[key]["member"] for where, key in now}
