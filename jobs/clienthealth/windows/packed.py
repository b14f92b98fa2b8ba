"""What was decoded in the form in which it travels to the step and is kept there.

A reading is a row of float64: HEAD columns that say when, where from and whose it is, then the metrics of its kind in
the order of CLIENT_METRICS (NaN: unknown). What it says of single topics, partitions and threads are rows of a second
matrix, which name the row they belong to. Texts stand once in lists beside the matrices, and rows hold their positions.

A `Chunk` is what one decoding task has for one bucket of processes; `packer.Packer` makes chunks.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
from numpy.typing import NDArray

from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Identity, Member

Matrix = NDArray[np.float64]

#: The columns before the metrics: time (epoch ms), input record (partition, offset, topic as position in `names`),
#: client and configuration (positions in their lists, -1: none), reporting interval (ms), whether totals count since
#: the reading before (1) or since the client's start (0), and whether the reading is new in this batch.
TS, PARTITION, OFFSET, TOPIC, WHO, CONFIG, INTERVAL, DELTA, FRESH = range(9)
HEAD = 9
METRICS_MAX = max(map(len, CLIENT_METRICS.values()))
WIDTH = HEAD + METRICS_MAX

#: The columns of a part before its metrics: its reading (row), topic and thread (positions in `names`), partition.
ROW, PART_TOPIC, PART_PARTITION, PART_THREAD = range(4)
PART_HEAD = 4
PART_WIDTH = PART_HEAD + len(TOPIC_METRICS)


class Who(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client as it named itself last. `host`: where its process runs, its instance where no host is known."""

    service: str
    host: str
    instance: str
    client_id: str
    kind: str
    library: str | None = None
    version: str | None = None
    group: str | None = None

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What stays the same as long as it is the same client."""
        return self.service, self.instance, self.client_id, self.kind

    @property
    def process(self) -> tuple[str, str]:
        """Service and host of its process."""
        return self.service, self.host


def who_of(identity: Identity) -> Who:
    """A client by what a record says of it."""
    instance = identity.instance or identity.host or ""
    return Who(
        identity.service or "",
        identity.host or instance,
        instance,
        identity.client_id or "",
        identity.kind or "",
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
    `repeats`: how many events of its sample it stands for (`logs/sampling.py`).
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

    who: Who
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

    whos: list[Who] = []
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
    def readings(self) -> Matrix:
        """Matrix [readings, WIDTH]."""
        return np.frombuffer(self.rows, np.float64).reshape(-1, WIDTH)

    @property
    def topic_parts(self) -> Matrix:
        """Matrix [parts, PART_WIDTH]; ROW is the position in `readings`."""
        return np.frombuffer(self.parts, np.float64).reshape(-1, PART_WIDTH)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Chunk).decode


def encode(chunk: Chunk) -> bytes:
    """A chunk as bytes."""
    return _encode(chunk)


def decode(data: bytes | memoryview) -> Chunk:
    """The inverse of `encode`."""
    return _decode(data)


def bucket_of(who: Who, buckets: int) -> int:
    """The bucket of a client: that of its process, so that logs, dumps and metrics of a process meet.

    Consumer groups have no process; each is spread on its own.
    """
    if who.kind == "group":
        return _spread(who.service, f"{who.instance}\0{who.client_id}", buckets)
    return _spread(who.service, who.host, buckets)


def bucket_of_process(service: str, host: str, buckets: int) -> int:
    """The bucket of a process's log entries."""
    return _spread(service, host, buckets)


def _spread(service: str, host: str, buckets: int) -> int:
    return zlib.crc32(f"{service}\0{host}".encode("utf-8", "surrogatepass")) % buckets
