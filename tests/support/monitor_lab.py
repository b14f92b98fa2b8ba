"""Run a monitor with its own topics, checkpoint and history on an existing broker."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from deploy.demo.processes import Process, free_port
from deploy.demo.stack import QUICK_START
from tests.chaos.parts import session
from tests.support.settings_file import write_settings

BUFFER = 4_194_304
STOP_SECONDS = 180.0
PARTITIONS = 2


class Lab:
    def __init__(
        self, servers: str, folder: Path, more: Mapping[str, Any] | None = None, topics: Mapping[str, str] | None = None
    ) -> None:
        self.servers, self.folder, self._port = servers, folder, free_port()
        self.topics = {name: f"{folder.name}-{name}" for name in ("metrics", "logs", "health", "rejects")}
        self.topics |= topics or {}
        create(servers, *self.topics.values())
        monitor = {
            "checkpoint": f"{folder}/checkpoints",
            "history": f"{folder}/history",
            "trigger_seconds": 1,
            "quality_seconds": 20,
            "metrics_port": self._port,
            **(more or {}),
        }
        names = {**self.topics, "metrics": [self.topics["metrics"]], "logs": [self.topics["logs"]]}
        sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": servers},
            "topics": names,
            "monitor": monitor,
        }
        self.config = write_settings(folder, sections)
        self.log = folder / "monitor.log"
        self.producer = KafkaProducer(bootstrap_servers=servers)
        self.process: Process | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "clienthealth.ops.cli", "monitor", "--config", str(self.config)]
        self.process = Process("monitor", command, self.log, environment=QUICK_START)

    def stop(self) -> int | None:
        assert self.process is not None
        self.process.stop(STOP_SECONDS)
        return self.process.exit_code

    def close(self) -> None:
        if self.process is not None:
            self._signal(signal.SIGKILL)
            self.process.kill()
        self.producer.close()

    def publish(self, topic: str, *values: bytes) -> None:
        for value in values:
            self.producer.send(self.topics[topic], value, partition=0)
        self.producer.flush()

    def metric(self, name: str) -> float:
        """Return the metric's value, 0 if the metric is absent, or -1 if the monitor does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return -1.0
        label = f'source_topic="{self.topics["metrics"]}"'
        matching = [line for line in lines if line.startswith(f"kafka_client_health_{name}{{") and label in line]
        return float(matching[0].rpartition(" ")[2]) if matching else 0.0

    @contextmanager
    def standing(self) -> Iterator[None]:
        self._signal(signal.SIGSTOP)
        yield
        self._signal(signal.SIGCONT)

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        with closing(KafkaConsumer(bootstrap_servers=self.servers)) as consumer:
            ends: dict[TopicPartition, int] = consumer.end_offsets(self._partitions(topic))
        return ends

    def records(self, topic: str) -> list[Any]:
        records: list[Any] = []
        with closing(KafkaConsumer(bootstrap_servers=self.servers, auto_offset_reset="earliest")) as consumer:
            partitions = self._partitions(topic)
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(p) < ends[p] for p in partitions):
                for batch in consumer.poll(1000).values():
                    records += batch
        return records

    def wait(self, ready: Callable[[], bool], seconds: float = 300) -> None:
        assert self.process is not None
        self.process.wait_until(ready, seconds)

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(self.topics[topic], number) for number in range(PARTITIONS)]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids():
            # Spark may have ended idle workers since `_pids` listed them.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _pids(self) -> list[int]:
        assert self.process is not None
        return [pid for pid, _ in session(self.process.pid)]


def create(servers: str, *topics: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics])
    admin.close()


def reading(ts_ms: int, selects: float, available: float, waiting: float = 0.0) -> bytes:
    """Return a producer's sample. `available`: free bytes in the buffer. `waiting`: number of waiting threads."""
    client = ClientProcess("orders-api", "web-7", "web-7:31337").client("order-producer", "producer", "java", "3.9.1")
    metrics = {
        "select-total": selects, "buffer-total-bytes": BUFFER, "buffer-available-bytes": available,
        "waiting-threads": waiting, "record-send-total": selects, "requests-in-flight": 1.0,
        "io-time-ns-total": selects * 1e6, "io-wait-time-ns-total": selects * 9e6, "metadata-age": 5.0,
    }  # fmt: skip
    config = {"buffer.memory": str(BUFFER), "request.timeout.ms": "5000"}
    return json.dumps(canonical.snapshot(client, ts_ms, metrics, config=config)).encode()
