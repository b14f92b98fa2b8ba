"""Capture what real collectors write about a real Kafka producer.

python -m tests.captures --collector PATH --telegraf PATH

One JVM runs a Java producer and three agents. OpenTelemetry's agent pushes OTLP to a `Sink`, which records the OTLP
and passes it on to the OpenTelemetry Collector. Telegraf polls Jolokia's agent and the JMX exporter. Collector and
Telegraf write to a real broker, and their records become the files of this folder. README.md explains how to build
Collector and Telegraf.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from clienthealth.platform.jars import java
from deploy.demo import jars
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import free_port
from deploy.demo.topics import create_topics
from tests.support.waiting import eventually

HERE = Path(__file__).parent
TOPIC = "orders_v2"
PATIENCE_SECONDS = 90.0
AGENT, JMX_EXPORTER = "2.21.0", "1.0.1"
JARS = {
    "captures-agent": jars.JarSet((f"io.opentelemetry.javaagent:opentelemetry-javaagent:{AGENT}",), without=("*:*",)),
    "captures-jmx": jars.JarSet((f"io.prometheus.jmx:jmx_prometheus_javaagent:{JMX_EXPORTER}",), without=("*:*",)),
    "captures-logback": jars.JarSet(
        ("org.apache.kafka:kafka-clients:4.1.2", "ch.qos.logback:logback-classic:1.5.18"),
    ),
}
TELLING = {"metrics": b"kafka.producer.record_send_total", "logs": b"clientId=shop-producer"}
ENCODINGS = {"metrics": ("otlp_proto", "otlp_json"), "logs": ("otlp_proto", "otlp_json")}
TELEGRAF = {
    "jolokia2.influx": ("jolokia2", "influx"),
    "jolokia2.json": ("jolokia2", "json"),
    "prometheus-1.influx": ("prometheus-1", "influx"),
    "prometheus-2.influx": ("prometheus-2", "influx"),
    "prometheus-2.json": ("prometheus-2", "json"),
    "prometheus-2.prom": ("prometheus-2", "prometheus"),
}
UNWANTED = (
    *("process.command_args", "process.command_line", "process.executable.path"),
    *("host.id", "os.description"),
)
TOPICS = (
    *(f"{signal}-{encoding}" for signal, encodings in ENCODINGS.items() for encoding in encodings),
    *(f"telegraf-{name}" for name in TELEGRAF),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.captures", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--collector", type=Path, required=True, help="the OpenTelemetry Collector of otelcol.yaml")
    parser.add_argument("--telegraf", type=Path, required=True, help="Telegraf with the plugins that README.md names")
    asked = parser.parse_args()
    jars.SETS.update(JARS)
    with tempfile.TemporaryDirectory(prefix="kafka-health-captures-") as folder:
        try:
            for name, content in captured(Path(folder), asked.collector, asked.telegraf):
                file = HERE / name
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
                sys.stdout.write(f"{name}: {len(content):,} bytes\n")
        except TimeoutError as error:
            logs = (f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in Path(folder).glob("*.log"))
            sys.exit("\n".join((str(error), *logs)))


def captured(folder: Path, collector: Path, telegraf: Path) -> Iterator[tuple[str, bytes]]:
    broker = Broker(folder / "broker").start()
    try:
        create_topics(broker.kafka, [TOPIC, *TOPICS], partitions=1)
        with sink() as pushes, program(folder, collector, otelcol(folder, broker, pushes)):
            ports = {"jolokia": free_port(), "jmx": free_port()}
            with producer(folder, broker, pushes.port, ports):
                eventually(
                    lambda: reachable(ports["jolokia"], "/jolokia/") and reachable(ports["jmx"], "/metrics"),
                    seconds=PATIENCE_SECONDS,
                )
                config = agent_config(folder, broker, ports)
                with program(folder, telegraf, ["--config", str(config)]):
                    yield from _of_telegraf(broker)
                yield from _of_otlp(broker, pushes)
    finally:
        broker.stop()


def _of_telegraf(broker: Broker) -> Iterator[tuple[str, bytes]]:
    for name in TELEGRAF:
        awaited(broker, f"telegraf-{name}", TOPIC.encode())
        records = awaited(broker, f"telegraf-{name}", b"kafka")
        values = {_series(name, value): value for value in records.values()}
        yield f"telegraf/{name}", b"".join(value.rstrip(b"\n") + b"\n" for value in values.values())


def _series(name: str, value: bytes) -> bytes:
    if name.endswith(".json"):
        document = json.loads(value)
        return json.dumps([document["name"], document["tags"], sorted(document["fields"])]).encode()
    if name.endswith(".influx"):
        return (
            re.sub(rb"=[^,\s]*(?=[,\s])", b"", value.partition(b" ")[2]).rpartition(b" ")[0] + value.partition(b" ")[0]
        )
    return value.rstrip().rpartition(b" ")[0]


def _of_otlp(broker: Broker, pushes: Sink) -> Iterator[tuple[str, bytes]]:
    for signal, encodings in ENCODINGS.items():
        captured = {of: awaited(broker, f"{signal}-{of}", TELLING[signal]) for of in encodings}
        last = max(set.intersection(*(set(records) for records in captured.values())))
        for encoding, records in captured.items():
            yield f"otel-collector/{signal}.{encoding.removeprefix('otlp_')}", records[last]
        yield f"otel-javaagent/{signal}.gzip", pushes.bodies[signal]


def awaited(broker: Broker, topic: str, word: bytes) -> dict[int, bytes]:
    captured: dict[int, bytes] = eventually(lambda: read(broker, topic, word), seconds=PATIENCE_SECONDS)
    return captured


def read(broker: Broker, topic: str, word: bytes) -> dict[int, bytes]:
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=None)
    try:
        partition = TopicPartition(topic, 0)
        reader.assign([partition])
        reader.seek_to_beginning()
        end = reader.end_offsets([partition])[partition]
        by_offset: dict[int, bytes] = {}
        while reader.position(partition) < end:
            for records in reader.poll(1000).values():
                by_offset |= {record.offset: record.value for record in records if word in record.value}
        return by_offset
    finally:
        reader.close()


class Sink:
    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.port, self.to = 0, ""


@contextlib.contextmanager
def sink() -> Iterator[Sink]:
    kept = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            kept.bodies[self.path.rpartition("/")[2]] = body
            headers = {name: value for name, value in self.headers.items() if name.lower().startswith("content-")}
            with urllib.request.urlopen(
                urllib.request.Request(kept.to + self.path, body, headers), timeout=10
            ) as answer:
                posted = answer.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(posted)))
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(posted)

        def _body(self) -> bytes:
            if "Content-Length" in self.headers:
                return self.rfile.read(int(self.headers["Content-Length"]))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()


def otelcol(folder: Path, broker: Broker, pushes: Sink) -> list[str]:
    port = free_port()
    pushes.to = f"http://127.0.0.1:{port}"
    exporters = "".join(
        f"  kafka/{signal}-{encoding}:\n    brokers: [{broker.bootstrap_servers!r}]\n"
        f"    {signal}: {{topic: {signal}-{encoding}, encoding: {encoding}}}\n"
        for signal, encodings in ENCODINGS.items()
        for encoding in encodings
    )
    pipelines = "".join(
        f"    {signal}:\n      receivers: [otlp]\n      processors: [batch]\n"
        f"      exporters: [{', '.join(f'kafka/{signal}-{encoding}' for encoding in encodings)}]\n"
        for signal, encodings in ENCODINGS.items()
    )
    (folder / "otelcol.yaml").write_text(
        f"receivers:\n  otlp:\n    protocols:\n      http: {{endpoint: 127.0.0.1:{port}}}\n"
        f"processors:\n  batch: {{timeout: 200ms}}\nexporters:\n{exporters}"
        f"service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n{pipelines}"
    )
    return ["--config", f"file:{folder / 'otelcol.yaml'}"]


def agent_config(folder: Path, broker: Broker, ports: Mapping[str, int]) -> Path:
    jolokia = "".join(
        f'  [[inputs.jolokia2_agent.metric]]\n    name = "{name}"\n    mbean = "{mbean}"\n    tag_keys = {tags}\n'
        for name, mbean, tags in (
            ("kafka_producer", "kafka.producer:client-id=*,type=producer-metrics", '["client-id"]'),
            (
                "kafka_producer_topic",
                "kafka.producer:client-id=*,topic=*,type=producer-topic-metrics",
                '["client-id", "topic"]',
            ),
        )
    )
    page = f"http://127.0.0.1:{ports['jmx']}/metrics"
    sources = {
        "jolokia2": "[[inputs.jolokia2_agent]]\n"
        f'  urls = ["http://127.0.0.1:{ports["jolokia"]}/jolokia"]\n{jolokia}'
        '  [inputs.jolokia2_agent.tags]\n    via = "jolokia2"\n',
        **{
            f"prometheus-{version}": f'[[inputs.prometheus]]\n  urls = ["{page}"]\n  metric_version = {version}\n'
            f'  {passed} = ["kafka_producer_producer_*"]\n'
            f'  [inputs.prometheus.tags]\n    via = "prometheus-{version}"\n'
            for version, passed in ((1, "namepass"), (2, "fieldinclude"))
        },
    }
    outputs = "".join(
        f'[[outputs.kafka]]\n  brokers = ["{broker.bootstrap_servers}"]\n  topic = "telegraf-{name}"\n'
        f'  data_format = "{written}"\n  tagexclude = ["via"]\n  [outputs.kafka.tagpass]\n    via = ["{source}"]\n'
        for name, (source, written) in TELEGRAF.items()
    )
    config = folder / "telegraf.conf"
    general = '[agent]\n  interval = "5s"\n  flush_interval = "5s"\n  hostname = "scraper"\n'
    config.write_text(general + "".join(sources.values()) + outputs)
    return config


@contextlib.contextmanager
def producer(folder: Path, broker: Broker, port: int, ports: Mapping[str, int]) -> Iterator[None]:
    (folder / "jmx.yaml").write_text("includeObjectNames: ['kafka.producer:*']\nrules: [{pattern: '.*'}]\n")
    (folder / "logback.xml").write_text(
        '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
        "<pattern>%d %p %t %c %m%n</pattern></encoder></appender>"
        '<root level="INFO"><appender-ref ref="out"/></root></configuration>'
    )
    (agent,), (jmx,), (jolokia,) = map(jars.classpath, ("captures-agent", "captures-jmx", "jolokia"))
    options = {
        "logback.configurationFile": "logback.xml",
        "otel.service.name": "shop",
        "otel.resource.attributes": "host.name=shop-1",
        "otel.instrumentation.common.default-enabled": "false",
        "otel.instrumentation.kafka.enabled": "true",
        "otel.instrumentation.logback-appender.enabled": "true",
        "otel.instrumentation.runtime-telemetry.enabled": "false",
        "otel.resource.disabled.keys": ",".join(UNWANTED),
        "otel.traces.exporter": "none",
        "otel.exporter.otlp.endpoint": f"http://127.0.0.1:{port}",
        "otel.exporter.otlp.protocol": "http/protobuf",
        "otel.exporter.otlp.compression": "gzip",
        "otel.metric.export.interval": "2000",
        "p.client.id": "shop-producer",
        "p.metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
        "p.bootstrap.servers": broker.bootstrap_servers,
        "topic": TOPIC,
        "rate": "20",
    }
    agents = (
        f"-javaagent:{agent}",
        f"-javaagent:{jolokia}=port={ports['jolokia']},host=127.0.0.1,discoveryEnabled=false",
        f"-javaagent:{jmx}=127.0.0.1:{ports['jmx']}:{folder / 'jmx.yaml'}",
    )
    classpath = os.pathsep.join(map(str, jars.classpath("captures-logback")))
    arguments = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *agents]
    arguments += [f"-D{name}={value}" for name, value in options.items()]
    with program(folder, Path(java()), [*arguments, "-cp", classpath, str(PROGRAMS / "SteadyProducer.java")]):
        yield


@contextlib.contextmanager
def program(folder: Path, path: Path, arguments: Sequence[str]) -> Iterator[None]:
    with (
        (folder / f"{path.name}.log").open("wb") as log,
        subprocess.Popen([str(path), *arguments], cwd=folder, stdout=log, stderr=log) as running,
    ):
        try:
            yield
        finally:
            running.terminate()


def reachable(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
