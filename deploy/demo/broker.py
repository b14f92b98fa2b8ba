"""Run a real Kafka broker on this machine: one KRaft node on loopback."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from kafka.errors import KafkaError

from clienthealth.model.errors import ServiceError
from clienthealth.model.subscription import PLUGIN
from clienthealth.platform.jars import java
from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings, TopicSettings
from deploy.demo import jars
from deploy.demo.processes import Process, free_port
from deploy.demo.topics import create_topics
from deploy.supply import plugin

START_SECONDS = 300.0
STOP_SECONDS = 20.0
LOG4J = Path(__file__).with_name("broker-log4j.properties")
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", f"-Dlog4j.configuration={LOG4J.as_uri()}")


class Broker:
    """A broker that can be stopped and started again with the same port and data.

    `properties`    further broker properties, which override the demo's properties
    `options`       security settings for clients of this broker, named as in `[kafka.options]`
    `port`          port for clients; by default a free port
    `telemetry_to`  brokers to which our plugin writes pushed metrics; '' for this broker, None for no plugin
    `jar_set`       name of the set of jars (`jars.SETS`) that the next start uses
    """

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        port: int | None = None,
        heap_mb: int = 400,
        controller_port: int | None = None,
        cluster_id: str | None = None,
        telemetry_to: str | None = None,
        jar_set: str = "broker",
    ) -> None:
        self.folder = folder
        self.log = folder / "broker.log"
        self.port = port or free_port()
        self.kafka = KafkaSettings(f"127.0.0.1:{self.port}", dict(options or {}))
        self._controller_port = controller_port or free_port()
        self._cluster_id = cluster_id or new_cluster_id()
        self._properties = dict(properties or {})
        self.jar_set = jar_set
        self._with_plugin = telemetry_to is not None
        if telemetry_to is not None:
            self._properties = plugin_properties(telemetry_to or self.bootstrap_servers) | self._properties
        self._heap_mb = heap_mb
        self._process: Process | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> Self:
        """Start the broker and wait until it answers.

        Raises ServiceError, with the end of the log, if the broker does not answer in START_SECONDS.
        """
        configuration = self.folder / "server.properties"
        if not configuration.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            configuration.write_text(
                "".join(f"{key}={value}\n" for key, value in self._configuration().items()), encoding="utf-8"
            )
            # One cluster id in 64 begins with a hyphen, and would look like an option in a separate argument.
            cluster = f"--cluster-id={self._cluster_id}"
            self._run("kafka.tools.StorageTool", "format", cluster, "--config", str(configuration))
        also = [plugin.jar()] if self._with_plugin else []
        command = java_command(self.jar_set, self._heap_mb, "kafka.Kafka", str(configuration), also=also)
        self._process = Process(f"broker {self.bootstrap_servers}", command, self.log)
        try:
            self._process.wait_until(self._answers, START_SECONDS)
        except ServiceError:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Suspend the broker: connections stay open, and requests get no answer."""
        self._running().pause()

    def resume(self) -> None:
        self._running().resume()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic unless it exists, and wait until it has a leader.

        Raises KafkaError if a request fails. Raises ServiceError if the broker cannot be reached.
        """
        create_topics(self.kafka, [name], partitions, config)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> Process:
        if self._process is None:
            raise ServiceError(f"no broker runs at {self.bootstrap_servers}: start it first")
        return self._process

    def _configuration(self) -> Mapping[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "1",
            "auto.create.topics.enable": "false",
            "default.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "log.index.size.max.bytes": "262144",
            **self._properties,
        }

    def _answers(self) -> bool:
        try:
            client = admin(Settings(kafka=self.kafka), bootstrap_timeout_ms=1000, request_timeout_ms=2000)
        except (ServiceError, KafkaError):
            return False
        try:
            return bool(client.describe_cluster())
        except KafkaError:
            return False
        finally:
            client.close()

    def _run(self, program: str, *arguments: str) -> None:
        command = java_command(self.jar_set, 64, program, *arguments)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServiceError(f"{program} failed: {(done.stderr or done.stdout).strip()}")


def new_cluster_id() -> str:
    """Return a new cluster id: a UUID in base 64."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def plugin_properties(servers: str) -> dict[str, str]:
    """Return the broker properties that load our plugin, which writes to the brokers `servers`."""
    return {
        # In brokers 4.x, this list replaces the option's default, JmxReporter. So the list must also name JmxReporter.
        "metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{PLUGIN}",
        "clienthealth.topic": TopicSettings().metrics[0],
        "clienthealth.producer.bootstrap.servers": servers,
    }


def java_command(jar_set: str, heap_mb: int, program: str, *arguments: str, also: Iterable[Path] = ()) -> list[str]:
    """Return the command that runs the main class `program` with the jars of `jar_set` and the jars in `also`."""
    path = os.pathsep.join(map(str, [*jars.classpath(jar_set), *also]))
    return [java(), f"-Xmx{heap_mb}m", *JVM, "-cp", path, program, *arguments]
