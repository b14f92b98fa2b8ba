"""Measure the cost of reading a cluster's consumer groups and publishing their committed offsets."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from clienthealth.settings import GroupSettings, KafkaSettings, Settings
from clienthealth_exporters.groups.exporter import GroupExporter, clusters
from deploy.demo.broker import Broker
from deploy.demo.topics import create_topics

GROUPS, PARTITIONS, TOPICS = 2000, 6, 50
TARGET_MICROSECONDS = 40.0
TOPIC = "orders-00"
TOGETHER = 200


def name(group: int) -> str:
    return f"group-{group:05}"


def fill(servers: str, groups: int = GROUPS, partitions: int = PARTITIONS, topics: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    names = [f"orders-{number:02}" for number in range(topics)]
    create_topics(KafkaSettings(bootstrap_servers=servers), names, partitions)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(1000 * partitions):
        for topic in names:
            producer.produce(topic, b"order", partition=number % partitions)
        producer.poll(0)
    producer.flush()
    # The first offset commit fails until the broker has created the topic __consumer_offsets.
    deadline = time.monotonic() + 30
    while True:
        try:
            commit(admin, range(1), names, partitions, 500)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    for start in range(0, groups, TOGETHER):
        commit(admin, range(start, min(groups, start + TOGETHER)), names, partitions, 500)


def commit(admin: AdminClient, groups: Sequence[int], topics: Sequence[str], partitions: int, offset: int) -> None:
    asked = [
        admin.alter_consumer_group_offsets(
            [
                ConsumerGroupTopicPartitions(
                    name(group), [Place(topics[group % len(topics)], n, offset) for n in range(partitions)]
                )
            ]
        )
        for group in groups
    ]
    for answers in asked:
        for answer in answers.values():
            answer.result(60)


def median_cost(work: Callable[[], object], times: int = 5) -> tuple[float, float]:
    work()
    costs = []
    for _ in range(times):
        began, busy = time.perf_counter(), time.process_time()
        work()
        costs.append((time.perf_counter() - began, time.process_time() - busy))
    return statistics.median(c[0] for c in costs), statistics.median(c[1] for c in costs)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(groups: int, partitions: int) -> int:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        broker.create_topic("client-metrics")
        began = time.monotonic()
        fill(broker.bootstrap_servers, groups, partitions, TOPICS)
        print(
            f"groups: {groups:,} groups × {partitions} partitions made in {time.monotonic() - began:.0f} s", flush=True
        )
        settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
            groups=GroupSettings(include="group-.*"),
        )
        (cluster,) = clusters(settings)
        reader = cluster.reader()
        reading = reader.read()
        count = sum(len(group.offsets) for group in reading.groups)
        read, read_busy = median_cost(reader.read)
        snapshots = cluster.snapshots()
        made, _ = median_cost(lambda: list(snapshots.from_reading(reading)))
        reader.close()
        exporter = GroupExporter(settings, cluster)
        cycle, busy = median_cost(exporter.cycle)
        memory = resident_mb()
        exporter.close()
    each = busy / count * 1e6
    print(f"groups: one reading {read:.2f} s ({read_busy:.2f} s of CPU), snapshots {made:.2f} s")
    print(f"groups: all of it, with handing over to Kafka, {cycle:.2f} s ({busy:.2f} s of CPU), {memory:.0f} MB")
    print(f"groups: {each:.0f} µs of CPU for a partition (target {TARGET_MICROSECONDS:.0f})")
    return int(each > TARGET_MICROSECONDS or count != groups * partitions)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*(given + [GROUPS, PARTITIONS][len(given) :])))
