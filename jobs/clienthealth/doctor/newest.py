"""The newest records of a topic, as many as are wanted: what the checks look at, and `kafka-health formats`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from clienthealth.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.platform.kafka import consumer
from clienthealth.settings import Settings

READ_SECONDS = 5.0
TIMEOUT_MS = 10_000


def newest(settings: Settings, topic: str, count: int) -> list[RawRecord]:
    """So many of the newest records, or a few more: as many of each partition. None where the topic is empty.

    Raises ServiceError where there is no such topic, or it cannot be read.
    """
    reader = consumer(
        settings,
        client_id="kafka-health-doctor",
        bootstrap_timeout_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS,
        group_id=None,
        allow_auto_create_topics=False,
    )
    try:
        numbers = reader.partitions_for_topic(topic)
        if not numbers:
            raise ServiceError(f"{topic} does not exist, or this user may not see it")
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        return [_raw(record) for record in _read(reader, partitions, -(-count // len(partitions)))]
    except KafkaError as error:
        raise ServiceError(f"{topic} could not be read: {type(error).__name__}: {error}") from error
    finally:
        reader.close()


def _read(reader: KafkaConsumer, partitions: Sequence[TopicPartition], each: int) -> Iterator[Any]:
    begins, ends = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
    filled = [partition for partition in partitions if ends[partition] > begins[partition]]
    if not filled:
        return
    reader.assign(filled)
    for partition in filled:
        reader.seek(partition, max(begins[partition], ends[partition] - each))
    deadline = time.monotonic() + READ_SECONDS
    while time.monotonic() < deadline and any(reader.position(p) < ends[p] for p in filled):
        for records in reader.poll(timeout_ms=500).values():
            yield from records


def _raw(record: Any) -> RawRecord:
    headers = {name: value for name, value in record.headers if value is not None}
    source = Source(record.topic, record.partition, record.offset)
    return RawRecord(record.value, source, record.timestamp, record.key, headers)
