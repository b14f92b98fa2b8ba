"""A cluster of three real Kafka brokers, each a controller too, which survives the loss of one of them.

Topics have three replicas, two of which must be in sync; a replica that is not never leads. So the nodes can be
upgraded, restarted, lost and frozen one by one while clients go on.
"""

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
#: A node that comes back has little to fetch; on two busy cores that takes seconds.
SYNC_SECONDS = 300.0
#: How long a node is lost or frozen: longer than a replica may lag and than a client waits for an answer (30 s each by
#: default), shorter than a producer tries to deliver (120 s).
AWAY_SECONDS = 40.0
#: What befalls a node, in turn.
FATES = ("restarted", "lost", "frozen")
#: The set of jars that nodes are brought to.
_NEWEST = "broker"
_METADATA = "metadata.version"
#: What lets members of KIP-848, share and Streams groups in.
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
    # A node that is back leads again before the next one goes, not after five minutes.
    "leader.imbalance.check.interval.seconds": "10",
}


class Cluster:
    """Three nodes with their data and logs in folders of their own below `folder`; use it as a context manager.

    Partitions are three to a topic unless it is created with another number. `telemetry_to`: as a broker's; `jar_set`:
    the jars that its nodes are first run from.
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
        self._over.set()
        for node in self.nodes:
            node.kill()

    def roll(self, note: Callable[[str], None] = lambda _: None, rest_seconds: float = 0.0) -> None:
        """Let one node be away and come back; returns when every partition is in sync.

        The nodes are upgraded first, if they are old, and the version of their metadata with the last of them. Then one
        at a time is restarted in order, lost (kill -9) or frozen: by turns the next of them and the active controller.

        Does nothing while another thread is at it, nor within `rest_seconds` after the roll before. `note` is told of
        begin and end. Raises KafkaError, ServiceError where the node does not come back or partitions stay out of sync.
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
            who = f"{node.bootstrap_servers}{', the active controller' if node is leads else ''}"
            note(f"ROLL BEGIN ({who}: {fate})")
            self._befall(node, fate)
            if self._over.is_set():
                return
            self.wait_for_sync()
            if len(old) == 1:
                note(f"ROLL UPGRADED (metadata.version {self._finalise()})")
            self.rolls, self._rolled = self.rolls + 1, time.monotonic()
            note(f"ROLL END ({node.bootstrap_servers}, all in sync)")
        finally:
            self._rolling.release()

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
        """The node that leads the quorum of controllers. Raises ServiceError, KafkaError."""
        client = admin(Settings(kafka=self.kafka))
        try:
            quorum = client.describe_metadata_quorum()
        finally:
            client.close()
        node: int = quorum["topics"][0]["partitions"][0]["leader_id"]
        return self.nodes[node - 1]

    def stored(self, topics: Iterable[str]) -> int:
        """How many records were ever written to some topics. Raises ServiceError, KafkaError."""
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
        """Let metadata have the newest form that all nodes know, then groups; returns which form metadata has."""
        client = admin(Settings(kafka=self.kafka))
        try:
            known = {name: feature["supported"][1] for name, feature in client.describe_features().items()}
            for names in ([_METADATA], [name for name in _OF_GROUPS if name in known]):
                for name, outcome in client.update_features({name: known[name] for name in names}).items():
                    if outcome != "OK":
                        raise ServiceError(f"{name} {known[name]} was refused: {outcome}")
        finally:
            client.close()
        newest: int = known[_METADATA]
        return newest

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
