"""Send records to the topics of the demo's legacy clients, which only consume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka import KafkaProducer
from kafka.errors import KafkaError

if TYPE_CHECKING:
    from deploy.demo.running import Running

PAUSE_SECONDS = 0.2


def create_legacy(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Create topics by asking a broker of version 0.8.2 for their metadata."""
    producer = _producer(bootstrap_servers)
    try:
        for topic in topics:
            producer.partitions_for(topic)
    finally:
        producer.close(timeout=2)


def load_legacy(running: Running, bootstrap_servers: str, topics: Sequence[str], rate: float) -> None:
    producer = _producer(bootstrap_servers)
    due = 0.0
    try:
        while not running.wait(PAUSE_SECONDS):
            due += rate * PAUSE_SECONDS
            count, due = int(due), due - int(due)
            for topic in topics:
                for _ in range(count):
                    producer.send(topic, b"0" * 140)
    except KafkaError as error:
        running.note(f"load ended: {error}")
    finally:
        producer.close(timeout=2)


def _producer(bootstrap_servers: str) -> KafkaProducer:
    # A broker of version 0.8.2 does not report its API version.
    return KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        client_id="kafka-health-demo-load",
        api_version=(0, 8, 2),
        enable_idempotence=False,
        acks=1,
        max_block_ms=10_000,
    )
