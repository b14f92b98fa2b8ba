"""Run the monitor of an earlier release, and archive its files in tests/releases."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from deploy.demo.broker import Broker
from deploy.demo.processes import Process
from deploy.demo.stack import QUICK_START
from tests.chaos.published import History, Topic, newest, position
from tests.support.settings_file import write_settings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "releases"
METRICS, LOGS = "upgrade-metrics", "upgrade-logs"
HEALTH = "health.json"
#: Settings of `[monitor]` that a monitor must keep if it continues from a checkpoint.
FIXED = {"shuffle_partitions": 1, "buckets": 2}
MIB = float(1 << 20)
SECONDS, STEP, STUCK_FROM = 240, 10, 120
HOSTS = ("web-0", "web-1")
READ = (SECONDS // STEP * len(HOSTS), 3)
PORTIONS = 4
WAIT_SECONDS = 300.0


def reading(host: str, ts_ms: int, second: int, stuck: int = 0) -> bytes:
    """Return a producer's sample as JSON.

    `second`: time of the sample (s). `stuck`: time (s) for which the producer has hung.
    """
    alive = second - stuck
    metrics = {
        "select-total": 1000.0 + 50 * alive,
        "buffer-total-bytes": 32 * MIB,
        "buffer-available-bytes": max(0.0, 32 * MIB * (1 - stuck / 30)),
        "record-send-total": 20.0 * alive,
        "waiting-threads": 2.0 * (stuck > 30),
        "io-time-ns-total": alive * 1e7,
        "io-wait-time-ns-total": alive * 9e8,
        "requests-in-flight": 1.0,
        "metadata-age": float(second % 300),
        "connection-count": 2.0,
    }
    client = ClientProcess("upgraded", host, f"{host}:7").client("orders", "producer", "java", "3.9.1")
    return json.dumps(canonical.snapshot(client, ts_ms, metrics)).encode()


def unpacked(folder: Path) -> None:
    newest_release = max(FOLDER.glob("*.tar.xz"), key=lambda path: [*map(int, path.name.split(".")[:3])])
    with tarfile.open(newest_release) as archive:
        archive.extractall(folder, filter="data")


def make(commit: str, version: str) -> Path:
    with tempfile.TemporaryDirectory(prefix="kafka-health-release-") as temporary:
        folder = Path(temporary)
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder / "release", filter="data")
        with Broker(folder / "broker") as broker:
            _run(folder, broker)
        FOLDER.mkdir(exist_ok=True)
        return _packed(folder, FOLDER / f"{version}.tar.xz")


def _run(folder: Path, broker: Broker) -> None:
    for topic in (METRICS, LOGS, "upgrade-health", "upgrade-rejects"):
        broker.create_topic(topic, 1)
    sections: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap_servers": broker.bootstrap_servers},
        "topics": {"metrics": [METRICS], "logs": [LOGS], "health": "upgrade-health", "rejects": "upgrade-rejects"},
        "monitor": {
            "checkpoint": str(folder / "checkpoints"),
            "history": str(folder / "history"),
            "metrics_port": 0,
            "trigger_seconds": 1,
            **FIXED,
        },
    }
    config = write_settings(folder, sections)
    path = os.pathsep.join(str(folder / "release" / part) for part in ("jobs", "exporters"))
    command = [sys.executable, "-m", "clienthealth.ops.cli", "monitor", "--config", str(config)]
    environment = {**QUICK_START, "PYTHONPATH": path, "KAFKA_HEALTH_CACHE": str(ROOT / ".cache")}
    monitor = Process("release", command, folder / "monitor.log", environment=environment)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    history, begin_ms = History(folder / "history"), int(time.time() * 1000) // 60_000 * 60_000 - 1000 * SECONDS
    try:
        for number in range(READ[1]):
            producer.send(LOGS, f"[Producer clientId=orders] line {number}".encode(), timestamp_ms=begin_ms)
        for portion in range(PORTIONS):
            length = SECONDS // PORTIONS
            for second in range(portion * length, (portion + 1) * length, STEP):
                for host in HOSTS:
                    stuck = max(0, second - STUCK_FROM) if host == HOSTS[0] else 0
                    ts_ms = begin_ms + 1000 * second
                    producer.send(METRICS, reading(host, ts_ms, second, stuck), timestamp_ms=ts_ms)
            producer.flush()
            read = {METRICS: {0: (portion + 1) * READ[0] // PORTIONS}, LOGS: {0: READ[1]}}
            monitor.wait_until(partial(_has_read, folder, read), WAIT_SECONDS)
        monitor.wait_until(lambda: bool(history.verdicts.look()), WAIT_SECONDS)
        monitor.stop(60)
        health = Topic(broker.bootstrap_servers, "upgrade-health")
        (folder / HEALTH).write_text(json.dumps(newest(health.look())), encoding="utf-8")
        health.close()
    finally:
        monitor.kill()
        producer.close()


def _has_read(folder: Path, expected: Mapping[str, Mapping[int, int]]) -> bool:
    return position(folder / "checkpoints" / "monitor") == expected


def _packed(folder: Path, file: Path) -> Path:
    """Pack the folder without .crc files, times and owners, so that equal content gives equal bytes."""
    with tarfile.open(file, "w:xz") as archive:
        for place in ("checkpoints/monitor/**/*", "history/**/*", HEALTH):
            for path in sorted(folder.glob(place)):
                if path.is_file() and path.suffix != ".crc":
                    entry = archive.gettarinfo(path, str(path.relative_to(folder)))
                    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
                    with path.open("rb") as content:
                        archive.addfile(entry, content)
    return file


if __name__ == "__main__":
    make(*sys.argv[1:])
