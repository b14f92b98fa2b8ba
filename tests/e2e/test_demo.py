"""Run the demo as a newcomer does. Failures are found, and pages reach the pager."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clienthealth.configuration import load
from clienthealth.settings import Settings
from deploy.demo import alerting
from deploy.demo.clients import CLIENTS
from deploy.demo.stack import QUICK_START
from tests.support.waiting import WAIT_SECONDS, patient

CONFIRMED_SECONDS = 150
STARTED_SECONDS = 300
ENDED_SECONDS = 150
ONSET_SECONDS = 60
MEASURED = (
    ("kafka_client_producer_buffer_used_ratio", 'service="order-api"'),
    ("kafka_client_producer_callback_seconds", 'service="order-api"'),
    ("kafka_client_consumer_queue_used_ratio", 'service="trade-feed"'),
    ("kafka_consumergroup_group_lag", 'group="billing"'),
    ("kafka_consumergroup_group_lag_seconds", 'group="billing"'),
)
PROGRAMS = (
    "kafka.Kafka",
    "org.apache.spark.deploy.SparkSubmit",
    "export groups",
    "deploy.demo.shipper",
    "prometheus.yml",
)

pytestmark = [
    pytest.mark.early,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
    pytest.mark.skipif(bool(alerting.missing()), reason="; ".join(alerting.missing())),
]


DEADLOCK = "producer-callback-deadlock"
SHOWN = {client.mode for client in CLIENTS.values() if client.default and client.mode}
#: Failure modes that may be reported, too, while the deadlocked client's broker is down.
IN_AN_OUTAGE = {"delivery-stalled"}


class Demo:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.mark = f"DEMO_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.output = folder.with_suffix(".txt")
        with self.output.open("w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clienthealth.ops.cli", "demo", "--dir", str(folder), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, name: value},
            )

    @property
    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def result(self) -> dict[str, dict[str, Any]]:
        courses = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        return {course["client"]: course for course in courses}

    def left(self) -> list[str]:
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if self.mark.encode() in environment and command:
                pids.append(command.replace(b"\0", b" ").decode())
        return pids

    def pages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "pages.jsonl").read_text(encoding="utf-8").splitlines()]

    def review(self, out: Path) -> Any:
        (offer,) = (line for line in self.printed.splitlines() if "review: kafka-health review" in line)
        command = shlex.split(offer.partition("kafka-health ")[2])
        environment = {**os.environ, **QUICK_START}
        subprocess.run(
            [sys.executable, "-m", "clienthealth.ops.cli", *command, "--out", str(out)], env=environment, check=True
        )
        return json.loads(next(out.rglob("review.json")).read_text(encoding="utf-8"))

    def wait_until_these_run(self, programs: Sequence[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while missing := [program for program in programs if not any(program in command for command in self.left())]:
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < deadline, f"not started in time: {missing}\n{self.printed}"
            time.sleep(0.2)

    def wait_until_measured(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while missing := self._not_shown():
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < deadline, f"not shown: {missing}\n{self.printed}"
            time.sleep(1)

    def _not_shown(self) -> list[str]:
        settings = self.folder / "health.toml"
        if not settings.exists():
            return ["anything"]
        url = f"http://127.0.0.1:{load(str(settings), {}).prometheus.port}"
        try:
            with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
                lines = answer.read().decode().splitlines()
            with urllib.request.urlopen(f"{url}/", timeout=30) as answer:
                page = answer.read().decode()
        except OSError as error:
            return [str(error)]
        series = [
            name
            for name, label in MEASURED
            if not any(line.startswith(f"{name}{{") and label in line for line in lines)
        ]
        return series + [words for words in ("% used", "% full", " records") if words not in page]

    def wait_until_nothing_is_left(self, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.1)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def occupied() -> Iterator[None]:
    usual = Settings()
    sockets = [socket.socket() for _ in range(2)]
    for taken, port in zip(sockets, (usual.prometheus.port, usual.monitor.metrics_port), strict=True):
        # Without SO_REUSEADDR, a port in TIME_WAIT from a previous demo would seem taken.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", port))
            taken.listen()
        except OSError:
            continue
    yield
    for taken in sockets:
        taken.close()


def test_one_path_through_everything(folder: Path) -> None:
    names = ("healthy", "callback-deadlock", "consumer-stalled")
    shown = {mode for name in names if (mode := CLIENTS[name].mode)}
    demo = Demo(folder, "--for", "900", "--clients", ",".join(names), "--expect", ",".join(sorted(shown)))
    try:
        proved(demo, names, shown)
    finally:
        demo.end()


@pytest.mark.long
def test_all_five_failures_are_paged_side_by_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo = Demo(folder, "--for", "600", "--expect", ",".join(sorted(SHOWN)))
    try:
        demo.wait_until_measured(STARTED_SECONDS + 300)
        proved(demo, [name for name, client in CLIENTS.items() if client.default], SHOWN)
        with capsys.disabled():
            for mode, seconds in verdict_seconds(demo.result()).items():
                sys.stdout.write(f"\n{mode}: {seconds:.0f} s from onset to verdict")
    finally:
        demo.end()


def proved(demo: Demo, names: Sequence[str], shown: set[str]) -> None:
    assert demo.process.wait(STARTED_SECONDS + 900 + ENDED_SECONDS) == 0, demo.printed
    result = demo.result()
    assert set(result) == {*names}
    assert {mode for course in result.values() for mode in course["accused_of"]} <= IN_AN_OUTAGE
    assert {course["mode"] for course in result.values() if course["paged_ms"]} == shown
    demo.wait_until_nothing_is_left()
    failing, healthy = result["callback-deadlock"], result["healthy"]
    confirmed = failing["first_ms"][f"{DEADLOCK} confirmed"] - failing["onset_ms"]
    assert confirmed < patient(CONFIRMED_SECONDS) * 1000, demo.printed
    assert len(failing["evidence"][DEADLOCK]) >= 2
    assert failing["paged_ms"][DEADLOCK] >= failing["onset_ms"]
    assert healthy["accused_of"] == []
    assert healthy["now"][DEADLOCK] == "ok"
    labels = [page["labels"] for page in demo.pages() if page["labels"].get("mode") == DEADLOCK]
    assert {(page["severity"], page["service"]) for page in labels} == {("critical", "order-service")}
    courses = {course["mode"]: course for course in result.values()}
    incidents = [one for theme in demo.review(demo.folder.parent / "review")["themes"] for one in theme["listed"]]
    assert {incident["mode"] for incident in incidents} - IN_AN_OUTAGE == shown
    for incident in (one for one in incidents if one["mode"] in shown):
        course = courses[incident["mode"]]
        assert incident["service"] == course["service"]
        started = datetime.fromisoformat(incident["start"]).timestamp()
        assert abs(started - course["onset_ms"] / 1000) < ONSET_SECONDS
        assert incident["evidence"]


def verdict_seconds(result: dict[str, dict[str, Any]]) -> dict[str, float]:
    by_mode = {}
    for course in result.values():
        mode = course["mode"]
        verdicts = [course["first_ms"].get(f"{mode} {status}") for status in ("suspected", "confirmed")]
        times = [at for at in verdicts if at is not None]
        if times:
            by_mode[mode] = (min(times) - course["onset_ms"]) / 1000
    return by_mode


@pytest.mark.long
@pytest.mark.usefixtures("occupied")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_nothing_is_left_and_ports_in_use_do_not_matter(folder: Path, how: signal.Signals) -> None:
    demo = Demo(folder, "--clients", "callback-deadlock")
    try:
        demo.wait_until_these_run(PROGRAMS, STARTED_SECONDS)
        settings, usual = load(str(folder / "health.toml"), environ={}), Settings()
        assert settings.prometheus.port != usual.prometheus.port
        assert settings.monitor.metrics_port != usual.monitor.metrics_port
        demo.process.send_signal(how)
        code = demo.process.wait(ENDED_SECONDS)
        assert code == (-signal.SIGKILL if how == signal.SIGKILL else 130), demo.printed
        demo.wait_until_nothing_is_left()
        if how != signal.SIGKILL:
            assert f"ended; logs, history and result.json are in {folder}" in demo.printed
            assert not (folder / "broker" / "data").exists()
    finally:
        demo.end()


def test_impossible_expectations_are_reported_before_anything_starts(folder: Path) -> None:
    demo = Demo(folder, "--clients", "healthy", "--expect", "producer-not-closed")
    assert demo.process.wait(WAIT_SECONDS) == 2
    assert demo.printed == "kafka-health: none of the clients healthy shows the mode 'producer-not-closed'\n"
    assert not folder.exists()
