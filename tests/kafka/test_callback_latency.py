"""Compare the callback latency that the monitor derives from metrics with the latency that the callback measures."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition

from clienthealth.diagnose.diagnosis import bucket_of, pack
from clienthealth.measure.client import client_indicators
from clienthealth.measure.packer import Packer
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.platform.kafka import producer
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import JvmSettings, Settings, TopicSettings
from clienthealth_exporters.jvm.exporter import Exporter, Target, Targets
from clienthealth_exporters.publish import Publisher
from deploy.demo.broker import Broker
from deploy.demo.clients import CLIENTS
from deploy.demo.running import Running
from tests.support.demo_world import World
from tests.support.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.early]

TOPIC = "callback-latency-metrics"
SECONDS = 40.0


def settled(running: Running) -> dict[str, int]:
    """Return the counters after the first 20 records, which are slow."""
    deadline = time.monotonic() + WAIT_SECONDS
    while running.counters.get("acknowledged", 0) < 20:
        assert running.alive and time.monotonic() < deadline, running.output.read_text()
        running.wait(0.2)
    return running.counters


def test_derived_is_measured_within_a_fifth(broker: Broker, tmp_path: Path) -> None:
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
        exporter.join(WAIT_SECONDS)
    finally:
        running.stop()
        publisher.close()
    records = after["acknowledged"] - before["acknowledged"]
    measured = (after["callback_ms"] - before["callback_ms"]) / records / 1000
    assert measured > 0.024

    latencies = measurements(broker, settings)
    assert latencies["callback_seconds"]["source"] == "derived"
    assert latencies["callback_seconds"]["avg"] == pytest.approx(measured, rel=0.2)
    assert latencies["io_thread_busy_ratio"] == pytest.approx(records / SECONDS * measured, abs=0.1)


def measurements(broker: Broker, settings: Settings) -> dict[str, Any]:
    packer, now_ms = Packer(1), int(time.time() * 1000)
    for record in broker_records(broker):
        source = Source(TOPIC, record.partition, record.offset)
        headers = dict(record.headers)
        raw = RawRecord(record.value, source, record.timestamp, record.key, headers)
        pack(decode_metrics(raw, settings, now_ms), source, packer)
    bucket = bucket_of(packer.chunks().values(), settings)
    rows = len(bucket.readings)
    assert len(bucket.state.all_clients) == 1
    assert rows >= 10
    window = bucket.windows("producer", np.array([0]), np.array([0]), np.array([rows]))
    (indicators,) = client_indicators(window, settings.lag)
    return indicators


def broker_records(broker: Broker) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    partitions = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC) or ()]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    records: list[Any] = []
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        records += [record for batch in consumer.poll(1000).values() for record in batch]
    consumer.close()
    return records
