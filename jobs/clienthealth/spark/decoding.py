"""Decode raw Kafka records, which arrive in Arrow batches.

The results are rejected records, record counts, and chunks of data for each bucket (a set of processes).
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from clienthealth.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from clienthealth.read.decode import Decoded

DECODED = "bucket int, data binary"

#: RAW: columns of the input. `headers` is JSON, because an array of structs would cost more time. A record that is too
#: large has a `size` instead of a `value`.
RAW = ("value", "size", "key", "headers", "topic", "partition", "offset", "ts_ms")

#: Buckets for data that belongs to no single process. Partition n sends its rejects to bucket REJECTS - n.
COUNTS = -1
REJECTS = -2

#: To limit its memory, a worker passes its chunks on after this many records.
RECORDS_PER_CHUNK = 50_000
MINUTE_MS = 60_000
#: Maximum number of literals in a regular expression: RE2 is slow with more literals.
MOST = 250

#: READ: maximum number of lines that are decoded in a group of similar lines; the group's other lines are only counted.
#: The maximum applies to batches of at least BURST lines.
BURST, READ = 500, 50
_DIGITS = "[0-9]+"
#: Matches times and file offsets, in which similar lines may differ (see `to_read`).
_TIMES = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?|\b[0-9]{13,}\b|\"offset\": ?[0-9]+"
    r"|\b[0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]+"
)
_OF_DUMPS = r"\tat |\\tat | tid=0x|java\.lang\.Thread\.State: |- (?:locked|waiting|parking)"
_OF_PROCESS = r"^[^|]*\|[^|]+\|"

ArrowFunction = Callable[["Iterable[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


class Reject(msgspec.Struct, array_like=True, gc=False):
    """A record that cannot be used, and the reason. `headers`: the record's headers as JSON."""

    reason: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: str | None


class Count(msgspec.Struct, array_like=True):
    """The number of records of one topic that arrived in the minute that begins at `minute_ms` (epoch ms).

    `reason`: why the records were rejected; None for good records. `late`: records that arrived more than `[monitor]
    watermark_seconds` after their own time. `newest_ms`, `groups_newest_ms`: newest event time (epoch ms) in
    clients' records, and in records of consumer groups.
    """

    minute_ms: int
    topic: str
    reason: str | None
    records: int = 0
    late: int = 0
    newest_ms: int = 0
    groups_newest_ms: int = 0


def decoder(settings: Settings, literals: tuple[str, ...], numbers: Sequence[int] = ()) -> ArrowFunction:
    """Return the function with which a worker decodes records.

    Log records without any of the `literals` are skipped. `numbers`: for each bucket, the key under which Spark stores
    the bucket's state; by default, the bucket's number.
    """

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import clienthealth.spark.worker  # noqa: F401
        from clienthealth.spark.decoding import _Task

        return _Task(settings, literals, numbers).run(batches)

    return decode


def compressed(data: bytes | bytearray) -> bytes:
    """Return the size of `data` (8 bytes, little-endian), followed by `data` compressed with LZ4."""
    import pyarrow as pa

    return len(data).to_bytes(8, "little") + pa.compress(data, codec="lz4_raw", asbytes=True)  # type: ignore[no-any-return]


def decompressed(data: bytes | memoryview) -> bytes:
    """Undo the function `compressed`."""
    import pyarrow as pa

    size = int.from_bytes(data[:8], "little")
    return pa.decompress(memoryview(data)[8:], decompressed_size=size, codec="lz4_raw", asbytes=True)  # type: ignore[no-any-return]


class _Task:
    def __init__(self, settings: Settings, literals: tuple[str, ...], numbers: Sequence[int] = ()) -> None:
        import pyarrow as pa

        from clienthealth.measure.packed import client_of
        from clienthealth.measure.packer import Packer
        from clienthealth.read.decode import latest_ms

        self.settings, self.client_of = settings, client_of
        self.numbers = numbers or range(settings.monitor.buckets)
        self.patterns = ["|".join(map(_escaped, literals[i : i + MOST])) for i in range(0, len(literals), MOST)]
        self.now_ms = int(time.time() * 1000)
        self.latest_ms = latest_ms(settings, self.now_ms)
        self.metrics = frozenset(settings.topics.metrics)
        self.packer = Packer(settings.monitor.buckets, settings.monitor.max_events_per_process)
        self.rejects: list[Reject] = []
        self.counts: dict[tuple[int, str, str | None], Count] = {}
        self.schema = pa.schema([("bucket", pa.int32()), ("data", pa.binary())])
        #: For each topic and client: the `Slot` in which `packer` collects the client's samples.
        self.slots: dict[str, dict[Any, Any]] = {}
        self.partition = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_held = 0
        for batch in batches:
            self._batch(batch)
            rows_held += batch.num_rows
            if max(rows_held, self.packer.held) >= RECORDS_PER_CHUNK:
                yield self._flushed(last=False)
                rows_held = 0
        yield self._flushed(last=True)

    def _flushed(self, last: bool) -> pa.RecordBatch:
        import pyarrow as pa

        from clienthealth.measure.packed import Chunk, encode

        chunks = self.packer.chunks()
        if last and self.packer.clock is not None:
            for bucket in range(self.settings.monitor.buckets):
                chunks.setdefault(bucket, Chunk()).clocks = [self.packer.clock]
        rows = [(self.numbers[bucket], compressed(encode(chunk))) for bucket, chunk in chunks.items()]
        if self.rejects:
            rows.append((REJECTS - self.partition, msgspec.msgpack.encode(self.rejects)))
            self.rejects = []
        if last and self.counts:
            rows.append((COUNTS, msgspec.msgpack.encode([*self.counts.values()])))
        buckets, data = zip(*rows, strict=True) if rows else ((), ())
        columns = [pa.array(buckets, pa.int32()), pa.array(data, pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _batch(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        topics = batch.column("topic").dictionary_encode()
        names = topics.dictionary.to_pylist()
        of_topic = topics.indices.to_numpy(zero_copy_only=False)
        times = np.full(batch.num_rows, np.nan)
        reasons: list[tuple[int, str]] = []
        for at, name in enumerate(names):
            rows = np.flatnonzero(of_topic == at)
            part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            stream_times = np.full(part.num_rows, np.nan)
            records = _Records(part, name)
            self.partition = records.partition[0] if records.partition else 0
            (self._metrics if name in self.metrics else self._logs)(records, stream_times, reasons)
            self._count(records, stream_times, reasons)
            reasons.clear()
            times[rows] = stream_times

    def _metrics(self, records: _Records, times: np.ndarray, reasons: list[tuple[int, str]]) -> None:
        from clienthealth.read.decode import decode_metrics, fast, may_carry

        packer, latest_ms, largest = self.packer, self.latest_ms, self.settings.monitor.max_record_bytes
        topic, topics, slots = records.topic, self.settings.topics, self.slots.setdefault(records.topic, {})
        values, offsets, headers = records.values, records.offset, records.headers
        partitions = records.partition
        for at in range(len(offsets)):
            sample = fast(values[at], headers[at] is not None, latest_ms, largest)
            slot = None if sample is None else slots.get(sample.client)
            if sample is not None and slot is None:
                identity = sample.client.identity
                if identity.kind != "group" and may_carry(topics, topic, identity.service or ""):
                    slot = slots[sample.client] = packer.slot(self.client_of(identity))
            if sample is None or slot is None:
                decoded = decode_metrics(records.record(at), self.settings, self.now_ms)
                self._take(decoded, records, at, times, reasons)
                continue
            where = topic, partitions[at], offsets[at]
            chunk, row = packer.reading(slot, sample.ts_ms, sample.values, *where, sample.config, sample.interval_ms)
            for part in sample.topics or ():
                chunk.part(row, part.topic, part.partition, part.thread, part.values)
            times[at] = sample.ts_ms

    def _logs(self, records: _Records, times: np.ndarray, reasons: list[tuple[int, str]]) -> None:
        from clienthealth.measure.packed import process_of
        from clienthealth.modes import catalogue
        from clienthealth.read.decode import decode_logs
        from clienthealth.read.logs.events import events_and_dumps

        times[:] = records.arrived
        todo = records.lines_to_decode(self.patterns)[::-1]
        while todo:
            at, alike = todo.pop()
            record = records.record(at)
            decoded = decode_logs(record, self.settings, self.now_ms)
            if decoded.errors and len(alike) > 1:
                todo += [(one, alike[:1]) for one in alike.tolist() if one != at]
                alike = alike[:1]
            for line in decoded.lines:
                process = process_of(line.client)
                events, dumps = events_and_dumps(line, record.source, catalogue())
                for event in events:
                    self.packer.log_entry(process, event=event, repeats=len(alike))
                for dump in dumps:
                    self.packer.log_entry(process, dump=dump)
            self._take(decoded, records, at, times, reasons)
            if len(alike) > 1:
                times[alike] = times[at]

    def _take(
        self, decoded: Decoded, records: _Records, at: int, times: np.ndarray, reasons: list[tuple[int, str]]
    ) -> None:
        source = records.source(at)
        for snapshot in decoded.snapshots:
            self.packer.snapshot(snapshot, self.client_of(snapshot.client), source)
        if decoded.snapshots:
            records.of_groups[at] = all(snapshot.client.kind == "group" for snapshot in decoded.snapshots)
        sent_ms = [snapshot.ts_ms or 0 for snapshot in decoded.snapshots] + [line.ts_ms or 0 for line in decoded.lines]
        times[at] = max(sent_ms, default=0) or np.nan
        for error in decoded.errors:
            reason = error.partition(":")[0]
            if reason == "empty" and records.size[at] is not None:
                error = reason = "oversized"
            reasons.append((at, reason))
            self.rejects.append(records.reject(at, error))

    def _count(self, records: _Records, times: np.ndarray, reasons: list[tuple[int, str]]) -> None:
        # Replace times in the future by the present time, because the history cannot store times in the far future.
        arrived = np.where(records.arrived > 0, np.minimum(records.arrived, self.now_ms), float(self.now_ms))
        minutes = arrived // MINUTE_MS * MINUTE_MS
        late = arrived - times > 1000 * self.settings.monitor.watermark_seconds
        good = np.ones(len(arrived), bool)
        good[[at for at, _ in reasons]] = False
        accepted = [(np.flatnonzero(good & (minutes == minute)), None) for minute in np.unique(minutes[good])]
        for rows, reason in (*((np.array([at]), reason) for at, reason in reasons), *accepted):
            key = int(minutes[rows[0]]), records.topic, reason
            count, of_groups = self.counts.setdefault(key, Count(*key)), records.of_groups[rows]
            count.records += len(rows)
            count.late += int(late[rows].sum()) if reason is None else 0
            count.newest_ms = max(count.newest_ms, _newest(times[rows[~of_groups]]))
            count.groups_newest_ms = max(count.groups_newest_ms, _newest(times[rows[of_groups]]))


def _newest(times: np.ndarray) -> int:
    return int(np.nanmax(times, initial=0))


def _escaped(literal: str) -> str:
    """Escape a literal for RE2, Arrow's engine for regular expressions."""
    return "".join(c if c.isalnum() or c in " _" else f"\\{c}" if ord(c) < 128 else c for c in literal)


class _Records:
    def __init__(self, batch: pa.RecordBatch, topic: str) -> None:
        self.topic, self._batch = topic, batch
        column = batch.column("value")
        data = column.buffers()[2]
        ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1].tolist()
        # A view of Arrow's buffer has signed bytes. Cast the view to unsigned bytes.
        view = memoryview(data).cast("B") if data is not None else memoryview(b"")
        self.values: list[memoryview | None] = [view[a:b] for a, b in itertools.pairwise(ends)]
        if column.null_count:
            for at in np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False)).tolist():
                self.values[at] = None
        self.offset: list[int] = batch.column("offset").to_pylist()
        self.partition: list[int] = batch.column("partition").to_pylist()
        self.headers: list[str | None] = batch.column("headers").to_pylist()
        self.size: list[int | None] = batch.column("size").to_pylist()
        self.arrived = batch.column("ts_ms").to_numpy(zero_copy_only=False).astype(np.float64)
        self.of_groups = np.zeros(len(self.offset), bool)

    def source(self, at: int) -> Any:
        from clienthealth.model.readings import Source

        return Source(self.topic, self.partition[at], self.offset[at])

    def key(self, at: int) -> bytes | None:
        return self._batch.column("key")[at].as_py()  # type: ignore[no-any-return]

    def record(self, at: int) -> Any:
        from clienthealth.model.telemetry import RawRecord

        text = self.headers[at]
        headers = {} if text is None else {h["key"]: base64.b64decode(h.get("value") or "") for h in json.loads(text)}
        return RawRecord(self.values[at], self.source(at), int(self.arrived[at]), self.key(at), headers)

    def reject(self, at: int, error: str) -> Reject:
        value, where = self.values[at], (self.topic, self.partition[at], self.offset[at])
        return Reject(error, *where, self.key(at), None if value is None else bytes(value), self.headers[at])

    def lines_to_decode(self, patterns: Sequence[str]) -> list[tuple[int, np.ndarray]]:
        worth = np.flatnonzero(self.worth_decoding(patterns))
        return to_read(self._batch.column("value"), self._batch.column("key"), worth)

    def worth_decoding(self, patterns: Sequence[str]) -> np.ndarray:
        """Return a mask: True for a record that matches a pattern, is empty, is not UTF-8 or has control characters."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = self._batch.column("value")
        empty = pc.fill_null(pc.equal(pc.binary_length(values), 0), True).to_numpy(zero_copy_only=False)
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid:
            texts: list[str | None] = [None] * len(self.values)
            for at, value in enumerate(self.values):
                with suppress(UnicodeDecodeError):
                    texts[at] = None if value is None else str(value, "utf-8")
            text = pa.array(texts, pa.string())
        found = (pc.match_substring_regex(text, pattern) for pattern in (*patterns, "[\\x00-\\x08]"))
        shown = pc.fill_null(reduce(pc.or_, found), True)
        return empty | shown.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def to_read(values: Any, keys: Any, worth: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Choose the log records to decode.

    For each chosen record, return (the record's index, the indexes of the records that the chosen record represents).

    Similar lines have the same key. If the key names a process, similar lines differ only in digits. If the key names
    no process, similar lines differ only in times and file offsets. A line of a thread dump is similar to no other
    line.

    `values`, `keys`: binary columns. `worth`: indexes of the records to choose from.
    """
    alone = [(at, np.array([at])) for at in worth.tolist()]
    if len(worth) < BURST:
        return alone
    alike = _alike(values, keys, worth)
    order = np.argsort(alike, kind="stable")
    starts = np.flatnonzero(np.diff(alike[order])) + 1
    samples: list[tuple[int, np.ndarray]] = []
    for repeated in np.split(worth[order], starts):
        if len(repeated) <= READ:
            samples += [(at, np.array([at])) for at in repeated.tolist()]
        else:
            samples += [(int(part[len(part) // 2]), part) for part in np.array_split(repeated, READ)]
    return sorted(samples, key=lambda one: one[0])


def _alike(values: Any, keys: Any, worth: np.ndarray) -> np.ndarray:
    """Return one number for each record with an index in `worth`. Similar records have equal numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = pa.array(worth)
    try:
        texts = values.take(at).cast(pa.string())
        subject = pc.fill_null(keys.take(at).cast(pa.string()), "")
    except pa.ArrowInvalid:
        return np.arange(len(worth))
    texts = pc.fill_null(texts, "")
    named = pc.match_substring_regex(subject, _OF_PROCESS)
    shape = pc.if_else(
        named,
        pc.replace_substring_regex(texts, _DIGITS, ""),
        texts if pc.all(named).as_py() else pc.replace_substring_regex(texts, _TIMES, ""),
    )
    own = pa.array(np.arange(len(worth)).astype(str))
    shape = pc.if_else(pc.match_substring_regex(texts, _OF_DUMPS), own, shape)
    whole = pc.binary_join_element_wise(subject, shape, "\0")
    numbers: np.ndarray = whole.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
