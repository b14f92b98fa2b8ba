"""What is known of a client: its readings, its log events, and its thread dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clienthealth.model.clients import Kind

#: Frames of a thread that asks a consumer for records.
POLL_FRAMES = ("KafkaConsumer.poll", "KafkaShareConsumer.poll", "kafka.consumer.group.poll")


@dataclass(frozen=True, slots=True)
class Source:
    """The input record that something was read from: topic (or file), partition and offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TopicReading:
    """What a client says of one topic, or of one partition or thread of it."""

    topic: str
    partition: int | None
    thread: str | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """A client's metrics at one moment (`ts_ms`: epoch milliseconds). Totals are cumulative."""

    ts_ms: int
    metrics: Mapping[str, float]
    topics: tuple[TopicReading, ...] = ()
    source: Source | None = None

    def get(self, name: str) -> float | None:
        """The metric's value, or None where it is not known."""
        return self.metrics.get(name)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log line that carries a signature. `captures` holds the named groups of the signature's pattern.

    `client_id` is None where the line does not say which client of the process it speaks of.
    `text` is the line's message, and the exception where that carries the signature, cut at 500 characters.
    `repeats`: of a storm one line is kept for each tenth of a second; so many it stands for. `kind`: of the client,
    where the record tells it and not the text. `own`: False where an application's words stand before what the library
    words, so that it may speak of another program's client.
    """

    ts_ms: int
    signature: str
    text: str
    client_id: str | None = None
    logger: str | None = None
    level: str | None = None
    thread: str | None = None
    captures: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    repeats: int = 1
    kind: Kind | None = None
    own: bool = True


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a dump. `frames`: `package.Class.method`, innermost first. `cpu_ms` since JVM 11 only."""

    name: str
    state: str
    frames: tuple[str, ...]
    cpu_ms: float | None = None

    @property
    def polls(self) -> bool:
        """Is it inside a consumer's poll()?"""
        return any(frame.endswith(POLL_FRAMES) for frame in self.frames)

    @property
    def of_kafka(self) -> bool:
        """Does it touch a Kafka client, or say that the JVM ends?"""
        return self.name == "DestroyJavaVM" or any("kafka" in text.lower() for text in (self.name, *self.frames))


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The threads of a dump that touch a Kafka client or were seen to poll one (and `DestroyJavaVM`, if there).

    `others`: those in foreign code, where a client of the process calls poll() in a way that no frame shows.
    `complete`: is it known that no thread is missing? `deadlocked`: the names of the threads of which the JVM says that
    they wait for each other.
    """

    ts_ms: int
    threads: tuple[Thread, ...]
    source: Source | None = None
    others: tuple[Thread, ...] = ()
    complete: bool = False
    deadlocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows that a process goes on: a line of its log, a thread dump, or a reading of another of its clients.

    `text`: what it is, as a sentence can end with it.
    """

    kind: Literal["log", "thread-dump", "metric"]
    ts_ms: int
    text: str
    source: Source | None
