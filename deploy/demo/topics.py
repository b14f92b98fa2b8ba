"""Creates topics, each with the clean-up policy that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import TopicAlreadyExistsError

from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


def create_topics(
    kafka: KafkaSettings, topics: Iterable[str], partitions: int = -1, config: Mapping[str, str] | None = None
) -> None:
    """Create the topics that are not there yet; returns when all have a leader. Raises KafkaError, ServiceError.

    They have as many replicas as the brokers give by default, and partitions too where -1 is asked for.
    """
    wanted: dict[str, Any] = {"num_partitions": partitions, "replication_factor": -1, "configs": dict(config or {})}
    client = admin(Settings(kafka=kafka), client_id="kafka-health-demo")
    try:
        for topic in topics:
            try:
                client.create_topics({topic: wanted}, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                continue
    finally:
        client.close()


def create_ours(settings: Settings, partitions: int = 1) -> None:
    """Create the topics that the monitor reads and writes.

    The topic of states keeps the newest record of each client; `delete` lets those that are long gone disappear.
    """
    states = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * _DAY_MS), "min.cleanable.dirty.ratio": "0.1"}
    inputs = (*settings.topics.metrics, *settings.topics.logs)
    create_topics(settings.kafka, inputs, partitions, {"retention.ms": str(6 * _HOUR_MS)})
    create_topics(settings.kafka, [settings.topics.rejects], partitions, {"retention.ms": str(7 * _DAY_MS)})
    create_topics(settings.kafka, [settings.topics.health], partitions, states)
