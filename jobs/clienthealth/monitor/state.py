"""The state of a bucket of processes, and how it is saved as versioned bytes."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

import msgspec
import numpy as np

from clienthealth.measure.columns import Floats, Ints, Table
from clienthealth.measure.packed import METRICS_MAX, Chunk, LogEntry, Parts, Readings
from clienthealth.model.clients import Client, Kind
from clienthealth.model.errors import StateError
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS, UNDELIVERED
from clienthealth.model.readings import LogEvent, Source
from clienthealth.model.telemetry import Member
from clienthealth.model.values import grouped
from clienthealth.monitor.incidents import Incidents, OpenIncident, Transition

T = TypeVar("T", bound=Table)
K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")
#: A process: (service, host), shared by all instances on the host.
ProcessKey = tuple[str, str]
#: `ClientKey`: service, host, instance, client id, kind. `RunKey`: the same five names, and the id of a known issue.
ClientKey = tuple[str, str, str, str, str]
RunKey = tuple[str, str, str, str, str, str]

VERSION, OLDEST = 5, 4
_MAGIC = b"KCH"


def mark(names: Iterable[str]) -> tuple[int]:
    """Return a tuple with the 32-bit hash of `names`, which identify a client or a process.

    At the default limits, fewer than one client in 20,000 shares its hash with another.
    """
    return (zlib.crc32("\0".join(names).encode("utf-8", "surrogatepass")),)


@dataclass
class Clients(Table):
    """The clients that report, one row each.

    `values`: the newest known values of the metrics in `UNDELIVERED`.

    `first`         time of the client's first sample (its own clock, epoch ms)
    `last`          time of the client's newest sample (its own clock, epoch ms)
    `last_seen`     time of the client's last data (epoch ms); if its clock is wrong, the time of neighbouring records
    `every`         the client's reporting interval, ms
    `minute`        start of the client's first minute that is not in the history yet (epoch ms)
    `config`        position of the client's configuration in `configs`
    `published_ms`  time of the client's newest published sample (its own clock, epoch ms)
    `published`     checksum of the content that was published last; 0 to publish it again
    """

    first: Ints
    last: Ints
    last_seen: Ints
    every: Ints
    minute: Ints
    config: Ints
    published_ms: Ints
    published: Ints


class GroupState(msgspec.Struct):
    """What a bucket's state keeps of a consumer group.

    `client`        the group, as in its newest sample
    `members`       number of the group's members in the newest sample
    `partitions`    for each partition in `data`: the topic, the partition's number and its owner (None: unknown)
    `data`          an int64 matrix [observations, 6] as bytes, in order of time. Columns: time (epoch ms), position in
                    `partitions`, committed offset, end offset, start offset, time of the commit (-1: not known)
    `newest_ms`     time of the newest sample
    `minute`        row of the current minute for the history, still unfinished
    `unwritten_ms`  start of the first minute that is not in the history yet (epoch ms)
    """

    client: Client = msgspec.field(name="who")
    members: float | None = None
    partitions: list[tuple[str, int, Member | None]] = []
    data: bytes = b""
    newest_ms: int = 0
    minute: dict[str, Any] | None = None
    unwritten_ms: int = 0


class Life(NamedTuple):
    """The lifetime of a client by its own clock (epoch ms): from its first sample until its next sample is overdue."""

    client: Client
    first_ms: float
    until_ms: float

    def at(self, ts_ms: float) -> bool:
        """Return True if the client existed at this time."""
        return self.first_ms <= ts_ms <= self.until_ms


class Run(msgspec.Struct, array_like=True):
    """The log lines of one client that show one known issue, counted together.

    `instance`   the instance that the lines name, or ""
    `client_id`  the client id that the lines name, or ""
    `kind`       the kind of client that the lines name, or ""
    `what`       id of the known issue
    `text`       the first line
    `source`     input record of the first line
    `unwritten`  number of lines that are not in the history yet
    `minutes`    number of unwritten lines by minute (start in epoch ms), for at most 60 minutes
    """

    instance: str
    client_id: str
    kind: Kind | Literal[""]
    what: str
    lines: int
    first_ms: int
    last_ms: int
    text: str
    source: Source | None
    unwritten: int
    minutes: dict[int, int] = {}


class Memory(msgspec.Struct, Generic[K, V], array_like=True):
    """Entries by key, each with a time (epoch ms). `Kept` describes the keys, which are tuples."""

    kept: dict[K, tuple[int, V]] = {}

    def __len__(self) -> int:
        return len(self.kept)

    def __contains__(self, key: object) -> bool:
        return key in self.kept

    def __iter__(self) -> Iterator[K]:
        return iter(self.kept)

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield keys and values, in the order in which keys were added."""
        return ((key, value) for key, (_, value) in self.kept.items())

    def get(self, key: K) -> V | None:
        return self.kept[key][1] if key in self.kept else None

    def remember(self, key: K, value: V, at_ms: int) -> None:
        self.kept[key] = (at_ms, value)

    def forget(self, key: K) -> None:
        self.kept.pop(key, None)

    def only(self, homes: Container[object]) -> None:
        """Keep only the entries of the processes `homes`. A key begins with its process (service, host)."""
        self.kept = {key: one for key, one in self.kept.items() if key[:2] in homes}

    def evict(
        self,
        now_ms: int,
        ttl_ms: float = math.inf,
        limit: float = math.inf,
        living: Container[object] = (),
        each: float = math.inf,
    ) -> list[K]:
        """Delete entries that are too old at `now_ms`, then the oldest ones beyond the limits.

        Return the keys of the entries beyond the limits.

        `ttl_ms`  maximum age of an entry, unless its process is in `living`
        `limit`   maximum number of entries
        `each`    maximum number of entries per process
        """
        old = [key for key, (at, _) in self.kept.items() if now_ms - at > ttl_ms and key[:2] not in living]
        for key in old:
            del self.kept[key]
        beyond: list[K] = []
        if len(self.kept) > min(limit, each):
            of_process = Counter[object]()
            for rank, key in enumerate(sorted(self.kept, key=lambda key: self.kept[key][0], reverse=True), 1):
                of_process[key[:2]] += 1
                if rank > limit or of_process[key[:2]] > each:
                    beyond.append(key)
                    del self.kept[key]
        return beyond


class Kept(msgspec.Struct, kw_only=True):
    """The parts of a state that have the same form in memory and on disk.

    `reported_ms`  the watermark of the last step with samples of clients; 0 before the first
    `idle_ms`      how long (ms) no input has arrived; pauses of the monitor do not count
    `stepped_ms`   time of this monitor's last step, by this machine's clock (epoch ms)
    `all_clients`  the clients that report
    `waiting`      log entries that wait for their process's metrics
    `waited_ms`    how long (ms) `waiting` has had entries; pauses of the monitor do not count

    The fields below have the type `Memory`. A key in `groups` is a `Client.home`, a key in `shared` is a pair of times,
    and a key in `ended` or `reported_once` is a hash (see `mark`). A key in any other `Memory` field begins with a
    process (service, host).

    `groups`         the consumer groups
    `has_log_data`   processes of which any log line or thread dump was read
    `lifecycle`      log events of a client's start and end, by process and client id. Each event has the instance that
                     the line names ("": none)
    `also_seen`      counts of log lines that show known issues, by process, instance, client id, kind and issue
    `gone`           recently departed clients, so that lines of their processes are not assigned to their successors
    `former`         clients that have an open incident but do not report: they stopped, or only log lines name them
    `over`           recently closed incidents, kept until the history has a row for each minute in which they were open
    `shared`         spans (from, to) in which no client sent data; they do not count as a client's silence
    `ended`          for each client or process that has ended: the newest time of its samples or logs
    `reported_once`  new clients that were not added at their first report, because of the limit `max_new_clients`
    """

    time_ms: int = 0
    reported_ms: int = 0
    idle_ms: int = 0
    stepped_ms: int = 0
    waited_ms: int = 0
    all_clients: list[Client] = msgspec.field(default_factory=list, name="whos")
    waiting: list[LogEntry] = []
    groups: Memory[ProcessKey, GroupState] = msgspec.field(default_factory=Memory)
    has_log_data: Memory[ProcessKey, None] = msgspec.field(default_factory=Memory, name="told")
    lifecycle: Memory[tuple[str, str, str], list[tuple[str, LogEvent]]] = msgspec.field(default_factory=Memory)
    also_seen: Memory[RunKey, Run] = msgspec.field(default_factory=Memory)
    gone: Memory[tuple[str, str, str, str, str, float], Life] = msgspec.field(default_factory=Memory)
    former: Memory[ClientKey, Client] = msgspec.field(default_factory=Memory)
    over: Memory[tuple[str, str, str, str, int], Transition] = msgspec.field(default_factory=Memory)
    shared: Memory[tuple[int, int], None] = msgspec.field(default_factory=Memory)
    ended: Memory[tuple[int], int] = msgspec.field(default_factory=Memory)
    reported_once: Memory[tuple[int], None] = msgspec.field(default_factory=Memory)


class BucketState(Kept, kw_only=True):
    """The state of a bucket in memory.

    `readings`     the samples, in order of client (position in `all_clients`) and time
    `parts`        the values that samples have for single topics, partitions or threads
    `configs`      configurations of clients; samples and clients refer to them by position
    `names`        names of topics and threads; samples refer to them by position
    `log_entries`  log events and thread dumps of processes, in order of time
    """

    clients: Clients = msgspec.field(default_factory=lambda: Clients.none(len(UNDELIVERED)))
    readings: Readings = msgspec.field(default_factory=lambda: Readings.none(METRICS_MAX))
    parts: Parts = msgspec.field(default_factory=lambda: Parts.none(len(TOPIC_METRICS)))
    configs: list[dict[str, str]] = []
    names: list[str] = []
    log_entries: list[LogEntry] = []
    incidents: Incidents = msgspec.field(default_factory=Incidents)

    @property
    def outage_begin_ms(self) -> int:
        """The watermark of the last step with samples of clients; before the first such step, the present watermark."""
        return self.reported_ms or self.time_ms

    @property
    def outage_ms(self) -> int:
        """How long (ms) no client has sent samples; pauses of the monitor do not count."""
        return self.idle_ms + self.time_ms - self.outage_begin_ms

    @property
    def by_process(self) -> tuple[Memory[Any, Any], ...]:
        """The fields of type `Memory` in which each entry belongs to one process or to one consumer group."""
        return self.groups, self.has_log_data, self.lifecycle, self.also_seen, self.gone, self.former, self.over

    def end(self, names: Iterable[str], newest_ms: int) -> None:
        """Remember that a client or process has ended. `newest_ms`: time of its last data (its own clock).

        `names`: the client's `identity`, or the process as (service, host).
        """
        self.ended.remember(mark(names), max(newest_ms, self.ended.get(mark(names)) or 0), self.time_ms)

    def numbers(self) -> dict[ProcessKey, list[int]]:
        """Return the positions of clients in `all_clients`, by process."""
        return grouped(range(len(self.all_clients)), [client.process for client in self.all_clients].__getitem__)

    def source(self, row: int) -> Source:
        """Return the input record of the sample in this row of `readings`."""
        readings = self.readings
        return Source(self.names[readings.topic[row]], int(readings.partition[row]), int(readings.offset[row]))

    def rows(self, number: int) -> slice:
        """Return the rows of `readings` with a client's samples."""
        return slice(*np.searchsorted(self.readings.client, [number, number + 1]).tolist())

    def newest(self, number: int) -> Source | None:
        """Return the input record of a client's newest sample; None if it has no sample."""
        rows = self.rows(number)
        return self.source(rows.stop - 1) if rows.stop > rows.start else None


class _Saved(Kept, kw_only=True):
    """A saved state. The name of each column's metric is saved too, because another release may have other metrics."""

    buckets: int
    vocabulary: dict[str, tuple[str, ...]]
    topic_metrics: tuple[str, ...]
    undelivered: tuple[str, ...]
    heads: tuple[int, int, int]
    clients: bytes
    readings: Chunk
    incidents: list[OpenIncident]


def _kept(state: Kept) -> dict[str, Any]:
    return {name: getattr(state, name) for name in Kept.__struct_fields__}


_VOCABULARY = {kind: tuple(names) for kind, names in CLIENT_METRICS.items()}
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Saved)


def save(state: BucketState, buckets: int) -> bytearray:
    """Return the state as bytes. `buckets`: the total number of buckets."""
    saved = _Saved(
        **_kept(state),
        buckets=buckets,
        vocabulary=_VOCABULARY,
        topic_metrics=tuple(TOPIC_METRICS),
        undelivered=UNDELIVERED,
        heads=(Readings.head(), Parts.head(), Clients.head()),
        clients=_bytes(state.clients),
        readings=Chunk(
            configs=state.configs,
            names=state.names,
            rows=_bytes(state.readings),
            parts=_bytes(state.parts),
            log_entries=state.log_entries,
        ),
        incidents=list(state.incidents.all),
    )
    data = bytearray((*_MAGIC, VERSION))
    _encoder.encode_into(saved, data, len(data))
    return data


def _bytes(table: Table) -> bytes:
    return cast(bytes, table.matrix().reshape(-1, order="F").view(np.uint8).data)


def load(data: bytes | bytearray, buckets: int) -> BucketState:
    """Return the saved state.

    Raises StateError if `data` is no state, has an unreadable version, or was saved with another number of buckets.
    """
    if data[:3] != _MAGIC:
        raise StateError("the checkpoint holds no state of this monitor; set [monitor] checkpoint to another folder")
    if not OLDEST <= data[3] <= VERSION:
        raise StateError(
            f"the checkpoint has version {data[3]} of the state, but this program reads versions {OLDEST} to {VERSION}"
            "; run the release that wrote the checkpoint, or set [monitor] checkpoint to a new folder"
        )
    saved = _decoder.decode(memoryview(data)[4:])
    if saved.buckets != buckets:
        raise StateError(
            f"the checkpoint was written with {saved.buckets} buckets, but [monitor] buckets is {buckets}; "
            f"set [monitor] buckets = {saved.buckets}, or set [monitor] checkpoint to a new folder"
        )
    clients = _table(Clients, saved.clients, saved.heads[2], len(saved.undelivered), data[3])
    parts = _table(Parts, saved.readings.parts, saved.heads[1], len(saved.topic_metrics), data[3])
    return BucketState(
        **_kept(saved),
        clients=replace(clients, values=_named(clients.values, saved.undelivered, UNDELIVERED).copy()),
        readings=_readings(saved, data[3]),
        parts=replace(parts, values=_named(parts.values, saved.topic_metrics, tuple(TOPIC_METRICS))),
        configs=saved.readings.configs,
        names=saved.readings.names,
        log_entries=saved.readings.log_entries,
        incidents=Incidents(saved.incidents),
    )


def _table(kind: type[T], data: bytes, head: int, width: int, form: int) -> T:
    # Version 4 saved tables row by row.
    return kind.of_matrix(np.frombuffer(data).reshape((-1, head + width), order="C" if form < 5 else "F"), head)


def _readings(saved: _Saved, form: int) -> Readings:
    width = max(map(len, saved.vocabulary.values()))
    readings = _table(Readings, saved.readings.rows, saved.heads[0], width, form)
    if saved.vocabulary == _VOCABULARY:
        return readings
    values = np.full((len(readings), METRICS_MAX), np.nan)
    kinds = np.array([client.kind for client in saved.all_clients], np.str_)[readings.client]
    for kind, names in _VOCABULARY.items():
        of_kind = np.flatnonzero(kinds == kind)
        values[of_kind, : len(names)] = _named(readings.values[of_kind], saved.vocabulary.get(kind, ()), names)
    return replace(readings, values=values)


def _named(values: Floats, before: Sequence[str], names: Sequence[str]) -> Floats:
    """Return the columns `names` of a table; NaN for a column that the table lacks. `before`: the table's columns."""
    if before == names:
        return values[:, : len(names)]
    known = np.column_stack([values, np.full(len(values), np.nan)])
    return known[:, [before.index(name) if name in before else -1 for name in names]]
