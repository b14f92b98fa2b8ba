"""Measure cost and delays of one `kafka-health export jvm` that reads 1,000 JVMs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from clienthealth.settings import Settings
from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.topics import create_ours
from tests.bench.fake_agents import MUTE
from tests.support.settings_file import write_settings

JVMS, SECONDS = 1000, 120
INTERVAL_SECONDS, TIMEOUT_SECONDS = 10.0, 5.0
DUMPS_PER_MINUTE = 60.0
DEAD = range(7, 10)
#: Maximum delay (s) of a read that the benchmark accepts. A read may be late, because two cores run all processes.
LATE_SECONDS = 2.0


def main(jvms: int, seconds: int) -> int:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        create_ours(Settings(kafka=broker.kafka))
        port, closed = free_port(), free_port()
        targets = Path(folder) / "targets"
        lines = [
            f"service-{n % 40:02}=http://127.0.0.1:{closed if n % 100 in DEAD else port}/{n}\n" for n in range(jvms)
        ]
        targets.write_text("".join(lines), "utf-8")
        jvm = {
            "interval_seconds": INTERVAL_SECONDS,
            "timeout_seconds": TIMEOUT_SECONDS,
            "dumps_per_minute": DUMPS_PER_MINUTE,
        }
        config = write_settings(Path(folder), {"kafka": {"bootstrap_servers": broker.bootstrap_servers}, "jvm": jvm})
        agents = Process("agents", [sys.executable, "-m", "tests.bench.fake_agents", str(port)], Path(folder) / "a.log")
        command = [sys.executable, "-m", "clienthealth.ops.cli", "export", "jvm", "--config", str(config)]
        exporter = Process("exporter", [*command, "--targets-file", str(targets)], Path(folder) / "exporter.log")
        try:
            time.sleep(2 * INTERVAL_SECONDS)
            busy, began = cpu_seconds(exporter.pid), time.time()
            time.sleep(seconds)
            busy, ended = cpu_seconds(exporter.pid) - busy, time.time()
            memory, threads = status(exporter.pid, "VmHWM") / 1024, status(exporter.pid, "Threads")
        finally:
            exporter.stop(30)
            agents.stop()
        readings: dict[str, set[float]] = defaultdict(set)
        for record in records(broker.bootstrap_servers, "client-metrics"):
            if began <= record["ts"] / 1000 <= ended:
                readings[record["client"]["instance"]].add(record["ts"] / 1000)
        dumps = sum(1 for _ in records(broker.bootstrap_servers, "client-logs"))
    answering = sum(1 for n in range(jvms) if n % 100 not in MUTE and n % 100 not in DEAD)
    gaps = sorted(later - earlier for times in readings.values() for earlier, later in pairwise(sorted(times)))
    p99, longest = gaps[len(gaps) * 99 // 100], gaps[-1]
    allowed = DUMPS_PER_MINUTE * (1 + (seconds + 2 * INTERVAL_SECONDS) / 60)
    print(f"jvm: {jvms} JVMs, {answering} of them answer; {len(readings)} read every {gaps[len(gaps) // 2]:.1f} s,")
    print(f"jvm: 99 % of the gaps up to {p99:.1f} s, the longest {longest:.1f} s (interval {INTERVAL_SECONDS:.0f} s)")
    print(f"jvm: {busy / (ended - began):.2f} cores, {memory:.0f} MB at most, {threads:.0f} threads; {dumps} dumps")
    late = p99 > INTERVAL_SECONDS + LATE_SECONDS
    return int(late or len(readings) != answering or not 0 < dumps <= allowed)


def records(servers: str, topic: str) -> Iterator[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
    read = 0
    while read < end:
        for message in consumer.consume(1000, 1.0):
            read += 1
            yield json.loads(message.value() or b"null")
    consumer.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return float(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*(given + [JVMS, SECONDS][len(given) :])))
