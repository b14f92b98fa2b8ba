"""Pack decoded data into tables, which Spark tasks send to the streaming step.

A bucket is a set of processes; the streaming step keeps one state per bucket. A hash of service and host assigns a
process to its bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec

from clienthealth.measure.columns import Ints, Table
from clienthealth.model.clients import Client, Kind
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Identity, Member
from clienthealth.read.logs.bursts import sample_key

METRICS_MAX = max(map(len, CLIENT_METRICS.values()))


@dataclass
class Readings(Table):
    """Samples of clients, one per row. `values`: metrics in the order of CLIENT_METRICS, padded with NaN.

    `ts`                            time of the sample, epoch ms
    `topic`, `partition`, `offset`  where the input record is; `topic` is a position in `Chunk.names`
    `client`, `config`              positions in `Chunk.all_clients` and `Chunk.configs`; `config` is -1 if it is
                                    unknown
    `interval`                      reporting interval of the client, ms
    `delta`                         1: counters hold the increase since the previous sample, 0: since the client's start
    `fresh`                         1: new in this batch, 0: kept from an earlier batch
    """

    ts: Ints
    partition: Ints
    offset: Ints
    topic: Ints
    client: Ints
    config: Ints
    interval: Ints
    delta: Ints
    fresh: Ints


@dataclass
class Parts(Table):
    """One row per topic, partition or thread of each sample. `values`: metrics in the order of TOPIC_METRICS.

    `row`              number of the sample's row in `Readings`
    `topic`, `thread`  positions in `Chunk.names`; `thread` is -1 for values of a whole topic or partition
    `partition`        number of the partition; -1 for values of a whole topic or thread
    """

    row: Ints
    topic: Ints
    partition: Ints
    thread: Ints


def client_of(identity: Identity) -> Client:
    """Return the client that a record's identity describes.

    A missing instance is replaced by the host, and a missing host by the instance.
    """
    instance = identity.instance or identity.host or ""
    names = identity.service or "", identity.host or instance, instance, identity.client_id or ""
    return Client(*names, cast(Kind, identity.kind), identity.library, identity.version, identity.group)


def process_of(identity: Identity) -> tuple[str, str, str | None]:
    """Return (service, host, instance) of the process that logged a line or dump.

    A missing host is replaced by the instance.
    """
    return identity.service or "", identity.host or identity.instance or "", identity.instance or None


class LogEntry(msgspec.Struct, array_like=True, gc=False):
    """A log event or a thread dump of a process; exactly one of `event` and `dump` is set.

    `host`: the host of the process, or its instance if the host is unknown. `repeats`: number of similar events that
    were merged into this entry.
    """

    service: str
    host: str
    instance: str | None
    event: LogEvent | None = None
    dump: ThreadDump | None = None
    repeats: int = 1

    @property
    def ts_ms(self) -> int:
        """The time of the event or dump, epoch milliseconds."""
        record = self.event or self.dump
        assert record is not None
        return record.ts_ms

    @property
    def process(self) -> tuple[str, str]:
        """(service, host) of the entry's process."""
        return self.service, self.host

    @property
    def signature(self) -> str:
        """The id of the matched log pattern; '' for a dump."""
        return self.event.signature if self.event is not None else ""

    @property
    def sample(self) -> Hashable:
        """A key that is equal for duplicate entries: for events of one burst, or for two reads of one dump."""
        if self.event is not None:
            return self.service, self.host, sample_key(self.event)
        return self.service, self.host, self.ts_ms, self.dump and self.dump.source


class GroupPartition(msgspec.Struct, array_like=True, gc=False):
    """A consumer group's committed offset on one partition, and the partition's end offset and start offset.

    `commit_ms`: time of the commit (epoch ms). `member`: the member that owns the partition. None means unknown.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    start: int | None
    commit_ms: int | None
    member: Member | None = None


class GroupReading(msgspec.Struct, array_like=True):
    """A sample of a consumer group (`client`) at one moment (`ts_ms`: epoch ms).

    `members`: number of members, None if unknown. `source`: the input record with the sample.
    """

    client: Client
    ts_ms: int
    members: float | None
    partitions: list[GroupPartition]
    source: Source | None = None


class Clock(NamedTuple):
    """The times (epoch ms) of a task's data.

    `time_ms`   the time up to which the task has read its topics
    `clients`   number of clients in the data; 0 if the data has only consumer groups and log lines
    `begin_ms`  the time from which the data shows whether clients report
    """

    time_ms: int
    clients: int
    begin_ms: int


class Chunk(msgspec.Struct, array_like=True):
    """The data that one task decoded for one bucket (set of processes).

    `configs`: the clients' options by name, mostly without duplicates. `rows`, `parts`: the tables `readings` and
    `topic_parts` as bytes. `last_seen`: for each of `all_clients`, the time (epoch ms) of the newest sample, or the
    time of neighbouring records if the client's clock is wrong. `names`: names of topics and threads, to which `rows`
    and `parts` refer by position. `clocks`: the task's `Packer.clock` if this is the task's last chunk for the bucket,
    else empty. `left_out`: number of events beyond `[monitor] max_events_per_process`.
    """

    all_clients: list[Client] = []
    last_seen: list[int] = []
    configs: list[dict[str, str]] = []
    names: list[str] = []
    rows: bytes = b""
    parts: bytes = b""
    log_entries: list[LogEntry] = []
    groups: list[GroupReading] = []
    clocks: list[Clock] = []
    left_out: int = 0

    @property
    def readings(self) -> Readings:
        """The chunk's samples, decoded from `rows`."""
        return Readings.of(self.rows, METRICS_MAX)

    @property
    def topic_parts(self) -> Parts:
        """The samples' values per topic, partition or thread, decoded from `parts`."""
        return Parts.of(self.parts, len(TOPIC_METRICS))


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Chunk).decode


def bucket_of(client: Client, buckets: int) -> int:
    """Return the bucket (0 to `buckets` − 1) of a client or consumer group."""
    return bucket_of_process(*client.home, buckets)


def bucket_of_process(service: str, host: str, buckets: int) -> int:
    """Return the bucket (0 to `buckets` − 1) of a process."""
    return zlib.crc32(f"{service}\0{host}".encode("utf-8", "surrogatepass")) % buckets
