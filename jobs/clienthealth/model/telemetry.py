"""The content of one decoded record: snapshots of clients, and log lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from clienthealth.model.readings import Source
from clienthealth.model.values import MAX_NAME

Stream = Literal["metrics", "logs"]


class _Named(msgspec.Struct, frozen=True, gc=False):
    @property
    def is_too_long(self) -> bool:
        return any(text and len(text) > MAX_NAME for text in msgspec.structs.astuple(self))


class Identity(_Named, frozen=True, gc=False):
    """The client that a record names. Unknown parts are None, never an empty text.

    `kind`: the kind of client as the record spells it. `handle`: librdkafka's name of the client within its process.
    """

    service: str | None = None
    host: str | None = None
    instance: str | None = None
    client_id: str | None = None
    kind: str | None = None
    library: str | None = None
    version: str | None = None
    group: str | None = None
    handle: str | None = None


class Member(_Named, frozen=True, gc=False):
    """The member of a consumer group that owns a partition. `consumer_id`: the member's id in the group."""

    client_id: str | None = None
    consumer_id: str | None = None
    host: str | None = None


class TopicMetrics(msgspec.Struct):
    """The values of one topic, partition or thread in a client's snapshot.

    `metrics`: values by the names of TOPIC_METRICS. `member`: the member that owns the partition; only in snapshots of
    consumer groups.
    """

    topic: str
    partition: int | None = None
    thread: str | None = None
    member: Member | None = None
    metrics: dict[str, float] = {}

    @property
    def is_too_long(self) -> bool:
        """True if `topic`, `thread` or a field of `member` is longer than MAX_NAME characters."""
        of_member = self.member is not None and self.member.is_too_long
        return of_member or max(len(self.topic), len(self.thread or "")) > MAX_NAME


class Snapshot(msgspec.Struct):
    """The report of one client at one moment.

    `ts_ms`        time of the report, epoch milliseconds; None if the record has no time
    `metrics`      finite values by names of CLIENT_METRICS; metrics with unknown values are left out
    `config`       options of the client by name
    `interval_ms`  the client's reporting interval; None if the record does not contain it
    `delta`        True if counters count since the previous snapshot instead of since the client's start
    `error`        why this client's part of the record is unusable; None if it is usable. With an error, other fields
                   may be empty
    """

    ts_ms: int | None = None
    client: Identity = msgspec.field(default_factory=Identity)
    metrics: dict[str, float] = {}
    topics: list[TopicMetrics] = []
    config: dict[str, str] = {}
    interval_ms: int | None = None
    delta: bool = False
    error: str | None = None


class Frame(NamedTuple):
    """One frame of a stack.

    `method`  Java: `package.Class.method`. Python: `module.function`
    `place`   Java: file and line. Python: file, line and function. '' if unknown
    """

    method: str
    place: str


class DumpedThread(msgspec.Struct):
    """A thread in a dump. `frames` are in order, the innermost first.

    `state`   the thread's state as the JVM names it; '' if unknown
    `cpu_ms`  CPU time since the thread began; None before JVM 11
    `line`    the number of the thread's first line, from 0, in the text that contains the dump
    """

    name: str
    state: str = ""
    frames: list[Frame] = []
    cpu_ms: float | None = None
    line: int = 0


class Dump(msgspec.Struct):
    """A thread dump that was found in a text.

    `what`        a description of the program that wrote the dump
    `threads`     threads of Kafka clients and `DestroyJavaVM`, then other threads with frames outside the JVM's classes
    `ts_ms`       time of the dump (epoch ms), UTC if the dump names no time zone; None if unknown
    `taken`       line numbers (from 0) of those lines of the text that belong to the dump
    `complete`    whether the dump's last line is present; None if the dump's format has no fixed last line
    `deadlocked`  the names of the threads that the JVM reports as deadlocked
    """

    what: str
    threads: list[DumpedThread]
    ts_ms: int | None = None
    taken: frozenset[int] = frozenset()
    complete: bool | None = None
    deadlocked: tuple[str, ...] = ()


class LogLine(msgspec.Struct):
    """One log entry. `ts_ms`: time of the entry (epoch ms), None if unknown.

    `message`              the line's text after the fields of the log layout (time, level, thread, logger)
    `stack`                the lines below the first line (an exception), joined by newline
    `file`, `file_offset`  the file, and the line's byte offset in it; used to rejoin dumps that were sent line by line
    `numbers`              line numbers of message and stack in the file, from 0; () if the entry came from a topic
    `dumps`                the thread dumps in the entry; if the entry contains nothing else, `message` is None
    `quoted`               True if a text (a ticket, a chat) quotes the line without its time, logger and thread
    `explained`            True if the text around the line only explains errors, so that the line raises no suspicion
    `narrated`             a sentence of the line counts as a person's report of a failure if the classifier gives the
                           sentence at least this probability. None if a program logged the line, or if the text reports
                           no problem
    `beside_kafka`         True if another line of the file names Kafka: a Kafka client may then have written this line
    `error`                why the entry is unusable; None if it is usable
    """

    ts_ms: int | None = None
    client: Identity = msgspec.field(default_factory=Identity)
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    message: str | None = None
    stack: str | None = None
    file: str | None = None
    file_offset: int | None = None
    numbers: tuple[int, ...] = ()
    dumps: list[Dump] = []
    quoted: bool = False
    explained: bool = False
    narrated: float | None = None
    beside_kafka: bool = False
    error: str | None = None


class RawRecord(msgspec.Struct):
    """A record as it was read from a topic, or a line of a file. `ts_ms`: the Kafka record's own time (epoch ms).

    `value`: None for a tombstone. `source`: topic (or file), partition and offset. `key`: None without a key.
    """

    value: bytes | memoryview | None
    source: Source
    ts_ms: int
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}
