"""Create the demo's topics, and the KIP-714 subscriptions that make clients push their metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka.errors import UnknownBrokerIdError

from clienthealth.model.subscription import Subscription
from clienthealth.platform.kafka import admin
from clienthealth.platform.topics import Topic, inputs, outputs
from clienthealth.settings import KafkaSettings, Settings

#: Time (s) for which failed requests are repeated, because a new controller may not be ready for clients at once.
_CONTROLLER_SECONDS = 60
_HOUR_MS = 3_600_000


def create_topics(
    kafka: KafkaSettings,
    topics: Iterable[str],
    partitions: int = -1,
    config: Mapping[str, str] | None = None,
    replicas: int = -1,
) -> None:
    """Create the topics that do not exist, and wait until all have a leader.

    `partitions`, `replicas`: -1 means the broker's default. Raises KafkaError if a request fails. Raises ServiceError
    if no broker can be reached.
    """
    _create(kafka, [Topic(name, partitions, config or {}, replicas) for name in topics])


def create_ours(settings: Settings, partitions: int = 1) -> None:
    ours = (*inputs(settings.topics, retention_ms=6 * _HOUR_MS), *outputs(settings.topics))
    _create(settings.kafka, [replace(topic, partitions=partitions) for topic in ours])


def ask_for_pushes(kafka: KafkaSettings, seconds: float) -> None:
    """Create the monitor's subscriptions to client metrics (KIP-714) on the brokers.

    `seconds`: the push interval. Raises KafkaError if a request fails. Raises ServiceError if no broker can be reached.
    """
    client = admin(Settings(kafka=kafka), client_id="kafka-health-demo")
    try:
        for subscription in Subscription.ours(seconds):
            subscription.write(client)
    finally:
        client.close()


def _create(kafka: KafkaSettings, topics: Iterable[Topic]) -> None:
    wanted, deadline = list(topics), time.monotonic() + _CONTROLLER_SECONDS
    while True:
        client = admin(Settings(kafka=kafka), client_id="kafka-health-demo")
        try:
            for topic in wanted:
                topic.create(client)
            return
        except UnknownBrokerIdError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        finally:
            client.close()
