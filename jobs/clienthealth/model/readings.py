"""The data of a client: samples, log events, and thread dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clienthealth.model.clients import Kind

#: Frames that show a thread inside poll() of a consumer.
POLL_FRAMES = ("KafkaConsumer.poll", "KafkaShareConsumer.poll", "kafka.consumer.group.poll")


@dataclass(frozen=True, slots=True)
class Source:
    """The input record from which something was read: topic (or file), partition and offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TopicReading:
    """The values of one topic, partition or thread in a client's sample."""

    topic: str
    partition: int | None
    thread: str | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample: a client's metrics at one moment (`ts_ms`: epoch milliseconds). Totals are cumulative."""

    ts_ms: int
    metrics: Mapping[str, float]
    topics: tuple[TopicReading, ...] = ()
    source: Source | None = None

    def get(self, name: str) -> float | None:
        """Return the metric's value, or None if unknown."""
        return self.metrics.get(name)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log line that matches a log pattern. `captures`: the named groups of the pattern.

    `client_id` is None if the line does not name its client. `text`: the line's message, and the exception if the
    pattern matched in the exception, cut at 500 characters. `repeats`: the number of lines that this event stands for;
    of a burst of equal lines, one event is kept per tenth of a second. `kind`: kind of the client, if the record
    contains the kind and the text does not.

    `own`: False if an application's text precedes the library's text, so that the line may be about a client of another
    program. `copied`: True if an application's text precedes a client's name; a client itself logs its name without
    such text.
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
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread in a dump. `frames`: `package.Class.method`, innermost first. `cpu_ms`: CPU time, known since JVM 11."""

    name: str
    state: str
    frames: tuple[str, ...]
    cpu_ms: float | None = None

    @property
    def polls(self) -> bool:
        """True if the thread is inside a consumer's poll()."""
        return any(frame.endswith(POLL_FRAMES) for frame in self.frames)

    @property
    def of_kafka(self) -> bool:
        """True if the thread's name or a frame contains "kafka", or if the thread shows that the JVM is ending."""
        return self.name == "DestroyJavaVM" or any("kafka" in text.lower() for text in (self.name, *self.frames))


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The threads of a dump that touch a Kafka client, and `DestroyJavaVM` if present. Threads that an earlier dump
    found inside poll() are included.

    `others`: threads in foreign code, if a client of the process calls poll() in a way that no frame shows. `complete`:
    True if no thread is known to be missing. `deadlocked`: names of the threads that the JVM reports as deadlocked.
    """

    ts_ms: int
    threads: tuple[Thread, ...]
    source: Source | None = None
    others: tuple[Thread, ...] = ()
    complete: bool = False
    deadlocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that a process runs: a line of the process's log, a thread dump, or a sample of another client of the
    process.

    `text`: the sign in words, for the end of a sentence.
    """

    kind: Literal["log", "thread-dump", "metric"]
    ts_ms: int
    text: str
    source: Source | None
