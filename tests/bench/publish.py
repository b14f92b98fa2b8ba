"""Publish generated records to a topic as fast as possible."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.bench.templates import INTERVAL_MS, Pattern, values

WAIT_SECONDS, READ_SECONDS = 30.0, 120.0


def producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 400_000,
            "queue.buffering.max.kbytes": 400_000,
            "partitioner": "murmur2_random",
            # Level 2 suppresses librdkafka's messages about a broker that stops before the producer does.
            "log_level": 2,
        }
    )


def send(to: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            to.produce(topic, value, key or None)
            return
        except BufferError:
            to.poll(0.05)


@dataclass(frozen=True)
class Filled:
    records: int
    mean_bytes: int
    clients: int


def fill(servers: str, topic: str, records: Iterable[tuple[bytes, bytes]], clients: int) -> Filled:
    to = producer(servers)
    count = size = 0
    began = time.monotonic()
    for count, (key, value) in enumerate(records, 1):
        size += len(value)
        send(to, topic, key, value)
        if not count % 1000:
            to.poll(0)
    to.flush()
    mean = size // max(1, count)
    print(f"  {count:,} records of {mean:,} bytes on {topic} in {time.monotonic() - began:.0f} s", flush=True)
    return Filled(count, mean, clients)


def readings(template: Pattern, records: int, clients: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of samples. Each client's samples are 10 s apart, and its last sample is about 10 s old."""
    start_ms = round(time.time() * 1000) - records // clients * INTERVAL_MS
    for number in range(records):
        client, reading = number % clients, number // clients
        yield template.record(values(client, reading, start_ms + reading * INTERVAL_MS))


def ends(servers: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    try:
        partitions = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions
        watermarks = (
            consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=WAIT_SECONDS) for p in partitions
        )
        return sum(high for _, high in watermarks)
    finally:
        consumer.close()


def newest(servers: str, topic: str) -> dict[bytes, bytes]:
    by_key: dict[bytes, bytes] = {}
    for message in messages(servers, topic):
        if (value := message.value()) is None:
            by_key.pop(message.key() or b"", None)
        else:
            by_key[message.key() or b""] = value
    return by_key


def messages(servers: str, topic: str) -> Iterator[Message]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "whole-topic", "enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        left, deadline = len(partitions), time.monotonic() + READ_SECONDS
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {topic} was not reached in {READ_SECONDS:.0f} s")
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error():
                    left -= 1
                else:
                    yield message
    finally:
        consumer.close()
