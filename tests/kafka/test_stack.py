"""Test that the embedded brokers work, and that no child process outlives its parent."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from clienthealth.model.errors import DependencyError, ServiceError
from clienthealth.platform.kafka import admin, consumer, producer
from clienthealth.settings import KafkaSettings, Settings
from deploy.demo import cluster as clusters
from deploy.demo import jars
from deploy.demo.broker import Broker
from deploy.demo.cluster import Cluster
from deploy.demo.legacy import LegacyBroker
from deploy.demo.processes import Process, port_or_free
from deploy.demo.topics import create_ours, create_topics
from tests.support.waiting import WAIT_SECONDS, eventually

ROOT = Path(__file__).resolve().parents[2]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def values(settings: Settings, topic: str) -> list[bytes]:
    reader = consumer(
        settings, auto_offset_reset="earliest", consumer_timeout_ms=round(1000 * WAIT_SECONDS), group_id=None
    )
    try:
        partitions = [TopicPartition(topic, number) for number in reader.partitions_for_topic(topic) or ()]
        reader.assign(partitions)
        reader.seek_to_beginning(*partitions)
        left = sum(reader.end_offsets(partitions).values()) - sum(reader.beginning_offsets(partitions).values())
        return [next(reader).value for _ in range(left)]
    finally:
        reader.close()


def send(settings: Settings, topic: str, *records: bytes) -> None:
    writer = producer(settings, acks="all")
    for record in records:
        writer.send(topic, record)
    writer.flush(timeout=WAIT_SECONDS)
    writer.close()


@pytest.mark.long
def test_a_broker_keeps_port_and_data_over_a_stop_and_a_kill(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        settings, address = Settings(kafka=broker.kafka), broker.bootstrap_servers
        broker.create_topic("letters")
        send(settings, "letters", b"a")
        broker.restart()
        send(settings, "letters", b"b")
        first = broker.pid
        broker.kill()
        assert not alive(first)
        broker.restart()
        assert broker.bootstrap_servers == address
        assert values(settings, "letters") == [b"a", b"b"]
        last = broker.pid
    assert not alive(last)
    assert "Kafka Server started" in broker.log.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_suspended_broker_does_not_answer_until_it_continues(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        settings = Settings(kafka=broker.kafka)
        broker.pause()
        with pytest.raises(ServiceError):
            admin(settings, bootstrap_timeout_ms=1500, request_timeout_ms=1000)
        broker.resume()
        client = admin(settings, bootstrap_timeout_ms=60_000)
        assert len(client.describe_cluster()["brokers"]) == 1
        client.close()


@pytest.mark.long
def test_a_broker_that_cannot_start_gives_the_reason_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = Broker(tmp_path / "broker", port=taken.getsockname()[1])
        with pytest.raises(ServiceError, match=r"(?s)exit code 1.*broker\.log"):
            broker.start()
    with pytest.raises(ServiceError, match="no broker runs at"):
        assert broker.pid


@pytest.mark.long
def test_a_cluster_is_upgraded_node_by_node_survives_its_controller_and_what_was_acknowledged_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "AWAY_SECONDS", 10.0)
    with Cluster(tmp_path / "cluster", jar_set="broker-3.9") as cluster:
        settings = Settings(kafka=cluster.kafka)
        create_topics(cluster.kafka, ["letters"])
        send(settings, "letters", b"a")
        pids = [node.pid for node in cluster.nodes]
        cluster.roll()
        assert [node.pid == pid for node, pid in zip(cluster.nodes, pids, strict=True)] == [False, True, True]
        eventually(lambda: _in_sync(settings, "letters") == [{1, 2, 3}] * 3, "all replicas are in sync")
        cluster.roll()
        cluster.roll()
        # 33 is the metadata version of Kafka 4.4, and 21 is the metadata version of 3.9.
        eventually(lambda: _metadata_version(settings) == (33, 33), "the newest metadata is in force")
        leads = cluster.controller()
        cluster.rolls = 5
        cluster.roll()
        assert cluster.controller() is not leads and leads.pid, "frozen, replaced, and back"
        cluster.nodes[1].stop()
        send(settings, "letters", b"b")
        assert sorted(values(settings, "letters")) == [b"a", b"b"]
        assert cluster.stored(["letters"]) == 2


def _metadata_version(settings: Settings) -> tuple[int, int]:
    client = admin(settings)
    try:
        version = client.describe_features()["metadata.version"]
        return version["finalized"][1], version["supported"][1]
    except KafkaError:
        return 0, 0
    finally:
        client.close()


def _in_sync(settings: Settings, topic: str) -> list[set[int]]:
    client = admin(settings)
    try:
        [description] = client.describe_topics([topic])
        return [set(partition["isr_nodes"]) for partition in description["partitions"]]
    finally:
        client.close()


def test_our_topics_have_the_policies_that_they_need(broker: Broker) -> None:
    settings = Settings(kafka=broker.kafka)
    create_ours(settings)
    create_ours(settings)
    create_topics(broker.kafka, ["plain"])
    client = admin(settings)
    try:
        assert {"client-metrics", "client-logs", "client-health", "client-rejects"} <= set(client.list_topics())
        assert _policy(client, "client-health") == "compact,delete"
        assert _policy(client, "client-metrics") == "delete"
    finally:
        client.close()


def _policy(client: object, topic: str) -> str:
    from clienthealth.ops.doctor.brokers import configuration

    return configuration(client, topic)["cleanup.policy"]


@pytest.mark.long
def test_a_broker_of_2015_takes_records(tmp_path: Path) -> None:
    with LegacyBroker(tmp_path / "legacy") as legacy:
        settings = Settings(kafka=KafkaSettings(legacy.bootstrap_servers))
        writer = producer(settings, api_version=(0, 8, 2), enable_idempotence=False, acks=1)
        assert writer.send("trades", b"x").get(WAIT_SECONDS).offset == 0
        writer.close()


def test_the_second_call_for_jars_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = jars.classpath("broker")

    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", no_process)
    began = time.monotonic()
    assert jars.classpath("broker") == first
    assert time.monotonic() - began < 0.5
    assert any(jar.name == "kafka_2.13-4.4.0.jar" for jar in first)


def test_without_a_network_the_message_contains_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HEALTH_CACHE", str(tmp_path))
    monkeypatch.setenv("KAFKA_HEALTH_MAVEN_URL", f"http://127.0.0.1:{port_or_free(1)}/maven2")
    with pytest.raises(DependencyError, match="KAFKA_HEALTH_MAVEN_URL"):
        jars.classpath("jolokia")


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (jar,) = jars.classpath("jolokia")
    mirror = tmp_path / "mirror" / "org" / "jolokia" / "jolokia-agent-jvm" / "2.5.1"
    mirror.mkdir(parents=True)
    monkeypatch.setenv("KAFKA_HEALTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KAFKA_HEALTH_MAVEN_URL", (tmp_path / "mirror").as_uri())
    copy = mirror / "jolokia-agent-jvm-2.5.1-javaagent.jar"
    copy.write_bytes(jar.read_bytes())
    copy.with_name(f"{copy.name}.sha1").write_text(hashlib.sha1(jar.read_bytes()).hexdigest(), encoding="utf-8")
    return copy


def test_a_fetch_that_was_cut_off_goes_on(mirrored: Path) -> None:
    (copy,) = jars.classpath("jolokia")
    assert copy.read_bytes() == mirrored.read_bytes()
    copy.unlink()
    assert jars.classpath("jolokia") == [copy]
    assert copy.read_bytes() == mirrored.read_bytes()


def test_a_jar_with_a_wrong_checksum_is_refused(mirrored: Path) -> None:
    mirrored.write_bytes(b"not what it was")
    mirrored.with_name(f"{mirrored.name}.sha1").write_text("0" * 40, encoding="utf-8")
    with pytest.raises(DependencyError, match="does not match its checksum"):
        jars.classpath("jolokia")


def test_a_jar_with_another_content_than_is_pinned_is_refused_and_deleted(mirrored: Path, tmp_path: Path) -> None:
    mirrored.write_bytes(b"what an intruder put there, with its checksum")
    digests = [hashlib.new(name, mirrored.read_bytes()).hexdigest() for name in ("sha1", "sha256")]
    mirrored.with_name(f"{mirrored.name}.sha1").write_text(digests[0], encoding="utf-8")
    with pytest.raises(DependencyError, match=rf"their pins in jars\.sha256.*\n{digests[1]}  {mirrored.name}$"):
        jars.classpath("jolokia")
    assert list(tmp_path.glob("cache/**/*.jar")) == []


def test_a_jar_that_is_not_pinned_is_refused(mirrored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pins").write_text(f"{'0' * 64}  another.jar\n", "utf-8")
    monkeypatch.setattr("clienthealth.platform.jars.PINNED", {"jolokia": tmp_path / "pins"})
    with pytest.raises(DependencyError, match=r"their pins in jars\.sha256"):
        jars.classpath("jolokia")


def test_what_is_pinned_is_what_is_there() -> None:
    assert len(jars.PINNED) > 10
    there = {path.name: path for name in jars.PINNED for path in jars.classpath(name)}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()} == jars.pins()


def test_a_port_in_use_leads_to_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port_or_free(port) not in (port, 0)
    assert port_or_free(port) == port


def test_a_process_that_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    process = Process(
        "deaf",
        ["sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"],
        tmp_path / "deaf.log",
    )
    eventually(lambda: process.log.read_text(encoding="utf-8").strip().isdigit())
    child = int(process.log.read_text(encoding="utf-8"))
    process.stop(seconds=0.3)
    assert process.exit_code == -signal.SIGKILL
    eventually(lambda: not alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_the_one_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    """Child processes die with their parent, even if they are suspended."""
    program = f"""
import sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from deploy.demo.processes import Process
started = []
def start(): started.append(Process("sleeper", ["sh", "-c", "sleep 1000 & wait"], Path({str(tmp_path)!r}) / "log"))
start()
thread = threading.Thread(target=start); thread.start(); thread.join()
started[0].signal(19)
print(*(process.pid for process in started), flush=True)
time.sleep(1000)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    os.kill(parent.pid, how)
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not any(alive(pid) for pid in pids))
