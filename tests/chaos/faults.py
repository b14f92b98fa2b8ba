"""Define the kinds of faults: context managers that cause a fault and repair it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kafka import TopicPartition

from clienthealth.model.errors import ServiceError
from clienthealth.spark.self_monitoring import QUERY
from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port
from tests.chaos import disks, parts
from tests.chaos.load import Slice
from tests.chaos.published import position
from tests.chaos.world import Run
from tests.support import fake_grafana

#: Seconds from the start of a fault's slice. The fault begins after the records of the first BEFORE seconds have been
#: published, and ends before the records from second AFTER on are published.
BEFORE, AFTER = 120, 240
NOTICED_SECONDS = 180.0


@dataclass(frozen=True)
class Scene:
    run: Run
    slice: Slice
    random: random.Random

    @property
    def gateway(self) -> Gateway:
        assert self.run.cluster.gateway is not None
        return self.run.cluster.gateway


Begin = Callable[[Scene], AbstractContextManager[None]]


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `seconds`: shortest and longest duration. `hides`: True if the fault deletes unread records."""

    name: str
    help: str
    begin: Begin
    seconds: tuple[float, float] = (0.0, 0.0)
    calm: bool = False
    hides: bool = False
    disk: bool = False
    strays: bool = False


KINDS: dict[str, Kind] = {}


@dataclass(frozen=True)
class Fault:
    number: int
    kind: Kind


def _kind(help: str, **more: object) -> Callable[[Callable[[Scene], Iterator[None]]], Begin]:
    def entered(function: Callable[[Scene], Iterator[None]]) -> Begin:
        name = function.__name__.replace("_", "-")
        begin = contextmanager(function)
        KINDS[name] = Kind(name, help, begin, **more)  # type: ignore[arg-type]
        return begin

    return entered


@_kind("`kill -9` ends the JVM of the monitor")
def monitor_killed(scene: Scene) -> Iterator[None]:
    scene.run.wait("no JVM to kill", lambda: scene.run.monitor.kill(parts.jvm) > 0, NOTICED_SECONDS)
    yield


@_kind("`kill -9` ends all processes of monitor and exporter at once")
def monitor_lost(scene: Scene) -> Iterator[None]:
    run = scene.run
    run.wait("no monitor to kill", lambda: run.monitor.kill(parts.everything) > 0, NOTICED_SECONDS)
    run.wait("no exporter to kill", lambda: run.exporter.kill(parts.everything) > 0, NOTICED_SECONDS)
    yield


@_kind("`kill -9` ends the monitor between the write to the history and the commit")
def monitor_lost_uncommitted(scene: Scene) -> Iterator[None]:
    run, before = scene.run, _versions(scene.run)
    yield
    run.flushed()
    deadline = time.monotonic() + NOTICED_SECONDS
    while time.monotonic() < deadline:
        if _versions(run) > before:
            batch = run.newest("offsets")
            time.sleep(scene.random.uniform(0, 0.03))
            run.monitor.signal(parts.everything, signal.SIGSTOP)
            if run.newest("commits") < batch:
                run.monitor.kill(parts.everything)
                return
            run.monitor.signal(parts.everything, signal.SIGCONT)
            run.nudge()
            before = _versions(run)
        time.sleep(0.002)
    raise ServiceError("no batch was stopped between writing its results and its commit")


def _versions(run: Run) -> int:
    return len(list(run.history_folder.glob("*/_delta_log/*.json")))


@_kind("`kill -9` ends the Python workers of Spark")
def workers_killed(scene: Scene) -> Iterator[None]:
    scene.run.wait("no workers to kill", lambda: scene.run.monitor.kill(parts.workers) > 0, NOTICED_SECONDS)
    yield


@_kind("`kill -9` ends the exporter")
def exporter_killed(scene: Scene) -> Iterator[None]:
    scene.run.wait("no exporter to kill", lambda: scene.run.exporter.kill(parts.everything) > 0, NOTICED_SECONDS)
    yield


@_kind("`kill -9` ends the broker, which starts again", seconds=(1, 15))
def broker_killed(scene: Scene) -> Iterator[None]:
    scene.run.cluster.broker.kill()
    yield
    scene.run.cluster.broker.restart()


@_kind("`SIGSTOP` suspends the broker", seconds=(5, 60))
def broker_paused(scene: Scene) -> Iterator[None]:
    scene.run.cluster.broker.pause()
    yield
    scene.run.cluster.broker.resume()


@_kind("connections to the broker are closed and refused", seconds=(3, 20))
def network_cut(scene: Scene) -> Iterator[None]:
    scene.gateway.shut()
    yield
    scene.gateway.open()


@_kind("connections to the broker stay open, but carry no data", seconds=(3, 40))
def network_silent(scene: Scene) -> Iterator[None]:
    scene.gateway.swallow()
    yield
    scene.gateway.open()


@_kind("all data to and from the broker is delayed", seconds=(5, 20))
def network_slow(scene: Scene) -> Iterator[None]:
    scene.gateway.delay(scene.random.uniform(0.05, 0.2))
    yield
    scene.gateway.open()


@_kind("all connections to the broker are reset six times")
def network_resets(scene: Scene) -> Iterator[None]:
    for _ in range(6):
        scene.gateway.shut()
        scene.gateway.open()
        time.sleep(scene.random.uniform(0.1, 1.5))
    yield


@_kind("the disk of the checkpoint is full", seconds=(5, 20), disk=True)
def checkpoint_full(scene: Scene) -> Iterator[None]:
    disks.fill(scene.run.checkpoint)
    yield
    disks.empty(scene.run.checkpoint)


@_kind("the disk of the history is full", seconds=(5, 20), disk=True)
def history_full(scene: Scene) -> Iterator[None]:
    disks.fill(scene.run.history_folder)
    yield
    disks.empty(scene.run.history_folder)


@_kind("the checkpoint is read-only", seconds=(5, 20), disk=True)
def checkpoint_read_only(scene: Scene) -> Iterator[None]:
    with disks.read_only(scene.run.checkpoint):
        yield


@_kind("the history is read-only", seconds=(5, 20), disk=True)
def history_read_only(scene: Scene) -> Iterator[None]:
    with disks.read_only(scene.run.history_folder):
        yield


@_kind("the clock of one client jumps", strays=True)
def clock_jump(scene: Scene) -> Iterator[None]:
    yield


@_kind("the topic of metrics is deleted and created again", calm=True)
def topic_recreated(scene: Scene) -> Iterator[None]:
    run, topic = scene.run, scene.run.inputs["metrics"]
    admin = run.admin()
    try:
        admin.delete_topics([topic])
    finally:
        admin.close()
    run.create(topic, 2)
    # Until the monitor notices that the topic is new, it skips the offsets that it had read from the old topic.
    checkpoint = run.checkpoint / QUERY
    run.wait("not noticed", lambda: not any(position(checkpoint).get(topic, {1: 1}).values()), NOTICED_SECONDS)
    yield


@_kind("the topic of metrics gets another partition", calm=True)
def partition_added(scene: Scene) -> Iterator[None]:
    run, topic = scene.run, scene.run.inputs["metrics"]
    admin = run.admin()
    try:
        admin.create_partitions({topic: run.partitions[topic] + 1})
    finally:
        admin.close()
    run.partitions[topic] += 1
    run.wait("not known to producers", lambda: run.partitions_of(topic) == run.partitions[topic], NOTICED_SECONDS)
    yield


@_kind("unread records are deleted while the monitor is down", calm=True, hides=True)
def retention_overtakes(scene: Scene) -> Iterator[None]:
    run = scene.run
    run.monitor.hold()
    yield
    run.flushed()
    admin = run.admin()
    try:
        ends = {TopicPartition(t, p): end for t, of in run.ends().items() for p, end in of.items()}
        admin.delete_records(ends)
    finally:
        admin.close()
    run.monitor.release()


@_kind("the schema registry is down while records with an unknown schema arrive", seconds=(5, 80))
def registry_away(scene: Scene) -> Iterator[None]:
    scene.run.registry.stop()
    yield
    scene.run.registry.start()


@_kind("Grafana is down while dashboards are pushed")
def grafana_away(scene: Scene) -> Iterator[None]:
    code, message = _pushed(scene, f"http://127.0.0.1:{free_port()}")
    if code != 2 or len(message.splitlines()) != 1:
        raise ServiceError(f"a push to an unreachable Grafana ended with exit code {code}: {message}")
    yield
    with fake_grafana.serving(fake_grafana.Grafana()) as url:
        code, message = _pushed(scene, url)
    if code:
        raise ServiceError(f"a push of the dashboards ended with exit code {code}: {message}")


def _pushed(scene: Scene, url: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "dashboards", "push", "--url", url]
    environment = {**os.environ, "GRAFANA_TOKEN": fake_grafana.TOKEN}
    done = subprocess.run(
        [*command, "--config", str(scene.run.config)], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def strayed(kind: Kind, chosen: random.Random) -> int:
    """Return a clock error (ms) below 300 s, because the monitor rejects records that are more than 300 s ahead."""
    return chosen.choice([65_000, 240_000, 290_000, -600_000, -86_400_000]) if kind.strays else 0


def campaign(seed: int, count: int, only: list[str], skipped: Mapping[str, str]) -> list[Fault]:
    names = [name for name in KINDS if (not only or name in only) and name not in skipped]
    chosen = random.Random(seed)
    selected: list[str] = []
    while len(selected) < count:
        selected += chosen.sample(names, len(names))
    return [Fault(number, KINDS[name]) for number, name in enumerate(selected[:count])]
