"""Join a topic with kafka-python."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.support.waiting import eventually


def subscribe(consumer: KafkaConsumer, topic: str) -> None:
    """Subscribe a consumer so that it will be assigned the topic.

    A group's leader assigns partitions from the metadata that it has. A topic that is missing there stays unassigned
    until the metadata expires after five minutes.
    """
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"metadata of {topic}")
    consumer.subscribe([topic])
