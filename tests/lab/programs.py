"""Start a case's program with its logging, agents and options."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from clienthealth.platform import jars
from clienthealth.platform.jars import java
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import forget, free_port, spawn
from tests.lab.cases import Case
from tests.lab.families import SETS, Family
from tests.lab.layouts import LAYOUTS, log_configuration
from tests.lab.world import DENIED

HERE = Path(__file__).parent
JVM = ("-Xms16m", "-Xmx96m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
STOP_SECONDS = 5.0
OTEL = (
    "-Xmx192m",
    "-Dotel.metrics.exporter=experimental-otlp/stdout",
    "-Dotel.traces.exporter=none",
    "-Dotel.logs.exporter=none",
    "-Dotel.service.name=orders",
)
QUOTES = HERE / "quotes.txt"
COMPILED_WITH = {
    "Plain": ("lab-java-2.2", "lab-micrometer"),
    "Legacy": ("lab-java-2.2", "legacy"),
    "Vertx": ("lab-vertx", "lab-reload4j"),
}
_COMPILING = threading.Lock()


@dataclass
class Program:
    process: subprocess.Popen[str]
    log: Path
    port: int
    truth: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[tuple[int, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def listen(self, copy: Path) -> None:
        threading.Thread(target=self._listen, args=(copy,), daemon=True).start()

    def _listen(self, copy: Path) -> None:
        assert self.process.stdout is not None
        with copy.open("a", encoding="utf-8") as output:
            for line in self.process.stdout:
                word, _, rest = line.partition(" ")
                # Agent and program write to the same pipe, so output of the program may interrupt an export.
                if word.startswith('{"resourceMetrics"') and line.endswith("]}\n"):
                    word, rest = "METRICS", line
                if word == "TRUTH":
                    self.truth.append(json.loads(rest))
                elif word == "METRICS":
                    self.metrics.append((int(time.time() * 1000), rest.rstrip("\n")))
                else:
                    output.write(line)
        self.process.wait()
        forget(self.process.pid)
        self.ended.set()

    def ask(self, word: str) -> None:
        if not self.ended.is_set() and self.process.stdin is not None:
            try:
                self.process.stdin.write(f"{word}\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                return

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def newest(self) -> dict[str, dict[str, Any]]:
        return {line["id"]: line for line in list(self.truth)}

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended.wait(STOP_SECONDS)


def start(case: Case, folder: Path, servers: str, topics: Sequence[str], former: Program | None = None) -> Program:
    folder.mkdir(parents=True, exist_ok=True)
    port = former.port if former else free_port()
    command = (_jvm if case.family.java else _python)(case, folder, servers, topics, port)
    process = spawn(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **_environment(case)},
    )
    program = Program(process, folder / "app.log", port)
    if former:
        program.truth, program.metrics = former.truth, former.metrics
    program.listen(folder / "output.txt")
    return program


def _options(case: Case, servers: str, topics: Sequence[str]) -> dict[str, str]:
    prefix, topic = case.mechanism.role[0], topics[0]
    options = {**case.options, "topic": ",".join(topics), f"{prefix}.bootstrap.servers": servers}
    if case.family.program == "Legacy":
        options |= {"c.zookeeper.connect": servers, "zookeeper.connect": servers}
    options["wrong.topic"] = DENIED if options.pop("wrong", "") else f"{topic}-v2"
    if prefix == "c":
        options["c.group.id"] = topic
    if options.pop("slow", ""):
        options["slow.topic"] = topics[-1]
    if options.pop("through", "") == "login":
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        options |= {f"{prefix}.security.protocol": "SASL_PLAINTEXT", f"{prefix}.sasl.mechanism": "PLAIN"}
        options[f"{prefix}.sasl.jaas.config"] = f'{module} username="orders" password="wrong";'
    if "quotes" in options:
        options["quoted"] = "\x01".join(QUOTES.read_text(encoding="utf-8").splitlines())
    end = {"kill": "exit", "term": "close" if "hook" in options else "exit"}.get(case.mechanism.end, case.mechanism.end)
    return {**options, "end": end or "close"}


def _jvm(case: Case, folder: Path, servers: str, topics: Sequence[str], port: int) -> list[str]:
    layout = LAYOUTS.get(case.seen.layout, LAYOUTS["classic"])
    name, text, option = log_configuration(layout, "app.log")
    (folder / name).write_text(text, encoding="utf-8")
    family = case.family
    sets = [family.jars or f"lab-java-{family.version}", f"lab-{layout.backend}"]
    options = _options(case, servers, topics)
    agents = []
    if case.seen.metrics == "micrometer":
        sets.append("lab-micrometer")
        options["micrometer.port"] = str(port)
    elif case.seen.metrics == "jmx-exporter":
        (folder / "jmx.yaml").write_text("rules:\n- pattern: '.*'\n", encoding="utf-8")
        agents = [f"-javaagent:{_paths('lab-jmx-exporter')[0]}=127.0.0.1:{port}:jmx.yaml"]
    elif case.seen.metrics == "otlp":
        often = f"-Dotel.metric.export.interval={1000 * case.seen.interval:.0f}"
        agents = [f"-javaagent:{_paths('lab-otel')[0]}", *OTEL, often]
    elif case.seen.metrics.startswith("jolokia"):
        agents = [f"-javaagent:{_paths('jolokia')[0]}=port={port},host=127.0.0.1,discoveryEnabled=false"]
    path = [compiled(family), *(jar for name in sets for jar in _paths(name))]
    given = [f"-D{key}={value}" for key, value in options.items()]
    zone = f"-Duser.timezone={layout.zone}"
    jvm = [java(), *JVM, *agents, *layout.java, zone, option, *given]
    return [*jvm, "-cp", os.pathsep.join(map(str, path)), f"orders.{family.program}"]


def _python(case: Case, folder: Path, servers: str, topics: Sequence[str], port: int) -> list[str]:
    given = [f"{key}={value}" for key, value in _options(case, servers, topics).items()]
    layout = LAYOUTS.get(case.seen.layout, LAYOUTS["classic"]).python
    if case.seen.metrics != "none":
        given.append(f"metrics.seconds={case.seen.interval:.0f}")
    return [sys.executable, "-m", "tests.lab.python.app", case.family.program, f"layout={layout}", *given]


def _environment(case: Case) -> dict[str, str]:
    zone = {"TZ": LAYOUTS.get(case.seen.layout, LAYOUTS["classic"]).zone}
    requires = case.family.requires
    path = [str(installed(tuple(requires)))] if requires else []
    return {**zone, "PYTHONPATH": os.pathsep.join([*path, str(HERE.parents[1])])}


@cache
def installed(requires: tuple[str, ...]) -> Path:
    with _COMPILING:
        target = jars.cache() / "lab" / "python" / "-".join(requires)
        if not target.exists():
            uv = shutil.which("uv") or str(jars.cache() / "uv" / "bin" / "uv")
            draft = target.with_name(f"{target.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(draft), *requires]
            subprocess.run(command, check=True)
            draft.rename(target)
        return target


def _paths(name: str) -> list[Path]:
    jars.SETS.update(SETS)
    return jars.classpath(name)


@cache
def compiled(family: Family) -> Path:
    with _COMPILING:
        sources = HERE / "java"
        files = sorted(sources.glob("orders/*.java"))
        target = jars.cache() / "lab" / "classes" / (family.jars or family.program)
        newest = max(file.stat().st_mtime for file in files)
        if not target.exists() or target.stat().st_mtime < newest:
            sets = COMPILED_WITH.get(family.program, (family.jars or "",))
            path = os.pathsep.join(str(jar) for name in sets for jar in _paths(name))
            compiler = str(Path(java()).resolve().with_name("javac"))
            names = (family.program, *(() if family.jars else ("Page",)))
            wanted = [str(sources / "orders" / f"{name}.java") for name in names]
            if family.program == "Legacy":
                wanted.append(str(PROGRAMS / "LegacyShutdown.java"))
            options = ["-nowarn", "-d", str(target), "-cp", path, "-sourcepath", str(sources)]
            subprocess.run([compiler, *options, *wanted], check=True)
            os.utime(target)
        return target


def dump_command(case: Case, pid: int) -> Sequence[str]:
    if case.family.java:
        tool, asked = ("jstack", ()) if case.number % 2 else ("jcmd", ("Thread.print", "-l"))
        return [str(Path(java()).resolve().with_name(tool)), str(pid), *asked]
    return [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(pid)]
