"""Joining a topic with kafka-python."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.support.waiting import eventually


def subscribe(consumer: KafkaConsumer, topic: str) -> None:
    """Make it a member of its group that will own the topic.

    The leader of a group assigns by the metadata that it has: a topic that it does not know yet goes to nobody, until
    its metadata expires after five minutes.
    """
    eventually(lambda: bool(consumer.partitions_for_topic(topic)), f"metadata of {topic}")
    consumer.subscribe([topic])
