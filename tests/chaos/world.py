"""Run the real programs of a chaos campaign."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException, Producer
from prometheus_client.parser import text_string_to_metric_families

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings
from clienthealth.spark.self_monitoring import PREFIX, QUERY
from deploy.demo.broker import Broker
from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port
from deploy.demo.stack import QUICK_START
from deploy.demo.topics import create_ours, create_topics
from tests.chaos import disks
from tests.chaos.load import Published
from tests.chaos.parts import Supervised
from tests.chaos.published import Ends, History, Topic, position
from tests.support import fake_registry
from tests.support.settings_file import write_settings

PARTITIONS = 2
ASKED_SECONDS = 20.0
NUDGED_MS = 86_400_000


@dataclass(frozen=True)
class Cluster:
    """A broker behind a gateway. If other tests share the broker, `gateway` is None, and no fault may strike."""

    kafka: KafkaSettings
    broker: Broker
    gateway: Gateway | None = None


@contextmanager
def gated(folder: Path) -> Iterator[Cluster]:
    port = free_port()
    with closing(Gateway(free_port(), port).open()) as gateway:
        here = f"127.0.0.1:{gateway.port}"
        broker = Broker(folder, {"advertised.listeners": f"PLAINTEXT://{here}"}, port=port)
        with broker:
            try:
                yield Cluster(KafkaSettings(here), broker, gateway)
            finally:
                gateway.open()


class SchemaRegistry:
    def __init__(self) -> None:
        self._registry, self._open = fake_registry.Registry(), ExitStack()

    @property
    def url(self) -> str:
        return self._registry.url

    def start(self) -> None:
        self._open.enter_context(fake_registry.serving(self._registry, fake_registry.always))

    def stop(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


Launch = Callable[["Run"], tuple[Sequence[str], Mapping[str, str]]]


class Run:
    def __init__(
        self,
        cluster: Cluster,
        registry: SchemaRegistry,
        name: str,
        folder: Path,
        launch: Launch | None = None,
        **more: object,
    ) -> None:
        self.cluster, self.registry, self.name, self.folder, self._more = cluster, registry, name, folder, more
        self._open = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint, self.history_folder = folder / "checkpoints", folder / "history"
        for folder_of_run in (self.checkpoint, self.history_folder):
            folder_of_run.mkdir(exist_ok=True)
            if disks.inside():
                self._open.enter_context(disks.mounted(folder_of_run))
        self.config = folder / "health.toml"
        self.settings = self._settings()
        self.partitions: dict[str, int] = {}
        for topic in self.inputs.values():
            self.create(topic, PARTITIONS)
        create_ours(self.settings, PARTITIONS)
        servers = cluster.kafka.bootstrap_servers
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.max.ms": 1000,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        self._refused: list[str] = []
        self.history = History(self.history_folder)
        self.health = Topic(servers, self.settings.topics.health)
        self.rejects = Topic(servers, self.settings.topics.rejects)
        self._asked = Ends(servers)
        for reader in (self.health, self.rejects, self._asked):
            self._open.callback(reader.close)
        command, environment = launch(self) if launch else (self._command("monitor"), {})
        self.monitor = self._part("monitor", command, {**QUICK_START, **environment})
        self.exporter = self._part("exporter", self._command("export", "prometheus"))

    @property
    def inputs(self) -> Mapping[str, str]:
        return {"metrics": self.settings.topics.metrics[0], "logs": self.settings.topics.logs[0]}

    def publish(self, records: Iterable[Published]) -> None:
        for record in records:
            topic = self.inputs[record.stream]
            self._produce(
                topic, record.value, record.partition(self.partitions[topic]), record.ts_ms, {**dict(record.headers)}
            )

    def nudge(self) -> None:
        self._produce(self.inputs["logs"], b"a line", 0, NUDGED_MS, {})

    def flushed(self, seconds: float = 120.0) -> None:
        left = self._producer.flush(seconds)
        if left or self._refused:
            raise ServiceError(f"{left} records were not accepted by the broker in {seconds:.0f} s {self._refused[:3]}")

    def ends(self) -> Mapping[str, Mapping[int, int]]:
        return {topic: self._asked.ends(topic) for topic in self.inputs.values()}

    def worked_off(self) -> bool:
        try:
            return position(self.checkpoint / QUERY) == self.ends()
        except KafkaException:
            return False

    def pending(self) -> bool:
        return self.newest("commits") < self.newest("offsets")

    def newest(self, kind: str) -> int:
        return max((int(path.name) for path in (self.checkpoint / QUERY / kind).glob("[0-9]*")), default=-1)

    def shown(self) -> list[Any] | None:
        try:
            base = f"http://{self.settings.prometheus.host}:{self.settings.prometheus.port}"
            with urllib.request.urlopen(f"{base}/healthz", timeout=5):
                pass
            with urllib.request.urlopen(f"{base}/clients.json", timeout=10) as answer:
                clients: list[Any] = json.load(answer)
        except OSError:
            return None
        return clients

    def metric(self, name: str) -> float | None:
        port = self.settings.monitor.metrics_port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return None
        families = text_string_to_metric_families(text)
        values = [s.value for family in families for s in family.samples if s.name == f"{PREFIX}_{name}"]
        return sum(values) if values else None

    def admin(self) -> Any:
        return admin(self.settings)

    def create(self, topic: str, partitions: int) -> None:
        create_topics(self.settings.kafka, [topic], partitions, {"retention.ms": "-1"})
        self.partitions[topic] = partitions

    def partitions_of(self, topic: str) -> int:
        return len(self._producer.list_topics(topic, timeout=ASKED_SECONDS).topics[topic].partitions)

    def wait(self, what: str, ready: Callable[[], bool], seconds: float) -> float:
        began = time.monotonic()
        while not ready():
            if time.monotonic() - began > seconds:
                raise ServiceError(f"{self.name}: {what} after {seconds:.0f} s\n{self.monitor.tail()}")
            time.sleep(0.3)
        return time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _produce(
        self, topic: str, value: bytes, partition: int, ts_ms: int, headers: dict[str, str | bytes | None]
    ) -> None:
        self._producer.produce(
            topic, value, partition=partition, timestamp=ts_ms, headers=headers, on_delivery=self._delivered
        )
        self._producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._refused.append(str(error))

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "clienthealth.ops.cli", *arguments, "--config", str(self.config)]

    def _part(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Supervised:
        part = Supervised(f"{self.name} {name}", command, self.folder / f"{name}.log", environment)
        self._open.callback(part.close)
        return part

    def _settings(self) -> Settings:
        own = {
            name: f"{self.folder.parent.name}-{self.name}-{name}" for name in ("metrics", "logs", "health", "rejects")
        }
        sections: Mapping[str, Mapping[str, Any]] = {
            "kafka": {"bootstrap_servers": self.cluster.kafka.bootstrap_servers},
            "topics": {**own, "metrics": [own["metrics"]], "logs": [own["logs"]]},
            "monitor": {
                "checkpoint": str(self.checkpoint),
                "history": str(self.history_folder),
                "trigger_seconds": 1,
                "quality_seconds": 20,
                "start_seconds_back": 30 * 86_400,
                "metrics_port": free_port(),
                **self._more,
            },
            "registry": {"url": self.registry.url},
            # Keep departed clients, because the time of their removal differs between runs.
            "absence": {"shown_seconds": 7 * 86_400},
            "prometheus": {"port": free_port(), "ttl_seconds": 7 * 86_400},
        }
        return load(str(write_settings(self.folder, sections)), environ={})
