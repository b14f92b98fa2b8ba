"""How long does one reading of 2,000 groups × 6 partitions take on the embedded broker?

Also: making their snapshots, publishing them, and judging a window of such readings. Run as `make bench`, or
`python -m tests.bench.bench_groups`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata

from clienthealth.settings import GroupSettings, KafkaSettings, Settings
from clienthealth_exporters.groups.exporter import GroupExporter, Snapshots, connection
from clienthealth_exporters.groups.reader import GroupReader
from deploy.demo.broker import Broker

GROUPS, PARTITIONS, TARGET_SECONDS = 2000, 6, 0.5
TOPIC = "orders"


def fill(servers: str) -> None:
    """Groups that have committed something on every partition of a topic."""
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(1000 * PARTITIONS):
        producer.send(TOPIC, b"order", partition=number % PARTITIONS)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=servers)
    offsets = {TopicPartition(TOPIC, n): OffsetAndMetadata(500, "", -1) for n in range(PARTITIONS)}

    def commit(number: int) -> None:
        admin.alter_group_offsets(f"group-{number:04}", offsets)

    # The first commit makes the broker create the topic of its coordinator, and fails until that is there.
    deadline = time.monotonic() + 30
    while True:
        try:
            commit(0)
            break
        except CoordinatorNotAvailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(commit, range(1, GROUPS)))
    admin.close()


def median_seconds(work: Callable[[], object], times: int = 7) -> float:
    """The median of some runs after one that does not count."""
    work()
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> int:
    """Print the figures; 1 if a reading takes longer than the target."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        broker.create_topic("client-metrics")
        fill(broker.bootstrap_servers)
        settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
            groups=GroupSettings(include="group-.*"),
        )
        reader = GroupReader(connection(settings), settings.groups)
        first = time.perf_counter()
        reading = reader.read()
        first = time.perf_counter() - first
        found = sum(len(group.offsets) for group in reading.groups)
        seconds = median_seconds(reader.read)
        snapshots = Snapshots(settings)
        made = median_seconds(lambda: list(snapshots.of(reading)))
        reader.close()
        exporter = GroupExporter(settings)
        cycle = median_seconds(exporter.cycle, 5)
        exporter.close()
    sys.stdout.write(
        f"groups: one reading of {len(reading.groups)} groups, {found} partitions: median {seconds:.3f} s "
        f"(target {TARGET_SECONDS} s, the first with connecting {first:.2f} s)\n"
        f"groups: their snapshots {made:.3f} s; reading, snapshots and handing over to Kafka {cycle:.3f} s\n"
    )
    return int(seconds > TARGET_SECONDS or found != GROUPS * PARTITIONS)


if __name__ == "__main__":
    sys.exit(main())
