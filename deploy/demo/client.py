"""Define and start a demo client, and cause faults of its broker, network or process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Literal, Protocol

from clienthealth.platform.jars import java
from clienthealth.settings import KafkaSettings
from clienthealth_exporters.jvm.exporter import TARGET_OPTIONS
from deploy.demo import jars
from deploy.demo.broker import Broker as RealBroker
from deploy.demo.gateway import Gateway
from deploy.demo.load import create_legacy, load_legacy
from deploy.demo.processes import free_port, give_way
from deploy.demo.running import Running
from deploy.demo.topics import create_topics

PROGRAMS = Path(__file__).parent / "java"
PYTHON = Path(__file__).parent / "python" / "produce_and_consume.py"
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")
ROLL_SECONDS = 60.0
REST_SECONDS = 90.0
JVM = ("-Xms16m", "-Xmx96m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: Sets of jars with clients that push their metrics to their brokers (KIP-714).
PUSHING = ("clients-3.9", "clients-4.1", "streams-4.4")


class Broker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


class LegacyBroker(Protocol):
    """ZooKeeper and a broker of version 0.8.2.1, for the old Scala clients."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def zookeeper_connect(self) -> str: ...


class Cluster(Protocol):
    """A cluster of three brokers. At least two brokers run at any time."""

    @property
    def bootstrap_servers(self) -> str: ...
    def roll(self, note: Callable[[str], None], rest_seconds: float) -> None: ...
    def leader(self, topic: str) -> Broker: ...


class Context(Protocol):
    @property
    def run_folder(self) -> Path: ...
    @property
    def bootstrap_servers(self) -> str: ...
    def new_broker(self) -> Broker: ...
    def legacy(self) -> LegacyBroker: ...
    def cluster(self) -> Cluster: ...


@dataclass(frozen=True)
class Outage:
    """A fault of a client's broker, connection or process.

    `after`       seconds from the client's first acknowledged record to the start of the outage
    `seconds`     duration of the outage
    `from_onset`  True if `seconds` begins at the onset of the client's failure, False if it begins at the outage's
                  start
    `fails`       True if the outage itself is the failure that the monitor must find, not only the cause of a failure
    `every`       seconds from the end of an outage to the next outage; None for a single outage
    """

    after: float
    seconds: float
    how: Literal["pause", "kill", "stop", "shut", "swallow", "leader", "freeze"] = "pause"
    from_onset: bool = False
    fails: bool = False
    every: float | None = None


@dataclass(frozen=True)
class DemoClient:
    """A client of the demo: a program, its options, and perhaps an outage.

    `program`        name of the Java source file without `.java`, or `produce_and_consume` for a Python client
    `mode`           id of the failure mode that the client shows, None for a control (a healthy client)
    `kinds`          minimum number of different kinds of evidence that a verdict on the client must cite
    `measurements`   measurements that may raise alerts because the client's load is heavy, although nothing fails
    `default`        True if the client is started when the user names no clients
    `classpath`      name of the set of jars, or of the Python library
    `load_rate`      for a client of the legacy broker: records per second that the demo sends to each topic
    `options`        system properties of the Java program, or arguments of the Python program
    `nice`           nice value of the process
    `not_by_pushes`  reason why metrics are read through Jolokia although the client's version can push them
    """

    name: str
    help: str
    program: str
    service: str
    mode: str | None = None
    kinds: int = 1
    measurements: Sequence[str] = ()
    default: bool = False
    classpath: str = "clients-3.9"
    broker: Literal["shared", "own", "none", "legacy", "gateway", "cluster"] = "shared"
    topics: Sequence[str] = ()
    load_rate: float = 50.0
    options: Mapping[str, str] = field(default_factory=dict)
    outage: Outage | None = None
    nice: int = 0
    not_by_pushes: str = ""

    @property
    def pushes(self) -> bool:
        return self.classpath in PUSHING and not self.not_by_pushes

    @property
    def python(self) -> bool:
        return self.classpath in LIBRARIES

    @property
    def client_ids(self) -> Sequence[str]:
        """The client ids in `options`; a glob such as `x-*` for several ids."""
        named = [self.options[name] for name in ("p.client.id", "c.client.id") if name in self.options]
        streams = [f"{self.options[name]}-*" for name in ("s.client.id",) if name in self.options]
        return [*(name.replace("{}", "*") for name in named), *streams]

    def start(self, context: Context) -> Running:
        folder = context.run_folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        addresses, actions = self._surroundings(context)
        options = {**addresses, **self.options}
        if self.python:
            options |= {
                "service": self.service,
                "reports.to": context.bootstrap_servers,
                "topics": ",".join(self.topics),
            }
            settings = [f"{name}={value}" for name, value in options.items()]
            command = [sys.executable, str(PYTHON), self.classpath, *settings]
            return Running(command, folder, self.service, [], folder / "app.log", actions)
        port = free_port()
        (agent,) = jars.classpath("jolokia")
        command = [
            *(("nice", "-n", str(self.nice)) if self.nice else ()),
            java(),
            *JVM,
            f"-javaagent:{agent}=port={port},host=127.0.0.1,discoveryEnabled=false",
            f"-Dlog4j.configuration={(PROGRAMS / 'log4j.properties').as_uri()}",
            "-Dlog.file=app.log",
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-cp", os.pathsep.join(map(str, jars.classpath(self.classpath)))),
            str(PROGRAMS / f"{self.program}.java"),
        ]
        kafka_options = {
            name.partition(".")[2]: value for name, value in self.options.items() if name[:2] in ("p.", "c.")
        }
        config = [f"{name}={value}" for name, value in kafka_options.items() if name in TARGET_OPTIONS]
        target = " ".join([f"{self.service}=http://127.0.0.1:{port}/jolokia/", *config])
        running = Running(command, folder, self.service, [target], folder / "app.log", actions)
        if self.nice:
            give_way(running.pid, self.nice)
        return running

    def _surroundings(self, context: Context) -> tuple[dict[str, str], list[Callable[[Running], None]]]:
        """Return (options, functions): client options with the broker's addresses, and functions to run in threads."""
        if self.broker == "legacy":
            legacy = context.legacy()
            create_legacy(legacy.bootstrap_servers, self.topics)
            load = partial(
                load_legacy,
                bootstrap_servers=legacy.bootstrap_servers,
                topics=self.topics,
                rate=self.load_rate,
            )
            return {"zookeeper.connect": legacy.zookeeper_connect}, [load]
        actions: list[Callable[[Running], None]] = []
        if self.broker == "gateway":
            broker, gateway = _behind_a_gateway(context.run_folder / self.name / "broker")
            servers = broker.bootstrap_servers
            actions.append(partial(_close_with, broker=broker, gateway=gateway))
            if self.outage is not None:
                ways = (gateway.swallow if self.outage.how == "swallow" else gateway.shut, gateway.open)
                actions.append(partial(_suffer, outage=self.outage, ways=ways))
        elif self.broker == "cluster":
            cluster = context.cluster()
            servers = cluster.bootstrap_servers
            if self.outage is None:
                actions.append(partial(_roll, cluster=cluster))
            else:
                actions.append(partial(_lose_leader, cluster=cluster, topic=self.topics[0], outage=self.outage))
        elif self.broker == "own":
            own = context.new_broker()
            servers = own.bootstrap_servers
            if self.outage is not None:
                actions.append(partial(_suffer, outage=self.outage, ways=_ways(own, self.outage)))
        else:
            servers = context.bootstrap_servers if self.broker == "shared" else f"127.0.0.1:{free_port()}"
            if self.outage is not None:
                actions.append(partial(_freeze, outage=self.outage))
        if self.broker != "none":
            lone = self.broker == "cluster" and self.outage is not None
            create_topics(KafkaSettings(servers), self.topics, *((1, None, 1) if lone else ()))
        return {f"{kind}.bootstrap.servers": servers for kind in "pcs"}, actions


def _behind_a_gateway(folder: Path) -> tuple[RealBroker, Gateway]:
    broker_port, port = free_port(), free_port()
    gateway = Gateway(port, broker_port).open()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    return RealBroker(folder, advertised, port=broker_port, heap_mb=256).start(), gateway


def _close_with(running: Running, broker: RealBroker, gateway: Gateway) -> None:
    while not running.wait(3600):
        pass
    gateway.close()
    broker.kill()


def _roll(running: Running, cluster: Cluster) -> None:
    while not running.wait(ROLL_SECONDS):
        cluster.roll(running.note, REST_SECONDS)


def _lose_leader(running: Running, cluster: Cluster, topic: str, outage: Outage) -> None:
    leader = cluster.leader(topic)
    _suffer(running, outage, (leader.kill, leader.restart))


def _freeze(running: Running, outage: Outage) -> None:
    _suffer(running, outage, (partial(os.killpg, running.pid, SIGSTOP), partial(os.killpg, running.pid, SIGCONT)))


def _ways(broker: Broker, outage: Outage) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two functions: the first begins the outage, the second ends it."""
    if outage.how == "pause":
        return broker.pause, broker.resume
    return (broker.kill if outage.how == "kill" else broker.stop), broker.restart


def _suffer(running: Running, outage: Outage, ways: tuple[Callable[[], object], Callable[[], object]]) -> None:
    while not running.counters.get("acknowledged") and not running.wait(1.0):
        pass
    pause: float | None = outage.after
    while pause is not None and not running.wait(pause):
        _interrupt(running, outage, *ways)
        pause = outage.every


def _interrupt(running: Running, outage: Outage, begin: Callable[[], object], end: Callable[[], object]) -> None:
    running.note(f"OUTAGE BEGIN ({outage.how})")
    begin()
    if outage.fails:
        running.begins(f"outage ({outage.how})")
    while outage.from_onset and not running.wait_for_onset(1.0) and not running.stopping:
        pass
    over = running.wait(outage.seconds)
    if outage.how in ("pause", "freeze") or not over:
        end()
    running.note("OUTAGE END")
