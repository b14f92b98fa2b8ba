"""Describe the monitor's topics (partitions, replicas, configuration), and create them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from clienthealth.settings import TopicSettings

_DAY_MS = 86_400_000
#: With three replicas, a partition survives the loss of one broker while another broker restarts.
_REPLICAS = 3


@dataclass(frozen=True)
class Topic:
    """The wanted configuration of a topic. `partitions`, `replicas`: -1 for the brokers' defaults."""

    name: str
    partitions: int
    config: Mapping[str, str]
    replicas: int = -1

    def command(self, servers: str) -> str:
        """Return a command with which an administrator can create the topic. `servers`: addresses (host:port)."""
        counts = {"--partitions": self.partitions, "--replication-factor": self.replicas}
        given = [f"{option} {count}" for option, count in counts.items() if count > 0]
        options = [*given, *(f"--config {name}={value}" for name, value in self.config.items())]
        return " ".join(["kafka-topics.sh --bootstrap-server", servers, "--create --topic", self.name, *options])

    def create(self, client: KafkaAdminClient) -> bool:
        """Create the topic and wait until its partitions have leaders. Return False if the topic already exists.

        Raises KafkaError if the brokers refuse the request or do not answer.
        """
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


def usual_replicas(brokers: int) -> int:
    """Return the replication factor to use in a cluster with this many brokers: from 1 to 3 (_REPLICAS)."""
    return max(1, min(_REPLICAS, brokers))


def replication_risk(described: Mapping[str, Any], brokers: int, in_sync: int = 1) -> str:
    """Describe what fails while one broker is down, and describe the remedy. Return '' if nothing fails.

    `described`: the topic as the admin client describes it. `brokers`: number of brokers. `in_sync`: the topic's
    min.insync.replicas.
    """
    copies = min((len(row["replica_nodes"]) for row in described["partitions"]), default=brokers)
    if copies == 1 < brokers:
        return (
            "replication factor 1 although there are several brokers: while a broker is down, its partitions cannot be "
            f"read or written. Raise the factor to {usual_replicas(brokers)} with kafka-reassign-partitions.sh"
        )
    if 1 < in_sync >= copies:
        return (
            f"min.insync.replicas {in_sync}, but only {copies} replica(s): while one broker is down, nothing can be "
            f"written. Set min.insync.replicas to {max(1, copies - 1)}"
        )
    return ""


def inputs(
    settings: TopicSettings, partitions: int = 12, retention_ms: int = _DAY_MS, replicas: int = -1
) -> list[Topic]:
    """Return the topics that the monitor reads, in the order of the settings.

    `partitions`: number of partitions of each topic. `replicas`: -1 for the brokers' default.
    """
    config = {"retention.ms": str(retention_ms), **_in_sync(replicas)}
    return [Topic(name, partitions, config, replicas) for name in dict.fromkeys((*settings.metrics, *settings.logs))]


def outputs(settings: TopicSettings, replicas: int = -1) -> list[Topic]:
    """Return the topics that the monitor writes: the topic for rejected records, then `client-health`.

    `client-health` keeps the newest record of each client for a week.
    """
    week = {"retention.ms": str(7 * _DAY_MS), **_in_sync(replicas)}
    states = {"cleanup.policy": "compact,delete", **week, "min.cleanable.dirty.ratio": "0.1"}
    return [Topic(settings.rejects, 3, week, replicas), Topic(settings.health, 6, states, replicas)]


def _in_sync(replicas: int) -> Mapping[str, str]:
    """Return a min.insync.replicas that permits writes while one broker is down; {} if `replicas` is -1 or 1."""
    return {"min.insync.replicas": str(replicas - 1)} if replicas > 1 else {}
