"""Run `kafka-health export prometheus` on a real broker, which goes down and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from clienthealth.platform.kafka import producer
from clienthealth.settings import KafkaSettings, Settings, TopicSettings
from clienthealth_exporters.prometheus.health_topic import HealthTopic
from tests.support.health_records import deadlock, group, healthy, key
from tests.support.waiting import WAIT_SECONDS, eventually

if TYPE_CHECKING:
    from deploy.demo.broker import Broker


class Served:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=WAIT_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self) -> str:
        return self.get("/metrics")[1]


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Settings:
    name = request.node.name.replace("_", "-")
    broker.create_topic(name, partitions=3, config={"cleanup.policy": "compact"})
    kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    return Settings(kafka=kafka, topics=TopicSettings(health=name))


@contextmanager
def exporting(topic: Settings, log: Path) -> Iterator[Served]:
    environment = {
        **os.environ,
        "KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS": topic.kafka.bootstrap_servers,
        "KAFKA_HEALTH_TOPICS_HEALTH": topic.topics.health,
        "KAFKA_HEALTH_PROMETHEUS_PORT": "0",
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("kafka-health")), "export", "prometheus"],
            env=environment,
            stderr=out,
            text=True,
        )
    try:
        eventually(lambda: "status page at" in log.read_text() or process.poll() is not None, log.read_text())
        assert process.poll() is None, log.read_text()
        yield Served(process, log.read_text().split("status page at ")[1].split("/,")[0])
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def exporter(topic: Settings, tmp_path: Path) -> Iterator[Served]:
    with exporting(topic, tmp_path / "exporter.log") as served:
        yield served


def send(settings: Settings, *records: dict[str, object], tombstone: bytes | None = None) -> None:
    with producer(settings) as client:
        for one in records:
            ref = one["client"]
            assert isinstance(ref, dict)
            name = key(ref["service"], ref["instance"], ref["client_id"])
            client.send(settings.topics.health, key=name, value=json.dumps(one).encode())
        if tombstone is not None:
            client.send(settings.topics.health, key=tombstone, value=None)
        client.flush()


def now_ms() -> int:
    return int(time.time() * 1000)


def test_follows_the_topic_and_stops_on_sigterm(topic: Settings, exporter: Served) -> None:
    eventually(lambda: exporter.get("/healthz") == (200, "ok\n"), "caught up with an empty topic")
    assert "kafka_client_up" not in exporter.metrics()
    send(topic, deadlock(end_ms=now_ms()), group(end_ms=now_ms()), *(healthy(n, end_ms=now_ms()) for n in range(20)))
    eventually(lambda: exporter.metrics().count("\nkafka_client_up{") == 22, "all clients")
    page = exporter.metrics()
    assert 'mode="producer-callback-deadlock",status="confirmed"} 1' in page
    assert "kafka_consumergroup_group_sum_lag" in page and "kafka_client_health_exporter_up 1" in page
    assert "orders-api" in exporter.get("/")[1]
    send(topic, tombstone=key("orders-api", "web-7:31337", "order-producer"))
    eventually(lambda: "orders-api" not in exporter.metrics(), "a tombstone removes the client")
    exporter.process.send_signal(signal.SIGTERM)
    assert exporter.process.wait(WAIT_SECONDS) == 0


def test_a_rolling_restart_hides_no_client(topic: Settings, exporter: Served, tmp_path: Path) -> None:
    send(topic, deadlock(end_ms=now_ms()), *(healthy(n, end_ms=now_ms()) for n in range(200)))
    eventually(lambda: exporter.metrics().count("\nkafka_client_up{") == 201, "all clients")
    with exporting(topic, tmp_path / "next.log") as following:
        pages: list[tuple[int, str]] = []

        def ready() -> bool:
            pages.append(following.get("/metrics"))
            return pages[-1][0] == 200

        eventually(ready, "the next one is ready")
        assert {status for status, _ in pages} <= {200, 503}
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(WAIT_SECONDS) == 0
        for page in (pages[-1][1], following.metrics()):
            assert page.count("\nkafka_client_up{") == 201
            assert 'mode="producer-callback-deadlock",status="confirmed"} 1' in page


def test_reads_whatever_a_topic_is_compressed_with(topic: Settings) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        writer = Producer({"bootstrap.servers": topic.kafka.bootstrap_servers, "compression.type": codec})
        # librdkafka compresses only records that are large enough.
        writer.produce(topic.topics.health, b"x" * 5_000, codec.encode(), partition=0)
        assert writer.flush(WAIT_SECONDS) == 0
    seen: dict[bytes | None, bytes | None] = {}
    stop = threading.Event()
    reader = HealthTopic(topic, lambda key, value, _: seen.update({key: value}))
    thread = threading.Thread(target=reader.run, args=(stop,))
    thread.start()
    try:
        eventually(lambda: reader.trouble is None or "unpacked" in reader.trouble, "all of the topic has been read")
        assert (reader.trouble, seen) == (None, {codec.encode(): b"x" * 5_000 for codec in codecs})
    finally:
        stop.set()
        thread.join()


def test_reports_lost_kafka_and_recovers(broker: Broker, topic: Settings, exporter: Served) -> None:
    send(topic, deadlock(end_ms=now_ms()))
    eventually(lambda: "orders-api" in exporter.metrics(), "the client")
    broker.pause()
    try:
        eventually(lambda: exporter.get("/healthz")[0] == 503, "the loss is noticed")
        assert exporter.get("/healthz")[1].startswith(
            f"the connection to Kafka at {topic.kafka.bootstrap_servers} is lost: "
        )
        page = exporter.metrics()
        assert "kafka_client_health_exporter_up 0" in page and "orders-api" in page
        assert "The monitor is blind" in exporter.get("/")[1]
    finally:
        broker.resume()
    eventually(lambda: exporter.get("/healthz") == (200, "ok\n"), "recovered")
    assert "orders-api" in exporter.metrics()
