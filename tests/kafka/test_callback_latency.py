"""Callback latency of a real Java producer: derived from its I/O thread against what its callback measures itself."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth import pipeline
from clienthealth.settings import JvmSettings, Settings, TopicSettings
from clienthealth.sources.kafka import connection
from clienthealth_exporters.jvm import Exporter, Target, Targets
from clienthealth_exporters.kafka import producer
from clienthealth_exporters.publish import Publisher
from deploy.demo.broker import Broker
from deploy.demo.clients import CLIENTS
from deploy.demo.running import Running
from tests.demo_world import World

TOPIC = "callback-latency-metrics"
#: Long enough for one window of 60 s, of which one begins every 30 s, to hold half a minute.
SECONDS = 40.0


def settled(running: Running) -> dict[str, int]:
    """The client's own counters once its first second (class loading, metadata) is over."""
    deadline = time.monotonic() + 60
    while running.counters.get("acknowledged", 0) < 20:
        assert running.alive and time.monotonic() < deadline, running.output.read_text()
        running.wait(0.2)
    return running.counters


def test_derived_is_measured_within_a_fifth(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    broker.create_topic(TOPIC)
    settings = Settings(
        kafka=broker.kafka, topics=TopicSettings(metrics=(TOPIC,)), jvm=JvmSettings(interval_seconds=2.0)
    )
    client = replace(
        CLIENTS["slow-callback"],
        service="timed",
        options={"topic": "invoices", "rate": "20", "seconds": "0", "callback": "sleep", "callback.ms": "25"},
    )
    running = client.start(World(tmp_path, broker.bootstrap_servers))
    stop = threading.Event()
    publisher = Publisher(producer(settings))
    try:
        before = settled(running)
        targets = Targets([Target.parse(url) for url in running.jolokia_urls])
        exporter = threading.Thread(target=Exporter(settings, targets, publisher).run, args=(stop,))
        exporter.start()
        running.wait(SECONDS)
        after = running.counters
        stop.set()
        exporter.join(30)
    finally:
        running.stop()
        publisher.close()
    records = after["acknowledged"] - before["acknowledged"]
    measured = (after["callback_ms"] - before["callback_ms"]) / records / 1000
    assert measured == pytest.approx(0.025, rel=0.2)

    raw = spark.read.format("kafka").options(**connection(settings)).option("subscribe", TOPIC)
    rows = raw.option("includeHeaders", "true").load()
    windows = pipeline.clients(pipeline.decoded(rows, rows.limit(0), settings), settings)
    fullest = windows.orderBy("samples", ascending=False).selectExpr("indicators.*", "samples").first()
    assert fullest is not None and fullest["samples"] >= 10
    assert fullest["callback_seconds"]["source"] == "derived"
    assert fullest["callback_seconds"]["avg"] == pytest.approx(measured, rel=0.2)
    # 20 callbacks of 25 ms a second.
    assert fullest["io_thread_busy_ratio"] == pytest.approx(20 * measured, abs=0.1)
