"""The vocabulary of the monitor: what a client is, what it reports, what we conclude.

Plain values without Spark. Metric names are those of the Java client's MBean attributes, in their units (ms, ns,
bytes); what other libraries call otherwise is mapped onto them by the formats, so that a name has one meaning
everywhere. A metric that is not known is absent from a mapping: never 0, never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["producer", "consumer", "legacy-consumer", "group"]
Status = Literal["ok", "unknown", "suspected", "confirmed"]
EvidenceKind = Literal["metric", "log", "thread-dump", "absence"]

#: From harmless to certain; of two judgements of one moment the later in this order holds.
STATUS_ORDER: tuple[Status, ...] = ("unknown", "ok", "suspected", "confirmed")
#: Those that say that something is wrong.
UNHEALTHY: tuple[Status, ...] = ("suspected", "confirmed")

#: What the windows keep of a client's metrics, by kind: name → unit. All other metrics are dropped on reading.
CLIENT_METRICS: Mapping[str, Mapping[str, str]] = {
    "producer": {
        "select-total": "1",
        "select-rate": "1/s",
        "io-time-ns-total": "ns",
        "io-wait-time-ns-total": "ns",
        "io-wait-ratio": "ratio",
        "io-ratio": "ratio",
        "buffer-total-bytes": "bytes",
        "buffer-available-bytes": "bytes",
        "waiting-threads": "threads",
        "bufferpool-wait-ratio": "ratio",
        "buffer-exhausted-total": "records",
        "queue-records": "records",
        "queue-records-limit": "records",
        "record-send-total": "records",
        "record-send-rate": "records/s",
        "record-ack-total": "records",
        "record-retry-total": "records",
        "record-error-total": "records",
        "response-total": "1",
        "requests-in-flight": "1",
        "connection-count": "1",
        "connection-close-total": "1",
        "metadata-age": "s",
        "metadata-wait-time-ns-total": "ns",
        "record-queue-time-avg": "ms",
        "record-queue-time-max": "ms",
        "request-latency-avg": "ms",
        "request-latency-max": "ms",
        "callback-time-avg": "ms",
        "callback-time-max": "ms",
        "callback-time-p99": "ms",
        "ack-latency-avg": "ms",
        "ack-latency-max": "ms",
        "reply-queue": "1",
    },
    "consumer": {
        "select-total": "1",
        "last-poll-seconds-ago": "s",
        "poll-idle-ratio-avg": "ratio",
        "time-between-poll-avg": "ms",
        "time-between-poll-max": "ms",
        "records-lag-max": "records",
        "records-consumed-total": "records",
        "records-consumed-rate": "records/s",
        "fetch-total": "1",
        "fetch-rate": "1/s",
        "fetch-latency-avg": "ms",
        "fetch-latency-max": "ms",
        "assigned-partitions": "1",
        "last-heartbeat-seconds-ago": "s",
        "rebalance-total": "1",
        "commit-total": "1",
        "connection-count": "1",
        "reply-queue": "1",
        "poll-time-ms-total": "ms",
    },
    "legacy-consumer": {
        "max-lag": "records",
        "min-fetch-rate": "1/s",
        "messages-total": "records",
        "fetch-requests-total": "1",
        "commits-total": "1",
        "owned-partitions": "1",
    },
    "group": {"members": "1"},
}

#: The same for one topic, partition or consuming thread of a client.
TOPIC_METRICS: Mapping[str, str] = {
    "record-send-total": "records",
    "record-error-total": "records",
    "records-lag": "records",
    "records-lead": "records",
    "records-consumed-total": "records",
    "records-consumed-rate": "records/s",
    "paused": "1",
    "queue-records": "records",
    "queue-bytes": "bytes",
    "queue-chunks": "chunks",
    "messages-total": "records",
    "position": "offset",
    "stored-offset": "offset",
    "committed-offset": "offset",
    "commit-timestamp-ms": "ms",
    "start-offset": "offset",
    "end-offset": "offset",
}

#: The options of a client that a judgement looks at.
CONFIG_OPTIONS: tuple[str, ...] = (
    "acks",
    "buffer.memory",
    "delivery.timeout.ms",
    "linger.ms",
    "max.block.ms",
    "max.poll.interval.ms",
    "queued.max.message.chunks",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "request.timeout.ms",
)


def escaped(part: str) -> str:
    """A part of a client's key in which `|` does not separate."""
    return part.replace("\\", "\\\\").replace("|", "\\|") if "|" in part or "\\" in part else part


@dataclass(frozen=True, slots=True)
class Client:
    """Who reports. `instance` names the process (host:pid, pod uid); `client_id` is empty where only it is known."""

    service: str
    host: str
    instance: str
    client_id: str
    kind: Kind | None = None
    library: str | None = None
    version: str | None = None
    group: str | None = None

    @property
    def key(self) -> str:
        """The key of the client on every topic: service|instance|client_id, `|` and `\\` in them escaped by `\\`."""
        return "|".join(map(escaped, (self.service, self.instance, self.client_id)))


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
    `repeats`: of a storm one line is kept for each tenth of a second; so many it stands for.
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


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a dump. `frames`: `package.Class.method`, innermost first. `cpu_ms` since JVM 11 only."""

    name: str
    state: str
    frames: tuple[str, ...]
    cpu_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The threads of a dump that touch a Kafka client (and `DestroyJavaVM`, if there)."""

    ts_ms: int
    threads: tuple[Thread, ...]
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class ClientWindow:
    """All that is known of one client in one window of event time [start_ms, end_ms).

    Readings, events and dumps are in order of time. Events and dumps of the client's process that name no client
    are in the window of each of its clients. `departed_ms` is set for a client that stopped reporting: the time of
    its last reading; such a window covers the last readings of its session and the log lines after them.
    """

    client: Client
    start_ms: int
    end_ms: int
    readings: tuple[Reading, ...] = ()
    logs: tuple[LogEvent, ...] = ()
    dumps: tuple[ThreadDump, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    departed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on, in words a tired person understands, with numbers and units."""

    kind: EvidenceKind
    ts_ms: int
    text: str
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one mode on one client. `since_ms`: onset. `reason`: why it is `unknown`."""

    mode: str
    status: Status
    since_ms: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None

    @property
    def unhealthy(self) -> bool:
        """Does it say that something is wrong."""
        return self.status in UNHEALTHY
