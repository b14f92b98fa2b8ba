"""Decode metrics and logs that real programs write during the test."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import Identity, LogLine, RawRecord, Snapshot
from clienthealth.modes import catalogue
from clienthealth.platform.jars import java
from clienthealth.read.decode import decode_logs, decode_metrics
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.settings import Settings
from deploy.demo import jars
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import free_port
from deploy.reference.rooms import ROOT
from tests.support.raw_records import Raw
from tests.support.subscribing import subscribe
from tests.support.waiting import WAIT_SECONDS, eventually

if TYPE_CHECKING:
    from deploy.demo.broker import Broker

pytestmark = pytest.mark.long

Row = dict[str, Any]
TOPIC = "real.orders"
SENT = 100
JARS = {
    "test-opentelemetry": jars.JarSet(("io.opentelemetry.javaagent:opentelemetry-javaagent:2.33.1",), without=("*:*",)),
    "test-logback": jars.JarSet(
        (
            "org.apache.kafka:kafka-clients:4.1.2",
            "ch.qos.logback:logback-classic:1.5.18",
            "net.logstash.logback:logstash-logback-encoder:8.1",
        )
    ),
    "test-log4j2": jars.JarSet(
        (
            "org.apache.kafka:kafka-clients:4.1.2",
            "org.apache.logging.log4j:log4j-slf4j2-impl:2.24.3",
            "org.apache.logging.log4j:log4j-core:2.24.3",
            "org.apache.logging.log4j:log4j-layout-template-json:2.24.3",
        )
    ),
}
#: `v3-preview` turns on the changes of the agent's version 3.
AGENT = {
    # By default, the agent is off for `java Program.java`.
    "otel.javaagent.enabled": "true",
    "otel.service.name": "shop",
    "otel.traces.exporter": "none",
    "otel.metrics.exporter": "experimental-otlp/stdout",
    "otel.logs.exporter": "experimental-otlp/stdout",
    "otel.metric.export.interval": "1000",
    "otel.instrumentation.common.v3-preview": "true",
    "p.client.id": "jvm-producer",
    "rate": "20",
}
SWITCH = "-Dotel.instrumentation.kafka-clients-metrics.enabled=true"
LAYOUTS = ("EcsLayout", "GelfLayout", "JsonLayout", "LogstashJsonEventLayoutV1")
READS = (
    "kafka.producer:type=producer-metrics,client-id=*",
    "kafka.producer:type=producer-topic-metrics,client-id=*,topic=*",
    "kafka.producer:type=app-info,client-id=*",
    "kafka.consumer:type=consumer-metrics,client-id=*",
)


def librdkafka(servers: str) -> dict[str, bytes]:
    newest: dict[str, Any] = {}
    options = {"bootstrap.servers": servers, "statistics.interval.ms": 200}
    keep = {"stats_cb": lambda text: newest.update({json.loads(text)["type"]: json.loads(text)})}
    producer = Producer({**options, **keep, "client.id": "rd-producer", "queue.buffering.max.kbytes": 1024})
    for _ in range(SENT):
        producer.produce(TOPIC, b"x" * 100)
    producer.flush(WAIT_SECONDS)

    def all_counted() -> bool:
        producer.poll(0.1)
        return bool(newest.get("producer", {}).get("txmsgs") == SENT)

    eventually(all_counted, "statistics of all that was sent")
    group = {"group.id": "rd-group", "client.id": "rd-consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, **keep, **group})
    consumer.subscribe([TOPIC])
    eventually(
        lambda: consumer.consume(SENT, 0.5) and consumer.position(consumer.assignment())[0].offset == SENT,
        "all is consumed",
    )
    consumer.commit(asynchronous=False)

    def committed() -> bool:
        consumer.poll(0.1)
        partitions = newest.get("consumer", {}).get("topics", {}).get(TOPIC, {}).get("partitions", {})
        return bool(partitions.get("0", {}).get("committed_offset") == SENT)

    eventually(committed, "statistics of what was committed")
    # Copy the statistics before close(), because the statistics after close() may lack the partitions.
    values = {f"librdkafka {kind}": json.dumps(newest[kind]).encode() for kind in ("producer", "consumer")}
    consumer.close()
    return values


def kafka_python(servers: str) -> dict[str, bytes]:
    producer = KafkaProducer(bootstrap_servers=servers, client_id="kp-producer", linger_ms=200)
    for sent in [producer.send(TOPIC, b"x" * 100) for _ in range(SENT)]:
        sent.get(WAIT_SECONDS)
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id="kp", auto_offset_reset="earliest")
    subscribe(consumer, TOPIC)
    eventually(lambda: consumer.poll(1000), "kafka-python consumes")
    values = {
        "kafka-python producer": json.dumps(producer.metrics()).encode(),
        "kafka-python consumer": json.dumps(consumer.metrics()).encode(),
    }
    producer.close()
    consumer.close()
    return values


@contextmanager
def jvm(jar_set: str, folder: Path, servers: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        java(),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *options,
        f"-Dp.bootstrap.servers={servers}",
        f"-Dtopic={TOPIC}",
        *("-cp", os.pathsep.join(map(str, jars.classpath(jar_set)))),
        str(PROGRAMS / "SteadyProducer.java"),
    ]
    with (folder / "out").open("wb") as out, subprocess.Popen(command, cwd=folder, stdout=out, stderr=out) as running:
        try:
            yield running
        finally:
            running.terminate()


def has_sent(export: bytes) -> bool:
    try:
        resources = json.loads(export)["resourceMetrics"]
    except ValueError:  # another thread of the JVM wrote amid this line
        return False
    scopes = (scope for resource in resources for scope in resource["scopeMetrics"])
    metrics = {metric["name"]: metric for scope in scopes for metric in scope["metrics"]}
    total = metrics.get("kafka.producer.record_send_total", {"sum": {"dataPoints": []}})
    return any(
        point.get("asDouble", 0) > 0 for of in total.values() if isinstance(of, dict) for point in of["dataPoints"]
    )


def instrumented(folder: Path, servers: str) -> tuple[dict[str, bytes], dict[str, list[bytes]]]:
    (folder / "logback.xml").write_text(
        '<configuration><appender name="file" class="ch.qos.logback.core.FileAppender"><file>log.json</file>'
        '<encoder class="net.logstash.logback.encoder.LogstashEncoder"/></appender>'
        '<root level="INFO"><appender-ref ref="file"/></root></configuration>'
    )
    (agent,), (jolokia,) = jars.classpath("test-opentelemetry"), jars.classpath("jolokia")
    port = free_port()
    options = AGENT | {
        "logback.configurationFile": "logback.xml",
        # Since kafka-clients 4.0, the agent's metrics reporter replaces the JMX reporter unless the JMX reporter is
        # listed, too.
        "p.metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    }
    agents = (f"-javaagent:{agent}", f"-javaagent:{jolokia}=port={port},host=127.0.0.1,discoveryEnabled=false", SWITCH)
    with jvm("test-logback", folder, servers, *agents, *(f"-D{name}={value}" for name, value in options.items())):
        out = folder / "out"

        def exported(kind: str, holds: Callable[[bytes], bool]) -> Callable[[], bytes | None]:
            start = f'{{"{kind}"'.encode()

            def newest() -> bytes | None:
                lines = (line for line in out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
                return next((line for line in lines if line.startswith(start) and holds(line)), None)

            return newest

        otlp = eventually(exported("resourceMetrics", has_sent), "metrics of the OpenTelemetry agent")
        logs = [
            eventually(
                exported("resourceLogs", lambda line: b"clientId=jvm-producer" in line),
                "logs of the OpenTelemetry agent",
            )
        ]
        request = json.dumps([{"type": "read", "mbean": mbean} for mbean in READS]).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/jolokia/", request, timeout=WAIT_SECONDS) as answer:
            bulk = answer.read()
        lines = (folder / "log.json").read_bytes().splitlines()
    return {"opentelemetry": otlp, "jolokia": bulk}, {"opentelemetry": logs, "logback": lines}


def log4j2(folder: Path, servers: str) -> dict[str, list[bytes]]:
    appenders = "".join(
        f'<File name="{layout}" fileName="{layout}.json"><JsonTemplateLayout '
        f'eventTemplateUri="classpath:{layout}.json"/></File>'
        for layout in LAYOUTS
    )
    references = "".join(f'<AppenderRef ref="{layout}"/>' for layout in LAYOUTS)
    (folder / "log4j2.xml").write_text(
        f"<Configuration><Appenders>{appenders}</Appenders>"
        f'<Loggers><Root level="info">{references}</Root></Loggers></Configuration>'
    )
    options = ("-Dlog4j2.configurationFile=log4j2.xml", "-Dp.max.request.size=200", "-Dseconds=1", "-Drate=5")
    with jvm("test-log4j2", folder, servers, *options) as running:
        assert running.wait(WAIT_SECONDS) == 0
    return {layout: (folder / f"{layout}.json").read_bytes().splitlines() for layout in LAYOUTS}


@pytest.fixture(scope="module")
def written(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], dict[str, list[bytes]]]:
    broker.create_topic(TOPIC)
    servers = broker.bootstrap_servers
    with pytest.MonkeyPatch.context() as patch:
        for name, wanted in JARS.items():
            patch.setitem(jars.SETS, name, wanted)
        stats = librdkafka(servers)
        metrics, logs = instrumented(tmp_path_factory.mktemp("instrumented"), servers)
        logs |= log4j2(tmp_path_factory.mktemp("log4j2"), servers)
    return {**stats, **kafka_python(servers), **metrics}, logs


@pytest.fixture(scope="module")
def snapshots(written: tuple[Mapping[str, bytes], Any]) -> dict[str, Row]:
    by_name = {}
    for name, value in written[0].items():
        decoded = decode_metrics(Raw(name, value, key=b"s|i|kp").record, Settings(), now_ms())
        assert not decoded.errors
        (snapshot,) = decoded.snapshots
        by_name[name] = non_empty(snapshot) | {"format": decoded.format}
    return by_name


@pytest.fixture(scope="module")
def lines(written: tuple[Any, Mapping[str, list[bytes]]]) -> dict[str, list[Row]]:
    by_signature: dict[str, list[Row]] = {}
    for name, values in written[1].items():
        for value in values:
            decoded = decode_logs(Raw(name, value, headers={"service": "s"}).record, Settings(), now_ms())
            by_signature.setdefault(name, []).extend(non_empty(line) for line in decoded.lines)
            by_signature[name] += [{"error": error} for error in decoded.errors]
    return by_signature


def non_empty(part: Snapshot | LogLine) -> Row:
    row: Row = json.loads(msgspec.json.encode(part))
    row["client"] = {name: value for name, value in row["client"].items() if value is not None}
    return {name: value for name, value in row.items() if value is not None}


def now_ms() -> int:
    return int(time.time() * 1000)


def test_librdkafka(snapshots: dict[str, Row]) -> None:
    producer, consumer = snapshots["librdkafka producer"], snapshots["librdkafka consumer"]
    assert (producer["format"], producer["client"]["client_id"]) == ("librdkafka_stats", "rd-producer")
    assert producer["metrics"]["record-send-total"] == SENT
    assert producer["metrics"]["buffer-total-bytes"] == producer["metrics"]["buffer-available-bytes"] == 1024 * 1024
    assert 0 < producer["metrics"]["request-latency-avg"] < 60_000
    assert 0 < producer["metrics"]["record-queue-time-max"] < 60_000
    (partition,) = consumer["topics"]
    assert (partition["topic"], partition["partition"]) == (TOPIC, 0)
    expected = {"records-lag": 0, "committed-offset": SENT, "end-offset": SENT, "records-consumed-total": SENT}
    assert partition["metrics"].items() >= expected.items()
    assert consumer["metrics"]["assigned-partitions"] == 1


REPLICA = f"""
import logging
orders = Producer({{"bootstrap.servers": brokers, "client.id": "orders"}})
log = logging.getLogger("librdkafka")
parcels = Producer({{"bootstrap.servers": "127.0.0.1:1", "client.id": "parcels"}}, logger=log)
orders.produce("{TOPIC}", b"1")
while True:
    orders.poll(0.05)
    parcels.poll(0.05)
"""


def test_replicas_on_librdkafka_report_as_on_the_page(broker: Broker) -> None:
    (page,) = re.findall(
        r"^## Applications on librdkafka\n.*?^```python\n(.*?)^```$",
        (ROOT / "deploy/clients.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    for topic in (TOPIC, "client-metrics", "client-logs"):
        broker.create_topic(topic)
    program = f"{page}\nbrokers = {broker.bootstrap_servers!r}\n{REPLICA}"
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    host = socket.gethostname()
    instances = {f"{host}:{replica.pid}" for replica in running}

    def reported(topic: str) -> list[RawRecord]:
        return [
            Raw(topic, record.value, key=record.key, headers={n: v.decode() for n, v in record.headers}).record
            for record in all_of(broker.bootstrap_servers, topic)
            if b"orders-api" in record.value
        ]

    def measured() -> bool:
        decoded = [decode_metrics(record, Settings(), now_ms()) for record in reported("client-metrics")]
        assert not [error for one in decoded for error in one.errors]
        clients = {(one.format, *of(snapshot.client)) for one in decoded for snapshot in one.snapshots}
        expected = itertools.product(["canonical"], ["orders-api"], [host], instances, ["orders", "parcels"])
        return clients == {*expected}

    def logged() -> bool:
        decoded = [decode_logs(record, Settings(), now_ms()) for record in reported("client-logs")]
        assert not [error for one in decoded for error in one.errors]
        events = {
            (line.client.instance, event.signature, event.client_id)
            for one in decoded
            for line in one.lines
            for event in events_and_dumps(line, Source("client-logs", 0, 0), catalogue())[0]
        }
        processes = {of(line.client)[:3] for one in decoded for line in one.lines}
        failed = {(instance, "librdkafka-connect-failed", "parcels") for instance in instances}
        return events >= failed and processes == {("orders-api", host, instance) for instance in instances}

    try:
        eventually(measured, "metrics of both replicas")
        eventually(logged, "log lines of both replicas")
    finally:
        for replica in running:
            replica.kill()
            replica.wait()


def of(client: Identity) -> tuple[str | None, ...]:
    return client.service, client.host, client.instance, client.client_id


def all_of(servers: str, topic: str) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    end = consumer.end_offsets([partition])[partition]
    records: list[Any] = []
    while consumer.position(partition) < end:
        records += consumer.poll(1000).get(partition, [])
    consumer.close()
    return records


def test_kafka_python(snapshots: dict[str, Row]) -> None:
    producer, consumer = snapshots["kafka-python producer"], snapshots["kafka-python consumer"]
    assert (producer["format"], producer["client"]["kind"]) == ("kafka_python", "producer")
    assert 100 <= producer["metrics"]["record-queue-time-max"] < 60_000
    assert producer["metrics"]["record-send-rate"] > 0
    assert consumer["client"]["kind"] == "consumer"
    assert consumer["metrics"]["records-consumed-rate"] >= 0
    assert consumer["metrics"]["assigned-partitions"] == 1


def test_jolokia(snapshots: dict[str, Row]) -> None:
    snapshot = snapshots["jolokia"]
    assert snapshot["client"] == {
        "service": "s",
        "instance": "i",
        "client_id": "jvm-producer",
        "kind": "producer",
        "library": "java",
        "version": "4.1.2",
    }
    assert snapshot["metrics"]["buffer-total-bytes"] == 33554432
    assert snapshot["metrics"]["select-total"] > 0
    (topic,) = snapshot["topics"]
    assert topic["topic"] == TOPIC
    assert topic["metrics"]["record-send-total"] > 0


def test_the_opentelemetry_agent(snapshots: dict[str, Row]) -> None:
    snapshot = snapshots["opentelemetry"]
    assert (snapshot["client"]["service"], snapshot["client"]["client_id"]) == ("shop", "jvm-producer")
    assert snapshot["metrics"]["buffer-total-bytes"] == 33554432
    assert (
        snapshot["metrics"]["record-send-total"]
        == sum(t["metrics"]["record-send-total"] for t in snapshot["topics"])
        > 0
    )
    assert abs(snapshot["ts_ms"] / 1000 - time.time()) < 3600


def test_the_doctor_names_the_switch_of_an_opentelemetry_agent_of_3_that_has_kafka_off(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, wanted in JARS.items():
        monkeypatch.setitem(jars.SETS, name, wanted)
    broker.create_topic(TOPIC)
    (agent,) = jars.classpath("test-opentelemetry")
    options = (f"-D{name}={value}" for name, value in AGENT.items())
    with jvm("test-logback", tmp_path, broker.bootstrap_servers, f"-javaagent:{agent}", *options):

        def exported() -> bytes | None:
            sent = re.split(rb'"acknowledged": [1-9]', (tmp_path / "out").read_bytes(), maxsplit=1)[1:]
            lines = (line for output in sent for line in output.splitlines(keepends=True) if line.endswith(b"\n"))
            # Another thread of the program may write in the middle of the agent's line.
            return next((line for line in lines if line.startswith(b'{"resourceMetrics"') and parsed(line)), None)

        export = eventually(exported, "metrics of a producer that has sent")
    decoded = decode_metrics(Raw("agent", export).record, Settings(), now_ms())
    assert not decoded.snapshots
    (reason,) = decoded.errors
    assert reason.startswith("no-metrics: OpenTelemetry's Java agent") and reason.endswith(SWITCH)
    assert SWITCH in (ROOT / "deploy/clients.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["opentelemetry", "logback"])
def test_logs_of_the_client_itself(lines: dict[str, list[Row]], name: str) -> None:
    assert not [line for line in lines[name] if "error" in line]
    (line,) = (line for line in lines[name] if "Instantiated an idempotent producer" in line["message"])
    assert line["level"] == "INFO"
    assert line["logger"] == "org.apache.kafka.clients.producer.KafkaProducer"
    assert line["client"]["client_id"] == "jvm-producer"


@pytest.mark.parametrize("name", LAYOUTS)
def test_log4j2_layouts(lines: dict[str, list[Row]], name: str) -> None:
    assert not [line for line in lines[name] if "error" in line]
    failed = [line for line in lines[name] if line["message"] == "order not delivered"]
    assert failed
    for line in failed:
        assert (line["level"], line["logger"]) == ("WARN", "orders.Publisher")
        assert line["thread"].startswith("publisher-")
        assert "org.apache.kafka.common.errors.RecordTooLargeException" in line["stack"]
