"""The reporter for Python clients measures fake clients with a fake clock."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import confluent_kafka
import msgspec
import pytest
from kafka import TopicPartition
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from clienthealth.model import canonical
from clienthealth.model.clients import Client, ClientProcess, key_parts
from clienthealth_exporters.python_client import Reporter, aio, kafka_python, report
from clienthealth_exporters.python_client.confluent import reporting
from clienthealth_exporters.python_client.kafka_python import connection_of, library_metrics, watch
from clienthealth_exporters.python_client.probes import (
    ATTRIBUTE,
    MAX_TOPICS,
    ConsumerProbe,
    Durations,
    ProducerProbe,
    Watched,
)
from deploy.reference.rooms import ROOT


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Producer:
    def __init__(self) -> None:
        self.futures: list[FutureRecordMetadata] = []
        self.closed = False

    def send(self, topic: str, value: bytes | None = None, key: bytes | None = None) -> FutureRecordMetadata:
        """Docstring of send."""
        if value is None:
            raise ValueError("nothing to send")
        produced = FutureProduceResult(TopicPartition(topic, 0))
        self.futures.append(FutureRecordMetadata(produced, 0, 0, None, 0, len(value), 0))
        return self.futures[-1]

    def close(self, timeout: float | None = None) -> str:
        self.closed = True
        return "closed"

    def acknowledge(self, position: int) -> None:
        self.futures[position]._produce_future.success((17, -1, None))

    def fail(self, position: int, error: Exception) -> None:
        self.futures[position]._produce_future.failure(error)


class Consumer:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.batches: list[dict[TopicPartition, list[Any]]] = []
        self.assigned: set[TopicPartition] = set()

    def poll(self, timeout_ms: int = 0) -> dict[TopicPartition, list[Any]]:
        self.clock.now += 2
        return self.batches.pop(0) if self.batches else {}

    def assignment(self) -> set[TopicPartition]:
        return self.assigned

    def highwater(self, partition: TopicPartition) -> int | None:
        return 50

    def close(self) -> None:
        pass


def watched_producer() -> tuple[Producer, ProducerProbe, Clock]:
    clock, producer = Clock(), Producer()
    probe = ProducerProbe(clock)
    watch(producer, probe)
    return producer, probe, clock


def test_durations_by_hand() -> None:
    durations = Durations()
    for _ in range(98):
        durations.add(0.001)
    durations.add(0.5)
    durations.add(2.0)
    summary = durations.drain()
    assert summary is not None
    assert (summary.number, summary.max) == (100, 2.0)
    assert summary.avg == pytest.approx((0.098 + 2.5) / 100)
    assert 0.5 <= summary.p99 <= 0.5 * 2**0.25
    assert durations.drain() is None


def test_durations_at_their_limits() -> None:
    durations = Durations()
    for seconds in (-1.0, 0.0, 1e-9, 1e9):
        durations.add(seconds)
    summary = durations.drain()
    assert summary is not None
    assert (summary.number, summary.max) == (4, 1e9)


def test_a_watched_client_is_the_client_that_it_was() -> None:
    producer, _, _ = watched_producer()
    assert isinstance(producer, Producer)
    assert type(producer).__name__ == "Producer"
    assert producer.send.__doc__ == "Docstring of send."
    assert producer.close(timeout=3) == "closed"
    assert producer.closed


def test_nothing_keeps_a_watched_client_alive() -> None:
    producer, _, _ = watched_producer()
    producer.send("orders", b"x")
    gc.disable()
    try:
        gone = weakref.ref(producer)
        del producer
        assert gone() is None
    finally:
        gc.enable()


def test_sent_acknowledged_and_failed_records_are_counted() -> None:
    producer, probe, clock = watched_producer()
    for topic in ("orders", "orders", "audit", "audit"):
        producer.send(topic, value=b"x", key=b"k")
        clock.now += 0.5
    producer.acknowledge(0)
    clock.now += 1
    producer.acknowledge(1)
    producer.fail(2, RuntimeError("too late"))
    with pytest.raises(ValueError, match="nothing to send"):
        producer.send("orders")
    assert probe.metrics() == {
        "record-send-total": 4,
        "record-ack-total": 2,
        "record-error-total": 2,
        "queue-records": 1,
        "ack-latency-avg": pytest.approx(2250.0),
        "ack-latency-max": pytest.approx(2500.0),
    }
    assert {t["topic"]: t["metrics"] for t in probe.topics()} == {
        "orders": {"record-send-total": 2, "record-error-total": 1},
        "audit": {"record-send-total": 2, "record-error-total": 1},
    }
    assert "ack-latency-avg" not in probe.metrics()


def test_every_record_is_counted_and_one_a_millisecond_timed() -> None:
    producer, probe, clock = watched_producer()
    for position in range(4):
        producer.send("orders", b"x")
        producer.send(topic="orders", value=b"x")
        clock.now += 0.002
        producer.acknowledge(2 * position)
        clock.now += 0.002
        producer.acknowledge(2 * position + 1)
    metrics = probe.metrics()
    assert metrics["record-ack-total"] == 8
    # Of two records sent at once, only the first is timed (2 ms).
    assert metrics["ack-latency-max"] == pytest.approx(2.0)


def test_callbacks_are_timed_and_behave_as_before() -> None:
    producer, probe, clock = watched_producer()
    seen: list[object] = []

    def slow(prefix: str, metadata: Any) -> None:
        clock.now += 0.2
        seen.append((prefix, metadata.offset))

    def broken(_metadata: object) -> None:
        clock.now += 0.1
        raise RuntimeError("an error of the application")

    future = producer.send("orders", b"x")
    assert isinstance(future, FutureRecordMetadata)
    assert future.add_callback(slow, "first").add_callback(broken).add_callback(slow, "last") is future
    future.add_errback(seen.append)
    producer.acknowledge(0)
    assert seen == [("first", 17), ("last", 17)]
    assert future.get(timeout=0).offset == 17
    metrics = probe.metrics()
    assert metrics["callback-time-avg"] == pytest.approx(500 / 3)
    assert metrics["callback-time-max"] == pytest.approx(200.0)
    assert metrics["callback-time-p99"] == pytest.approx(200.0)
    assert "callback-time-avg" not in probe.metrics()


def test_a_callback_that_does_not_return_shows() -> None:
    producer, probe, clock = watched_producer()
    metrics: dict[str, float] = {}

    def stuck(_metadata: object) -> None:
        clock.now += 30
        metrics.update(probe.metrics())

    producer.send("orders", b"x").add_callback(stuck)
    producer.acknowledge(0)
    assert metrics["callback-time-max"] == pytest.approx(30_000.0)


def test_a_callback_that_comes_late_runs_at_once_and_is_no_time_of_the_producers() -> None:
    producer, probe, _ = watched_producer()
    future = producer.send("orders", b"x")
    producer.acknowledge(0)
    seen: list[object] = []
    future.add_callback(seen.append)
    assert len(seen) == 1
    assert "callback-time-avg" not in probe.metrics()


def test_topics_are_bounded() -> None:
    producer, probe, _ = watched_producer()
    for number in range(MAX_TOPICS + 10):
        producer.send(f"topic-{number}", b"x")
    assert len(probe.topics()) == MAX_TOPICS
    assert probe.metrics()["record-send-total"] == MAX_TOPICS + 10


def test_a_defect_of_the_probe_is_none_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, probe, _ = watched_producer()

    def defect(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(kafka_python, "accepted", defect)
    probe.closed = defect
    assert producer.send("orders", b"x") is producer.futures[0]
    assert producer.close() == "closed"


def test_polls_are_timed_and_positions_known() -> None:
    clock = Clock()
    probe, consumer = ConsumerProbe(clock), Consumer(clock)
    watch(consumer, probe)
    orders, audit = TopicPartition("orders", 0), TopicPartition("audit", 1)
    consumer.assigned = {orders, audit}
    consumer.batches = [{orders: [SimpleNamespace(offset=8), SimpleNamespace(offset=9)]}, {}]
    clock.now += 1
    assert list(consumer.poll(timeout_ms=5)) == [orders]
    clock.now += 3
    assert consumer.poll() == {}
    clock.now += 2
    assert probe.metrics() == {
        "records-consumed-total": 2,
        "poll-idle-ratio-avg": pytest.approx(0.4),
        "last-poll-seconds-ago": pytest.approx(2.0),
        "time-between-poll-max": pytest.approx(5000.0),
        "records-lag-max": 40,
    }
    assert probe.topics() == [
        {
            "topic": "orders",
            "partition": 0,
            "thread": None,
            "metrics": {"records-consumed-total": 2, "position": 10, "records-lag": 40},
        }
    ]
    consumer.assigned = {audit}
    consumer.batches = [{audit: [SimpleNamespace(offset=49)]}]
    consumer.poll()
    assert [t["topic"] for t in probe.topics()] == ["audit"]


def test_a_partition_that_was_lost_has_no_lag_after_the_next_poll() -> None:
    clock = Clock()
    probe, consumer = ConsumerProbe(clock), Consumer(clock)
    watch(consumer, probe)
    orders, audit = TopicPartition("orders", 0), TopicPartition("audit", 1)
    consumer.assigned = {orders, audit}
    consumer.batches = [{orders: [SimpleNamespace(offset=47)], audit: [SimpleNamespace(offset=9)]}]
    consumer.poll()
    assert probe.metrics()["records-lag-max"] == 40
    consumer.assigned = {orders}
    consumer.poll()
    assert probe.metrics()["records-lag-max"] == 2
    assert [t["topic"] for t in probe.topics()] == ["orders"]


def test_a_poll_under_way_counts() -> None:
    clock = Clock()
    probe = ConsumerProbe(clock)
    assert "last-poll-seconds-ago" not in probe.metrics()
    probe.polling()
    clock.now += 8
    metrics = probe.metrics()
    assert metrics["poll-idle-ratio-avg"] == pytest.approx(1.0)
    assert metrics["last-poll-seconds-ago"] == 0.0


def test_what_the_library_measures_is_named_as_the_monitor_names_it() -> None:
    def metric(group: str, name: str, **tags: str) -> Any:
        return SimpleNamespace(group=group, name=name, tags={"client-id": "c", **tags})

    def value(number: float) -> Any:
        return SimpleNamespace(value=lambda: number)

    rows = [
        (metric("producer-metrics", "requests-in-flight"), value(2.0)),
        (metric("producer-metrics", "record-queue-time-avg"), value(0.25)),
        (metric("producer-metrics", "request-latency-max"), value(float("-inf"))),
        (metric("producer-metrics", "outgoing-byte-rate"), value(5.0)),
        (metric("producer-metrics", "batch-size-avg"), value(0.0)),
        (metric("producer-metrics", "batch-size-max"), value(float("-inf"))),
        (metric("producer-topic-metrics.orders", "record-send-rate"), value(7.0)),
    ]
    client = SimpleNamespace(metrics=lambda raw: SimpleNamespace(items=lambda: rows))
    assert library_metrics(client, "producer") == {"requests-in-flight": 2.0, "record-queue-time-avg": 250.0}
    assert library_metrics(SimpleNamespace(metrics=lambda raw: None), "producer") == {}


def test_the_reporter_goes_the_way_of_its_client() -> None:
    config = {
        "bootstrap_servers": ["kafka:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_password": "x",
        "ssl_cafile": None,
        "linger_ms": 500,
        "client_id": "mine",
    }
    assert connection_of(SimpleNamespace(config=config)) == {
        "bootstrap_servers": ["kafka:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_password": "x",
    }


def test_only_producers_and_consumers_can_be_reported_on() -> None:
    with pytest.raises(TypeError, match="str is neither"):
        report("producer", service="orders-api")
    with pytest.raises(TypeError, match="at least one producer or consumer"):
        report(service="orders-api")


def test_what_is_counted_can_be_written() -> None:
    producer, probe, _ = watched_producer()
    producer.send("orders", b"x")
    json.dumps([probe.metrics(), probe.topics()], allow_nan=False)


def test_a_bar_in_a_name_does_not_make_two_clients_one() -> None:
    one = canonical.snapshot(Client("s", "h", "i", "a|b", "producer"), 1, {})
    other = canonical.snapshot(Client("s|i", "h", "a", "b", "producer"), 1, {})
    assert (canonical.key(one), canonical.key(other)) == (r"s|i|a\|b", r"s\|i|a|b")
    assert key_parts(canonical.key(one)) == ("s", "i", "a|b")
    assert ClientProcess("s|i", "h", "a").key == r"s\|i|a|", "of a process's own log lines and dumps"
    reporter = Reporter(ClientProcess("shop|eu", "h", "h:1"), "client-metrics", None, 10.0, 1.0)
    gone = weakref.ref(Producer())
    key, value = reporter._encoded(Watched(gone, "p", ProducerProbe(), "kafka-python", "3.0"))
    assert key == rb"shop\|eu|h:1|p"
    assert json.loads(value)["client"]["service"] == "shop|eu"


BARE = """
import sys
sys.path[:0] = sys.argv[1:]
import confluent_kafka
from clienthealth_exporters.python_client import report
producer = report(confluent_kafka.Producer, service="orders-api")({"bootstrap.servers": "127.0.0.1:1"})
others = {"kafka", "aiokafka", "numpy", "jinja2", "prometheus_client"}
print(type(producer).__name__, sorted(others & sys.modules.keys()))
"""


def test_beside_confluent_kafka_the_reporter_needs_msgspec_alone(tmp_path: Path) -> None:
    for module in (msgspec, confluent_kafka):
        folder = Path(str(module.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
        for libraries in folder.parent.glob(f"{folder.name}*.libs"):
            (tmp_path / libraries.name).symlink_to(libraries)
    places = [str(tmp_path), str(ROOT / "jobs"), str(ROOT / "exporters")]
    # With -I and -S, Python finds no installed packages, only those in `places`.
    command = [sys.executable, "-I", "-S", "-c", BARE, *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("Producer []\n", 0), done.stderr


def test_a_reporter_needs_the_name_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_HEALTH_SERVICE", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TypeError, match="KAFKA_HEALTH_SERVICE"):
        report(confluent_kafka.Producer)
    with pytest.raises(TypeError, match=r"pass a class to report\(\)"):
        report(confluent_kafka.Producer({}), service="orders-api")


class FullProducer(confluent_kafka.Producer):
    def produce(self, topic: str, *values: Any, **_: Any) -> None:
        if not values:
            raise BufferError("Local: Queue full")

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], *_: Any, **__: Any) -> int:
        for message in messages[1:]:
            message["_error"] = "Local: Queue full"
        return 1


def test_a_record_that_a_full_queue_refuses_is_neither_sent_nor_lost() -> None:
    producer = reporting(FullProducer, lambda *_: None, 10.0)({"bootstrap.servers": "127.0.0.1:1"})
    producer.produce("orders", b"x")
    with pytest.raises(BufferError):
        producer.produce("orders")
    messages: list[dict[str, Any]] = [{"value": b"x"}, {"value": b"y"}]
    assert producer.produce_batch("orders", messages) == 1
    assert [message.get("_error") for message in messages] == [None, "Local: Queue full"]
    metrics = producer.__dict__[ATTRIBUTE].metrics()
    assert (metrics["record-send-total"], metrics["record-error-total"], metrics["queue-records"]) == (2, 0, 2)


class AioProducer(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
    async def send(self, topic: str, value: bytes | None = None) -> asyncio.Future[None]:
        if value is None:
            raise ValueError("nothing to send")
        return asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        self._closed = True


class AioConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    def given(self, clock: Clock, *answers: Any) -> None:
        self.clock, self.answers = clock, list(answers)

    async def getone(self, *partitions: TopicPartition) -> Any:
        self.clock.now += 2
        return self.answers.pop(0)

    async def getmany(self, *partitions: TopicPartition, timeout_ms: int = 0) -> Any:
        self.clock.now += 2
        return self.answers.pop(0)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset({TopicPartition("orders", 0), TopicPartition("orders", 1)})

    def highwater(self, partition: TopicPartition) -> int:
        return 50

    async def stop(self) -> None:
        self._closed = True


def test_a_producer_of_aiokafka_is_counted() -> None:
    unread: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context["message"]))
        producer, clock, ends = AioProducer(bootstrap_servers="127.0.0.1:1", client_id="billing"), Clock(), list[bool]()
        watched = aio.watched(producer)
        assert (watched.client_id, watched.group, watched.config) == ("billing", None, {})
        assert isinstance(producer, AioProducer)
        assert connection_options(producer) == ("127.0.0.1:1", "PLAINTEXT")
        watched.probe.clock, watched.probe.closed = clock, lambda: ends.append(True)
        acknowledged, failed, cancelled, _waiting = [await producer.send("orders", b"1") for _ in range(4)]
        with pytest.raises(ValueError, match="nothing to send"):
            await producer.send("orders")
        clock.now += 0.25
        acknowledged.set_result(None)
        failed.set_exception(OSError("lost"))
        cancelled.cancel()
        await asyncio.sleep(0)
        assert watched.probe.metrics() == {
            "record-send-total": 4,
            "record-ack-total": 1,
            "record-error-total": 3,
            "queue-records": 1,
            "ack-latency-avg": 250.0,
            "ack-latency-max": 250.0,
        }
        del failed
        gc.collect()
        await producer.stop()
        assert ends == [True]

    asyncio.run(work())
    assert unread == ["Future exception was never retrieved"]


def connection_options(client: Any) -> tuple[Any, Any]:
    options = aio.connection_of(client)
    return options["bootstrap_servers"], options["security_protocol"]


def test_a_consumer_of_aiokafka_is_timed() -> None:
    async def work() -> None:
        consumer, clock = AioConsumer("orders", bootstrap_servers="127.0.0.1:1", group_id="billing"), Clock()
        watched, probe = aio.watched(consumer), ConsumerProbe(clock)
        assert (watched.group, watched.config) == ("billing", {"max.poll.interval.ms": "300000"})
        consumer.__dict__[ATTRIBUTE] = probe
        record = SimpleNamespace(topic="orders", partition=1, offset=41)
        first, second = (SimpleNamespace(offset=offset) for offset in (7, 8))
        consumer.given(clock, record, {TopicPartition("orders", 0): [first, second]}, {})
        assert await consumer.getone() is record
        clock.now += 6
        assert await consumer.getmany(timeout_ms=10) == {TopicPartition("orders", 0): [first, second]}
        assert await consumer.getmany() == {}
        with pytest.raises(IndexError):
            await consumer.getone()
        # Four calls took 2 s each. The longest time between two calls was 8 s.
        assert probe.metrics() == {
            "records-consumed-total": 3,
            "poll-idle-ratio-avg": 8 / 14,
            "last-poll-seconds-ago": 0.0,
            "time-between-poll-max": 8000.0,
            "records-lag-max": 41,
        }
        by_partition = {topic["partition"]: topic["metrics"] for topic in probe.topics()}
        assert by_partition[0] == {"records-consumed-total": 2, "position": 9, "records-lag": 41}
        assert by_partition[1] == {"records-consumed-total": 1, "position": 42, "records-lag": 8}
        await consumer.stop()

    asyncio.run(work())
