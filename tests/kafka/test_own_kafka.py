"""Run each command of the README's section "Your own Kafka" in an empty folder."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.stack import QUICK_START
from deploy.reference.rooms import ROOT
from tests.laws.pages import commands
from tests.support.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.early]

(SECTION,) = re.findall(
    r"^## Your own Kafka\n(.*?)^## ", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
INIT, DOCTOR, *STARTED = commands(SECTION)
(APPLICATION,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


class Here:
    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self.page = f"http://127.0.0.1:{(port := free_port())}"
        self.environment = {
            **QUICK_START,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "KAFKA_HEALTH_MONITOR_METRICS_PORT": str(free_port()),
            "KAFKA_HEALTH_PROMETHEUS_PORT": str(port),
        }

    def run(self, command: str, typed: str = "") -> tuple[int, str]:
        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                command,
                shell=True,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as running:
                os.write(ours, typed.encode())
                output, _ = running.communicate(timeout=WAIT_SECONDS)
        finally:
            os.close(ours)
            os.close(theirs)
        return running.returncode, output

    def start(self, command: str) -> Process:
        name = command.removeprefix("kafka-health ").partition(" --")[0]
        log = self.folder.parent / f"{name.replace(' ', '-')}.log"
        return Process(name, ["/bin/sh", "-c", f"exec {command}"], log, self.folder, self.environment)

    def clients(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self.page}/clients.json", timeout=5) as answer:
                return {record["client"]["client_id"]: record for record in json.loads(answer.read())}
        except OSError:
            return {}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("own") / "empty"
    folder.mkdir()
    with Broker(folder.parent / "broker", heap_mb=256) as broker:
        yield Here(folder, broker)


def test_the_commands_of_the_page_start_and_judge(here: Here) -> None:
    code, output = here.run(INIT, f"{here.broker.bootstrap_servers}\n\ny\n")
    assert code == 0, output
    assert output.count("\ncreated ") == 4
    assert [path.name for path in here.folder.iterdir()] == ["health.toml"]
    for command in (INIT, DOCTOR, *STARTED[:3]):
        assert command.startswith("kafka-health ") and ("--config health.toml" in command or command == INIT)

    code, output = here.run(DOCTOR)
    assert code == 0, output
    assert output.splitlines()[-1].startswith("Nothing failed; not checked: ")
    assert f"monitor.history: {here.folder}/state/history" in re.sub(r"\s+", " ", output)
    assert [path.name for path in here.folder.iterdir()] == ["health.toml"]

    producer = KafkaProducer(bootstrap_servers=here.broker.bootstrap_servers, client_id="till")
    here.broker.create_topic("orders")
    producer.send("orders", b"1").get(WAIT_SECONDS)
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=here.broker.bootstrap_servers, group_id="kitchen", auto_offset_reset="earliest"
    )
    while not consumer.poll(1000):
        pass
    consumer.commit()
    exec(APPLICATION, {"producer": producer})
    started = [here.start(command) for command in STARTED]
    monitor = started[0]
    try:
        monitor.wait_until(lambda: {"till", "kitchen"} <= {*here.clients()}, WAIT_SECONDS)
    finally:
        for process in started:
            process.stop(WAIT_SECONDS)
        consumer.close()
        producer.close()
    assert "again in" not in monitor.log.read_text("utf-8")
    assert [process.exit_code for process in started] == [0, 0, 0]
    assert sorted(path.name for path in (here.folder / "state").iterdir()) == ["checkpoints", "history"]
