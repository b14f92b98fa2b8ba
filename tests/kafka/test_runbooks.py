"""Run every command of the runbooks, except commands for Kubernetes, systemd or another machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kafka.admin import ConfigResource

from clienthealth.platform.kafka import admin, consumer, producer
from clienthealth.platform.web import Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth.spark.self_monitoring import QUERY, Port, SelfMetrics, serve
from clienthealth_exporters.prometheus.exporter import PROBES, Exporter
from clienthealth_exporters.prometheus.states import States
from deploy.demo import jars
from deploy.demo.broker import Broker, java_command
from deploy.demo.processes import Process
from tests.laws.pages import commands, pages
from tests.laws.test_commands import PROVEN
from tests.support.health_records import NOW_MS, deadlock, wire
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = pytest.mark.long

TOOLS = jars.JarSet(("org.apache.kafka:kafka-tools:4.4.0",), without=("*:*",))
SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
}
SCRIPT = """#!/usr/bin/env bash
exec 3<>/dev/tcp/127.0.0.1/{port}
printf '%s' '{main}' >&3
printf '\\001%s' "$@" >&3
printf '\\n' >&3
read -r code <&3
cat <&3
exit "$code"
"""
RUNBOOKS = {Path(path).stem: text for path, text in pages().items() if path.startswith("alerts/runbooks/")}
WITH_RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OWN_RETENTION = {"retention.ms": "2592000000", "retention.bytes": "1000000000000"}


def left_out(command: str) -> bool:
    elsewhere = ("not run", "tests/rules/")
    return any(command.startswith(begins) and proof.startswith(elsewhere) for begins, proof in PROVEN.items())


@dataclass(frozen=True)
class World:
    settings: Settings
    folder: Path
    path: str
    places: dict[str, str]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        victim = subprocess.Popen(["sleep", "600"])
        places = self.places | ({"PID": str(victim.pid)} if re.match(r"kill( -9)? PID", command) else {})
        for word, here in places.items():
            command = re.sub(rf"(?<![\w$-]){word}(?![\w=])", here, command)
        environment = {"PATH": self.path, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        try:
            return subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=WAIT_SECONDS,
                check=False,
            )
        finally:
            victim.kill()
            victim.wait()

    def retention(self) -> dict[str, str]:
        client = admin(self.settings)
        try:
            (by_name,) = client.describe_configs([ConfigResource("TOPIC", "orders")], config_filter="all").values()
        finally:
            client.close()
        return {name: str(by_name["orders"][name]["value"]) for name in OWN_RETENTION}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), WITH_RIGHTS) as running:
        running.create_topic("client-metrics")
        yield running


@pytest.fixture(scope="module")
def world(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("runbooks")
    with runbook_world(folder, Settings(kafka=broker.kafka)) as made, _served() as (health, metrics):
        for options in ("CLIENT", "ADMIN"):
            (folder / f"{options.lower()}.properties").write_text("client.id=runbook\n", "utf-8")
        (folder / "app.log").write_text("a line\n" * 2000, "utf-8")
        broker_places = {"B": broker.bootstrap_servers, "HOST": "127.0.0.1", "PORT": str(broker.port)}
        served = {"LOG": "app.log", r"localhost:9309": health, r"localhost:9308": metrics}
        yield replace(made, places=made.places | broker_places | served | {"PID": str(broker.pid)})


@contextmanager
def runbook_world(folder: Path, settings: Settings) -> Iterator[World]:
    jars.SETS |= {"test-tools": TOOLS}
    client = admin(settings)
    client.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1, "configs": OWN_RETENTION}})
    client.close()
    writer = producer(settings, acks="all")
    for topic in ("orders", "orders", "orders", "client-metrics", "client-metrics", "client-metrics"):
        writer.send(topic, b"{}", key=b"k")
    writer.flush(timeout=WAIT_SECONDS)
    writer.close()
    reader = consumer(settings, "orders", group_id="billing", auto_offset_reset="earliest", max_poll_records=1)
    while not reader.poll(timeout_ms=1000):
        pass
    reader.commit()
    reader.close()
    with _tools(folder) as port:
        programs = folder / "bin"
        programs.mkdir()
        for script, main in SCRIPTS.items():
            _program(programs / script, SCRIPT.format(port=port, main=main))
        _program(programs / "sleep", "#!/bin/sh\n")
        places = {
            "T:0": "orders:0",
            "T": "orders",
            "NEW": "invoices",
            "G": "billing",
            "OFFSET": "1",
            r"CLIENT\.properties": str(folder / "client.properties"),
            r"ADMIN\.properties": str(folder / "admin.properties"),
            "OLD_MS": OWN_RETENTION["retention.ms"],
            "OLD_BYTES": OWN_RETENTION["retention.bytes"],
        }
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        yield World(settings, folder, path, places)


@contextmanager
def _served() -> Iterator[tuple[str, str]]:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    states.put(*wire(deadlock()))
    metrics = SelfMetrics()
    metrics.gauges["query_up"].labels(QUERY).set(1)
    with (
        Server(PrometheusSettings(port=0), Exporter(Settings(), states, lambda: None), PROBES) as health,
        serve("127.0.0.1", 0, Port(metrics.registry, lambda: None)) as own,
    ):
        threading.Thread(target=health.serve_forever, daemon=True).start()
        yield health.url.removeprefix("http://"), own.url.removeprefix("http://")
        health.shutdown()


@contextmanager
def _tools(folder: Path) -> Iterator[int]:
    log = folder / "tools.log"
    command = java_command("broker", 128, str(Path(__file__).with_name("KafkaTools.java")))
    at = command.index("-cp") + 1
    command[at] = os.pathsep.join((command[at], *map(str, jars.classpath("test-tools"))))
    process = Process("Kafka's tools", command, log)
    process.wait_until(lambda: log.read_text("utf-8").endswith("\n"), WAIT_SECONDS)
    try:
        yield int(log.read_text("utf-8").splitlines()[-1])
    finally:
        process.stop(5)


def _program(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("name", RUNBOOKS)
def test_every_command_of_a_runbook_works(world: World, name: str) -> None:
    for command in commands(RUNBOOKS[name]):
        if left_out(command) or (command in COMMON and name != COMMON_RUN_IN):
            continue
        works(world, command)


def works(world: World, command: str) -> None:
    done = world.run(command)
    nothing_found = done.returncode == 1 and re.search(r"\| grep [^|]*$|^grep ", command)
    assert done.returncode == 0 or nothing_found, (command, done.stdout, done.stderr)
    assert not re.search(r"(?i)exception|unrecognized|usage:", done.stdout + done.stderr), (command, done.stdout)


COMMON_RUN_IN = "producer-callback-deadlock"
COMMON = set(commands(RUNBOOKS[COMMON_RUN_IN])) & set(commands(RUNBOOKS["consumer-stalled"]))


def test_what_the_commands_show(world: World) -> None:
    page = list(commands(RUNBOOKS["consumer-lag"]))

    def shows(part: str) -> str:
        return world.run(min((command for command in page if part in command), key=len)).stdout

    shows("retention.ms=OLD_MS")
    assert "retention.ms=2592000000" in shows("--describe --all") and "cleanup.policy=delete" in shows(
        "--describe --all"
    )
    shows("retention.ms=-1,retention.bytes=-1")
    assert world.retention() == {"retention.ms": "-1", "retention.bytes": "-1"}
    shows("retention.ms=OLD_MS")
    assert world.retention() == OWN_RETENTION
    assert re.search(r"billing +orders +0 ", shows("--describe --group G"))
    assert "Empty" in shows("--state")


def test_both_ways_to_a_dump(world: World, broker: Broker) -> None:
    assert {"jcmd PID Thread.print > dump.txt", "kill -3 PID"} <= COMMON
    world.run("jcmd PID Thread.print > dump.txt")
    assert "kafka-request-handler" in (world.folder / "dump.txt").read_text("utf-8")
    written = len(broker.log.read_text("utf-8"))
    world.run("kill -3 PID")
    eventually(lambda: "Full thread dump" in broker.log.read_text("utf-8")[written:])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_knows_the_options(world: World) -> None:
    """kubectl rejects a wrong option before it connects."""
    for command in sorted({c for text in RUNBOOKS.values() for c in commands(text) if c.startswith("kubectl")}):
        for part in re.split(r" (?:&&|;|\||>) ", command):
            if part.startswith("kubectl"):
                done = world.run(
                    f"{part} --server http://127.0.0.1:1".replace(" -- ", " --server http://127.0.0.1:1 -- ")
                )
                assert "127.0.0.1:1 was refused" in done.stderr, (part, done.stderr)
