"""What one record says once its format is understood: snapshots of clients, and log lines.

Still as the record tells it: who it is of may be incomplete, and nothing is checked against anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from clienthealth.model.metrics import CONFIG_OPTIONS, MOST
from clienthealth.model.readings import Source
from clienthealth.model.values import MAX_NAME, option

Stream = Literal["metrics", "logs"]


class _Named(msgspec.Struct, gc=False):
    @property
    def is_too_long(self) -> bool:
        """True if one of its names is longer than MAX_NAME."""
        return any(text and len(text) > MAX_NAME for text in msgspec.structs.astuple(self))


class Identity(_Named, gc=False):
    """Who a record says that it is of; None (never an empty text) where it does not say it.

    `kind` is as the record spells it until `decode.py` has checked it. `handle`: what the client is called within its
    process, for where nobody names that.
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


class Member(_Named, gc=False):
    """Who of a consumer group owns a partition."""

    client_id: str | None = None
    consumer_id: str | None = None
    host: str | None = None


class TopicMetrics(msgspec.Struct):
    """What a client says of one topic, or of one partition or thread of it. `metrics`: names of TOPIC_METRICS.

    `member`: in snapshots of kind group only.
    """

    topic: str
    partition: int | None = None
    thread: str | None = None
    member: Member | None = None
    metrics: dict[str, float] = {}

    @property
    def is_too_long(self) -> bool:
        """True if one of its names is longer than MAX_NAME."""
        of_member = self.member is not None and self.member.is_too_long
        return of_member or max(len(self.topic), len(self.thread or "")) > MAX_NAME


class Snapshot(msgspec.Struct):
    """What one client reports at one moment.

    ts_ms        epoch milliseconds; None where the record does not tell it
    metrics      by names of CLIENT_METRICS, known values only: finite, ≥ 0, and ≤ metrics.MOST once they are decoded
    config       options of the client
    interval_ms  how often it reports, where the record tells
    delta        totals count since the previous snapshot instead of since the client's start
    error        why this client's part of the record cannot be used; the other fields may then be empty
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
        """Drop the values and topics that no client can have; the names of what was dropped."""
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
    """`package.Class.method` (of Python: `module.function`), and where that is: file and line, '' where unknown."""

    method: str
    place: str


class DumpedThread(msgspec.Struct):
    """A thread as a dump shows it, its innermost frame first.

    state   '' where the dump does not say it
    cpu_ms  since the thread began; since JVM 11 only
    line    the number of its first line, from 0, in the text that the dump was found in
    """

    name: str
    state: str = ""
    frames: list[Frame] = []
    cpu_ms: float | None = None
    line: int = 0


class Dump(msgspec.Struct):
    """A thread dump that was found in a text.

    what        what wrote it, for people
    threads     those that touch a Kafka client, and DestroyJavaVM; then those in code that is not the JVM's
    ts_ms       its time, taken as UTC where it names no zone; None where it says none
    taken       the numbers of the text's lines, from 0, that it is made of
    complete    does it end as such a dump ends? False where it was cut, None where its shape has no end
    deadlocked  the names of the threads of which the JVM itself says that they wait for each other
    """

    what: str
    threads: list[DumpedThread]
    ts_ms: int | None = None
    taken: frozenset[int] = frozenset()
    complete: bool | None = None
    deadlocked: tuple[str, ...] = ()


class LogLine(msgspec.Struct):
    """One log entry.

    message            the line without the decoration of its layout
    stack              the exception below it, lines joined by newline
    file, file_offset  where the line stood, to re-join what was split over records
    numbers            of each of its lines (message, then stack) the number in its file, from 0; () in a topic
    dumps              the thread dumps that stand in it; where it holds nothing else, `message` is None
    error              why it cannot be used
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
    error: str | None = None


class RawRecord(msgspec.Struct):
    """A record as it stands on a topic (or as a line of a file). `ts_ms`: the Kafka record's own time, epoch ms."""

    value: bytes | memoryview | None
    source: Source
    ts_ms: int
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}
