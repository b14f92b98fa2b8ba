"""Subscribe a kafka-python consumer to a topic that may be new."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.support.waiting import eventually


def subscribe(consumer: KafkaConsumer, topic: str) -> None:
    """Subscribe a consumer once its metadata contains the topic.

    A group's leader assigns partitions only of topics in its metadata; partitions of any other topic would stay
    unassigned until the metadata expires after five minutes.
    """
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"metadata of {topic}")
    consumer.subscribe([topic])
