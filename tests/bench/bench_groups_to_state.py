"""Measure the time from an offset commit to the group's record on `client-health`."""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from prometheus_client.parser import text_string_to_metric_families

from clienthealth.settings import KafkaSettings, Settings
from clienthealth_exporters.groups.exporter import clusters
from clienthealth_exporters.groups.reader import Group, GroupsReading, Member, Offsets
from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.topics import create_ours
from tests.bench.bench_groups import GROUPS, PARTITIONS, TOPIC, fill, name
from tests.support.settings_file import write_settings

READINGS, COMMITS, PAUSE_SECONDS, TARGET_SECONDS = 90, 60, 1.5, 20.0
INTERVAL_MS = 10_000
START_SECONDS = 600.0


def history(settings: Settings, readings: int) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 50})
    snapshots = clusters(settings)[0].snapshots()
    now_ms = round(time.time() * 1000)
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    reader = Member("order-reader", "order-reader-0a8f6a52-51c4-4d59", "/10.0.0.17")
    owners = dict.fromkeys(partitions, reader)
    for step in range(readings):
        seen = Offsets(50 + 400 * step // readings, 100 + 800 * step // readings, 0)
        offsets = dict.fromkeys(partitions, seen)
        groups = [Group(name(n), "classic", "Stable", [reader], offsets, owners) for n in range(GROUPS)]
        reading = GroupsReading(
            now_ms - INTERVAL_MS * (readings - step), {group.name for group in groups}, groups, {}, {}, 0
        )
        for snapshot in snapshots.from_reading(reading):
            producer.produce(settings.topics.metrics[0], json.dumps(snapshot, separators=(",", ":")).encode())
            producer.poll(0)
        producer.flush()


class States(threading.Thread):
    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self._consumer = KafkaConsumer(settings.topics.health, bootstrap_servers=settings.kafka.bootstrap_servers)
        self._changed = threading.Condition()
        self._seen_ms: dict[str, int] = {}
        self._learned: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        for record in self._consumer:
            received = time.monotonic()
            state: dict[str, Any] = json.loads(record.value)
            committed = state["indicators"]["lag"][0]["committed_offset"]
            with self._changed:
                group = state["client"]["client_id"]
                self._seen_ms[group] = state["last_seen"]
                self._learned.setdefault((group, committed), received)
                self._changed.notify_all()

    def since(self, ts_ms: int) -> int:
        with self._changed:
            return sum(1 for seen_ms in self._seen_ms.values() if seen_ms >= ts_ms)

    def seen(self, group: str, committed: int, seconds: float) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: (group, committed) in self._learned, seconds):
                raise TimeoutError(f"offset {committed} of {group} is not in client-health after {seconds:.0f} s")
            return self._learned[group, committed]


def durations(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            sample.labels["query"]: sample.value
            for family in families
            if family.name == "kafka_client_health_batch_duration_seconds"
            for sample in family.samples
        }


def main(readings: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        settings = Settings(kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
        create_ours(settings)
        fill(broker.bootstrap_servers)
        port = free_port()
        sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": broker.bootstrap_servers},
            "monitor": {"checkpoint": f"{folder}/checkpoints", "history": f"{folder}/history", "metrics_port": port},
            # The groups have no members, so they count as idle. With 0, idle groups are read as often as others.
            "groups": {"include": "group-.*", "idle_interval_seconds": 0},
        }
        config = write_settings(Path(folder), sections)
        states = States(settings)
        states.start()
        history(settings, readings)
        began_ms, began = round(time.time() * 1000), time.monotonic()
        command = [sys.executable, "-m", "clienthealth.ops.cli"]
        monitor = Process("monitor", [*command, "monitor", "--config", str(config)], Path(folder) / "monitor.log")
        exporter = Process(
            "exporter", [*command, "export", "groups", "--config", str(config)], Path(folder) / "exporter.log"
        )
        try:
            monitor.wait_until(lambda: states.since(began_ms) == GROUPS, START_SECONDS)
            ready = time.monotonic() - began
            print(f"groups: {readings} readings of each worked off {ready:.0f} s after the start", flush=True)
            seconds, batches = commits(broker.bootstrap_servers, states, port)
        finally:
            exporter.stop()
            monitor.stop(60)
    print(
        f"groups: from a commit to its state in client-health: median {statistics.median(seconds):.1f} s, "
        f"95 % of {len(seconds)} within {sorted(seconds)[len(seconds) * 95 // 100 - 1]:.1f} s "
        f"(target {TARGET_SECONDS:.0f} s), longest {max(seconds):.1f} s"
    )
    for query in sorted(batches[0]):
        print(f"groups: batches of the query {query}: median {statistics.median(b[query] for b in batches):.1f} s")


def commits(servers: str, states: States, port: int) -> tuple[list[float], list[dict[str, float]]]:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    random_ = random.Random(1)
    began, batches = {}, []
    for number in range(COMMITS):
        group, offset = name(random_.randrange(GROUPS)), 600 + number
        time.sleep(2 * PAUSE_SECONDS * random_.random())
        admin.alter_group_offsets(group, {TopicPartition(TOPIC, 0): OffsetAndMetadata(offset, "", -1)})
        began[group, offset] = time.monotonic()
        batches.append(durations(port))
    admin.close()
    return [states.seen(*commit, 120) - moment for commit, moment in began.items()], batches


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else READINGS)
