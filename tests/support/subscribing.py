"""Subscribe a kafka-python consumer to a topic that may be new."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.support.waiting import eventually


def subscribe(consumer: KafkaConsumer, topic: str) -> None:
    """Wait until the consumer knows the topic, because a group's leader assigns only topics that the leader knows."""
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"metadata of {topic}")
    consumer.subscribe([topic])
