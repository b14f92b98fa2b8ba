"""Run a cluster of three real Kafka brokers, which are also controllers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings
from deploy.demo.broker import Broker, new_cluster_id
from deploy.demo.processes import free_port

NODES = 3
SYNC_SECONDS = 300.0
#: A node's outage must be shorter than delivery.timeout.ms (120 s), so that no record fails.
AWAY_SECONDS = 40.0
FATES = ("restarted", "lost", "frozen")
_NEWEST = "broker"
_METADATA = "metadata.version"
_OF_GROUPS = ("group.version", "share.version", "streams.version")
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
    # Let a returning node become leader again before the next node goes down.
    "leader.imbalance.check.interval.seconds": "10",
}


class Cluster:
    """Three nodes with data and logs in folders below `folder`.

    `telemetry_to`: the brokers to which each node's plugin writes pushed metrics; '' for the node itself, None for
    nodes without the plugin. `jar_set`: the set of jars that the nodes have at first, before an upgrade.
    """

    def __init__(self, folder: Path, telemetry_to: str | None = None, jar_set: str = _NEWEST) -> None:
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
                jar_set=jar_set,
            )
            for node, port in enumerate(controllers, 1)
        ]
        self.kafka = KafkaSettings(self.bootstrap_servers)
        self.rolls, self._rolled = 0, 0.0
        self._rolling, self._over = threading.Lock(), threading.Event()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def start(self) -> Self:
        try:
            with ThreadPoolExecutor(NODES) as pool:
                list(pool.map(Broker.start, self.nodes))
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Kill all nodes, because the last node cannot shut down without the other nodes."""
        self._over.set()
        for node in self.nodes:
            node.kill()

    def roll(self, note: Callable[[str], None] = lambda _: None, rest_seconds: float = 0.0) -> None:
        """Take a node out of service and bring it back. Wait until all replicas are in sync.

        Return at once if another thread runs `roll`, or if the last roll ended less than `rest_seconds` ago. At each
        step, call `note` with a text such as `ROLL BEGIN (…)`.

        Raises KafkaError if a request fails. Raises ServiceError if a node or replica does not recover.
        """
        if not self._rolling.acquire(blocking=False):
            return
        try:
            if self.rolls and time.monotonic() < self._rolled + rest_seconds:
                return
            old = [node for node in self.nodes if node.jar_set != _NEWEST]
            leads = self.controller()
            node = old[0] if old else leads if self.rolls % 2 else self.nodes[self.rolls // 2 % NODES]
            fate = "upgraded" if old else FATES[self.rolls % len(FATES)]
            client = f"{node.bootstrap_servers}{', the active controller' if node is leads else ''}"
            note(f"ROLL BEGIN ({client}: {fate})")
            self._befall(node, fate)
            if self._over.is_set():
                return
            self.wait_for_sync()
            if len(old) == 1:
                note(f"ROLL UPGRADED (metadata.version {self._finalise()})")
            self.rolls, self._rolled = self.rolls + 1, time.monotonic()
            note(f"ROLL END ({node.bootstrap_servers}, all replicas in sync)")
        finally:
            self._rolling.release()

    def settle(self) -> None:
        """Wait for the end of a `roll` in progress, and prevent later rolls."""
        self._rolling.acquire()

    def _befall(self, node: Broker, fate: str) -> None:
        if fate == "frozen":
            node.pause()
            self._over.wait(AWAY_SECONDS)
            node.resume()
            return
        if fate == "lost":
            node.kill()
            if self._over.wait(AWAY_SECONDS):
                return
        node.jar_set = _NEWEST
        node.restart()

    def controller(self) -> Broker:
        """Return the active controller.

        Raises ServiceError if no broker answers. Raises KafkaError if a request fails.
        """
        client = admin(Settings(kafka=self.kafka))
        try:
            quorum = client.describe_metadata_quorum()
        finally:
            client.close()
        node: int = quorum["topics"][0]["partitions"][0]["leader_id"]
        return self.nodes[node - 1]

    def stored(self, topics: Iterable[str]) -> int:
        """Return the number of records ever written to these topics: the sum of end offsets."""
        client = admin(Settings(kafka=self.kafka))
        try:
            ends = {
                TopicPartition(topic["name"], partition["partition_index"]): OffsetSpec.LATEST
                for topic in client.describe_topics(list(topics))
                for partition in topic["partitions"]
            }
            return sum(end.offset for end in client.list_partition_offsets(ends).values())
        finally:
            client.close()

    def _finalise(self) -> int:
        """Upgrade the metadata version and group features as far as all nodes allow. Return the metadata version."""
        client = admin(Settings(kafka=self.kafka))
        try:
            known = {name: feature["supported"][1] for name, feature in client.describe_features().items()}
            for names in ([_METADATA], [name for name in _OF_GROUPS if name in known]):
                for name, outcome in client.update_features({name: known[name] for name in names}).items():
                    if outcome != "OK":
                        raise ServiceError(f"the cluster refuses version {known[name]} of feature {name}: {outcome}")
        finally:
            client.close()
        newest: int = known[_METADATA]
        return newest

    def leader(self, topic: str) -> Broker:
        """Return the leader of the topic's first partition."""
        client = admin(Settings(kafka=self.kafka))
        try:
            [described] = client.describe_topics([topic])
        finally:
            client.close()
        node: int = described["partitions"][0]["leader_id"]
        return self.nodes[node - 1]

    def wait_for_sync(self) -> None:
        """Wait until all replicas of all partitions are in sync. Raises ServiceError after five minutes."""
        deadline = time.monotonic() + SYNC_SECONDS
        while lagging := self._out_of_sync():
            if time.monotonic() > deadline:
                raise ServiceError(f"replicas are still out of sync after {SYNC_SECONDS:.0f} s: {', '.join(lagging)}")
            time.sleep(0.5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _out_of_sync(self) -> list[str]:
        """Return the partitions with replicas out of sync, each as `topic-partition`.

        If a request fails, return a list that contains only the error text.
        """
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
