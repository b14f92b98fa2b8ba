"""Build hand-made windows of a client from samples, log lines and threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client, Kind
from clienthealth.model.readings import LogEvent, Reading, Thread, ThreadDump, TopicReading
from clienthealth.model.verdicts import Status

T0 = 1_795_200_000_000
MIB = 1024 * 1024
NETWORK = "kafka-producer-network-thread | orders"
PARK = ("jdk.internal.misc.Unsafe.park", "java.util.concurrent.locks.LockSupport.park")
CALLBACK = (
    "com.example.Resend.onCompletion",
    "org.apache.kafka.clients.producer.internals.ProducerBatch.completeFutureAndFireCallbacks",
    "org.apache.kafka.clients.producer.internals.Sender.run",
)
GET = (
    *PARK,
    "java.util.concurrent.CountDownLatch.await",
    "org.apache.kafka.clients.producer.internals.ProduceRequestResult.await",
    "org.apache.kafka.clients.producer.internals.FutureRecordMetadata.get",
    *CALLBACK,
)
AWAIT_UPDATE = (
    "java.lang.Object.wait",
    "org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate",
    "org.apache.kafka.clients.producer.KafkaProducer.waitOnMetadata",
    "org.apache.kafka.clients.producer.KafkaProducer.doSend",
)
ALLOCATE = (*PARK, "org.apache.kafka.clients.producer.internals.BufferPool.allocate", *AWAIT_UPDATE[3:])
PUT = (
    *PARK,
    "java.util.concurrent.LinkedBlockingQueue.put",
    "kafka.consumer.PartitionTopicInfo.enqueue",
    "kafka.consumer.ConsumerFetcherThread.processPartitionData",
)
TAKE = (*PARK, "java.util.concurrent.LinkedBlockingQueue.take", "kafka.consumer.ConsumerIterator.makeNext")
LOOKUP = (
    "kafka.client.ClientUtils$.channelToAnyBroker",
    "kafka.client.ClientUtils$.channelToOffsetManager",
    "kafka.consumer.ZookeeperConsumerConnector.commitOffsets",
)
FULL = "Failed to allocate 16384 bytes within the configured max blocking time 60000 ms."


@dataclass(frozen=True)
class Scenario:
    name: str
    role: Literal["fires", "near-miss", "unknown"]
    expected: Status
    window: ClientWindow


def fires(name: str, window: ClientWindow) -> Scenario:
    return Scenario(name, "fires", "confirmed", window)


def suspects(name: str, window: ClientWindow) -> Scenario:
    return Scenario(name, "fires", "suspected", window)


def near_miss(name: str, window: ClientWindow) -> Scenario:
    return Scenario(name, "near-miss", "ok", window)


def unknown(name: str, window: ClientWindow) -> Scenario:
    return Scenario(name, "unknown", "unknown", window)


def at(seconds: float) -> int:
    return T0 + round(1000 * seconds)


def client(kind: Kind, library: str = "java", version: str | None = "3.9.1") -> Client:
    return Client("shop", "web-1", "web-1:7", "orders", kind, library, version)


def window(
    kind: Kind = "producer",
    readings: Sequence[Reading] = (),
    logs: Sequence[LogEvent] = (),
    dumps: Sequence[ThreadDump] = (),
    config: Mapping[str, str] | None = None,
    departed: float | None = None,
    earlier: Sequence[ThreadDump] = (),
    before: Sequence[Reading] = (),
) -> ClientWindow:
    """Return a window of 60 s from T0. `before`: samples that are moved 30 s into the past."""
    return ClientWindow(
        client(kind),
        T0,
        at(60),
        tuple(readings),
        tuple(logs),
        tuple(dumps),
        config or {},
        None if departed is None else at(departed),
        tuple(earlier),
        earlier_readings=tuple(replace(reading, ts_ms=reading.ts_ms - 30_000) for reading in before),
    )


def every(step: float, names: Mapping[str, Callable[[float], float | None]], until: float = 60) -> list[Reading]:
    readings, seconds = [], 0.0
    while seconds < until:
        metrics = {name: value for name, of in names.items() if (value := of(seconds)) is not None}
        readings.append(Reading(at(seconds), metrics))
        seconds += step
    return readings


def producer(
    select: Callable[[float], float | None],
    used: Callable[[float], float] = lambda s: 0.0,
    total: float = 32 * MIB,
    step: float = 10,
    until: float = 60,
    **more: Callable[[float], float | None],
) -> list[Reading]:
    """Return a producer's samples. `used` gives the buffer's used bytes. Names in `more` have `_` in place of `-`."""
    names: dict[str, Callable[[float], float | None]] = {
        "select-total": select,
        "buffer-total-bytes": lambda s: total,
        "buffer-available-bytes": lambda s: total - used(s),
        "waiting-threads": lambda s: 0.0,
        "connection-count": lambda s: 2.0,
        "metadata-age": lambda s: 100 + s,
    }
    return every(step, names | {name.replace("_", "-"): of for name, of in more.items()}, until)


def line(seconds: float, signature: str, text: str = "", thread: str | None = None, **captures: str) -> LogEvent:
    return LogEvent(at(seconds), signature, text or signature, thread=thread, captures=captures)


def mine(event: LogEvent) -> LogEvent:
    return replace(event, client_id="orders")


def dump(seconds: float, *threads: Thread) -> ThreadDump:
    return ThreadDump(at(seconds), threads)


def legacy(
    fetches: Callable[[float], float],
    queues: Mapping[str, Callable[[float], float]],
    messages: Mapping[str, Callable[[float], float]],
    step: float = 10,
) -> list[Reading]:
    readings = []
    for reading in every(step, {"fetch-requests-total": fetches}):
        now = (reading.ts_ms - T0) / 1000
        chunks = {t: {"queue-chunks": of(now), "messages-total": messages[t](now)} for t, of in queues.items()}
        readings.append(replace(reading, topics=tuple(TopicReading(t, None, "0", m) for t, m in chunks.items())))
    return readings


def consumer(
    lag: Mapping[str, Callable[[float], float]], step: float = 10, **more: Callable[[float], float | None]
) -> list[Reading]:
    names = {name.replace("_", "-"): of for name, of in more.items()}
    readings = []
    for reading in every(step, names):
        now = (reading.ts_ms - T0) / 1000
        topics = tuple(TopicReading(topic, 0, None, {"records-lag": of(now)}) for topic, of in lag.items())
        readings.append(replace(reading, topics=topics))
    return readings


def prefetched(queues: Mapping[str, tuple[float, float]]) -> list[Reading]:
    """Return a consumer's samples. `queues` maps a topic to (number of prefetched records, lag in records)."""
    topics = tuple(
        TopicReading(topic, 0, None, {"queue-records": held, "queue-bytes": held * 100, "records-lag": behind})
        for topic, (held, behind) in queues.items()
    )
    return [replace(reading, topics=topics) for reading in every(10, {"reply-queue": lambda s: 0.0})]


def stuck_at(value: float, since: float) -> Callable[[float], float]:
    return lambda seconds: value + 100 * min(seconds, since)


def rising(rate: float = 100) -> Callable[[float], float]:
    return lambda seconds: 1000 + rate * seconds


def filling(per_second: float, since: float, most: float) -> Callable[[float], float]:
    return lambda seconds: min(most, 65_536 + per_second * max(0.0, seconds - since))


def still(value: float = 0.0) -> Callable[[float], float]:
    return lambda seconds: value


def network(frames: Sequence[str], state: str = "WAITING", cpu: float | None = 900.0) -> Thread:
    return Thread(NETWORK, state, tuple(frames), cpu)


def caller(number: int, frames: Sequence[str] = AWAIT_UPDATE) -> Thread:
    return Thread(f"http-{number}", "TIMED_WAITING", tuple(frames), 5.0)


def fetcher(
    frames: Sequence[str], connector: str = "orders_web-1-17952-ab12", state: str = "WAITING", cpu: float = 50.0
) -> Thread:
    return Thread(f"ConsumerFetcherThread-{connector}-0-0", state, tuple(frames), cpu)


def taker(number: int = 0) -> Thread:
    return Thread(f"consumer-{number}", "WAITING", TAKE, 5.0)


MISSING = {"topic": "orders-new", "waitMs": "60000"}
ADDRESS = {"address": "kafka-1:9092"}


def unknown_topic(count: int, step: float, error: str = "UNKNOWN_TOPIC_OR_PARTITION") -> list[LogEvent]:
    return [line(5 + step * n, "topic-error-in-metadata", topic="orders-new", error=error) for n in range(count)]


def lookups(seconds: Sequence[float], addresses: Sequence[str] = ("kafka-1:9092",)) -> list[LogEvent]:
    text = "Failed to fetch consumer metadata from {}."
    turns = zip(seconds, itertools.cycle(addresses), strict=False)
    return [line(s, "offset-manager-lookup-failed", text.format(a), "worker", address=a) for s, a in turns]


STARTED = mine(line(0, "producer-started"))


def last_reading(used: float = 0.0, total: float = 32 * MIB, **more: float) -> list[Reading]:
    """Return the last sample of a client that is gone."""
    metrics = {"buffer-total-bytes": total, "buffer-available-bytes": total - used, "record-send-total": 5000.0}
    return [Reading(at(10), metrics | {name.replace("_", "-"): value for name, value in more.items()})]
