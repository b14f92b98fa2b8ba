"""A cluster of three real Kafka brokers, each a controller too, which survives the loss of one of them.

Topics have three replicas, two of which must be in sync; a replica that is not never leads. So the nodes can be stopped
and started one by one, as for an upgrade, while clients go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from kafka.errors import KafkaError

from clienthealth.errors import ServiceError
from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings
from deploy.demo.broker import Broker, new_cluster_id
from deploy.demo.processes import free_port

NODES = 3
#: A node that comes back has little to fetch; on two busy cores that takes seconds.
SYNC_SECONDS = 120.0
_HEAP_MB = 192
_DURABLE: Mapping[str, str] = {
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # A node that is back leads again before the next one goes, not after five minutes.
    "leader.imbalance.check.interval.seconds": "10",
}


class Cluster:
    """Three nodes with their data and logs in folders of their own below `folder`; use it as a context manager.

    Partitions are three to a topic unless it is created with another number. `telemetry_to`: as a broker's.
    """

    def __init__(self, folder: Path, telemetry_to: str | None = None) -> None:
        controllers = [free_port() for _ in range(NODES)]
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(controllers, 1))
        cluster_id = new_cluster_id()
        self.nodes = [
            Broker(
                folder / f"node-{node}",
                {"node.id": str(node), "controller.quorum.voters": voters, **_DURABLE},
                heap_mb=_HEAP_MB,
                controller_port=port,
                cluster_id=cluster_id,
                telemetry_to=telemetry_to,
            )
            for node, port in enumerate(controllers, 1)
        ]
        self.kafka = KafkaSettings(self.bootstrap_servers)
        self.rolls, self._rolled = 0, 0.0
        self._rolling = threading.Lock()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find all of its nodes."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def start(self) -> Self:
        """Start all nodes, which answer once most of them are there. Raises ServiceError, DependencyError."""
        try:
            # A node is up once two of three controllers have agreed on a leader: none can be waited for alone.
            with ThreadPoolExecutor(NODES) as pool:
                list(pool.map(Broker.start, self.nodes))
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """End all nodes at once: the last of them could not shut down in order, without a controller to tell."""
        for node in self.nodes:
            node.kill()

    def roll(self, note: Callable[[str], None] = lambda _: None, rest_seconds: float = 0.0) -> None:
        """Stop the next node in order and start it again; returns when every partition is in sync.

        Does nothing while another thread is at it, nor within `rest_seconds` after the roll before. `note` is told of
        begin and end. Raises ServiceError where the node does not come back, or partitions stay out of sync.
        """
        if not self._rolling.acquire(blocking=False):
            return
        try:
            if self.rolls and time.monotonic() < self._rolled + rest_seconds:
                return
            node = self.nodes[self.rolls % NODES]
            note(f"ROLL BEGIN ({node.bootstrap_servers})")
            node.restart()
            self.wait_for_sync()
            self.rolls, self._rolled = self.rolls + 1, time.monotonic()
            note(f"ROLL END ({node.bootstrap_servers}, all in sync)")
        finally:
            self._rolling.release()

    def leader(self, topic: str) -> Broker:
        """The node that leads the topic's first partition. Raises ServiceError, KafkaError."""
        client = admin(Settings(kafka=self.kafka))
        try:
            [described] = client.describe_topics([topic])
        finally:
            client.close()
        node: int = described["partitions"][0]["leader_id"]
        return self.nodes[node - 1]

    def wait_for_sync(self) -> None:
        """Wait until all replicas of all partitions are in sync. Raises ServiceError where that takes too long."""
        deadline = time.monotonic() + SYNC_SECONDS
        while lagging := self._out_of_sync():
            if time.monotonic() > deadline:
                raise ServiceError(f"out of sync after {SYNC_SECONDS:.0f} s: {', '.join(lagging)}")
            time.sleep(0.5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _out_of_sync(self) -> list[str]:
        """The partitions without their full number of replicas in sync, as `topic-partition`, or why nobody knows."""
        try:
            client = admin(Settings(kafka=self.kafka), bootstrap_timeout_ms=2000, request_timeout_ms=5000)
        except (ServiceError, KafkaError) as error:
            return [str(error)]
        try:
            topics: list[dict[str, Any]] = client.describe_topics()
        except KafkaError as error:
            return [str(error)]
        finally:
            client.close()
        return [
            f"{topic['name']}-{partition['partition_index']}"
            for topic in topics
            for partition in topic["partitions"]
            if len(partition["isr_nodes"]) < NODES
        ]
