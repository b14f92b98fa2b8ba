"""Check the Docker Compose demo without containers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.stack import QUICK_START
from deploy.reference.rooms import ROOT
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = pytest.mark.long
DEPLOY = ROOT / "deploy"
FILES = [DEPLOY / "compose.yaml", DEPLOY / "compose.demo.yaml"]
BASE, DEMO = (yaml.safe_load(path.read_text("utf-8"))["services"] for path in FILES)
EXPECTED = {
    "billing": "producer-callback-deadlock",
    "mail": "consumer-stalled",
    "checkout": "send-blocked-on-metadata",
}
CLIENTS = [name for name, service in DEMO.items() if "/demo/failing.py" in service.get("command", ())]
AFTERWARDS_MS = 60_000
OURS = ["topics", "monitor", "exporter", "groups"]


def test_the_files_fit_the_schema_of_compose() -> None:
    command = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, *map(str, FILES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wrong = subprocess.run([*command, "/dev/stdin"], input="services: {a: {comand: x}}", text=True, check=False)
    assert wrong.returncode == 1


def test_every_service_is_one_that_a_test_knows() -> None:
    others = {"broker", "prometheus", "alertmanager", "grafana", "jvm"}
    assert {*BASE, *DEMO} == {*OURS, *CLIENTS, *others}
    assert {*CLIENTS} == {*EXPECTED, "shop"}
    for name, service in DEMO.items():
        assert not service.get("ports"), name
        if name not in BASE:
            assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
            assert service["mem_limit"] and service["cpus"] and service["healthcheck"], name
    for service in (*BASE.values(), *DEMO.values()):
        image = service.get("image", "kafka-client-health:latest")
        assert re.search(r":v?\d+\.\d+\.\d+$", image) or image.startswith("kafka-client-health"), image
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), volume


def test_the_image_of_the_applications_has_the_libraries_that_are_tested() -> None:
    text = DEMO["shop"]["build"]["dockerfile_inline"]
    pinned = dict(re.findall(r"([\w-]+)==(\S+)", text))
    assert pinned == {name: version(name) for name in ("confluent-kafka", "kafka-python")}


@pytest.mark.parametrize(
    ("service", "check"),
    [("prometheus", ("promtool", "check", "config")), ("alertmanager", ("amtool", "check-config"))],
)
def test_the_others_read_what_is_mounted(service: str, check: Sequence[str], tmp_path: Path) -> None:
    for volume in BASE[service]["volumes"]:
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            (tmp_path / target[1:]).parent.mkdir(parents=True, exist_ok=True)
            if (DEPLOY / source).is_dir():
                (tmp_path / target[1:]).mkdir(exist_ok=True)
                for path in (DEPLOY / source).resolve().iterdir():
                    (tmp_path / target[1:] / path.name).symlink_to(path)
            else:
                (tmp_path / target[1:]).symlink_to((DEPLOY / source).resolve())
    (file,) = (word.partition("=")[2] for word in BASE[service]["command"] if word.startswith("--config.file="))
    done = subprocess.run([*check, str(tmp_path / file[1:])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_outside_containers_its_programs_find_what_fails_and_nothing_else(tmp_path: Path) -> None:
    bin_, port = Path(sys.executable).parent, free_port()
    with ExitStack() as running:
        broker = running.enter_context(Broker(tmp_path / "broker", {"auto.create.topics.enable": "false"}))
        ours = {
            **QUICK_START,
            "KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "KAFKA_HEALTH_MONITOR_METRICS_PORT": str(free_port()),
            "KAFKA_HEALTH_PROMETHEUS_PORT": str(port),
        }

        def start(name: str, command: Sequence[str], environment: dict[str, str]) -> Process:
            process = Process(name, command, tmp_path / f"{name}.log", tmp_path, environment)
            running.callback(process.stop, WAIT_SECONDS)
            return process

        def health(name: str) -> Process:
            words = DEMO[name].get("command") or BASE[name]["command"]
            here = {"broker:9092": broker.bootstrap_servers, "/tmp/health.toml": str(tmp_path / "health.toml")}
            return start(name, [str(bin_ / "kafka-health"), *(here.get(word, word) for word in words)], ours)

        topics = health("topics")
        eventually(lambda: not topics.alive, "the topics")
        assert topics.exit_code == 0, topics.log.read_text("utf-8")
        for name in OURS[1:]:
            health(name)
        for name in CLIENTS:
            python, program, *arguments = DEMO[name]["command"]
            environment = {**DEMO[name]["environment"], "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
            command = [str(bin_ / python), program.replace("/demo", str(DEPLOY / "demo/python")), *arguments]
            start(name, command, {**environment, "FAILS_AFTER": "30"})

        found: dict[tuple[str, str], str] = {}

        def clients() -> list[dict[str, Any]]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/clients.json", timeout=5) as answer:
                    records: list[dict[str, Any]] = json.loads(answer.read())
            except OSError:
                return []
            for record in records:
                for verdict in record["verdicts"]:
                    if verdict["status"] in ("suspected", "confirmed"):
                        found[record["client"]["service"], verdict["mode"]] = verdict["status"]
            return records

        eventually(lambda: clients() and found.keys() >= EXPECTED.items(), "all failures", 2 * WAIT_SECONDS)
        until = max(record["window_end"] for record in clients()) + AFTERWARDS_MS
        eventually(lambda: min(record["window_end"] for record in clients()) >= until, "a minute afterwards")
        assert found.keys() == EXPECTED.items(), found
