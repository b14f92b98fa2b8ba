"""Follow real groups from their commits to the exporter's samples, lag and state."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import RebalanceInProgressError
from kafka.protocol.consumer import JoinGroupRequest
from kafka.structs import OffsetAndMetadata

from clienthealth.model.errors import ServiceError
from clienthealth.settings import GroupSettings, KafkaSettings, LagSettings, Settings, TopicSettings
from clienthealth_exporters.groups import exporter
from clienthealth_exporters.groups.reader import GroupReader, GroupsReading
from deploy.demo import jars
from deploy.demo.broker import Broker, java_command
from deploy.demo.client import PROGRAMS
from deploy.demo.processes import Process
from tests.support.group_histories import lag_of
from tests.support.subscribing import subscribe
from tests.support.waiting import eventually

PATIENCE_SECONDS = 300.0
OF_KAFKA_4 = ("classic", "consumer", "streams", "share")
#: Properties that enable Streams groups and share groups, which were previews before 4.2.
BROKERS_4: dict[str, dict[str, str]] = {
    "test-broker-4.1": {
        "unstable.api.versions.enable": "true",
        "unstable.feature.versions.enable": "true",
        "group.coordinator.rebalance.protocols": ",".join(OF_KAFKA_4),
    },
    "broker": {},
}
#: A record in the topic `deadly` makes a member hang, so that the member leaves its group.
HANGS = {"rate": "0", "topics": "orders,deadly", "slow_topic": "deadly", "handle_ms": "100000000"}
HANGS |= {"c_max_poll_interval_ms": "20000", "s_max_poll_interval_ms": "20000"}


class Lab:
    def __init__(self, servers: str) -> None:
        self.name = f"lag-{uuid.uuid4().hex[:8]}"
        self.servers = servers
        self.topic = f"{self.name}-orders"
        self.settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=servers),
            topics=TopicSettings(metrics=(f"{self.name}-metrics",)),
            groups=GroupSettings(include=f"{self.name}-.*", members_interval_seconds=0.0, idle_interval_seconds=0.0),
        )
        self.admin = KafkaAdminClient(bootstrap_servers=servers)
        self.producer = KafkaProducer(bootstrap_servers=servers)
        self.now = 1_700_000_000.0
        self.reader = GroupReader(exporter.connection(self.settings), self.settings.groups, lambda: self.now)
        (self.cluster,) = exporter.clusters(self.settings)
        self.snapshots = self.cluster.snapshots()
        self.readings: list[dict[str, Any]] = []
        self.consumers: list[KafkaConsumer] = []
        self.create()

    def create(self, partitions: int = 1) -> None:
        def made() -> bool:
            rows = self.admin.create_topics([NewTopic(self.topic, partitions, 1)], raise_errors=False)
            return all(row["error_code"] in (0, 36) for row in rows["topics"])  # error code 36: the topic exists

        eventually(made)
        self.admin.wait_for_topics([self.topic])

    def produce(self, records: int) -> None:
        for _ in range(records):
            self.producer.send(self.topic, b"order", partition=0)
        self.producer.flush()

    def join(self, group: str) -> KafkaConsumer:
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=f"{self.name}-{group}",
            client_id=f"{group}-app",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self.consumers.append(consumer)
        subscribe(consumer, self.topic)
        # kafka-python 3 joins again if a join ends between two polls.
        waits = itertools.count(50, 50)

        def assigned() -> bool:
            consumer.poll(next(waits))
            return bool(consumer.assignment())

        eventually(assigned)
        return consumer

    def commit(self, consumer: KafkaConsumer, offset: int) -> None:
        """Commit, and repeat the commit while a rebalance makes it fail."""

        def committed() -> bool:
            try:
                consumer.commit({TopicPartition(self.topic, 0): OffsetAndMetadata(offset, "", -1)})
            except RebalanceInProgressError:
                consumer.poll(1000)
                return False
            return True

        eventually(committed)

    def read(self, group: str) -> dict[str, Any]:
        self.now += 10
        name = f"{self.name}-{group}"
        (snapshot,) = (s for s in self.snapshots.from_reading(self.reader.read()) if s["client"]["group"] == name)
        topics = [
            {
                **{key.replace("-", "_"): topic["metrics"].get(key) for key in METRICS},
                **{key: topic[key] for key in ("topic", "partition", "member")},
            }
            for topic in snapshot["topics"]
        ]
        reading = {"ts_ms": snapshot["ts"], "members": snapshot["metrics"].get("members"), "topics": topics}
        self.readings.append(reading)
        return lag_of(name, self.readings, LagSettings())

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()
        self.reader.close()
        self.producer.close()
        self.admin.close()


METRICS = ("committed-offset", "end-offset", "start-offset", "commit-timestamp-ms")


@pytest.fixture
def lab(broker: Broker) -> Iterator[Lab]:
    started = Lab(broker.bootstrap_servers)
    yield started
    started.close()


def keeps_up(lab: Lab, group: str, consumer: KafkaConsumer, readings: int = 6) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for _ in range(readings):
        lab.produce(100)
        end = consumer.end_offsets([TopicPartition(lab.topic, 0)])[TopicPartition(lab.topic, 0)]
        lab.commit(consumer, end - 5)
        record = lab.read(group)
    return record


def test_a_consumer_that_keeps_up_is_ok_and_its_member_is_named(lab: Lab) -> None:
    record = keeps_up(lab, "web", lab.join("web"))
    (partition,) = record["lag"]
    assert (partition["records"], partition["state"], partition["quality"]) == (5, "OK", "interpolated")
    assert partition["seconds"] == pytest.approx(0.5)
    assert partition["commit_age_seconds"] == 0.0
    assert partition["retention_used_ratio"] == pytest.approx(5 / 600)
    assert partition["member"]["client_id"] == "web-app"
    assert record["group"] == {
        "status": "OK",
        "max_lag": 5,
        "max_lag_seconds": pytest.approx(0.5),
        "sum_lag": 5,
        "members": 1,
        "clamped": 0,
    }


def test_a_consumer_that_left_is_stop_after_a_minute(lab: Lab) -> None:
    consumer = lab.join("gone")
    keeps_up(lab, "gone", consumer)
    consumer.close()
    states = []
    for _ in range(7):
        lab.produce(100)
        states.append(lab.read("gone")["group"]["status"])
    assert states == ["OK"] * 5 + ["STOP"] * 2
    assert lab.readings[-1]["members"] == 0


def test_a_member_that_gets_nowhere_is_stall(lab: Lab) -> None:
    keeps_up(lab, "stuck", lab.join("stuck"))
    record: dict[str, Any] = {}
    for _ in range(6):
        lab.produce(100)
        record = lab.read("stuck")
    assert (record["group"]["status"], record["group"]["members"]) == ("STALL", 1)
    assert record["lag"][0]["records"] == 605


def test_a_consumer_that_went_back_is_rewind(lab: Lab) -> None:
    consumer = lab.join("again")
    keeps_up(lab, "again", consumer)
    lab.produce(100)
    lab.commit(consumer, 10)
    record = lab.read("again")
    assert (record["group"]["status"], record["lag"][0]["records"]) == ("REWIND", 690)


def test_a_consumer_that_is_too_slow_is_warn(lab: Lab) -> None:
    consumer = lab.join("slow")
    record: dict[str, Any] = {}
    for step in range(1, 9):
        lab.produce(100)
        lab.commit(consumer, 60 * step)
        record = lab.read("slow")
    assert record["group"]["status"] == "WARN"
    # The group has not read 320 of 800 records. 100 records are produced per 10 s, so the lag is 32 s.
    assert record["lag"][0]["records"] == 320
    assert record["lag"][0]["seconds"] == pytest.approx(32.0)


def test_a_topic_that_gets_nothing_is_idle(lab: Lab) -> None:
    consumer = lab.join("idle")
    lab.produce(100)
    lab.commit(consumer, 90)
    states = [lab.read("idle")["group"]["status"] for _ in range(7)]
    assert states == ["UNKNOWN"] * 6 + ["IDLE"]


def test_a_deleted_and_recreated_topic_starts_again(lab: Lab) -> None:
    consumer = lab.join("anew")
    keeps_up(lab, "anew", consumer)
    consumer.close()
    lab.admin.delete_topics([lab.topic])
    lab.create()
    lab.produce(20)
    again = lab.join("anew")
    for offset in (5, 10, 15):
        lab.commit(again, offset)
        record = lab.read("anew")
        (partition,) = record["lag"]
        assert partition["records"] == 20 - offset
        assert partition["state"] != "REWIND"
        assert partition["seconds"] is None or partition["seconds"] >= 0


def test_snapshots_are_published_and_a_restart_of_the_connection_costs_nothing(lab: Lab) -> None:
    lab.admin.create_topics([NewTopic(lab.settings.topics.metrics[0], 1, 1)])
    consumer = lab.join("shown")
    lab.produce(10)
    lab.commit(consumer, 4)
    running = exporter.GroupExporter(lab.settings, lab.cluster)
    assert running.cycle() == 1
    running._reader._disconnect()
    assert running.cycle() == 1
    running.close()
    assert running.failures_total == 0

    records = KafkaConsumer(
        lab.settings.topics.metrics[0],
        bootstrap_servers=lab.servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=round(1000 * PATIENCE_SECONDS),
    )
    lab.consumers.append(records)
    first, second = next(records), next(records)
    assert first.key == second.key == f"consumer-groups|default|{lab.name}-shown".encode()
    snapshot = json.loads(first.value)
    assert snapshot["client"]["kind"] == "group"
    assert snapshot["config"] == {"group.state": "Stable"}
    assert snapshot["topics"][0]["metrics"] == {"committed-offset": 4, "end-offset": 10, "start-offset": 0}


@pytest.mark.long
def test_a_broker_that_restarts_is_read_again(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        broker.create_topic("client-metrics")
        broker.create_topic("orders")
        settings = Settings(kafka=broker.kafka, groups=GroupSettings(timeout_seconds=2.0))
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="readers", enable_auto_commit=False
        )
        consumer.assign([TopicPartition("orders", 0)])
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(0, "", -1)})
        consumer.close()
        running = exporter.GroupExporter(settings, *exporter.clusters(settings))
        eventually(lambda: running.cycle() == 1)
        broker.kill()
        failures = running.failures_total
        assert running.cycle() == 0
        assert running.failures_total > failures
        broker.start()
        eventually(lambda: running.cycle() == 1)
        running.close()


@pytest.mark.long
@pytest.mark.parametrize(("jar_set", "properties"), BROKERS_4.items())
def test_groups_of_all_types_of_kafka_4_and_members_that_hang(
    jar_set: str, properties: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jars.SETS["test-broker-4.1"] = jars.JarSet(("org.apache.kafka:kafka_2.13:4.1.2", *jars.LOG4J_1))
    with Broker(tmp_path / "broker", properties, jar_set=jar_set) as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_topic("deadly", partitions=2)
        groups = GroupSettings(exclude="secret-.*", members_interval_seconds=0.0)
        settings = Settings(kafka=broker.kafka, groups=groups)
        (cluster,) = exporter.clusters(settings)
        reader = cluster.reader()
        clients = Process("clients", members(broker, **HANGS), tmp_path / "clients.log")
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        try:
            for name in ("of-connect", "secret-1"):
                join_as_connect(admin, name)

            def read() -> GroupsReading | None:
                for partition in range(2):
                    producer.send("orders", b"order", partition=partition)
                producer.flush()
                try:
                    reading = reader.read()
                except ServiceError:
                    return None
                rows = {group.type: (group.state, len(group.owners)) for group in reading.groups if group.offsets}
                return reading if rows == dict.fromkeys(OF_KAFKA_4, ("Stable", 4)) else None

            reading = eventually(read)
            assert exporter.once(cluster, as_json=False) == 0
            printed, complaint = capsys.readouterr()
            producer.send("deadly", b"order").get(PATIENCE_SECONDS)
            watched = watch(clients.pid)
        finally:
            clients.stop(20)
            reader.close()
            producer.close()
            admin.close()
    by_type = {group.type: group for group in reading.groups}
    assert {kind: group.name for kind, group in by_type.items()} == {
        kind: f"of-{kind}" for kind in (*OF_KAFKA_4, "connect")
    }
    for kind in OF_KAFKA_4:
        (member,) = by_type[kind].members or ()
        assert member.client_id.startswith(f"{kind}-app") and member.host == "/127.0.0.1"
        assert (member.epoch is None) == (kind == "classic")
        assert set(by_type[kind].owners.values()) == {member}
        assert all(
            offsets.end is not None and 0 <= offsets.committed <= offsets.end
            for offsets in by_type[kind].offsets.values()
        )
    shown = {tuple(line.split()[:3]) for line in printed.splitlines()[1:]}
    assert shown >= {(f"of-{kind}", kind, "Stable") for kind in OF_KAFKA_4}
    assert any(name == "of-connect" for name, *_ in shown)
    hanging = {
        row["client"]["client_id"]
        for row in watched
        for verdict in row["verdicts"]
        if verdict["mode"] == "consumer-stalled" and verdict["status"] in ("suspected", "confirmed")
    }
    assert hanging == {f"{kind}-app" for kind in OF_KAFKA_4 if kind != "streams"} | {
        "streams-app-StreamThread-1-consumer"
    }
    left_out = "cluster default: the settings `include` and `exclude` in [groups] leave out 1 groups"
    assert complaint.splitlines()[-1] == left_out


def watch(pid: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "watch", str(pid), "--for", "60", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def members(broker: Broker, **options: str) -> list[str]:
    named = {"p.client.id": "feed", "c.client.id": "{}-app", "c.group.id": "of-{}", "s.commit.interval.ms": "200"}
    named |= {"s.client.id": "streams-app", "s.application.id": "of-streams"}
    named |= {f"{kind}.bootstrap.servers": broker.bootstrap_servers for kind in "pcs"}
    named |= {name.replace("_", "."): value for name, value in options.items()}
    java, *rest = java_command("streams-4.4", 128, f"{PROGRAMS / 'Groups.java'}")
    return [java, *(f"-D{name}={value}" for name, value in named.items()), *rest]


def join_as_connect(admin: KafkaAdminClient, group: str) -> None:
    """Join as a Connect worker. The first response contains the member id for the second request."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="compatible", metadata=b"\0\0")
    fields = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000, "protocols": [protocol]}
    (broker,) = (row["broker_id"] for row in admin.describe_cluster()["brokers"])
    member = ""

    def joined() -> bool:
        nonlocal member
        request = JoinGroupRequest(group_id=group, member_id=member, protocol_type="connect", **fields)
        response = admin._manager.run(admin._manager.send, request, broker)
        member = response.member_id
        return bool(response.error_code == 0)

    eventually(joined)


def test_it_stops_on_request(lab: Lab) -> None:
    lab.admin.create_topics([NewTopic(lab.settings.topics.metrics[0], 1, 1)])
    stop = threading.Event()
    service = threading.Thread(target=exporter.serve, args=(lab.settings, stop))
    service.start()
    stop.set()
    service.join(PATIENCE_SECONDS)
    assert not service.is_alive()


def test_once_prints_for_people_and_for_machines(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    consumer = lab.join("shown")
    lab.produce(10)
    lab.commit(consumer, 4)
    assert exporter.once(lab.cluster, as_json=True) == 0
    (snapshot,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert snapshot["client"]["client_id"] == f"{lab.name}-shown"
    assert exporter.once(lab.cluster, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-5:-2] == ["4", "10", "6"]


def test_a_cluster_that_is_not_there_is_an_error_of_ours() -> None:
    nowhere = Settings(kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"), groups=GroupSettings(timeout_seconds=0.2))
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:1"):
        exporter.once(exporter.Cluster("nowhere", nowhere), as_json=True)
