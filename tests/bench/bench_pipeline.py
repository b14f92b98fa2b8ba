"""Snapshots per second: raw read, decode, and the whole pipeline, in one run on the same data.

Canonical snapshots of 1.5 kB and 40 metrics, 5,000 clients, 10 s apart; each stage is a streaming query that works
off the same topic once (`availableNow`), in batches as large as the monitor's largest, alternating, so that the ratios
mean something where the seconds do not. In the first pass the JVM compiles; it is shown and left out of the medians.
Run as `make bench`, or `python -m tests.bench.bench_pipeline [records]`.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from clienthealth import pipeline
from clienthealth.batches import Book, ClientsBatch
from clienthealth.decode import accepted
from clienthealth.incidents import Incidents
from clienthealth.records import CLIENT_METRICS
from clienthealth.selfmetrics import SelfMetrics
from clienthealth.settings import KafkaSettings, MonitorSettings, Settings
from clienthealth.sinks import history
from clienthealth.sources.kafka import stream
from clienthealth.spark import session
from deploy.demo.broker import Broker

CLIENTS = 5_000
INTERVAL_MS = 10_000
PASSES = 4
RECORDS = 400_000


def snapshot(client: int, reading: int, start_ms: int) -> dict[str, object]:
    """A healthy producer's reading: totals that grow, a buffer nearly empty."""
    names = list(CLIENT_METRICS["producer"])
    metrics: dict[str, float] = {name: round(random.Random(client).random() * 100, 3) for name in names}
    metrics |= {f"other-metric-{n}-avg": 1.25 for n in range(40 - len(names))}
    metrics |= {
        "select-total": 1000.0 + 137 * reading,
        "io-time-ns-total": 2.0e8 * reading,
        "io-wait-time-ns-total": 9.7e9 * reading,
        "buffer-total-bytes": 33554432.0,
        "buffer-available-bytes": 33554432.0,
        "waiting-threads": 0.0,
        "record-send-total": 3000.0 * reading,
        "metadata-age": 12.0,
    }
    return {
        "ts": start_ms + reading * INTERVAL_MS,
        "client": {
            "service": f"service-{client % 200}",
            "host": f"host-{client}",
            "instance": f"host-{client}:4711",
            "client_id": "order-producer",
            "kind": "producer",
            "library": "java",
            "version": "3.9.1",
            "group": None,
        },
        "metrics": metrics,
        "topics": [],
        "config": {"buffer.memory": "33554432", "request.timeout.ms": "30000"},
    }


def fill(servers: str, topic: str, records: int) -> int:
    """Publish `records` snapshots; the mean size in bytes is returned."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 200_000})
    start_ms = int(time.time() * 1000) - records // CLIENTS * INTERVAL_MS
    size = 0
    for number in range(records):
        value = json.dumps(snapshot(number % CLIENTS, number // CLIENTS, start_ms)).encode()
        size += len(value)
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return size // records


def seconds(name: str, rows: DataFrame, mode: str, batch: Callable[[DataFrame, int], None] | None) -> float:
    """How long the query takes to work off the topic."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).trigger(availableNow=True)
        started = time.monotonic()
        query = writer.foreachBatch(batch).start() if batch else writer.format("noop").start()
        query.awaitTermination()
        return time.monotonic() - started


def run(records: int) -> None:
    """Fill a topic, measure all stages in turns, print the medians and their ratios."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers),
            monitor=MonitorSettings(
                history=f"{folder}/history",
                start_seconds_back=86_400,
                watermark_seconds=120,
            ),
        )
        for topic in (*settings.topics.metrics, *settings.topics.logs, settings.topics.health):
            broker.create_topic(topic, partitions=2)
        size = fill(broker.bootstrap_servers, settings.topics.metrics[0], records)
        spark = session("bench", settings)
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
        history.create(spark, settings.monitor.history)
        found: dict[str, list[float]] = {"raw read": [], "decode": [], "whole pipeline": []}
        for _ in range(PASSES):
            for stage, durations in found.items():
                durations.append(seconds(stage, *_stage(stage, spark, settings)))
                print(f"{stage:<15} {records / durations[-1]:>9,.0f} snapshots/s", flush=True)
        rate = {stage: records / statistics.median(durations[1:]) for stage, durations in found.items()}
        print(f"\n{records:,} snapshots of {size:,} bytes, {CLIENTS:,} clients, medians of {PASSES - 1} passes")
        for stage, value in rate.items():
            print(f"{stage:<15} {value:>9,.0f} snapshots/s")
        print(f"decode / raw    {rate['decode'] / rate['raw read']:.2f}   (target 0.55)")
        print(f"whole / decode  {rate['whole pipeline'] / rate['decode']:.2f}   (target 0.45)")


def _stage(
    stage: str, spark: SparkSession, settings: Settings
) -> tuple[DataFrame, str, Callable[[DataFrame, int], None] | None]:
    inputs = pipeline.topics(spark, settings)
    if stage == "raw read":
        return stream(spark, settings, settings.topics.metrics).select("value"), "append", None
    if stage == "decode":
        return accepted(inputs.metrics), "append", None
    return (
        pipeline.clients(inputs, settings),
        "update",
        ClientsBatch(Book(settings, Incidents(), SelfMetrics())),
    )


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
