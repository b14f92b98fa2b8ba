"""The observations of a client: samples of its metrics, log events, and thread dumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clienthealth.model.clients import Kind

#: A thread is inside a consumer's poll() if one of its frames ends with one of these texts.
POLL_FRAMES = ("KafkaConsumer.poll", "KafkaShareConsumer.poll", "kafka.consumer.group.poll")


@dataclass(frozen=True, slots=True)
class Source:
    """The input record from which something was read: topic (or file), partition and offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TopicReading:
    """The values of one topic, partition or thread in a client's sample.

    For a whole topic, `partition` and `thread` are None. `metrics`: maps names in TOPIC_METRICS to values.
    """

    topic: str
    partition: int | None
    thread: str | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample: a client's metrics at one moment (`ts_ms`: epoch milliseconds). Counters are cumulative."""

    ts_ms: int
    metrics: Mapping[str, float]
    topics: tuple[TopicReading, ...] = ()
    source: Source | None = None

    def get(self, name: str) -> float | None:
        return self.metrics.get(name)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log line that matches a log pattern. `signature`: the pattern's id; `captures`: the pattern's named groups.

    `ts_ms`: time of the line (epoch ms). `client_id`: None if the line names no client. `text`: the line in which the
    match begins, cut to 500 characters. `repeats`: the number of similar lines merged into this event. `kind`: the kind
    of client, if a field of the record names it.

    `own`: False if the line may be about a client of another program, for example because it is a quotation. `copied`:
    True if other words stand before the client's name, as in copied lines.
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
    """A thread in a dump. `frames`: `package.Class.method`, innermost first.

    `state`: '' if unknown. `cpu_ms`: the thread's CPU time; None before JVM 11.
    """

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
        """True if the thread's name or a frame contains "kafka".

        Also True for `DestroyJavaVM`, because this thread shows that `main` ended.
        """
        return self.name == "DestroyJavaVM" or any("kafka" in text.lower() for text in (self.name, *self.frames))


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """A thread dump of one moment (`ts_ms`: epoch ms), reduced to the threads that the failure modes need.

    `threads`: threads of Kafka clients, threads that an earlier dump shows in poll(), and `DestroyJavaVM`. `others`:
    other threads; they may be inside librdkafka's poll() although no frame shows this call. `complete`: True if the
    dump is known to be complete. `deadlocked`: names of the threads that the JVM reports as deadlocked.
    """

    ts_ms: int
    threads: tuple[Thread, ...]
    source: Source | None = None
    others: tuple[Thread, ...] = ()
    complete: bool = False
    deadlocked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """Evidence that a process runs: a line of its log, a thread dump, or a sample of another of its clients.

    `ts_ms`: time of the evidence (epoch ms). `text`: a noun phrase for the evidence, to be put into a sentence.
    `source`: the input record, None if unknown.
    """

    kind: Literal["log", "thread-dump", "metric"]
    ts_ms: int
    text: str
    source: Source | None
