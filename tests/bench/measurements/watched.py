"""What `kafka-health watch` costs the JVM that it watches: a healthy application must not notice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from clienthealth.platform import jars
from clienthealth.platform.java import java
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import Process
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import Usage

TITLE = "A JVM that is watched"
RATE = 100
START_SECONDS = 120.0
CORES = 0.01
#: A line of `-Xlog:safepoint` (JDK 17): seconds since the JVM's start, and how long its threads stood still.
_PAUSE = re.compile(r"\[([\d.]+)s\].*Total: +(\d+) ns")


def measure(scope: Scope) -> Result:
    """The same application alone, watched and alone again."""
    seconds, warming = scope.seconds(90, 10), scope.seconds(60, 10)
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
            with Usage({"application": application.pid}) as usage:
                application.wait_until(lambda: "COUNTERS" in application.log.read_text(), START_SECONDS)
                time.sleep(warming)
                marks = [time.time()]
                time.sleep(seconds)
                marks.append(time.time())
                arguments = ["watch", str(application.pid), "--for", str(seconds)]
                watch = subprocess.run(
                    [sys.executable, "-m", "clienthealth.cli", *arguments], capture_output=True, text=True, check=False
                )
                marks.append(time.time())
                time.sleep(seconds)
                marks.append(time.time())
                parts = [usage.cost(since, until).cores("application") for since, until in pairwise(marks)]
            lines = pauses.read_text(encoding="utf-8")
        finally:
            application.kill()
    stops = [(began + float(at), int(length) / 1e6) for at, length in _PAUSE.findall(lines)]
    of_parts = [[ms for at, ms in stops if since <= at < until] for since, until in pairwise(marks)]
    more = parts[1] - (parts[0] + parts[2]) / 2
    figures = [
        Figure("CPU that a watch adds to a JVM", more, "cores", CORES),
        Figure("its longest pause while it is watched", max(of_parts[1], default=0.0), "ms"),
    ]
    how = (
        f"A producer and a consumer of {RATE} records a second in a JVM without an agent, warm, {seconds:.0f} s "
        f"alone, {seconds:.0f} s watched (the agent is attached and taken out within), {seconds:.0f} s alone. Pauses: "
        "safepoints."
    )
    rows = [
        [name, f"{cores:.3f}", str(len(pause)), f"{sum(pause):.1f}", f"{max(pause, default=0.0):.1f}"]
        for name, cores, pause in zip(("alone", "watched", "alone"), parts, of_parts, strict=True)
    ]
    said = watch.stdout.splitlines()
    notes = [
        f"`kafka-health watch` ended with {watch.returncode} and said: {said[0] if said else watch.stderr.strip()}"
    ]
    return Result(figures, how, [Table(["", "cores", "pauses", "together ms", "longest ms"], rows)], notes)
