"""Run our reporter inside real kafka-python and confluent-kafka applications."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from clienthealth_exporters.python_client import report
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from deploy.demo.broker import Broker

PATIENCE_SECONDS = 300.0


class Lab:
    def __init__(self, broker: Broker) -> None:
        name = f"report-{uuid.uuid4().hex[:8]}"
        self.servers = broker.bootstrap_servers
        self.topic, self.metrics, self.logs = (f"{name}-{of}" for of in ("orders", "metrics", "logs"))
        for topic in (self.topic, self.metrics, self.logs):
            broker.create_topic(topic)
        self._reader = KafkaConsumer(bootstrap_servers=self.servers)
        self._reader.assign([TopicPartition(self.metrics, 0)])
        self._reader.seek_to_beginning()
        self._seen: list[dict[str, Any]] = []

    def snapshots(self) -> list[dict[str, Any]]:
        for records in self._reader.poll(200).values():
            self._seen += [{**json.loads(record.value), "key": record.key.decode()} for record in records]
        return self._seen

    def await_snapshot(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        eventually(lambda: any(map(wanted, self.snapshots())))
        return next(filter(wanted, self._seen))

    def close(self) -> None:
        self._reader.close()


@pytest.fixture
def lab(broker: Broker) -> Iterator[Lab]:
    started = Lab(broker)
    yield started
    started.close()


def test_three_lines_for_a_producer(lab: Lab) -> None:
    producer = KafkaProducer(bootstrap_servers=lab.servers, client_id="order-producer", linger_ms=5)
    report(producer, service="orders-api", instance="web-7:1", topic=lab.metrics, interval_seconds=0.2)
    slept_ms: list[float] = []

    def slow(_: object) -> None:
        began = time.perf_counter()
        time.sleep(0.02)
        slept_ms.append((time.perf_counter() - began) * 1000)

    for number in range(50):
        future = producer.send(lab.topic, b"order %d" % number)
        if number < 10:
            future.add_callback(slow)
    assert future.get(PATIENCE_SECONDS).topic == lab.topic
    # The average includes callbacks that are still running.
    snapshot = lab.await_snapshot(lambda s: s["metrics"].get("callback-time-avg", 0.0) >= 20)
    assert snapshot["metrics"]["callback-time-avg"] < 2 * max(slept_ms)
    producer.close()

    last = lab.await_snapshot(lambda s: s["metrics"]["record-ack-total"] == 50)
    assert last["key"] == "orders-api|web-7:1|order-producer"
    assert last["client"] == {
        "service": "orders-api",
        "host": last["client"]["host"],
        "instance": "web-7:1",
        "client_id": "order-producer",
        "kind": "producer",
        "library": "kafka-python",
        "version": last["client"]["version"],
        "group": None,
    }
    assert last["metrics"]["record-send-total"] == 50
    assert last["metrics"]["record-error-total"] == 0
    assert last["metrics"]["queue-records"] == 0
    assert last["topics"] == [
        {
            "topic": lab.topic,
            "partition": None,
            "thread": None,
            "metrics": {"record-send-total": 50, "record-error-total": 0},
        }
    ]
    assert last["config"]["request.timeout.ms"] == str(producer.config["request_timeout_ms"])
    assert any("request-latency-avg" in s["metrics"] for s in lab.snapshots())


@pytest.mark.long
def test_what_a_producer_could_not_deliver_is_reported_exactly(lab: Lab, tmp_path: Path) -> None:
    from deploy.demo.broker import Broker

    with Broker(tmp_path / "broker") as other:
        other.create_topic("orders")
        producer = KafkaProducer(bootstrap_servers=other.bootstrap_servers, client_id="loser", linger_ms=60_000)
        report(
            producer,
            service="orders-api",
            topic=lab.metrics,
            kafka_options={"bootstrap_servers": lab.servers},
            interval_seconds=0.2,
        )
        for _ in range(3):
            producer.send("orders", b"kept")
        producer.flush(PATIENCE_SECONDS)
        other.kill()
        for _ in range(7):
            producer.send("orders", b"lost")
        lab.await_snapshot(lambda s: s["metrics"]["queue-records"] == 7)
        snapshot = lab.await_snapshot(lambda s: s["metrics"]["record-send-total"] == 10)
        assert (snapshot["metrics"]["record-ack-total"], snapshot["metrics"]["record-error-total"]) == (3, 0)
        producer._sender.force_close()
        last = lab.await_snapshot(lambda s: s["metrics"]["record-error-total"] == 7)
        assert last["metrics"]["queue-records"] == 0


def test_a_cluster_that_is_away_costs_the_application_nothing_but_reports(lab: Lab) -> None:
    producer = KafkaProducer(bootstrap_servers=lab.servers, client_id="alone")
    reporter = report(
        producer,
        service="orders-api",
        interval_seconds=0.05,
        close_seconds=0.2,
        kafka_options={"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 50},
    )
    eventually(lambda: reporter.dropped_total >= 3)
    assert producer.send(lab.topic, b"order").get(PATIENCE_SECONDS).offset == 0
    began = time.monotonic()
    producer.close()
    assert time.monotonic() - began < 2


PROGRAM = """
import os, sys
from kafka import KafkaConsumer, KafkaProducer
from clienthealth_exporters.python_client import report

servers, topic, metrics, way = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers, client_id="short", linger_ms=60_000)
consumer = KafkaConsumer(topic, bootstrap_servers=servers, client_id="reader", group_id=None)
report(producer, consumer, service="job", topic=metrics)
producer.send(topic, b"order").add_callback(lambda _: print("acknowledged"))
if way == "leave":
    del producer
"""


@pytest.mark.parametrize("way", ["stay", "leave"])
def test_a_process_that_ends_without_close_is_reported_to_its_end(lab: Lab, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, lab.servers, lab.topic, lab.metrics, way],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "acknowledged\n"
    # At exit, kafka-python flushes before the last report.
    last = lab.await_snapshot(lambda s: s["metrics"].get("record-ack-total") == 1)
    assert last["metrics"]["queue-records"] == 0
    assert {s["client"]["client_id"] for s in lab.snapshots()} == {"short", "reader"}


def test_a_consumer_that_never_commits_has_a_lag(lab: Lab) -> None:
    producer = KafkaProducer(bootstrap_servers=lab.servers)
    for _ in range(30):
        producer.send(lab.topic, b"order")
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=lab.servers, client_id="scanner", max_poll_records=10, auto_offset_reset="earliest"
    )
    partition = TopicPartition(lab.topic, 0)
    consumer.assign([partition])
    report(consumer, service="scan", topic=lab.metrics, interval_seconds=0.1)
    eventually(lambda: bool(consumer.poll(100)))
    snapshot = lab.await_snapshot(lambda s: bool(s["topics"]))
    assert snapshot["client"]["kind"] == "consumer"
    assert snapshot["topics"][0]["metrics"] == {
        "records-consumed-total": 10,
        "position": 10,
        "records-lag": 20,
    }
    assert snapshot["metrics"]["records-lag-max"] == 20
    assert next(consumer).offset == 10
    consumer.close()
    last = lab.await_snapshot(lambda s: s["metrics"]["records-consumed-total"] == 20)
    assert last["metrics"]["poll-idle-ratio-avg"] > 0
    assert last["config"]["max.poll.interval.ms"] == "300000"


def test_two_clients_of_one_name_are_distinguished(lab: Lab) -> None:
    consumers = [KafkaConsumer(bootstrap_servers=lab.servers, client_id="same") for _ in range(2)]
    report(*consumers, service="scan", topic=lab.metrics, interval_seconds=0.1)
    eventually(lambda: {s["client"]["client_id"] for s in lab.snapshots()} == {"same", "same-2"})
    for consumer in consumers:
        consumer.close()


class Application:
    def __init__(self) -> None:
        self.stats = self.reports = self.default = 0
        self.lines: list[str] = []

    def stats_cb(self, _text: str) -> None:
        self.stats += 1

    def log(self, _level: int, text: str, *args: object) -> None:
        self.lines.append(text % args)

    def on_delivery(self, _error: object, _message: object) -> None:
        self.reports += 1

    def on_any(self, _error: object, _message: object) -> None:
        self.default += 1


def test_confluent_kafka_by_its_class(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-api")
    monkeypatch.setenv("KAFKA_HEALTH_INSTANCE", "web-7:1")
    made = report(confluent_kafka.Producer, topic=lab.metrics, logs_topic=lab.logs, interval_seconds=0.2)
    application = Application()
    producer = made(
        {
            "bootstrap.servers": lab.servers,
            "client.id": "orders",
            "stats_cb": application.stats_cb,
            "on_delivery": application.on_any,
        },
        logger=application,
    )
    assert isinstance(producer, confluent_kafka.Producer) and type(producer).__name__ == "Producer"
    for number in range(30):
        producer.produce(lab.topic, b"order", b"k", -1, application.on_delivery)
        producer.produce(lab.topic, value=b"order %d" % number, callback=application.on_delivery)
        producer.produce(lab.topic)
    with pytest.raises(TypeError):
        producer.produce(lab.topic, no_such_argument=1)  # type: ignore[call-arg]
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert (application.reports, application.default) == (60, 30)

    sent = 90

    def measured() -> bool:
        nonlocal sent
        producer.produce(lab.topic)
        sent += 1
        producer.poll(0.1)
        return any("request-latency-avg" in s["metrics"] for s in lab.snapshots())

    eventually(measured)
    assert producer.flush(PATIENCE_SECONDS) == 0
    lab.await_snapshot(lambda s: s["metrics"]["record-ack-total"] == sent and s["metrics"]["queue-records"] == 0)
    assert application.stats > 0
    own = lab.snapshots()[-1]
    assert own["key"] == "orders-api|web-7:1|orders"
    assert (own["client"]["library"], own["client"]["kind"]) == ("librdkafka", "producer")
    # The call of produce() that raised TypeError sent nothing.
    assert own["metrics"]["record-send-total"] == sent and own["metrics"]["record-error-total"] == 0
    assert own["metrics"]["queue-records"] == 0
    assert any(s["metrics"].get("ack-latency-max", 0) > 0 for s in lab.snapshots())
    # librdkafka passes `all brokers are down` only to the error callback.
    away = made({"bootstrap.servers": "127.0.0.1:1", "client.id": "away"}, logger=application)
    reader = KafkaConsumer(lab.logs, bootstrap_servers=lab.servers, auto_offset_reset="earliest")
    lines: list[bytes] = []

    def shipped() -> bool:
        away.poll(0.1)
        lines.extend(record.value for batch in reader.poll(200).values() for record in batch)
        return any(b"_ALL_BROKERS_DOWN: 1/1 brokers are down" in line for line in lines)

    eventually(shipped)
    reader.close()
    line = json.loads(lines[0])
    assert line["service"] == "orders-api" and line["instance"] == "web-7:1" and line["message"]
    assert any("127.0.0.1:1" in text for text in application.lines)


def test_a_hanging_callback_is_seen_without_polls(lab: Lab) -> None:
    made = report(confluent_kafka.Producer, service="orders-api", topic=lab.metrics, interval_seconds=0.2)
    producer, over = made({"bootstrap.servers": lab.servers, "client.id": "stuck"}), threading.Event()
    for _ in range(5):
        producer.produce(lab.topic, b"order", on_delivery=lambda *_: over.wait(PATIENCE_SECONDS))
    thread = threading.Thread(target=producer.flush, daemon=True)
    thread.start()
    try:
        lab.await_snapshot(lambda s: s["metrics"].get("callback-time-max", 0) > 1500)
        hanging = [s["metrics"] for s in lab.snapshots() if s["metrics"].get("callback-time-max", 0) > 500]
        # The first of five delivery reports keeps the callback busy, so the other four wait.
        assert {m["queue-records"] for m in hanging} == {4}
        times = [m["callback-time-max"] for m in hanging]
        assert times == sorted(times) and len(times) > 2
    finally:
        over.set()
        thread.join(PATIENCE_SECONDS)
    lab.await_snapshot(lambda s: s["metrics"]["record-ack-total"] == 5)


def test_a_consumer_of_confluent_kafka(lab: Lab) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": lab.servers})
    for _ in range(30):
        producer.produce(lab.topic, b"order")
    producer.flush(PATIENCE_SECONDS)
    made = report(confluent_kafka.Consumer, service="billing", topic=lab.metrics, interval_seconds=0.2)
    options = {"bootstrap.servers": lab.servers, "group.id": f"{lab.topic}-g", "auto.offset.reset": "earliest"}
    with_id = {**options, "client.id": "reader", "max.poll.interval.ms": 400_000}
    consumer = made(with_id)
    consumer.subscribe([lab.topic])
    got: list[object] = []

    def all_read() -> bool:
        got.extend(consumer.consume(10, 0.2))
        return len(got) == 30

    eventually(all_read)
    eventually(lambda: consumer.poll(0.1) or any("assigned-partitions" in s["metrics"] for s in lab.snapshots()))
    consumer.close()
    last = lab.await_snapshot(lambda s: s["metrics"]["records-consumed-total"] == 30)
    assert last["client"]["group"] == f"{lab.topic}-g" and last["config"] == {"max.poll.interval.ms": "400000"}
    assert any(s["metrics"].get("time-between-poll-max", 0) > 0 for s in lab.snapshots())


def test_aiokafka(lab: Lab) -> None:
    async def application() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=lab.servers, client_id="aio")
        await producer.start()
        consumer = aiokafka.AIOKafkaConsumer(
            lab.topic, bootstrap_servers=lab.servers, client_id="aio-reader", auto_offset_reset="earliest"
        )
        await consumer.start()
        report(producer, consumer, service="orders-api", topic=lab.metrics, interval_seconds=0.2)
        for _ in range(20):
            await producer.send_and_wait(lab.topic, b"order")
        assert [(await consumer.getone()).value for _ in range(20)] == [b"order"] * 20
        await producer.stop()
        await consumer.stop()

    asyncio.run(application())
    lab.await_snapshot(lambda s: s["metrics"].get("record-ack-total") == 20)
    sent = next(s for s in lab.snapshots() if s["metrics"].get("record-ack-total") == 20)
    assert (sent["client"]["library"], sent["client"]["client_id"]) == ("aiokafka", "aio")
    assert sent["metrics"]["queue-records"] == 0
    read = lab.await_snapshot(lambda s: s["metrics"].get("records-consumed-total") == 20)
    assert read["topics"][0]["metrics"] == {"records-consumed-total": 20, "position": 20, "records-lag": 0}
    assert not logging.getLogger("aiokafka").handlers
