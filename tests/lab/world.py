"""The world that the lab's clients live in: one broker, and for each of those at a time a way to it of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
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

from deploy.demo.broker import Broker
from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port

DELAY_SECONDS = 0.6
#: A topic that nobody may write to.
DENIED = "ledger-of-others"


@dataclass
class Way:
    """How one case at a time reaches the broker: `front` at first, then `node`, which the broker names as itself."""

    front: Gateway
    node: Gateway

    @property
    def servers(self) -> str:
        """Where its clients begin."""
        return f"127.0.0.1:{self.front.port}"

    def open(self) -> None:
        """Everything passes again."""
        self.front.open()
        self.node.open()


@dataclass
class Scene:
    """What an event of the world may touch."""

    world: World
    way: Way
    topic: str
    signal: Callable[[int], None]
    feeding: bool = True
    joined: threading.Event = field(default_factory=threading.Event)

    def join(self) -> None:
        """Another member joins the group, reads and commits nothing, and leaves when `joined` is set."""
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.world.broker.bootstrap_servers,
            group_id=self.topic,
            client_id="another-member",
            enable_auto_commit=False,
        )
        while not self.joined.is_set():
            consumer.poll(500)
        consumer.close()


@dataclass(frozen=True)
class Event:
    """What befalls a case. `begin` at its onset, `end` when it is over."""

    begin: Callable[[Scene], None]
    end: Callable[[Scene], None]


class World:
    """The broker. `ways`: how many cases run at once."""

    def __init__(self, folder: Path, ways: int) -> None:
        self._open = ExitStack()
        inner = [free_port() for _ in range(ways)]
        self.ways = [Way(Gateway(free_port(), port), Gateway(free_port(), port)) for port in inner]
        own, controller, login, lost = (free_port() for _ in range(4))
        #: Other ways: where a login is asked for, and where the broker names itself as nobody knows it.
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
        self.broker = Broker(folder / "broker", properties, port=own, heap_mb=384, controller_port=controller)

    def __enter__(self) -> Self:
        self._open.enter_context(self.broker)
        for way in self.ways:
            way.open()
            self._open.callback(way.front.close)
            self._open.callback(way.node.close)
        self._deny()
        self.feed = KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, linger_ms=5)
        self._open.callback(self.feed.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _deny(self) -> None:
        self.broker.create_topic(DENIED)
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        pattern = ResourcePattern(ResourceType.TOPIC, DENIED, ACLResourcePatternType.LITERAL)
        admin.create_acls([ACL("User:*", "*", ACLOperation.WRITE, ACLPermissionType.DENY, pattern)])
        admin.close()

    def count(self, topic: str) -> int:
        """How many records it holds."""
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


def _feed(on: bool) -> Callable[[Scene], None]:
    def set_feed(scene: Scene) -> None:
        scene.feeding = on

    return set_feed


EVENTS: Mapping[str, Event] = {
    "": Event(lambda scene: None, lambda scene: None),
    "cut": Event(_both(Gateway.shut), _open),
    "swallow": Event(_both(Gateway.swallow), _open),
    "delay": Event(_both(lambda gateway: gateway.delay(DELAY_SECONDS)), _open),
    "cut-node": Event(lambda scene: scene.way.node.shut(), _open),
    "swallow-node": Event(lambda scene: scene.way.node.swallow(), _open),
    "freeze-process": Event(lambda scene: scene.signal(signal.SIGSTOP), lambda scene: scene.signal(signal.SIGCONT)),
    "rebalance": Event(
        lambda scene: threading.Thread(target=scene.join, daemon=True).start(), lambda scene: scene.joined.set()
    ),
    "no-feed": Event(_feed(False), _feed(True)),
}
