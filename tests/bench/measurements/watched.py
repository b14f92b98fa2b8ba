"""Measure what `kafka-health watch` costs the JVM of a healthy application."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from clienthealth.platform.jars import java
from deploy.demo import jars
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import Process
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import TICKS

TITLE = "Cost of `kafka-health watch`"
RATE = 100
START_SECONDS = 120.0
CORES = 0.01
#: Linux keeps only 15 characters of a thread's name.
PARTS = {
    "agent": ("jolokia-", "Jolokia", "HTTP-Dispatcher", "Attach Listener"),
    "compiler": ("C1 Compiler", "C2 Compiler"),
    "collector": ("GC ", "G1 "),
}
#: Matches a pause in the JVM's log. Groups: the time since the JVM's start (s), and the length of the pause (ns).
_PAUSE = re.compile(r"\[([\d.]+)s\].*Total: +(\d+) ns")


def measure(scope: Scope) -> Result:
    seconds, warming = scope.seconds(60, 10), scope.seconds(90, 10)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        broker.create_topic("orders")
        pauses = Path(folder) / "pauses.log"
        options = {"p.bootstrap.servers": broker.bootstrap_servers, "c.bootstrap.servers": broker.bootstrap_servers}
        options |= {"rate": str(RATE), "c.group.id": "billing"}
        command = [java(), "-Xmx256m", f"-Xlog:safepoint:file={pauses}:uptime"]
        command += [f"-D{name}={value}" for name, value in options.items()]
        path = os.pathsep.join(map(str, jars.classpath("clients-4.1")))
        application = Process(
            "application", [*command, "-cp", path, str(PROGRAMS / "ProduceAndConsume.java")], Path(folder) / "out"
        )
        began = time.time()
        try:
            application.wait_until(lambda: "COUNTERS" in application.log.read_text(), START_SECONDS)
            time.sleep(warming)
            marks = [(time.time(), _cpu(application.pid)), _after(seconds, application.pid)]
            arguments = ["watch", str(application.pid), "--for", str(2 * seconds + 10)]
            with subprocess.Popen(
                [sys.executable, "-m", "clienthealth.ops.cli", *arguments], stdout=subprocess.PIPE, text=True
            ) as watch:
                marks += [_after(seconds, application.pid), _after(seconds, application.pid)]
                watch.communicate()
            if watch.returncode:
                raise TimeoutError(f"watch ended with {watch.returncode}")
            lines = pauses.read_text(encoding="utf-8")
        finally:
            application.kill()
    stops = [(began + float(at), int(length) / 1e6) for at, length in _PAUSE.findall(lines)]
    rows, agent = [], 0.0
    for name, (since, until) in zip(
        ("before the agent", "while the agent is attached", "with the agent"), pairwise(marks), strict=True
    ):
        used = {part: (until[1][part] - since[1][part]) / (until[0] - since[0]) for part in (*PARTS, "application")}
        stood = [ms for at, ms in stops if since[0] <= at < until[0]]
        rows.append(
            [name, *(f"{cores:.4f}" for cores in used.values()), str(len(stood)), f"{max(stood, default=0.0):.1f}"]
        )
        agent = used["agent"]
    figures = [
        Figure("watched JVM: CPU of the agent", agent, "cores", CORES),
    ]
    how = (
        f"A producer and a consumer in one JVM handle {RATE} records a second. `kafka-health watch` attaches its agent "
        f"to the JVM. Each of the three phases lasts {seconds:.0f} s. The columns of pauses show "
        "the JVM's pauses at safepoints."
    )
    head = ["phase", *(f"cores of {part}" for part in (*PARTS, "application")), "pauses", "longest pause, ms"]
    return Result(figures, how, [Table(head, rows)])


def _after(seconds: float, pid: int) -> tuple[float, dict[str, float]]:
    time.sleep(seconds)
    return time.time(), _cpu(pid)


def _cpu(pid: int) -> dict[str, float]:
    used = dict.fromkeys((*PARTS, "application"), 0.0)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (thread / "comm").read_text(encoding="utf-8").strip()
            fields = (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
        except OSError:
            continue
        part = next((part for part, begins in PARTS.items() if name.startswith(begins)), "application")
        used[part] += (int(fields[11]) + int(fields[12])) / TICKS
    return used
