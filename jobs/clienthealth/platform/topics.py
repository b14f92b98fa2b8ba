"""The topics of an installation: what each of them needs, and how they are created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from clienthealth.settings import TopicSettings

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Topic:
    """A topic as it should be. `partitions`, `replicas`: -1 for what the brokers give by default."""

    name: str
    partitions: int
    config: Mapping[str, str]
    replicas: int = -1

    def command(self, servers: str) -> str:
        """The command by which an administrator creates it, on one line."""
        counts = {"--partitions": self.partitions, "--replication-factor": self.replicas}
        given = [f"{option} {count}" for option, count in counts.items() if count > 0]
        options = [*given, *(f"--config {name}={value}" for name, value in self.config.items())]
        return " ".join(["kafka-topics.sh --bootstrap-server", servers, "--create --topic", self.name, *options])

    def create(self, client: KafkaAdminClient) -> bool:
        """Create it, and wait until it has a leader; False where it was there. Raises KafkaError."""
        request: dict[str, Any] = {
            "num_partitions": self.partitions,
            "replication_factor": self.replicas,
            "configs": dict(self.config),
        }
        try:
            client.create_topics({self.name: request}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
        return True


def inputs(
    settings: TopicSettings, partitions: int = 12, retention_ms: int = _DAY_MS, replicas: int = -1
) -> list[Topic]:
    """The topics that the monitor reads. More partitions than cores serve no monitor."""
    config = {"retention.ms": str(retention_ms)}
    return [Topic(name, partitions, config, replicas) for name in dict.fromkeys((*settings.metrics, *settings.logs))]


def outputs(settings: TopicSettings, replicas: int = -1) -> list[Topic]:
    """The topics that the monitor writes.

    That of states keeps the newest record of each client; `delete` lets those that are long gone disappear.
    """
    week = str(7 * _DAY_MS)
    states = {"cleanup.policy": "compact,delete", "retention.ms": week, "min.cleanable.dirty.ratio": "0.1"}
    return [
        Topic(settings.rejects, 3, {"retention.ms": week}, replicas),
        Topic(settings.health, 6, states, replicas),
    ]
