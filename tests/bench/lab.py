"""Run the complete monitor on its own broker for measurements."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.settings import Settings
from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.topics import create_ours
from tests.bench.checkpoints import Checkpoints
from tests.bench.publish import newest
from tests.bench.results import FOLDER, ROOT
from tests.bench.usage import Usage
from tests.support.settings_file import write_settings

START_SECONDS = 300.0
STOP_SECONDS = 60.0
PARTITIONS = 2
KAFKA_HEALTH = str(Path(sys.executable).with_name("kafka-health"))
PREFIX = "kafka_client_health_"


Launch = Callable[[Settings, Path], tuple[Sequence[str], Mapping[str, str]]]


def launch_of(commit: str) -> Launch:
    there = FOLDER / "commits" / commit
    if not there.exists():
        there.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", there, commit], check=True)
    subprocess.run(["make", "--silent", "-C", there, "setup"], check=True)

    def launch(_: Settings, config: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        return [str(there / ".venv" / "bin" / "kafka-health"), "monitor", "--config", str(config)], {}

    return launch


class Lab:
    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="kafka-health-bench-")
        self.folder = Path(self._temporary.name)
        self.broker = Broker(self.folder / "broker")

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    def __enter__(self) -> Self:
        try:
            self.broker.start()
        except BaseException:
            self._temporary.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()
        self._temporary.cleanup()

    def topics(self, metrics: str = "client-metrics", logs: str = "client-logs", partitions: int = PARTITIONS) -> None:
        for topic in (metrics, logs):
            self.broker.create_topic(topic, partitions, {"retention.ms": str(6 * 3_600_000)})

    @contextmanager
    def monitor(
        self,
        name: str = "monitor",
        launch: Launch | None = None,
        prometheus: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Iterator[Monitor]:
        monitor = Monitor(self, name, settings, prometheus or {}, launch)
        try:
            with Usage({"monitor": monitor.process.pid, "broker": self.broker.pid}) as monitor.usage:
                yield monitor
        except BaseException:
            # Kill the monitor, because a regular stop would wait for the end of the batch.
            monitor.process.kill()
            FOLDER.mkdir(parents=True, exist_ok=True)
            shutil.copy(monitor.process.log, FOLDER / "failed-monitor.log")
            raise
        monitor.process.stop(STOP_SECONDS)


class Monitor:
    usage: Usage

    def __init__(
        self,
        lab: Lab,
        name: str,
        settings: Mapping[str, Any],
        prometheus: Mapping[str, Any],
        launch: Launch | None = None,
    ) -> None:
        folder = lab.folder / name
        folder.mkdir()
        self._servers = lab.servers
        self._port = free_port()
        sections: Mapping[str, Mapping[str, Any]] = {
            "kafka": {"bootstrap_servers": lab.servers},
            "prometheus": prometheus,
            "topics": {"health": f"{name}-health", "rejects": f"{name}-rejects"},
            "monitor": {
                "checkpoint": str(folder / "checkpoints"),
                "history": str(folder / "history"),
                "metrics_port": self._port,
                "start_seconds_back": 7200,
                **settings,
            },
        }
        self.config = config = write_settings(folder, sections)
        self.settings = load(str(config), environ={})
        create_ours(self.settings, PARTITIONS)
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.started = time.time()
        usual = [KAFKA_HEALTH, "monitor", "--config", str(config)]
        command, environment = launch(self.settings, config) if launch else (usual, {})
        self.process = Process(name, command, folder / "monitor.log", environment=environment)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        def looked() -> bool:
            self.checkpoints.look()
            return ready()

        self.process.wait_until(looked, seconds)

    def wait_for_queries(self) -> None:
        self.wait_until(lambda: self._up() and time.time() - self.started > 10, START_SECONDS)

    def work_off(self, topic: str, records: int, seconds: float) -> None:
        def done() -> bool:
            return self.checkpoints.count(topic) >= records

        self.wait_until(done, seconds)
        time.sleep(2)
        self.wait_until(done, seconds)

    def watch(self, seconds: float, every: float = 1.0) -> Sequence[float]:
        samples: list[float] = []
        until = time.time() + seconds
        while True:
            began = time.time()
            if not self.process.alive:
                raise ServiceError(f"the monitor ended with exit code {self.process.exit_code}\n{self.process.tail()}")
            self.checkpoints.look()
            samples += [max(values.values()) for values in [self.metrics().get("batch_duration_seconds")] if values]
            if began + every >= until:
                time.sleep(max(0.0, until - time.time()))
                return samples
            time.sleep(max(0.0, began + every - time.time()))

    def metrics(self) -> Mapping[str, Mapping[tuple[str, ...], float]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        by_name: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith(PREFIX):
                    labels = tuple(value for _, value in sorted(sample.labels.items()))
                    by_name.setdefault(sample.name.removeprefix(PREFIX), {})[labels] = sample.value
        return by_name

    def rejected(self) -> int:
        return round(sum(self.metrics().get("records_rejected_total", {}).values()))

    def states(self) -> Mapping[bytes, bytes]:
        return newest(self._servers, self.settings.topics.health)

    def _up(self) -> bool:
        queries = self.metrics().get("query_up", {})
        return bool(queries) and all(queries.values())
