"""Records many clients at once while something befalls their broker, as an engineer on call would record them.

    python -m tests.lab.record OUT FAULT:SECONDS… [--clients NAME,…]

One broker, one process for each client; the faults come one after the other, with time to recover in between. Of each
client and fault a folder OUT/CLIENT-FAULT-SECONDS is written that `kafka-health diagnose` reads: metrics every 5 s, the
log, thread dumps, `truth.json`. `python -m tests.lab.judge OUT` prints what the monitor says of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from clienthealth.ops.doctor.newest import newest
from clienthealth.platform import jars
from clienthealth.platform.java import java
from clienthealth.settings import Settings
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS
from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port
from deploy.demo.record import WHOLE, by_client
from deploy.demo.running import Running
from deploy.demo.topics import create_ours
from tests.lab.clients import CLIENTS, JARS, LabClient
from tests.lab.faults import FAULTS, World

HERE = Path(__file__).parent
JVM = ("-Xms16m", "-Xmx96m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
READ_SECONDS = 5.0
#: Before a fault, and after it.
BEFORE_SECONDS, AFTER_SECONDS = 30.0, 50.0
#: Between a hang and the fault.
HANGS_BEFORE_SECONDS = 12.0
START_SECONDS = 300.0
#: After the begin of a fault, and after its end.
DUMPS, DUMPS_AFTER = (15.0, 45.0, 100.0, 240.0, 400.0, 560.0), (20.0,)
_HOST = re.compile(rf"(?<![A-Za-z0-9.]){re.escape(socket.gethostname())}(?![A-Za-z0-9.])")


@dataclass
class Subject:
    """A client that runs; what was read of it since `begin`. `options`: of the program."""

    client: LabClient
    folder: Path
    running: Running
    agent: Jolokia | None
    lines: list[str] = field(default_factory=list)
    dumps: list[tuple[str, str]] = field(default_factory=list)
    marks: dict[Path, int] = field(default_factory=dict)
    began_ms: int = 0

    def begin(self, whole_log: bool) -> None:
        """Forget what was read before; of the log too, unless all of it is wanted."""
        self.lines.clear()
        self.dumps.clear()
        self.began_ms = _now_ms()
        self.running.timeline.clear()
        for name in ("app.log", "stats.jsonl"):
            file = self.folder / name
            keep = whole_log and name == "app.log"
            self.marks[file] = file.stat().st_size if file.exists() and not keep else 0

    def read(self) -> None:
        """A line for each client of the process."""
        if self.agent is None:
            return
        try:
            mbeans = self.agent.read(dict.fromkeys(WHOLE, ()))
        except JolokiaError as error:
            self.running.note(f"no metrics: {error}")
            return
        ts = _now_ms()
        for client_id, metrics in by_client(mbeans).items():
            line = {"ts": ts, "client_id": client_id, "metrics": metrics}
            self.lines.append(json.dumps(line, separators=(",", ":"), sort_keys=True))

    @property
    def ready(self) -> bool:
        """Does it work: has it consumed, or committed, or does it at least log."""
        if self.agent is None:
            return self.running.counters["handled"] > 0
        try:
            mbeans = self.agent.read({"kafka.consumer:*": ("records-consumed-total", "commit-rate", "fetch-rate")})
        except JolokiaError:
            return False
        values = [value for attributes in mbeans.values() for value in attributes.values()]
        return any(isinstance(value, float) and value > 0 for value in values)

    def dump(self) -> None:
        """A thread dump."""
        at = datetime.now(UTC)
        if self.agent is None:
            spy = [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(self.running.pid)]
            text = f"{at:%Y-%m-%d %H:%M:%S}\n" + subprocess.run(spy, capture_output=True, text=True, check=True).stdout
        else:
            try:
                text = self.agent.thread_dump()
            except JolokiaError as error:
                self.running.note(f"no dump: {error}")
                return
        self.dumps.append((f"jstack-{at:%H%M%S}.txt", text))

    def write(self, folder: Path, case: str, fault: str, seconds: float, reports: Iterable[str]) -> None:
        """The recording."""
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"metrics.jsonl": self.lines, "reports.jsonl": list(reports)}
        for file, mark in self.marks.items():
            if file.exists():
                parts[file.name] = file.read_bytes()[mark:].decode(errors="replace").splitlines()
        for name, lines in parts.items():
            if lines:
                with gzip.GzipFile(folder / f"{name}.gz", "wb", mtime=0) as packed:
                    packed.write(_scrubbed("\n".join((*lines, ""))).encode())
        for name, dumped in self.dumps:
            with gzip.GzipFile(folder / f"{name}.gz", "wb", mtime=0) as packed:
                packed.write(_scrubbed(dumped).encode())
        truth = {
            "case": case,
            "client": self.client.name,
            "kind": "failure" if self.client.hangs else "control",
            "expected_mode": "consumer-stalled" if self.client.hangs else None,
            "onset_ms": self.running.onset_ms,
            "ended_by_itself": not self.running.alive,
            "versions": self.client.jars,
            "notes": f"{fault} of its broker for {seconds:.0f} s",
            "client_options": " ".join(f"{name}={value}" for name, value in self.client.options.items()),
            "final_counters": self.running.counters,
            "timeline": sorted(self.running.timeline),
        }
        (folder / "truth.json").write_text(_scrubbed(json.dumps(truth, indent=1)) + "\n", encoding="utf-8")


class Lab:
    """The broker behind its gateway, a second broker for what Python clients report, and the clients."""

    def __init__(self, folder: Path, clients: Sequence[LabClient]) -> None:
        self.folder, self._open = folder, ExitStack()
        jars.SETS.update(JARS)
        port, gate = free_port(), free_port()
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{gate}", "auto.create.topics.enable": "true"}
        gateway = Gateway(gate, port).open()
        self._open.callback(gateway.close)
        broker = self._open.enter_context(Broker(folder / "broker", advertised, port=port, heap_mb=384))
        self.world, self.servers = World(broker, gateway), f"127.0.0.1:{gate}"
        self.monitor: Settings | None = None
        if any(client.jars == "kafka-python" for client in clients):
            reports = self._open.enter_context(Broker(folder / "reports", heap_mb=192))
            self.monitor = Settings(kafka=reports.kafka)
            create_ours(self.monitor)
        self.subjects = [self._start(client) for client in clients]
        self._wait()

    def _start(self, client: LabClient) -> Subject:
        folder = self.folder / client.name / str(_now_ms())
        folder.mkdir(parents=True)
        topic = self._topic(client)
        shared = {"bootstrap.servers": self.servers}
        options: dict[str, str] = {"topic": topic, "rate": "5", **client.options}
        if client.program == "python":
            reports = self.monitor.kafka.bootstrap_servers if self.monitor else ""
            options |= {"servers": self.servers, "reports.to": reports, "service": client.name, "c.group.id": topic}
            options |= {"p.client.id": f"{client.name}-out", "c.client.id": f"{client.name}-in"}
            given = [f"{name}={value}" for name, value in options.items()]
            command = [sys.executable, str(HERE / "python" / "service.py"), client.jars, *given]
            return Subject(client, folder, Running(command, folder, client.name, [], folder / "app.log"), None)
        port = free_port()
        (agent,) = jars.classpath("jolokia")
        ids = {"p.client.id": f"{client.name}-out", "c.client.id": f"{client.name}-in", "c.group.id": topic}
        options |= ids | {f"p.{name}": value for name, value in shared.items()}
        options |= {f"c.{name}": value for name, value in shared.items()}
        if client.program == "Topology":
            options |= {f"s.{name}": value for name, value in shared.items()}
            options |= {"s.application.id": topic, "s.state.dir": str(folder / "state")}
            options = {name: value for name, value in options.items() if not name.startswith("c.")}
        if client.program == "connect":
            program = [*_connect(folder, self.servers, topic)]
        else:
            program = [str(HERE / "java" / f"{client.program}.java")]
        command = [
            java(),
            *JVM,
            f"-javaagent:{agent}=port={port},host=127.0.0.1,discoveryEnabled=false",
            f"-Dlog4j.configuration={(PROGRAMS / 'log4j.properties').as_uri()}",
            "-Dlog.file=app.log",
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-cp", os.pathsep.join(map(str, jars.classpath(client.jars)))),
            *program,
        ]
        running = Running(command, folder, client.name, [], folder / "app.log")
        return Subject(client, folder, running, Jolokia(f"http://127.0.0.1:{port}/jolokia/", timeout=20.0))

    def _topic(self, client: LabClient) -> str:
        topic = client.name.replace(".", "-")
        for name in (topic, f"{topic}-out"):
            self.world.broker.create_topic(name)
        return topic

    def _wait(self) -> None:
        """Until all work."""
        deadline = time.monotonic() + START_SECONDS
        waiting = list(self.subjects)
        while waiting := [subject for subject in waiting if not subject.ready]:
            if time.monotonic() > deadline or not all(subject.running.alive for subject in waiting):
                names = ", ".join(f"{subject.client.name} ({subject.folder})" for subject in waiting)
                raise SystemExit(f"does not work: {names}\n{waiting[0].running.output.read_text()[-3000:]}")
            time.sleep(1.0)

    def run(self, out: Path, fault: str, seconds: float, first: bool) -> None:
        """One fault, recorded of all clients."""
        for number, subject in enumerate(self.subjects):
            if subject.client.hangs and not first:
                subject.running.stop()
                self.subjects[number] = self._start(subject.client)
        self._wait()
        for subject in self.subjects:
            subject.begin(first or subject.client.hangs)
        stop, began = threading.Event(), time.monotonic()
        readers = [threading.Thread(target=_follow, args=(subject, stop), daemon=True) for subject in self.subjects]
        for reader in readers:
            reader.start()
        self._dump()
        _sleep_until(began + BEFORE_SECONDS - HANGS_BEFORE_SECONDS)
        for subject in self.subjects:
            if subject.client.hangs:
                (subject.folder / "hang").touch()
                subject.running.begins("handler does not return")
        _sleep_until(began + BEFORE_SECONDS)
        self._note(f"FAULT BEGIN {fault}")
        FAULTS[fault].begin(self.world)
        for after in (at for at in DUMPS if at < seconds):
            _sleep_until(began + BEFORE_SECONDS + after)
            self._dump()
        _sleep_until(began + BEFORE_SECONDS + seconds)
        FAULTS[fault].end(self.world)
        self._note("FAULT END")
        ended = time.monotonic()
        for after in DUMPS_AFTER:
            _sleep_until(ended + after)
            self._dump()
        _sleep_until(ended + AFTER_SECONDS)
        stop.set()
        for reader in readers:
            reader.join()
        for subject in self.subjects:
            case = f"{subject.client.name}-{fault}-{seconds:.0f}"
            subject.write(out / case, case, fault, seconds, self._reports(subject))
            print(f"{case}: {dict(subject.running.counters)}", flush=True)

    def _dump(self) -> None:
        with ThreadPoolExecutor(4) as dumping:
            list(dumping.map(Subject.dump, [subject for subject in self.subjects if subject.running.alive]))

    def _note(self, what: str) -> None:
        for subject in self.subjects:
            subject.running.note(what)

    def _reports(self, subject: Subject) -> list[str]:
        if self.monitor is None or subject.client.jars != "kafka-python":
            return []
        records = newest(self.monitor, self.monitor.topics.metrics[0], 10_000).records
        values = [bytes(record.value or b"").decode() for record in records if (record.ts_ms or 0) >= subject.began_ms]
        return [value for value in values if json.loads(value)["client"]["service"] == subject.client.name]

    def close(self) -> None:
        """End all of it."""
        for subject in self.subjects:
            subject.running.stop()
        self._open.close()


def _connect(folder: Path, servers: str, topic: str) -> list[str]:
    """A standalone worker with a sink and the source that feeds it."""
    converters = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")
    worker = {
        "bootstrap.servers": servers,
        "offset.storage.file.filename": "offsets",
        "offset.flush.interval.ms": "2000",
        "listeners": f"http://127.0.0.1:{free_port()}",
        **converters,
    }
    sink = {"name": "sink", "connector.class": "FileStreamSink", "topics": topic, "file": "sink.txt"}
    for name, properties in (("worker", worker), ("sink", sink)):
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (folder / f"{name}.properties").write_text(text, encoding="utf-8")
    return ["org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties", "sink.properties"]


def _follow(subject: Subject, stop: threading.Event) -> None:
    while not stop.wait(READ_SECONDS):
        subject.read()


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _scrubbed(text: str) -> str:
    return _HOST.sub("host-1", text).replace(str(HERE), "clients")


def main() -> None:
    """Record, fault after fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("faults", nargs="+", metavar="FAULT:SECONDS", help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--clients", default=",".join(CLIENTS), help="all by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), [CLIENTS[name] for name in arguments.clients.split(",")])
        try:
            for number, planned in enumerate(arguments.faults):
                fault, _, seconds = planned.partition(":")
                lab.run(arguments.out, fault, float(seconds), number == 0)
        finally:
            lab.close()


if __name__ == "__main__":
    main()
