"""The content of one decoded record: snapshots of clients, and log lines.

All values are as in the record. Identities may be incomplete, and nothing is checked against other data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from clienthealth.model.metrics import CONFIG_OPTIONS, MOST
from clienthealth.model.readings import Source
from clienthealth.model.values import MAX_NAME, option

Stream = Literal["metrics", "logs"]


class _Named(msgspec.Struct, frozen=True, gc=False):
    @property
    def is_too_long(self) -> bool:
        """True if one of the texts in this object is longer than MAX_NAME."""
        return any(text and len(text) > MAX_NAME for text in msgspec.structs.astuple(self))


class Identity(_Named, frozen=True, gc=False):
    """The client that a record names. Unknown parts are None, never an empty text.

    `kind`: as the record spells it, until `decode.py` has checked it. `handle`: a name of the client within its
    process, used if there is no other name.
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
    """The member of a consumer group that owns a partition."""

    client_id: str | None = None
    consumer_id: str | None = None
    host: str | None = None


class TopicMetrics(msgspec.Struct):
    """The values of one topic, partition or thread in a client's snapshot. `metrics`: names of TOPIC_METRICS.

    `member`: in snapshots of kind group only.
    """

    topic: str
    partition: int | None = None
    thread: str | None = None
    member: Member | None = None
    metrics: dict[str, float] = {}

    @property
    def is_too_long(self) -> bool:
        """True if one of the texts, including the texts of `member`, is longer than MAX_NAME."""
        of_member = self.member is not None and self.member.is_too_long
        return of_member or max(len(self.topic), len(self.thread or "")) > MAX_NAME


class Snapshot(msgspec.Struct):
    """The report of one client at one moment.

    ts_ms        epoch milliseconds; None if the record has none
    metrics      by names of CLIENT_METRICS, known values only: finite, ≥ 0, and ≤ metrics.MOST once they are decoded
    config       options of the client
    interval_ms  the client's reporting interval, if the record contains it
    delta        True if totals count since the previous snapshot instead of since the client's start
    error        why this client's part of the record is unusable; the other fields may then be empty
    """

    ts_ms: int | None = None
    client: Identity = msgspec.field(default_factory=Identity)
    metrics: dict[str, float] = {}
    topics: list[TopicMetrics] = []
    config: dict[str, str] = {}
    interval_ms: int | None = None
    delta: bool = False
    error: str | None = None

    def drop_impossible(self) -> list[str]:
        """Drop impossible values, options and topics.

        Return the names of the dropped metrics and options, and `topics` for each dropped topic.
        """
        long = [topic for topic in self.topics if topic.is_too_long]
        if long:
            self.topics = [topic for topic in self.topics if not topic.is_too_long]
        dropped = ["topics"] * len(long)
        for values in (self.metrics, *(topic.metrics for topic in self.topics)):
            wrong = [name for name, value in values.items() if not 0 <= value <= MOST[name]]
            for name in wrong:
                del values[name]
            dropped += wrong
        wrong = [name for name in CONFIG_OPTIONS if name in self.config and option(self.config[name]) is None]
        if wrong:
            self.config = {name: text for name, text in self.config.items() if name not in wrong}
        return dropped + wrong


class Frame(NamedTuple):
    """One frame of a stack.

    The method is `package.Class.method`, in Python `module.function`. `place`: file and line, '' if unknown.
    """

    method: str
    place: str


class DumpedThread(msgspec.Struct):
    """A thread in a dump, its innermost frame first.

    state   the thread's state; '' if the dump has none
    cpu_ms  CPU time since the thread began; only from JVM 11 on
    line    the number of the thread's first line, from 0, in the text that contains the dump
    """

    name: str
    state: str = ""
    frames: list[Frame] = []
    cpu_ms: float | None = None
    line: int = 0


class Dump(msgspec.Struct):
    """A thread dump that was found in a text.

    what        the program that wrote it, for people
    threads     first the threads that touch a Kafka client, and DestroyJavaVM; then those in code outside the JVM
    ts_ms       time of the dump, taken as UTC if it names no zone; None if it has none
    taken       the numbers of the text's lines, from 0, that belong to the dump
    complete    True if the dump ends as it should; False if it was cut, None if its form has no end
    deadlocked  the names of the threads that the JVM reports as deadlocked
    """

    what: str
    threads: list[DumpedThread]
    ts_ms: int | None = None
    taken: frozenset[int] = frozenset()
    complete: bool | None = None
    deadlocked: tuple[str, ...] = ()


class LogLine(msgspec.Struct):
    """One log entry.

    message            the line's text without the fields that the log layout puts before it
    stack              the exception below the line, its lines joined by newline
    file, file_offset  position of the line, to join parts that were split over several records
    numbers            the numbers of the entry's lines (message, then stack) in the file, from 0; () in a topic
    dumps              the thread dumps in the entry; if the entry contains nothing else, `message` is None
    quoted             True if a text quotes the line, without its time and the program that logged it
    explained          True if a text explains the line and reports no failure: such a line may show only known issues
    error              why the entry is unusable
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
    error: str | None = None


class RawRecord(msgspec.Struct):
    """A record as read from a topic (or a line of a file). `ts_ms`: the Kafka record's own time, epoch ms."""

    value: bytes | memoryview | None
    source: Source
    ts_ms: int
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}
