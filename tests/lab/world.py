"""Run one broker for the lab's clients, and a gateway to it for each case."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from clienthealth.settings import TopicSettings
from deploy.demo.broker import Broker, java_command
from deploy.demo.gateway import Gateway
from deploy.demo.legacy import LegacyBroker
from deploy.demo.load import create_legacy
from deploy.demo.processes import free_port
from deploy.demo.topics import ask_for_pushes

DELAY_SECONDS = 0.6
DENIED = "ledger-of-others"
#: QUOTA: bytes a second that a client may send or fetch.
QUOTA, PUSH_SECONDS = 3000, 10.0
PUSHES = TopicSettings().metrics[0]


@dataclass
class Way:
    front: Gateway
    node: Gateway

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.front.port}"

    def open(self) -> None:
        self.front.open()
        self.node.open()


@dataclass
class Scene:
    world: World
    way: Way
    topics: Sequence[str]
    signal: Callable[[int], None]
    fed: Sequence[str]
    joined: threading.Event = field(default_factory=threading.Event)

    def join(self, polls: int) -> None:
        while not self.joined.is_set():
            consumer = KafkaConsumer(
                *self.topics,
                bootstrap_servers=self.world.broker.bootstrap_servers,
                group_id=self.topics[0],
                client_id="another-member",
                enable_auto_commit=False,
            )
            for _ in range(polls):
                if not self.joined.is_set():
                    consumer.poll(500)
            consumer.close()
            self.joined.wait(2)


@dataclass(frozen=True)
class Event:
    begin: Callable[[Scene], None]
    end: Callable[[Scene], None]
    own: bool = False


class World:
    def __init__(self, folder: Path, ways: int) -> None:
        self._open = ExitStack()
        self._folder = folder
        self._lock = threading.Lock()
        self._legacy: tuple[LegacyBroker, KafkaProducer] | None = None
        inner = [free_port() for _ in range(ways)]
        self.ways = [Way(Gateway(free_port(), port), Gateway(free_port(), port)) for port in inner]
        own, controller, login, lost = (free_port() for _ in range(4))
        self.through = {"login": f"127.0.0.1:{login}", "lost": f"127.0.0.1:{lost}"}
        listeners = {f"WAY{n}": (inner[n], way.node.port) for n, way in enumerate(self.ways)}
        listeners |= {"PLAINTEXT": (own, own), "LOGIN": (login, login), "LOST": (lost, lost)}
        bound = [f"{name}://127.0.0.1:{port}" for name, (port, _) in listeners.items()]
        protocols = [f"{name}:PLAINTEXT" for name in (*listeners, "CONTROLLER") if name != "LOGIN"]
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_orders="right";'
        advertised = {name: f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()}
        advertised["LOST"] = "LOST://kafka-2.lost.invalid:9092"
        properties = {
            "listeners": ",".join([*bound, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(advertised.values()),
            "listener.security.protocol.map": ",".join([*protocols, "LOGIN:SASL_PLAINTEXT"]),
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": jaas,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "log.retention.check.interval.ms": "3600000",
        }
        self.broker = Broker(
            folder / "broker", properties, port=own, heap_mb=384, controller_port=controller, telemetry_to=""
        )

    def __enter__(self) -> Self:
        self._open.enter_context(self.broker)
        for way in self.ways:
            way.open()
            self._open.callback(way.front.close)
            self._open.callback(way.node.close)
        self.broker.create_topic(DENIED)
        self.deny(DENIED, ACLOperation.WRITE)
        self.broker.create_topic(PUSHES)
        ask_for_pushes(self.broker.kafka, PUSH_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def feed(self, legacy: bool) -> KafkaProducer:
        """Return a producer. If `legacy` is true, return the producer that all cases with the legacy broker share.

        Every other case gets a new producer, because a blocked producer would delay all cases with the same producer.
        """
        if legacy:
            return self.legacy()[1]
        return KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, linger_ms=5, enable_idempotence=False)

    def legacy(self) -> tuple[LegacyBroker, KafkaProducer]:
        with self._lock:
            if self._legacy is None:
                broker = self._open.enter_context(LegacyBroker(self._folder / "legacy"))
                feed = KafkaProducer(
                    bootstrap_servers=broker.bootstrap_servers, api_version=(0, 8, 2), enable_idempotence=False, acks=1
                )
                self._open.callback(feed.close, timeout=5)
                self._legacy = broker, feed
            return self._legacy

    def create(self, topics: Sequence[str], partitions: int, legacy: bool) -> None:
        if legacy:
            create_legacy(self.legacy()[0].bootstrap_servers, topics)
        for topic in () if legacy else topics:
            self.broker.create_topic(topic, partitions)

    def deny(self, topic: str, operation: ACLOperation) -> None:
        pattern = ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        admin.create_acls([ACL("User:*", "*", operation, ACLPermissionType.DENY, pattern)])
        admin.close()

    def pushed(self, client_ids: Collection[str]) -> Iterator[tuple[int, str]]:
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers, consumer_timeout_ms=2000)
        consumer.assign([TopicPartition(PUSHES, 0)])
        consumer.seek_to_beginning()
        for record in consumer:
            headers = {name: bytes(value).decode() for name, value in record.headers}
            if headers.get("client_id") in client_ids:
                value = base64.b64encode(record.value or b"").decode()
                yield record.timestamp, json.dumps({"headers": headers, "value": value})
        consumer.close()

    def count(self, topic: str) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers)
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            return sum(consumer.end_offsets(partitions).values())
        finally:
            consumer.close()


def _both(act: Callable[[Gateway], None]) -> Callable[[Scene], None]:
    def begin(scene: Scene) -> None:
        act(scene.way.front)
        act(scene.way.node)

    return begin


def _open(scene: Scene) -> None:
    scene.way.open()


def _feed(topics: slice) -> Callable[[Scene], None]:
    def set_feed(scene: Scene) -> None:
        scene.fed = scene.topics[topics]

    return set_feed


def _quota(change: str) -> Callable[[Scene], None]:
    def set_quota(scene: Scene) -> None:
        server = ["--bootstrap-server", scene.world.broker.bootstrap_servers]
        clients = ["--alter", change, "--entity-type", "clients", "--entity-default"]
        # The jars of newer brokers do not contain kafka.admin.ConfigCommand.
        command = java_command("broker-3.9", 64, "kafka.admin.ConfigCommand", *server, *clients)
        subprocess.run(command, capture_output=True, check=True)

    return set_quota


def _deny(scene: Scene) -> None:
    for topic in scene.topics:
        scene.world.deny(topic, ACLOperation.ALL)


def _join(polls: int) -> Event:
    return Event(
        lambda scene: threading.Thread(target=scene.join, args=(polls,), daemon=True).start(),
        lambda scene: scene.joined.set(),
    )


EVENTS: Mapping[str, Event] = {
    "": Event(lambda scene: None, lambda scene: None),
    "cut": Event(_both(Gateway.shut), _open),
    "swallow": Event(_both(Gateway.swallow), _open),
    "delay": Event(_both(lambda gateway: gateway.delay(DELAY_SECONDS)), _open),
    "cut-node": Event(lambda scene: scene.way.node.shut(), _open),
    "swallow-node": Event(lambda scene: scene.way.node.swallow(), _open),
    "freeze-process": Event(lambda scene: scene.signal(signal.SIGSTOP), lambda scene: scene.signal(signal.SIGCONT)),
    "rebalance": _join(1000),
    "rebalances": _join(6),
    "no-feed": Event(_feed(slice(0)), _feed(slice(None))),
    "feed-one": Event(_feed(slice(1)), _feed(slice(None))),
    "deny": Event(_deny, lambda scene: None),
    "stop-broker": Event(lambda scene: scene.world.broker.stop(), lambda scene: scene.world.broker.restart(), own=True),
    "quota": Event(
        _quota(f"--add-config=producer_byte_rate={QUOTA},consumer_byte_rate={QUOTA}"),
        _quota("--delete-config=producer_byte_rate,consumer_byte_rate"),
        own=True,
    ),
}
