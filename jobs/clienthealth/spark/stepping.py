"""Run the stateful step in Spark's workers. A call judges one bucket (a set of processes)."""

from __future__ import annotations

import base64
import dataclasses
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clienthealth.model.readings import Source
from clienthealth.model.values import grouped
from clienthealth.monitor.incidents import OpenIncident, change_row
from clienthealth.settings import Settings
from clienthealth.spark.decoding import COUNTS, REJECTS, Count, Reject, decompressed

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from clienthealth.measure.packed import Chunk
    from clienthealth.monitor.faults import Fault
    from clienthealth.monitor.step import Published

#: `kind` decides where an output row goes: to a topic, to a history table, or to the driver.
ROWS = "kind string, key binary, value binary, headers string"
STATE = "data binary"

#: The driver collects the rows of the kinds in DRIVER, so there must be few such rows.
HEALTH, REJECT, MINUTE, CHANGE = "health", "reject", "minute", "change"
QUALITY, COUNT, SUMMARY = DRIVER = ("quality", "count", "summary")

#: AROUND: allowance (bytes) for what Kafka's format adds to a record. SENT_BYTES: largest record before compression.
MAX_REASON, AROUND, SENT_BYTES = 1_000, 1_000, 32 << 20
#: Level 6, the default, takes twice as much CPU time as level 1, for an output that is only a seventh smaller.
GZIP_LEVEL = 1

Step = Callable[["tuple[Any, ...]", "Iterator[pd.DataFrame]", "GroupState"], "Iterator[pd.DataFrame]"]
Row = tuple[str, bytes | None, bytes | None, str | None]


class Quality(msgspec.Struct, array_like=True):
    """Counts of a topic's records that arrived in one minute: all records, rejected records and late records.

    `batches`: number of batches in which the records were read.
    """

    minute_ms: int
    topic: str
    records: int = 0
    rejected: int = 0
    late: int = 0
    batches: int = 0


class Summary(msgspec.Struct):
    """The result of a bucket's step in a batch: numbers of rows, and values for the monitor's own metrics.

    `bucket`    the bucket's number; None for rejected records, or if the step had no result
    `changes`   (failure mode, kind of change such as "opened", number of incidents that changed in this way)
    `onsets`    the onset (epoch ms) of each incident that opened
    `clients`   counts the clients and groups in the state
    `skewed`    counts the clients with a wrong clock
    `late`      counts the samples and events that came too late
    `left_out`  maps each limit (`self_monitoring.LIMITS`) to the number of clients, samples and events left out by it
    `failed`    counts the processes for which the step failed, by topic; '' includes records that were too large
    """

    rows: dict[str, int] = {}
    changes: list[tuple[str, str, int]] = []
    onsets: list[int] = []
    bucket: int | None = None
    clients: int = 0
    skewed: int = 0
    late: int = 0
    left_out: dict[str, int] = {}
    failed: dict[str, int] = {}


def by_bucket(opened: Iterable[OpenIncident], buckets: int) -> Mapping[int, bytes]:
    """Return the open incidents of each bucket, as compressed MessagePack."""
    from clienthealth.measure.packed import bucket_of
    from clienthealth.spark.decoding import compressed

    of_bucket = grouped(opened, lambda incident: bucket_of(incident.client, buckets))
    return {bucket: compressed(_pack(incidents)) for bucket, incidents in of_bucket.items()}


def stepper(settings: Settings, opened: Mapping[int, bytes], numbers: Sequence[int] = ()) -> Step:
    """Return the function for `applyInPandasWithState`.

    `numbers`: for each bucket, the key of the bucket's state in Spark. `opened`: the result of `by_bucket`. A bucket
    without a state starts with its open incidents.
    """

    buckets = {number: bucket for bucket, number in enumerate(numbers)}

    def run(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import clienthealth.spark.worker  # noqa: F401
        from clienthealth.spark import stepping

        number = int(key[0])
        yield from stepping.stepped(buckets.get(number, number), frames, state, settings, opened)

    return run


def stepped(
    bucket: int, frames: Iterable[pd.DataFrame], state: GroupState, settings: Settings, opened: Mapping[int, bytes]
) -> Iterator[pd.DataFrame]:
    """Judge the input of one bucket in one batch. Yield one DataFrame of output rows, or nothing if there are no rows.

    `frames`: DataFrames with the bucket's encoded chunks in the column `data`. `opened`: maps a bucket to its packed
    open incidents.
    """
    import pandas as pd

    data = [item for frame in frames for item in frame["data"]]
    if bucket <= REJECTS:
        rows = _rejected(data, settings.topics.max_message_bytes)
    elif bucket == COUNTS:
        rows = _counted(data, state, settings.monitor.quality_seconds)
    else:
        rows = _judged(bucket, data, state, settings, opened)
    if rows:
        yield pd.DataFrame(rows, columns=["kind", "key", "value", "headers"])


def _judged(
    bucket: int, data: Sequence[bytes], state: GroupState, settings: Settings, opened: Mapping[int, bytes]
) -> list[Row]:
    packed = [decompressed(item) for item in data]
    advanced, faults = advance(bucket, packed, state, settings, opened, int(time.time() * 1000))
    if advanced is None and not faults:
        return []
    _, rows, summary = advanced or (None, [], Summary())
    too_large = sum(row[0] == REJECT for row in rows)
    summary.rows[REJECT] = len(faults) + too_large
    summary.failed = Counter({"": too_large} if too_large else {})
    summary.failed.update(fault.source.topic if fault.source else "" for fault in faults)
    return [*rows, *map(_fault, faults), (SUMMARY, None, _pack(summary), None)]


def advance(
    bucket: int, packed: Sequence[bytes], kept: GroupState, settings: Settings, opened: Mapping[int, bytes], now_ms: int
) -> tuple[tuple[Published, list[Row], Summary] | None, list[Fault]]:
    """Run the step on a bucket's chunks and state, and store the new state in `kept`.

    Return (result, faults). A Fault names a process that was left out, because its data made the step fail. The result
    is None if there is nothing to judge, or if the step fails and no single process is the cause.

    `packed`: the encoded chunks. `kept`: the bucket's state as Spark stores it. `opened`: as in `stepped`.
    """
    from clienthealth.measure.packed import decode
    from clienthealth.monitor.faults import isolated
    from clienthealth.monitor.state import BucketState, save
    from clienthealth.monitor.step import step
    from clienthealth.spark.decoding import compressed

    buckets = settings.monitor.buckets

    def run(state: BucketState, chunks: Sequence[Chunk]) -> tuple[tuple[Published, list[Row], Summary], bytes]:
        published = step(state, chunks, settings, now_ms)
        rows, summary = _rows(published, bucket, settings.topics.max_message_bytes, now_ms)
        return (published, rows, summary), compressed(save(state, buckets))

    if kept.exists:
        before: bytes | bytearray = decompressed(bytes(kept.get[0]))
    elif bucket in opened or any(
        chunk.all_clients or chunk.log_entries or chunk.groups for chunk in map(decode, packed)
    ):
        incidents = _unpack_opened(decompressed(opened[bucket])) if bucket in opened else ()
        first = BucketState()
        first.incidents.reopen(_taken_over(incident, settings, now_ms) for incident in incidents)
        before = save(first, buckets)
    else:
        return None, []
    result, faults = isolated(before, packed, buckets, run)
    if result is not None:
        kept.update((result[1],))
    return (None if result is None else result[0]), faults


def _taken_over(incident: OpenIncident, settings: Settings, now_ms: int) -> OpenIncident:
    """Return an incident from the history as if its client had sent data until now.

    The fault counts as last seen at the later of two times: when the fault was really last seen, and the time from
    which topics are read (`start_seconds_back` before now). If the mode is about clients that have gone, the fault
    counts as last seen now.
    """
    from clienthealth.modes import modes

    absent = modes()[incident.verdict.mode].absence
    since_ms = now_ms if absent else now_ms - 1000 * settings.monitor.start_seconds_back
    heard_ms = max(incident.heard_ms, now_ms)
    return dataclasses.replace(incident, seen_ms=max(incident.seen_ms, since_ms), heard_ms=heard_ms)


def _rows(published: Published, bucket: int, most: int, now_ms: int) -> tuple[list[Row], Summary]:
    """Return a step's output rows, and the summary of these rows.

    `most`: maximum size (bytes) of a health record; a larger record becomes a reject.
    """
    from clienthealth.monitor.faults import REASON

    too_large = f"{REASON}: the record would take more than {most} bytes (the limit in [topics] max_message_bytes)"
    rows: list[Row] = []
    for name, value in published.records:
        key = name.encode()
        fit = fits(most, key, value)
        rows.append((HEALTH, key, value, None) if fit else (REJECT, key, None, headers_of(too_large, None)))
    minutes, changes = published.minutes, published.changes
    rows += [(MINUTE, None, _json(minute), None) for minute in minutes]
    earlier: Counter[tuple[str, str]] = Counter()
    for change in changes:
        # Readers of the history sort an incident's changes by `observed`, so it must differ also within a batch.
        incident = change.client.key, change.verdict.mode
        rows.append((CHANGE, None, change_row(change, now_ms + earlier[incident]), None))
        earlier[incident] += 1
    summary = Summary(
        rows={HEALTH: len(published.records), MINUTE: len(minutes), CHANGE: len(changes)},
        changes=[(*kind, n) for kind, n in Counter((c.verdict.mode, c.change) for c in changes).items()],
        onsets=[c.verdict.since_ms for c in changes if c.change == "opened" and c.verdict.since_ms is not None],
        bucket=bucket,
        clients=published.clients,
        skewed=published.skewed,
        late=published.late,
        left_out={limit: number for limit, number in published.left_out.items() if number},
    )
    return rows, summary


def fits(most: int, *parts: bytes | None) -> bool:
    """True if a record that consists of `parts`, such as key and value, is small enough.

    `most`: maximum size of the compressed record (bytes). A record of more than SENT_BYTES before compression is too
    large for producers.
    """
    size = sum(map(len, filter(None, parts))) + AROUND
    if size <= most or size > SENT_BYTES:
        return size <= most
    return 1.02 * len(zlib.compress(b"".join(part for part in parts if part), GZIP_LEVEL)) + AROUND <= most


def _rejected(data: Sequence[bytes], most: int) -> list[Row]:
    """Return a row per rejected record, and a row with the number of rejected records.

    `most`: maximum size of a row (bytes). A larger row loses its value. A row that is still too large also loses its
    key and the record's own headers.
    """
    rows: list[Row] = []
    for reject in (reject for item in data for reject in _unpack_rejects(item)):
        source = Source(reject.topic, reject.partition, reject.offset)
        headers = headers_of(reject.reason, source, json.loads(reject.headers) if reject.headers else ())
        whole, without_value = (reject.key, reject.value, headers), (reject.key, None, headers)
        fitting = (row for row in (whole, without_value) if fits(most, row[0], row[1], headers.encode()))
        rows.append((REJECT, *next(fitting, (None, None, headers_of(reject.reason, source)))))
    return [*rows, (SUMMARY, None, _pack(Summary(rows={REJECT: len(rows)})), None)]


def headers_of(reason: str, source: Source | None, before: Iterable[Mapping[str, str]] = ()) -> str:
    """Return the headers of a reject: a JSON list of objects with `key` and `value` (Base64).

    The list has the record's own headers (`before`), the reason, and the topic, partition and offset.
    """
    added = {"reject_reason": reason[:MAX_REASON]}
    if source is not None:
        added["source_topic"] = source.topic
        added["source_partition"], added["source_offset"] = str(source.partition), str(source.offset)
    encoded = ((name, base64.b64encode(text.encode("utf-8", "replace")).decode()) for name, text in added.items())
    return json.dumps([*before, *({"key": name, "value": value} for name, value in encoded)])


def _fault(fault: Fault) -> Row:
    return REJECT, fault.client.key.encode(), None, headers_of(fault.reason, fault.source)


class _Kept(msgspec.Struct, array_like=True):
    """The state of the bucket COUNTS: numbers of input records, by topic and minute.

    `rows`      counts that are not in the history table yet
    `given_ms`  when counts were last returned for the history table (epoch ms)
    """

    rows: list[Quality] = []
    given_ms: int = 0


def _counted(data: Sequence[bytes], state: GroupState, every_seconds: int) -> list[Row]:
    """Return a row of record counts for metrics. Every `every_seconds`, add a row for the history."""
    counts = [count for item in data for count in counts_of(item)]
    kept = _unpack_kept(bytes(state.get[0])) if state.exists else _Kept()
    if not counts and not kept.rows:
        return []
    rows = {(row.minute_ms, row.topic): row for row in kept.rows}
    for key in {(count.minute_ms, count.topic) for count in counts}:
        rows.setdefault(key, Quality(*key)).batches += 1
    for count in counts:
        row = rows[count.minute_ms, count.topic]
        row.records += count.records
        row.late += count.late
        if count.reason is not None:
            row.rejected += count.records
    output: list[Row] = [(COUNT, None, _pack(counts), None)]
    kept.rows, now_ms = list(rows.values()), int(time.time() * 1000)
    if now_ms - kept.given_ms >= 1000 * every_seconds:
        output.append((QUALITY, None, _pack(kept.rows), None))
        kept = _Kept([], now_ms)
    state.update((_pack(kept),))
    return output


_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
NO_COUNTS = _pack([])
_unpack_rejects = msgspec.msgpack.Decoder(list[Reject]).decode
_unpack_kept = msgspec.msgpack.Decoder(_Kept).decode
_unpack_opened = msgspec.msgpack.Decoder(list[OpenIncident]).decode
counts_of = msgspec.msgpack.Decoder(list[Count]).decode
quality_of = msgspec.msgpack.Decoder(list[Quality]).decode
summary_of = msgspec.msgpack.Decoder(Summary).decode
