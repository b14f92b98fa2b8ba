"""What was decoded in the form in which it travels to the step and is kept there.

Readings are one table, what they say of single topics, partitions and threads another, whose rows name the reading
that they belong to. Texts stand once in lists beside the tables, and rows hold their positions.

A `Chunk` is what one decoding task has for one bucket of processes; `packer.Packer` makes chunks.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass

import msgspec

from clienthealth.measure.columns import Ints, Table
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Identity, Member
from clienthealth.read.logs.bursts import sample_key

METRICS_MAX = max(map(len, CLIENT_METRICS.values()))


@dataclass
class Readings(Table):
    """Readings; `values`: the metrics of each one's kind in the order of CLIENT_METRICS, then nothing known.

    ts                        epoch ms
    partition, offset, topic  the input record, its topic as position in `names`
    who, config               client and configuration, as positions in their lists
    interval                  how often its client reports, ms
    delta                     do totals count since the reading before (1) or since the client's start (0)?
    fresh                     is it new in this batch?
    """

    ts: Ints
    partition: Ints
    offset: Ints
    topic: Ints
    who: Ints
    config: Ints
    interval: Ints
    delta: Ints
    fresh: Ints


@dataclass
class Parts(Table):
    """What readings say of single topics, partitions and threads; `values`: in the order of TOPIC_METRICS.

    row            the reading
    topic, thread  positions in `names`
    """

    row: Ints
    topic: Ints
    partition: Ints
    thread: Ints


def who_of(identity: Identity) -> Client:
    """A client by what a record says of it."""
    instance = identity.instance or identity.host or ""
    return Client(
        identity.service or "",
        identity.host or instance,
        instance,
        identity.client_id or "",
        identity.kind,  # type: ignore[arg-type]
        identity.library,
        identity.version,
        identity.group,
    )


def process_of(identity: Identity) -> tuple[str, str, str | None]:
    """Service, host and instance of the process that a log line or a dump is of."""
    return identity.service or "", identity.host or identity.instance or "", identity.instance or None


class LogEntry(msgspec.Struct, array_like=True, gc=False):
    """A log event or a thread dump of a process.

    `host`: where the process runs, its instance where no host is known. `instance`: None where the record names none.
    `repeats`: how many events of its sample it stands for (`logs/bursts.py`).
    """

    service: str
    host: str
    instance: str | None
    event: LogEvent | None = None
    dump: ThreadDump | None = None
    repeats: int = 1

    @property
    def ts_ms(self) -> int:
        """When it happened, epoch milliseconds."""
        record = self.event or self.dump
        assert record is not None
        return record.ts_ms

    @property
    def process(self) -> tuple[str, str]:
        """Service and host of its process."""
        return self.service, self.host

    @property
    def signature(self) -> str:
        """The id of its event's log pattern, '' of a dump."""
        return self.event.signature if self.event is not None else ""

    @property
    def sample(self) -> Hashable:
        """What entries that count as one have in common."""
        if self.event is not None:
            return self.service, self.host, sample_key(self.event)
        return self.service, self.host, self.ts_ms, self.dump and self.dump.source


class GroupPartition(msgspec.Struct, array_like=True, gc=False):
    """What a consumer group has committed of one partition, and where that ends. None: not known."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    start: int | None
    commit_ms: int | None
    member: Member | None = None


class GroupReading(msgspec.Struct, array_like=True):
    """A consumer group at one moment. `source`: the input record."""

    who: Client
    ts_ms: int
    members: float | None
    partitions: list[GroupPartition]
    source: Source | None = None


class Chunk(msgspec.Struct, array_like=True):
    """What one task decoded for one bucket.

    `heard`: when each of `whos` was heard of last, by the clock of all (epoch ms). `clocks`: that clock at the end of
    what the task read, and how many clients it is taken from. `left_out`: events beyond `[monitor]
    max_events_per_process` that the task itself left out.
    """

    whos: list[Client] = []
    heard: list[int] = []
    configs: list[dict[str, str]] = []
    names: list[str] = []
    rows: bytes = b""
    parts: bytes = b""
    log_entries: list[LogEntry] = []
    groups: list[GroupReading] = []
    clocks: list[tuple[int, int]] = []
    left_out: int = 0

    @property
    def readings(self) -> Readings:
        """The table of `rows`."""
        return Readings.of(self.rows, METRICS_MAX)

    @property
    def topic_parts(self) -> Parts:
        """The table of `parts`; `row` is the position in `readings`."""
        return Parts.of(self.parts, len(TOPIC_METRICS))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Chunk).decode


def encode(chunk: Chunk) -> bytes:
    """A chunk as bytes."""
    return _encode(chunk)


def decode(data: bytes | memoryview) -> Chunk:
    """The inverse of `encode`."""
    return _decode(data)


def bucket_of(who: Client, buckets: int) -> int:
    """The bucket of a client: that of its process, so that logs, dumps and metrics of a process meet."""
    return bucket_of_process(*who.home, buckets)


def bucket_of_process(service: str, host: str, buckets: int) -> int:
    """The bucket of a process's log entries."""
    return zlib.crc32(f"{service}\0{host}".encode("utf-8", "surrogatepass")) % buckets
