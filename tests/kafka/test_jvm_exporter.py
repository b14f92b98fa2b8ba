"""Run `kafka-health export jvm` with real Java clients and a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clienthealth.platform.kafka import consumer, producer
from clienthealth.settings import JvmSettings, Settings, TopicSettings
from clienthealth_exporters.jvm.exporter import Exporter, Target, Targets
from clienthealth_exporters.publish import Publisher
from deploy.demo.broker import Broker
from deploy.demo.client import DemoClient
from deploy.demo.clients import CLIENTS
from deploy.demo.running import Running
from tests.support.demo_world import World
from tests.support.waiting import WAIT_SECONDS

METRICS, LOGS = "test-jvm-metrics", "test-jvm-logs"


@pytest.fixture
def settings(broker: Broker) -> Settings:
    for topic in (METRICS, LOGS):
        broker.create_topic(topic)
    return Settings(
        kafka=broker.kafka,
        topics=TopicSettings(metrics=(METRICS,), logs=(LOGS,)),
        jvm=JvmSettings(interval_seconds=1.0),
    )


@contextmanager
def started(client: DemoClient, broker: Broker, folder: Path) -> Iterator[Running]:
    running = client.start(World(folder, broker.bootstrap_servers))
    try:
        yield running
    finally:
        running.stop()


def records(settings: Settings, topic: str, service: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = consumer(settings, topic, auto_offset_reset="earliest", consumer_timeout_ms=round(1000 * WAIT_SECONDS))
    try:
        for record in reader:
            if record.key.decode().startswith(f"{service}|"):
                yield record.key.decode(), json.loads(record.value)
    finally:
        reader.close()


def test_a_producer_and_a_consumer_of_one_jvm(broker: Broker, settings: Settings, tmp_path: Path) -> None:
    with started(CLIENTS["healthy"], broker, tmp_path) as running:
        (target,) = running.jolokia_urls
        environment = {
            **os.environ,
            "KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "KAFKA_HEALTH_TOPICS_METRICS": METRICS,
            "KAFKA_HEALTH_TOPICS_LOGS": LOGS,
            "KAFKA_HEALTH_JVM_INTERVAL_SECONDS": "1",
        }
        command = [sys.executable, "-c", "from clienthealth.ops.cli import main; main()", "export", "jvm"]
        exporter = subprocess.Popen([*command, "--target", target], env=environment)
        try:
            by_client: dict[str, dict[str, Any]] = {}
            for key, snapshot in records(settings, METRICS, "order-api"):
                # A consumer's metrics of partitions appear after its metrics of topics.
                producing = snapshot["client"]["kind"] == "producer"
                whole = [topic for topic in snapshot["topics"] if producing or topic["partition"] is not None]
                if snapshot["metrics"].get("record-send-total", 1) and whole:
                    by_client[key.rpartition("|")[2]] = snapshot
                if len(by_client) == 2:
                    break
        finally:
            exporter.send_signal(signal.SIGTERM)
            code = exporter.wait(WAIT_SECONDS)
        assert code == 0
    api, billing = by_client["order-api"], by_client["order-billing"]
    assert (api["client"]["kind"], billing["client"]["kind"]) == ("producer", "consumer")
    assert billing["client"]["group"] == "billing"
    assert api["client"]["version"] == billing["client"]["version"]
    assert api["client"]["version"].startswith("4.1.")
    assert api["client"]["instance"] == f"{api['client']['host']}:{running.pid}"
    assert api["metrics"]["buffer-total-bytes"] == 33554432.0
    assert api["metrics"]["select-total"] > 0
    assert "orders" in [topic["topic"] for topic in api["topics"]]
    assert ("orders", 0) in [(topic["topic"], topic["partition"]) for topic in billing["topics"]]


def test_a_suspicious_jvm_is_asked_for_a_thread_dump(broker: Broker, settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, jvm=replace(settings.jvm, dump_min_seconds=5.0))
    stuck = replace(
        CLIENTS["slow-callback"], service="stuck", options={"rate": "50", "callback": "sleep", "callback.ms": "120000"}
    )
    stop = threading.Event()
    with started(stuck, broker, tmp_path) as running:
        publisher = Publisher(producer(settings))
        targets = Targets([Target.parse(url) for url in running.jolokia_urls])
        exporter = threading.Thread(target=Exporter(settings, targets, publisher).run, args=(stop,))
        exporter.start()
        try:
            # Clients that lack metadata during their start also cause dumps, so choose by the reason.
            key, record = next(
                (key, record)
                for key, record in records(settings, LOGS, "stuck")
                if "select-total stayed at" in record["labels"]["reason"]
            )
        finally:
            stop.set()
            exporter.join(WAIT_SECONDS)
            undelivered = publisher.close()
    assert not exporter.is_alive()
    assert undelivered == 0
    assert key == f"stuck|{record['service.node.name']}|"
    assert record["event.dataset"] == "kafka.thread-dump"
    threads = record["message"].split('\n\n"')
    (network,) = [thread for thread in threads if thread.startswith("kafka-producer-network-thread | order-publisher")]
    assert "SteadyProducer$Delivery.onCompletion" in network
