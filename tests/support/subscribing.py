"""Subscribe a kafka-python consumer to a topic that may be new."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.support.waiting import eventually


def subscribe(consumer: KafkaConsumer, topic: str) -> None:
    """Subscribe as soon as the consumer knows the topic, because only known topics are assigned."""
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"metadata of {topic}")
    consumer.subscribe([topic])
