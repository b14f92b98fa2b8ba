"""Pack decoded data into one chunk per bucket (`packed.py`), with the time at which each client last reported.

Times are compared with those of neighbouring records (`topic_clock`), because a client's clock may be wrong.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import numpy as np

from clienthealth.measure.columns import Ints, begins
from clienthealth.measure.packed import (
    METRICS_MAX,
    Chunk,
    Clock,
    GroupPartition,
    GroupReading,
    LogEntry,
    Parts,
    Readings,
    bucket_of,
    bucket_of_process,
)
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Snapshot
from clienthealth.read.logs.bursts import is_new, of_each_process

#: NEIGHBOURS: minimum number of records per block. SKEW_MS: maximum distance (ms) of a record's correct time from the
#: time of its block.
NEIGHBOURS, SKEW_MS = 64, 60_000


def topic_clock(times: Ints, clients: Ints) -> tuple[Ints, Ints]:
    """Divide records into blocks. Return two arrays: time (epoch ms) and duration (ms) of each record's block.

    `times` (epoch ms), `clients` (client numbers): one element per record, in the order of the topic. A block has at
    least NEIGHBOURS (64) consecutive records, or all records if there are fewer. The block's time is the median of its
    clients' newest times, but not before the previous block's time. The block's duration is counted from the moment
    at which a third of its clients have sent a record, because earlier records may be late.
    """
    block = np.minimum(np.arange(len(times)) // NEIGHBOURS, max(0, len(times) // NEIGHBOURS - 1))
    order = np.lexsort((times, clients, block))
    oldest = begins(block[order], clients[order])
    newest = np.append(oldest[1:], True)
    begun, votes, voted = times[order][oldest], times[order][newest], block[order][newest]
    counts = np.bincount(voted)
    first = np.cumsum(counts) - counts
    # If the median lies between two times, take the earlier time. With the later time, a client that still reports
    # could look departed.
    medians = np.maximum.accumulate(votes[np.lexsort((votes, voted))][first + (counts - 1) // 2])
    spans = medians - begun[np.lexsort((begun, voted))][first + (counts + 1) // 3]
    return medians[block], np.maximum(spans, 0)[block]


NAN = float("nan")
#: Metrics of a group's partition, in the order of `GroupPartition`.
_OFFSETS = ("committed-offset", "end-offset", "start-offset", "commit-timestamp-ms")


@cache
def _packing(kind: str) -> tuple[Callable[..., bytes], bytes]:
    metrics = len(CLIENT_METRICS[kind])
    return struct.Struct(f"={Readings.head()}q{metrics}d").pack, np.full(METRICS_MAX - metrics, NAN).tobytes()


@dataclass(slots=True, eq=False)
class Slot:
    """Indices in the open chunk: of a client, of the client's options, and of the client's last topic.

    `pack`    packs a sample into bytes
    `pad`     bytes that make rows equally long for all kinds of clients
    `round`   how often `Packer.chunks` had been called when `at`, `config_at` and `topic_at` were set; the next call
              makes these three indices invalid
    `at`      index of the client in the chunk's `all_clients`
    `config`  the client's newest options; `config_at` is their index in the chunk's `configs`, or -1 without options
    `topic`   the topic of the client's last record; its index in the chunk's `names` is `topic_at`
    """

    client: Client
    bucket: int
    pack: Callable[..., bytes]
    pad: bytes
    chunk: _Open = field(init=False)
    round: int = -1
    at: int = -1
    config: Mapping[str, str] | None = None
    config_at: int = -1
    topic: str = ""
    topic_at: int = -1


class Packer:
    """Collects decoded data in one chunk per bucket.

    `log_times`: time of the newest log line or dump (epoch ms), by (service, host). `clock`: the times of
    all data so far; None until `chunks` was called with data.
    """

    def __init__(self, buckets: int, max_events: int = 1_000_000) -> None:
        """`max_events`: maximum number of log entries per process and chunk; at least one per log pattern is kept."""
        self._buckets, self._max_events = buckets, max_events
        self._open: defaultdict[int, _Open] = defaultdict(_Open)
        self._round = 0
        self._slots: dict[Client, Slot] = {}
        self._samples: dict[Hashable, LogEntry] = {}
        self.log_times: dict[tuple[str, str], int] = {}
        self.clock: Clock | None = None

    def slot(self, client: Client) -> Slot:
        """Return the `Slot` of a client; create a slot if the client has none."""
        if (slot := self._slots.get(client)) is None:
            slot = self._slots[client] = Slot(client, bucket_of(client, self._buckets), *_packing(client.kind))
        return slot

    def reading(
        self,
        slot: Slot,
        ts_ms: int,
        values: Sequence[float],
        topic: str,
        partition: int,
        offset: int,
        config: Mapping[str, str] | None = None,
        interval_ms: int = 10_000,
        delta: bool = False,
    ) -> tuple[_Open, int]:
        """Add a sample to the chunk of the client's bucket. Return the chunk, and the sample's row number in the chunk.

        `topic`, `partition`, `offset`: position of the Kafka record that contains the sample. `values`: the metrics in
        the order of CLIENT_METRICS for the client's kind. `config`: the client's options. `interval_ms`: the client's
        reporting interval. `delta`: True if counters hold only the increase since the client's previous sample.
        """
        if slot.round != self._round:
            chunk = self._open[slot.bucket]
            slot.round, slot.chunk, slot.at = self._round, chunk, len(chunk.all_clients)
            slot.config, slot.config_at, slot.topic, slot.topic_at = None, -1, "", -1
            chunk.all_clients.append(slot.client)
        chunk = slot.chunk
        # Comparing identities is quick. If two objects hold equal options, the chunk contains the options twice, which
        # does no harm.
        if config is not slot.config:
            slot.config, slot.config_at = config, chunk.config(config) if config else -1
        if topic is not slot.topic:
            slot.topic, slot.topic_at = topic, chunk.names[topic]
        head = slot.pack(
            ts_ms, partition, offset, slot.topic_at, slot.at, slot.config_at, interval_ms, delta, 1, *values
        )
        chunk.rows.append(head + slot.pad)
        return chunk, len(chunk.rows) - 1

    def snapshot(self, snapshot: Snapshot, client: Client, source: Source) -> None:
        """Add a decoded snapshot of any format. `source`: the Kafka record that contained the snapshot."""
        assert snapshot.ts_ms is not None
        if client.kind == "group":
            self._group(snapshot, client, source)
            return
        metrics = snapshot.metrics
        values = [metrics.get(name, NAN) for name in CLIENT_METRICS[client.kind or ""]]
        where = source.topic, source.partition, source.offset
        every = snapshot.interval_ms or 10_000
        slot = self.slot(client)
        chunk, row = self.reading(slot, snapshot.ts_ms, values, *where, snapshot.config, every, snapshot.delta)
        for topic in snapshot.topics:
            of_topic = [topic.metrics.get(name, NAN) for name in TOPIC_METRICS]
            chunk.part(row, topic.topic, topic.partition, topic.thread, of_topic)

    def _group(self, snapshot: Snapshot, client: Client, source: Source) -> None:
        partitions = []
        for topic in snapshot.topics:
            if topic.partition is not None:
                numbers = map(topic.metrics.get, _OFFSETS)
                committed, end, start, commit_ms = (None if number is None else int(number) for number in numbers)
                where = topic.topic, topic.partition
                partitions.append(GroupPartition(*where, committed, end, start, commit_ms, topic.member))
        assert snapshot.ts_ms is not None
        groups = self._open[bucket_of(client, self._buckets)].groups
        groups.append(GroupReading(client, snapshot.ts_ms, snapshot.metrics.get("members"), partitions, source))

    def log_entry(
        self,
        process: tuple[str, str, str | None],
        event: LogEvent | None = None,
        dump: ThreadDump | None = None,
        repeats: int = 1,
    ) -> None:
        """Add a log event or a dump of a process. Of equal entries in a burst, only the first is kept.

        `process`: (service, host, instance) as in `LogEntry`. `repeats`: number of equal records, this one included.
        """
        repeats *= event.repeats if event is not None else 1
        entry = LogEntry(*process, event, dump, repeats)
        service, host = entry.process
        self.log_times[service, host] = max(entry.ts_ms, self.log_times.get((service, host), 0))
        if is_new(self._samples, entry):
            self._open[bucket_of_process(service, host, self._buckets)].log_entries.append(entry)

    @property
    def held(self) -> int:
        """The number of samples and log entries that were packed since the last call of `chunks`."""
        return sum(len(chunk.rows) + len(chunk.log_entries) for chunk in self._open.values())

    def chunks(self) -> dict[int, Chunk]:
        """Return the chunk of each bucket with data. Set `clock`, and empty the packer."""
        chunks = {bucket: chunk.closed(self._max_events) for bucket, chunk in self._open.items()}
        self._open.clear()
        self._samples.clear()
        self._round += 1
        self._time(chunks.values())
        return chunks

    def _time(self, chunks: Iterable[Chunk]) -> None:
        whole = list(chunks)
        if any(chunk.rows for chunk in whole):
            tables = [chunk.readings for chunk in whole]
            ts, partition, offset = map(
                np.concatenate, zip(*((t.ts, t.partition, t.offset) for t in tables), strict=True)
            )
            ends = np.cumsum([len(chunk.all_clients) for chunk in whole])
            begins_at = [0, *ends[:-1]]
            clients = np.concatenate([table.client + at for table, at in zip(tables, begins_at, strict=True)])
            order = np.lexsort((offset, partition))
            clock, spans = np.empty_like(ts), np.empty_like(ts)
            clock[order], spans[order] = topic_clock(ts[order], clients[order])
            off = ts - clock
            newest = np.zeros(ends[-1], np.int64)
            np.maximum.at(newest, clients, np.where((off <= SKEW_MS) & (-off <= SKEW_MS + spans), ts, clock))
            for chunk, last_seen in zip(whole, np.split(newest, ends[:-1]), strict=True):
                chunk.last_seen = last_seen.tolist()
            # Data covers the time from one and a half reporting intervals before the first block.
            interval = np.concatenate([table.interval for table in tables])
            first = order[0]
            begun = int(clock[first] - spans[first] - 1.5 * np.median(interval))
            begun = min(begun, self.clock.begin_ms) if self.clock else begun
            self.clock = Clock(int(clock[order[-1]]), int(ends[-1]), begun)
        elif self.clock is None or not self.clock.clients:
            of_groups = [group.ts_ms for chunk in whole for group in chunk.groups]
            if times := sorted(of_groups or self.log_times.values()):
                middle = times[len(times) // 2]
                self.clock = Clock(middle, 0, middle)


_part = struct.Struct(f"={Parts.head()}q{len(TOPIC_METRICS)}d").pack


@dataclass(slots=True, eq=False)
class _Open:
    rows: list[bytes] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    all_clients: list[Client] = field(default_factory=list)
    names: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    configs: dict[int, tuple[int, Mapping[str, str]]] = field(default_factory=dict)
    log_entries: list[LogEntry] = field(default_factory=list)
    groups: list[GroupReading] = field(default_factory=list)

    def config(self, config: Mapping[str, str]) -> int:
        return self.configs.setdefault(id(config), (len(self.configs), config))[0]

    def part(self, row: int, topic: str, partition: int | None, thread: str | None, values: Sequence[float]) -> None:
        number = -1 if partition is None else partition
        at = -1 if thread is None else self.names[thread]
        self.parts.append(_part(row, self.names[topic], number, at, *values))

    def closed(self, max_events: int) -> Chunk:
        entries = list(of_each_process(self.log_entries, max_events))
        left_out = len(self.log_entries) - len(entries)
        texts = [dict(config) for _, config in self.configs.values()], list(self.names)
        tables = b"".join(self.rows), b"".join(self.parts)
        return Chunk(self.all_clients, [], *texts, *tables, entries, self.groups, left_out=left_out)
