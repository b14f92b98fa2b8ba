"""The newest records of a topic, as many as are wanted: what the checks look at, and `kafka-health formats`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from clienthealth.model.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.platform.kafka import Extent, admin, consumer, extents
from clienthealth.settings import Settings

READ_SECONDS = 5.0
TIMEOUT_MS = 10_000


class Newest(NamedTuple):
    """The newest records of a topic. `trouble`: the partitions that could not be read, and why; '' if all could."""

    records: list[RawRecord]
    trouble: str


def newest(settings: Settings, topic: str, count: int) -> Newest:
    """So many of the newest records, or a few more: as many of each partition. None where the topic is empty.

    Raises ServiceError if there is no such topic, or it cannot be read.
    """
    options = {
        "client_id": "kafka-health-doctor",
        "bootstrap_timeout_ms": TIMEOUT_MS,
        "request_timeout_ms": TIMEOUT_MS,
    }
    try:
        with closing(admin(settings, **options)) as client:
            there = extents(client, [topic])
        if not (there.known or there.unread):
            raise ServiceError(f"{topic} does not exist, or this user may not see it")
        with closing(consumer(settings, group_id=None, allow_auto_create_topics=False, **options)) as reader:
            records = [_raw(record) for record in _read(reader, there.known, count)]
    except KafkaError as error:
        raise ServiceError(f"{topic} could not be read: {type(error).__name__}: {error}") from error
    if there.trouble and not records:
        raise ServiceError(f"{topic} could not be read: {there.trouble}")
    return Newest(records, there.trouble)


def _read(reader: KafkaConsumer, known: Mapping[TopicPartition, Extent], count: int) -> Iterator[Any]:
    filled = {partition: extent for partition, extent in known.items() if extent.end > extent.begin}
    if not filled:
        return
    reader.assign(sorted(filled))
    for partition, (begin, end) in filled.items():
        reader.seek(partition, max(begin, end - -(-count // len(known))))
    deadline = time.monotonic() + READ_SECONDS
    while time.monotonic() < deadline and any((reader.position(of, 500) or 0) < end for of, (_, end) in filled.items()):
        for records in reader.poll(timeout_ms=500).values():
            yield from records


def _raw(record: Any) -> RawRecord:
    headers = {name: value for name, value in record.headers if value is not None}
    source = Source(record.topic, record.partition, record.offset)
    return RawRecord(record.value, source, record.timestamp, record.key, headers)
