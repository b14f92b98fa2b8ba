"""Record a running demo client into a folder that `kafka-health diagnose` can read.

python -m deploy.demo.record CLIENT FOLDER [--seconds N] [--classpath JARS] [--set OPTION=VALUE]… [--pushes S]

After the run, FOLDER contains `metrics.jsonl.gz` (a line per client and second), `app.log.gz`, `jstack-*.txt` and
`truth.json`. With `--pushes`, the clients push their metrics every S seconds, and FOLDER also contains
`pushes-CLIENT_ID.jsonl.gz`: a line per push with `ts`, `headers` and `value` (base 64). The files have `host-1` instead
of the host's name, and `clients` instead of the path of the programs' folder.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from clienthealth.ops.doctor.records import newest
from clienthealth.read.mbeans import MBeans, object_name
from clienthealth.settings import KafkaSettings, Settings
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS, DemoClient
from deploy.demo.clients import CLIENTS
from deploy.demo.cluster import Cluster
from deploy.demo.legacy import LegacyBroker
from deploy.demo.running import Running
from deploy.demo.topics import ask_for_pushes, create_ours

#: Times (s) of thread dumps. DUMPS_AFTER_ONSET counts from the onset of the client's failure. DUMPS_BEFORE and
#: DUMPS_WITHOUT_ONSET count from the client's start.
DUMPS_BEFORE = (15.0,)
DUMPS_AFTER_ONSET = (4.0, 12.0, 25.0, 40.0, 70.0)
DUMPS_WITHOUT_ONSET = (30.0, 45.0, 60.0, 90.0)
WHOLE = ("kafka.producer:*", "kafka.consumer:*", "kafka.server:type=FetcherLagMetrics,*", "kafka.common:type=AppInfo,*")
MOST_PUSHES = 10_000
MAX_LOG_LINES = 20_000

_HOST = re.compile(rf"(?<![A-Za-z0-9.]){re.escape(socket.gethostname())}(?![A-Za-z0-9.])")


@dataclass
class Recording:
    client: DemoClient
    running: Running
    folder: Path
    agent: Jolokia
    dumps: int = 0

    def read(self, lines: Any) -> None:
        begin = time.perf_counter()
        try:
            mbeans = self.agent.read(dict.fromkeys(WHOLE, ()))
        except JolokiaError as error:
            self.running.note(f"no metrics: {error}")
            return
        read_us = int((time.perf_counter() - begin) * 1e6)
        ts = int(time.time() * 1000)
        for client_id, metrics in by_client(mbeans).items():
            line = {"ts": ts, "client_id": client_id, "read_us": read_us, "metrics": metrics}
            lines.write((json.dumps(line, separators=(",", ":"), sort_keys=True) + "\n").encode())

    def dump(self, label: str) -> None:
        """Write a thread dump to a file named by `label` and the time."""
        at = datetime.now(UTC)
        self.dumps += 1
        try:
            text = self.agent.thread_dump()
        except JolokiaError as error:
            text = f"{error}\n"
        (self.folder / f"jstack-{label}-{at:%H%M%S}.txt").write_text(_scrubbed(text), encoding="utf-8")
        self.running.note(f"thread dump {label}")


def record(
    client: DemoClient, context: Surroundings, folder: Path, seconds: float, linger: float = 10.0
) -> dict[str, Any]:
    """Record a client for `seconds`, and return the content of truth.json.

    If the client ends earlier by itself, the recording goes on for `linger` seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running = client.start(context)
    url = running.jolokia_urls[0].partition("=")[2].split()[0]
    recording = Recording(client, running, folder, Jolokia(url, timeout=5.0))
    try:
        with gzip.GzipFile(folder / "metrics.jsonl.gz", "wb", mtime=0) as lines:
            _follow(recording, lines, seconds)
        if not running.alive:
            time.sleep(linger)
    finally:
        ended_by_itself = not running.alive
        running.stop()
    _copy_log(running.log_file, folder / "app.log.gz")
    for client_id, lines_of_client in context.pushes(running).items():
        with gzip.GzipFile(folder / f"pushes-{client_id}.jsonl.gz", "wb", mtime=0) as pushes:
            pushes.write("".join(f"{json.dumps(line)}\n" for line in lines_of_client).encode())
    truth = _truth(recording, ended_by_itself)
    (folder / "truth.json").write_text(_scrubbed(json.dumps(truth, indent=1)) + "\n", encoding="utf-8")
    return truth


def by_client(mbeans: MBeans) -> dict[str, dict[str, Any]]:
    """Return the values of all MBean attributes, by client id and key.

    The key is `group/name{tag=value,…}` for a metric of a Java client's `metrics()`, else `domain:k=v,…/Attribute`.
    """
    of_clients: dict[str, dict[str, Any]] = {}
    shared: dict[str, Any] = {}
    for name, attributes in mbeans.items():
        domain, properties = object_name(name)
        client_id = properties.get("client-id")
        if client_id is not None:
            group = properties["type"]
            tags = ",".join(f"{key}={value}" for key, value in sorted(properties.items()) if key != "type")
            keys = {attribute: f"{group}/{attribute}{{{tags}}}" for attribute in attributes}
        else:
            client_id = properties.get("clientId", properties.get("id"))
            tags = ",".join(f"{key}={value}" for key, value in sorted(properties.items()))
            keys = {attribute: f"{domain}:{tags}/{attribute}" for attribute in attributes}
        into = shared if client_id is None else of_clients.setdefault(client_id, {})
        into.update({keys[attribute]: value for attribute, value in attributes.items()})
    return {client_id: {**shared, **metrics} for client_id, metrics in of_clients.items()}


def _follow(recording: Recording, lines: Any, seconds: float) -> None:
    running = recording.running
    begin = time.monotonic()
    planned = list(_labels("before", DUMPS_BEFORE))
    without_onset = list(_labels("during", DUMPS_WITHOUT_ONSET))
    after_onset = list(_labels("during", DUMPS_AFTER_ONSET))
    while (elapsed := time.monotonic() - begin) < seconds and running.alive:
        recording.read(lines)
        since_onset = None if running.onset_ms is None else time.time() - running.onset_ms / 1000
        due = [planned] if since_onset is None else [after_onset]
        if recording.client.mode is None:
            due = [planned, without_onset]
        for plan in due:
            clock = since_onset if plan is after_onset and since_onset is not None else elapsed
            if plan and clock >= plan[0][1]:
                recording.dump(plan.pop(0)[0])
        time.sleep(max(0.0, 1.0 - (time.monotonic() - begin - elapsed)))


def _labels(word: str, seconds: Sequence[float]) -> Iterator[tuple[str, float]]:
    for number, at in enumerate(seconds, 1):
        yield (f"{word}{number}", at)


def _copy_log(source: Path, target: Path) -> None:
    parts = [part for part in (source.with_name(f"{source.name}.1"), source) if part.exists()]
    with gzip.GzipFile(target, "wb", mtime=0) as copy:
        left = MAX_LOG_LINES
        for part in parts:
            with part.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if left <= 0:
                        return
                    left -= 1
                    copy.write(_scrubbed(line).encode())


def _truth(recording: Recording, ended_by_itself: bool) -> dict[str, Any]:
    client, running = recording.client, recording.running
    onset = running.onset_ms
    return {
        "case": recording.folder.name,
        "client": client.name,
        "kind": "failure" if client.mode else "control",
        "expected_mode": client.mode,
        "onset_ms": onset,
        "ended_by_itself": ended_by_itself,
        "versions": client.classpath,
        "notes": client.help,
        "client_options": " ".join(f"-D{name}={value}" for name, value in client.options.items()),
        "final_counters": running.counters,
        "timeline": sorted(running.timeline),
    }


def _scrubbed(text: str) -> str:
    return _HOST.sub("host-1", text).replace(str(PROGRAMS), "clients")


class Surroundings:
    """The brokers that clients need: started on demand, stopped after the `with` block.

    `push_seconds`: the interval at which clients push their metrics, None for no pushes.
    """

    def __init__(self, folder: Path, push_seconds: float | None = None) -> None:
        self.run_folder = folder
        self._push_seconds = push_seconds
        self._open = ExitStack()
        self._brokers = 0
        self._asking: list[Settings] = []

    @cached_property
    def bootstrap_servers(self) -> str:
        return self.new_broker().bootstrap_servers

    def new_broker(self) -> Broker:
        self._brokers += 1
        folder = self.run_folder / f"broker-{self._brokers}"
        telemetry_to = None if self._push_seconds is None else ""
        broker = self._open.enter_context(Broker(folder, heap_mb=256, telemetry_to=telemetry_to))
        self._asked(broker.kafka)
        return broker

    def _asked(self, kafka: KafkaSettings) -> None:
        if self._push_seconds is not None:
            settings = Settings(kafka=kafka)
            create_ours(settings)
            ask_for_pushes(kafka, self._push_seconds)
            self._asking.append(settings)

    def pushes(self, running: Running) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the pushes of a process's clients, as a map from each client id to its pushes."""
        by_client: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for settings in self._asking:
            for push in newest(settings, settings.topics.metrics[0], MOST_PUSHES).records:
                headers = {name: bytes(value).decode() for name, value in push.headers.items()}
                if running.is_instance(f":{headers['client_instance_id']}"):
                    value = base64.b64encode(push.value or b"").decode()
                    by_client[headers["client_id"]].append({"ts": push.ts_ms, "headers": headers, "value": value})
        return by_client

    def legacy(self) -> LegacyBroker:
        return self._open.enter_context(LegacyBroker(self.run_folder / "legacy"))

    def cluster(self) -> Cluster:
        telemetry_to = None if self._push_seconds is None else ""
        cluster = self._open.enter_context(Cluster(self.run_folder / "cluster", telemetry_to))
        self._asked(cluster.kafka)
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Records a demo client while it runs.")
    parser.add_argument("client", choices=sorted(name for name, client in CLIENTS.items() if not client.python))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--classpath", help="name of another set of jars, such as clients-4.1")
    parser.add_argument("--pushes", type=float, metavar="SECONDS", help="interval of the clients' pushes")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the program")
    args = parser.parse_args()
    client = CLIENTS[args.client]
    changed = dict(option.split("=", 1) for option in args.set)
    client = replace(client, classpath=args.classpath or client.classpath, options={**client.options, **changed})
    with tempfile.TemporaryDirectory() as folder, Surroundings(Path(folder), args.pushes) as surroundings:
        print(json.dumps(record(client, surroundings, args.folder, args.seconds), indent=1))


if __name__ == "__main__":
    main()
