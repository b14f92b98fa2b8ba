"""Check that our plugin forwards the pushes of real clients (KIP-714) in several broker versions."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from clienthealth.model.subscription import PLUGIN
from clienthealth.model.telemetry import Snapshot
from clienthealth.ops.doctor.brokers import kafka_works
from clienthealth.ops.doctor.records import newest
from clienthealth.platform.jars import java
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import IdentitySettings, Settings
from deploy.demo import jars
from deploy.demo.broker import Broker
from deploy.demo.client import PROGRAMS
from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port
from deploy.demo.topics import ask_for_pushes, create_ours
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = pytest.mark.long

NEWEST = "broker"
SINCE_42 = f"org.apache.kafka.common.metrics.JmxReporter,{PLUGIN}Since42"
#: In this order: the oldest version with KIP-714, the oldest maintained version, the newest version before 4.2, and the
#: newest version.
BROKERS = {
    "test-broker-3.7": jars.JarSet(("org.apache.kafka:kafka_2.13:3.7.2", *jars.LOG4J_1), without=("io.netty:*",)),
    "broker-3.9": jars.SETS["broker-3.9"],
    "test-broker-4.1": jars.JarSet(("org.apache.kafka:kafka_2.13:4.1.2", *jars.LOG4J_1)),
    NEWEST: jars.SETS[NEWEST],
}
_PLUGIN_LOGS = f" {PLUGIN} - "
TOPIC = "plugin.orders"
ELSEWHERE = "127.0.0.2"


@contextmanager
def jvm(jar_set: str, program: str, folder: Path, options: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    command = [
        *(java(), "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-D{name}={value}" for name, value in options.items()),
        *("-cp", os.pathsep.join(map(str, jars.classpath(jar_set))), str(PROGRAMS / f"{program}.java")),
    ]
    with (folder / "out").open("wb") as out, subprocess.Popen(command, cwd=folder, stdout=out, stderr=out) as running:
        try:
            yield running
        finally:
            running.terminate()
            running.wait(WAIT_SECONDS)


def all_pushes(settings: Settings) -> list[Snapshot]:
    snapshots: list[Snapshot] = []
    for record in newest(settings, settings.topics.metrics[0], 1000).records:
        decoded = decode_metrics(record, settings, int(time.time() * 1000))
        assert decoded.errors == []
        assert decoded.format == "otlp_metrics_protobuf"
        assert abs(decoded.snapshots[0].ts_ms - record.ts_ms) < 1000  # type: ignore[operator]
        snapshots += decoded.snapshots
    return snapshots


@pytest.mark.parametrize("jar_set", BROKERS)
def test_modern_clients_report_through_their_brokers_alone(
    jar_set: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(jars.SETS, jar_set, BROKERS[jar_set])
    impatient = {
        "clienthealth.producer.max.block.ms": "500",
        "clienthealth.producer.retry.backoff.max.ms": "1000",
        "clienthealth.colour": "blue",
    }
    port, far_port, controller_port = free_port(), free_port(), free_port()
    # A client that connects through the gateway has another address, as if the client ran on another host.
    gateway = Gateway(free_port(), far_port, ELSEWHERE)
    ports = {"PLAINTEXT": port, "FAR": far_port, "CONTROLLER": controller_port}
    listeners = {
        "listeners": ",".join(f"{name}://127.0.0.1:{number}" for name, number in ports.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},FAR://127.0.0.1:{gateway.port}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
    }
    with (
        Broker(
            tmp_path / "broker",
            impatient | listeners | ({"metric.reporters": SINCE_42} if jar_set == NEWEST else {}),
            port=port,
            controller_port=controller_port,
            telemetry_to="",
            jar_set=jar_set,
        ) as broker,
        closing(gateway.open()),
    ):
        settings = Settings(
            kafka=broker.kafka,
            identity=IdentitySettings(push_services=("*producer-api*=api",), push_hosts=("127.0.0.1=here",)),
        )
        broker.create_topic(TOPIC)
        ask_for_pushes(broker.kafka, 1)
        servers = {f"{kind}.bootstrap.servers": broker.bootstrap_servers for kind in ("p", "c")}
        steady = {**servers, "topic": TOPIC, "p.client.id": "steady"}
        far = {**steady, "p.bootstrap.servers": f"127.0.0.1:{gateway.port}"}
        both = {**servers, "topics": TOPIC, "rate": "20", "c.group.id": "plugin-readers", "p.client.id": "producer-api"}
        with (
            jvm("clients-3.9", "SteadyProducer", tmp_path / "3.9", steady) as leaving,
            jvm("clients-3.9", "SteadyProducer", tmp_path / "3.9-too", steady),
            jvm("clients-4.1", "SteadyProducer", tmp_path / "far", far),
            jvm("clients-4.1", "ProduceAndConsume", tmp_path / "4.1", both),
        ):
            rd = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "rd"})
            rd.produce(TOPIC, b"x")
            eventually(lambda: "Client telemetry does not reach" in broker.log.read_text(), "a missing topic is logged")
            create_ours(settings)

            def all_clients() -> set[tuple[str, str, str, str, str]]:
                all_clients = [snapshot.client for snapshot in all_pushes(settings)]
                found = {
                    (
                        client.service or "",
                        client.host or "",
                        client.client_id or "",
                        client.kind or "",
                        client.library or "",
                    )
                    for client in all_clients
                    if client.version
                }
                steady_ones = {(client.host, client.instance) for client in all_clients if client.client_id == "steady"}
                apart = sorted(host or "" for host, _ in steady_ones) == [ELSEWHERE, "here", "here"]
                return found if len(found) >= 5 and apart else set()

            found = eventually(all_clients, "all clients have pushed")
            group_members = {client for client in found if client[3] == "consumer"}
            assert found - group_members == {
                ("steady", "here", "steady", "producer", "java"),
                ("steady", ELSEWHERE, "steady", "producer", "java"),
                ("rd", "here", "rd", "producer", "librdkafka"),
                ("api", "here", "producer-api", "producer", "java"),
            }
            assert len(group_members) == 1

            def moving() -> Snapshot | None:
                return next((s for s in all_pushes(settings) if s.metrics.get("record-send-total", 0) > 0), None)

            pushed = eventually(moving, "what was sent is counted")
            assert (pushed.delta, pushed.topics[0].topic) == (True, TOPIC)
            assert jar_set != NEWEST or pushed.interval_ms == 1000, "as sent by the broker"
            assert {"buffer-total-bytes", "buffer-available-bytes", "select-total", "io-wait-time-ns-total"} <= set(
                pushed.metrics
            )
            assert rd.flush(WAIT_SECONDS) == 0
            assert "InvalidRequest" not in broker.log.read_text()
            by_plugin = [
                line.partition(" - ")[2] for line in broker.log.read_text().splitlines() if _PLUGIN_LOGS in line
            ]
            assert by_plugin[:2] == [
                "Neither the plugin nor a producer knows these settings: clienthealth.colour",
                f"Client telemetry is written to topic client-metrics at {broker.bootstrap_servers}",
            ]
            assert f"Topic {settings.topics.metrics[0]} not present in metadata after 500 ms" in by_plugin[2]
            leaving.terminate()
            leaving.wait(WAIT_SECONDS)
            texts = [finding.text for finding in kafka_works(settings)]
            assert any(text.startswith("All 1 broker(s) have our plugin.") for text in texts)
            assert {
                "Clients are requested to push their metrics every 1 s (kafka-client-health).",
                "Clients on librdkafka are requested to push their metrics every 1 s (kafka-client-health-librdkafka).",
            } <= set(texts)
            assert any("were pushed by 6 client(s)" in text and "2 apache-kafka-java 3.9.1" in text for text in texts)
            del rd

            def closed() -> set[str | None]:
                return {one.client.client_id for one in all_pushes(settings) if one.metrics["terminating"]}

            eventually(lambda: "rd" in closed(), "librdkafka reports its close")


@pytest.mark.parametrize(
    ("jar_set", "plugin"), [("test-broker-4.1", PLUGIN), (NEWEST, PLUGIN), (NEWEST, f"{PLUGIN}Since42")]
)
def test_a_broker_starts_whatever_the_settings_of_the_plugin_are(
    jar_set: str, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(jars.SETS, jar_set, BROKERS[jar_set])
    wrong = {
        "metric.reporters": plugin,
        "clienthealth.producer.bootstrap.servers": "",
        "clienthealth.topic": "client metrics",
        "clienthealth.queue.bytes": "16MB",
        "clienthealth.producer.linger.ms": "5s",
        "clienthealth.producer.bootstrap.server": "127.0.0.1:1",
    }
    with Broker(tmp_path / "broker", wrong, telemetry_to="", jar_set=jar_set) as broker:
        broker.create_topic(TOPIC)
        by_plugin = [line for line in broker.log.read_text().splitlines() if _PLUGIN_LOGS in line]
        unknown, refused = by_plugin
        assert (
            "clienthealth.producer.bootstrap.server (do you mean clienthealth.producer.bootstrap.servers?)" in unknown
        )
        assert " ERROR " in refused
        for name in ("topic=client metrics", "queue.bytes=16MB", "producer.linger.ms", "producer.bootstrap.servers"):
            assert f"clienthealth.{name}" in refused
        findings = [(one.state, one.text) for one in kafka_works(Settings(kafka=broker.kafka)) if one.about == "pushes"]
        if jar_set != NEWEST:
            assert findings[0][0] == "failed"
            assert findings[0][1].startswith("The plugin of broker(s) 1 accepts no pushes")
            return
        assert "only a broker's log shows whether the plugin's settings are wrong" in findings[0][1]
        ask_for_pushes(broker.kafka, 1)
        options = {"p.bootstrap.servers": broker.bootstrap_servers, "topic": TOPIC}
        with jvm("clients-4.1", "SteadyProducer", tmp_path / "steady", options):
            refused = "The settings of clienthealth.ClientTelemetryToTopic are wrong"
            eventually(lambda: refused in broker.log.read_text(), "a push is refused with its reason")
