"""Probes measure the calls of a producer or consumer of any library, in bounded memory."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from clienthealth.model.clients import Kind

log = logging.getLogger(__name__)

ATTRIBUTE = "_kafka_health_probe"
DELIVERY_SECONDS = 5.0
#: Maximum number of topics in a producer's snapshot, and of partitions in a consumer's snapshot.
MAX_TOPICS = 500
#: Minimum time (s) between two records with a measured latency.
SAMPLING_SECONDS = 0.001
#: Bucket n ends at SMALLEST_SECONDS × GROWTH^n.
SMALLEST_SECONDS = 1e-6
GROWTH = 2**0.25
BUCKETS = 128


def quietly(work: Callable[..., None], *args: object) -> None:
    """Run `work`, and log its exceptions instead of raising them."""
    try:
        work(*args)
    except Exception:
        log.debug("the reporter failed", exc_info=True)


def named_like(made: type, base: type) -> type:
    """Copy the name and module of the class `base` to the class `made`, for logs. Return the class `made`."""
    made.__name__, made.__qualname__, made.__module__ = base.__name__, base.__qualname__, base.__module__
    return made


def closing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that runs `method`, and then always calls the probe's `closed`."""

    @functools.wraps(method)
    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            quietly(self.__dict__[ATTRIBUTE].closed)

    return close


class Sender(Protocol):
    """Sends snapshots and log lines with the client's library."""

    def deliver(self, records: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Send records (topic, key, value) and wait for the brokers. Return how many records were acknowledged.

        May raise any exception.
        """

    def close(self) -> None:
        """Close the connection."""


@dataclass(eq=False)
class Watched:
    """A reported client, held by a weak reference.

    `more`      returns the library's own measurements, as the fields `metrics` and `topics` of a snapshot
    `fresh`     returns True if the library has new measurements
    `patience`  maximum number of reporting intervals between two snapshots
    `due`       time by which the next snapshot must be taken (seconds of `time.monotonic()`)
    """

    client: weakref.ref[Any]
    client_id: str
    probe: ProducerProbe | ConsumerProbe
    library: str
    version: str
    group: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[Any], tuple[Mapping[str, float], list[dict[str, Any]] | None]] = lambda client: ({}, None)
    fresh: Callable[[], bool] = lambda: False
    patience: float = 1.0
    due: float = 0.0


class Summary(NamedTuple):
    """A summary of durations (s). `p99` may be up to a fifth too large, but never exceeds `max`."""

    number: int
    avg: float
    max: float
    p99: float


class Durations:
    """Summarizes durations in a fixed amount of memory.

    Not thread-safe: the caller must hold a lock.
    """

    __slots__ = ("_buckets", "_count", "_max", "_sum")

    def __init__(self) -> None:
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._buckets = [0] * BUCKETS

    def add(self, seconds: float) -> None:
        """Add a duration. A negative duration, from a clock that went backwards, counts as 0."""
        seconds = max(0.0, seconds)
        self._count += 1
        self._sum += seconds
        self._max = max(self._max, seconds)
        position = math.ceil(4 * math.log2(seconds / SMALLEST_SECONDS)) if seconds > SMALLEST_SECONDS else 0
        self._buckets[min(position, BUCKETS - 1)] += 1

    def drain(self) -> Summary | None:
        """Return a summary of the durations since the previous call; None if there were none."""
        if not self._count:
            return None
        rank, seen = math.ceil(0.99 * self._count), 0
        bound = self._max
        for position, count in enumerate(self._buckets):
            seen += count
            if seen >= rank:
                bound = SMALLEST_SECONDS * GROWTH**position
                break
        summary = Summary(self._count, self._sum / self._count, self._max, min(self._max, bound))
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._buckets = [0] * BUCKETS
        return summary


class _Topic:
    """Counters of a topic's records. `refused`: number of failed records that are not counted in `sent`."""

    __slots__ = ("_lock", "acknowledged", "failed", "refused", "sent")

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.sent = self.acknowledged = self.failed = self.refused = 0

    def taken(self) -> None:
        with self._lock:
            self.sent += 1

    def not_taken(self) -> None:
        with self._lock:
            self.failed += 1
            self.refused += 1

    def gave_up(self, _error: object = None) -> None:
        with self._lock:
            self.failed += 1


class ProducerProbe:
    """Counts a producer's records, and measures latencies and the application's callbacks.

    The latency up to the acknowledgement is measured for at most one record per millisecond. `closed`: called after the
    client was closed.
    """

    kind: Kind = "producer"

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.closed: Callable[[], None] = lambda: None
        self.clock = clock
        # The lock is reentrant, because a thread may need the lock twice. While the thread holds the lock, a garbage
        # collection in this thread may run a finalizer that sends a record.
        self._lock = threading.RLock()
        self._topics: dict[str, _Topic] = {}
        self._other_topics = _Topic(self._lock)
        self._latencies, self._callbacks = Durations(), Durations()
        self._next_sample = 0.0
        #: True if the library reports every record's outcome, False if it reports only failures.
        self.all_reported = True
        self._callback_began: float | None = None
        #: Maps a class of futures to its subclass that measures callbacks (kafka-python).
        self.futures: dict[type, type] = {}

    def topic(self, name: str) -> _Topic:
        """Return the object that counts a topic's records. All topics after the first 500 share one object."""
        with self._lock:
            if (counts := self._topics.get(name)) is None:
                counts = self._other_topics
                if len(self._topics) < MAX_TOPICS:
                    counts = self._topics[name] = _Topic(self._lock)
        return counts

    def sampled(self, began: float) -> float | None:
        """Return `began` (the time when a record was sent) if the record's latency must be measured, else None."""
        if began < self._next_sample:
            return None
        self._next_sample = began + SAMPLING_SECONDS
        return began

    def delivered(self, topic: _Topic, began: float | None, _metadata: object = None) -> None:
        """Count an acknowledged record, and measure its latency unless `began` is None."""
        seconds = None if began is None else self.clock() - began
        with self._lock:
            topic.acknowledged += 1
            if seconds is not None:
                self._latencies.add(seconds)

    def timed(self, callback: Callable[..., object]) -> Callable[..., object]:
        """Return a callback that runs `callback` and measures its duration."""
        clock = self.clock

        def run(*outcome: Any) -> object:
            self._callback_began = began = clock()
            try:
                return callback(*outcome)
            finally:
                self._callback_began = None
                with self._lock:
                    self._callbacks.add(clock() - began)

        return run

    def metrics(self) -> dict[str, float]:
        """Return the counts so far, and the times (ms) measured since metrics() was last called.

        `callback-time-max` includes the duration so far of a callback that is still running.
        """
        began = self._callback_began
        with self._lock:
            latency, callback = self._latencies.drain(), self._callbacks.drain()
            topics = [*self._topics.values(), self._other_topics]
            sent, acknowledged, failed, refused = (
                sum(getattr(topic, name) for topic in topics) for name in ("sent", "acknowledged", "failed", "refused")
            )
        values: dict[str, float] = {"record-send-total": sent, "record-error-total": failed}
        if self.all_reported:
            waiting = max(0, sent - acknowledged - failed + refused)
            values |= {"record-ack-total": acknowledged, "queue-records": waiting}
        if latency is not None:
            values |= {"ack-latency-avg": latency.avg * 1000, "ack-latency-max": latency.max * 1000}
        if callback is not None:
            values |= {f"callback-time-{stat}": getattr(callback, stat) * 1000 for stat in ("avg", "max", "p99")}
        if began is not None:
            running = (self.clock() - began) * 1000
            values["callback-time-max"] = max(values.get("callback-time-max", 0.0), running)
            values.setdefault("callback-time-avg", running)
        return values

    def topics(self) -> list[dict[str, Any]]:
        """Return each topic's sent and failed records, as entries for a snapshot's `topics`."""
        with self._lock:
            counts = {name: (topic.sent, topic.failed) for name, topic in self._topics.items()}
        return [
            entry(topic, None, {"record-send-total": sent, "record-error-total": failed})
            for topic, (sent, failed) in sorted(counts.items())
        ]


@dataclass(slots=True)
class Polled:
    """The records that a poll returned, by partition. `others`: number of records without a known partition."""

    records: Mapping[Any, Any] = field(default_factory=dict)
    others: int = 0


class ConsumerProbe:
    """Measures a consumer: the time in polls, the time between polls, the consumed records, and the lag."""

    kind: Kind = "consumer"

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.closed: Callable[[], None] = lambda: None
        self.clock = clock
        self.all_reported = True
        self._lock = threading.RLock()
        self._last_began: float | None = None
        self._last_ended: float | None = None
        self._polling = False
        self._in_poll = 0.0
        self._between = Durations()
        self._consumed = 0
        self._partitions: dict[Any, list[int]] = {}
        self._reported = False
        self._drained = (clock(), 0.0)

    @contextmanager
    def poll(self, consumer: Any) -> Iterator[Polled]:
        """Measure a poll. The caller must put the records that the poll returned into the yielded object."""
        got = Polled()
        self.polling()
        try:
            yield got
        finally:
            quietly(self._polled, consumer, got)

    def polling(self) -> None:
        """Record that a call of `poll()` begins."""
        now = self.clock()
        with self._lock:
            if self._last_began is not None:
                self._between.add(now - self._last_began)
            self._last_began, self._polling = now, True

    def _polled(self, consumer: Any, got: Polled) -> None:
        now = self.clock()
        with self._lock:
            self._polling, self._last_ended = False, now
            self._consumed += got.others
            self._in_poll += now - (now if self._last_began is None else self._last_began)
            for partition, batch in got.records.items():
                self._consumed += len(batch)
                counts = self._partitions.get(partition)
                if counts is None and len(self._partitions) < MAX_TOPICS:
                    counts = self._partitions[partition] = [0, 0, 0]
                if counts is not None:
                    position = batch[-1].offset + 1
                    counts[0] += len(batch)
                    counts[1] = position
                    counts[2] = max(0, (consumer.highwater(partition) or position) - position)
            # Reading the assignment takes time, so read it only at the first poll after each call of metrics().
            if self._reported and self._partitions:
                self._reported = False
                assigned = consumer.assignment()
                self._partitions = {tp: kept for tp, kept in self._partitions.items() if tp in assigned}

    def metrics(self) -> dict[str, float]:
        """Return the counts so far, and the times measured since metrics() was last called.

        `poll-idle-ratio-avg` includes the duration so far of a poll that is still running. The unit of
        `last-poll-seconds-ago` is s, the unit of `time-between-poll-max` is ms.
        """
        now = self.clock()
        with self._lock:
            in_poll = self._in_poll
            if self._polling and self._last_began is not None:
                in_poll += now - self._last_began
            since, before = self._drained
            self._drained, self._reported = (now, in_poll), True
            between = self._between.drain()
            ended, polling, consumed = self._last_ended, self._polling, self._consumed
            lags = [lag for _, _, lag in self._partitions.values()]
        values: dict[str, float] = {"records-consumed-total": consumed}
        if now > since:
            values["poll-idle-ratio-avg"] = min(1.0, (in_poll - before) / (now - since))
        if polling or ended is not None:
            values["last-poll-seconds-ago"] = 0.0 if polling or ended is None else now - ended
        if between is not None:
            values["time-between-poll-max"] = between.max * 1000
        if lags:
            values["records-lag-max"] = max(lags)
        return values

    def topics(self) -> list[dict[str, Any]]:
        """Return each partition's consumed records, position and lag, as entries for `topics`."""
        with self._lock:
            by_partition = {(tp.topic, tp.partition): tuple(values) for tp, values in self._partitions.items()}
        return [
            entry(topic, number, {"records-consumed-total": consumed, "position": position, "records-lag": lag})
            for (topic, number), (consumed, position, lag) in sorted(by_partition.items())
        ]


def entry(topic: str, partition: int | None, metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return an entry for a snapshot's list `topics`. With `partition` None, the entry is about the whole topic."""
    return {"topic": topic, "partition": partition, "thread": None, "metrics": dict(metrics)}
