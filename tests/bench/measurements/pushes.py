"""Measure the size of pushed metrics (KIP-714), and what they cost a broker with our plugin."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from clienthealth.model.subscription import NAME, Subscription
from clienthealth.platform.jars import java
from clienthealth.platform.kafka import admin
from clienthealth.settings import Settings
from deploy.demo import jars
from deploy.demo.broker import Broker
from deploy.demo.processes import Process
from deploy.demo.topics import create_ours
from tests.bench.measurements import Scope
from tests.bench.results import Figure, Result, Table
from tests.bench.usage import TICKS, Usage

TITLE = "Cost of pushed metrics at the broker"
PROGRAM = Path(__file__).parents[1] / "pushing" / "ManyProducers.java"
PRODUCERS, CLIENTS, CLIENTS_SECONDS = 333, 10_000, 30.0
#: A long interval, so that records cost the broker little.
SEND_SECONDS = 10.0
START_SECONDS = 180.0
#: Linux truncates the names of the plugin's threads in /proc to 15 characters.
PLUGIN_THREADS = ("clienthealth-br", "kafka-producer-")
NO_CLIENT = "client_software_name=none"


@dataclass(frozen=True)
class Moment:
    at: float
    cpu: float
    pushes: int
    stored_bytes: int

    @classmethod
    def of(cls, broker: Broker, topic: str) -> Self:
        threads = Path(f"/proc/{broker.pid}/task").iterdir()
        cpu = sum(_cpu(thread) for thread in threads if (thread / "comm").read_text().strip() in PLUGIN_THREADS)
        files = (broker.folder / "data" / f"{topic}-0").glob("*.log")
        stored = sum(file.stat().st_size for file in files)
        return cls(time.time(), cpu, _end(broker, topic), stored)


def measure(scope: Scope) -> Result:
    seconds, warming = scope.seconds(120, 20), scope.seconds(45, 10)
    jar_path = os.pathsep.join(map(str, jars.classpath("clients-4.1")))
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker", telemetry_to="") as broker:
        settings = Settings(kafka=broker.kafka)
        create_ours(settings)
        broker.create_topic("orders")
        topic = settings.topics.metrics[0]
        of_java, _ = Subscription.ours(1.0)
        _subscribe(settings, of_java.config)
        options = {"servers": broker.bootstrap_servers, "topic": "orders", "producers": PRODUCERS}
        command = [java(), "-Xmx1g", *(f"-D{name}={value}" for name, value in options.items())]
        command += [f"-Devery.seconds={SEND_SECONDS}", "-cp", jar_path, str(PROGRAM)]
        load = Process("producers", command, Path(folder) / "producers.txt")
        try:
            with Usage({"broker": broker.pid}) as usage:
                load.wait_until(lambda: "READY" in load.log.read_text(), START_SECONDS)
                time.sleep(warming)
                busy = Moment.of(broker, topic), _after(seconds, broker, topic)
                _subscribe(settings, {**of_java.config, "match": NO_CLIENT})
                # Each client pushes once more before it learns that pushes are unwanted.
                time.sleep(warming)
                idle = Moment.of(broker, topic), _after(seconds, broker, topic)
                asked, unasked = (usage.cost(since.at, until.at) for since, until in (busy, idle))
        finally:
            load.kill()
        mean_bytes = _mean_bytes(broker, topic)
    since, until = busy
    pushes = until.pushes - since.pushes
    rate = pushes / asked.seconds
    micros = (asked.cores("broker") - unasked.cores("broker")) / rate * 1e6
    plugin = (until.cpu - since.cpu) / pushes * 1e6
    stored = (until.stored_bytes - since.stored_bytes) / pushes
    pushes_per_second = CLIENTS / CLIENTS_SECONDS
    fleet = f"{CLIENTS:,} clients that push every {CLIENTS_SECONDS:.0f} s"
    figures = [
        Figure(f"{fleet}: CPU of all brokers together", micros * pushes_per_second / 1e6, "cores"),
        Figure(f"{fleet}: CPU of the plugin's threads", plugin * pushes_per_second / 1e6, "cores"),
        Figure(f"{fleet}: data on the topic", stored * pushes_per_second / 1e3, "kB/s"),
    ]
    how = (
        f"Each of {PRODUCERS} real producers pushes once per second. {CLIENTS:,} clients that push every "
        f"{CLIENTS_SECONDS:.0f} s also make {CLIENTS / CLIENTS_SECONDS:.0f} pushes per second. One broker with the "
        f"plugin takes the pushes for {seconds:.0f} s. Then the broker stops asking for pushes. The cost of the pushes "
        "is the difference between the broker's CPU with pushes and without pushes."
    )
    rows = [
        ["pushes/s", f"{rate:.0f}", f"{(idle[1].pushes - idle[0].pushes) / unasked.seconds:.0f}"],
        ["cores of the broker", f"{asked.cores('broker'):.3f}", f"{unasked.cores('broker'):.3f}"],
    ]
    a_day = stored * pushes_per_second * 86_400 / 1e9
    notes = [
        f"A push costs {micros:,.0f} µs of CPU, {plugin:,.0f} µs of it in the plugin's threads.",
        f"A push takes {stored:,.0f} B on the topic, and {mean_bytes:,.0f} B before compression.",
        f"{CLIENTS:,} clients write {a_day:.0f} GB a day to the topic.",
    ]
    return Result(figures, how, [Table(["broker", "with pushes", "without pushes"], rows)], notes)


def _after(seconds: float, broker: Broker, topic: str) -> Moment:
    time.sleep(seconds)
    return Moment.of(broker, topic)


def _subscribe(settings: Settings, config: Mapping[str, str]) -> None:
    client = admin(settings)
    try:
        resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, NAME, dict(config))
        client.alter_configs([resource], raise_on_unknown=False)
    finally:
        client.close()


def _cpu(thread: Path) -> float:
    fields = (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _end(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "bench"})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0))[1]
    finally:
        consumer.close()
    return end


def _mean_bytes(broker: Broker, topic: str, records: int = 1000) -> float:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "bench"})
    try:
        consumer.assign([TopicPartition(topic, 0, max(0, _end(broker, topic) - records))])
        sizes = [len(message.value() or b"") for message in consumer.consume(records, 30.0)]
    finally:
        consumer.close()
    return sum(sizes) / max(1, len(sizes))
