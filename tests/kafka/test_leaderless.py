"""Test commands and exporters while one of two brokers is down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from clienthealth.configuration import load
from clienthealth.ops.cli import main
from clienthealth.ops.doctor import Finding, checks
from clienthealth.platform.kafka import admin, producer
from clienthealth.settings import Settings
from deploy.demo.broker import Broker, new_cluster_id
from deploy.demo.processes import free_port
from deploy.demo.topics import create_topics
from tests.support.health_records import healthy, key
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

CLIENTS = 20
GROUP = "shop"
KAFKA_HEALTH = str(Path(sys.executable).with_name("kafka-health"))
#: Prevents clients from expiring on a busy machine.
SLOWLY = {"KAFKA_HEALTH_PROMETHEUS_TTL_SECONDS": "86400"}


class Half:
    def __init__(self, folder: Path, one: Broker, two: Broker) -> None:
        self.one, self.two = one, two
        self.config, self.folder = folder / "health.toml", folder
        self.exporter = ""

    @property
    def settings(self) -> Settings:
        return load(str(self.config), {})

    def leaderless(self) -> set[str]:
        client = admin(self.settings)
        try:
            return {
                f"{topic['name']}/{row['partition_index']}"
                for topic in client.describe_topics()
                for row in topic["partitions"]
                if row["leader_id"] < 0
            }
        finally:
            client.close()


@contextmanager
def program(half: Half, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    log = half.folder / f"{'-'.join(arguments[:2])}-{time.monotonic_ns()}.log"
    command = [KAFKA_HEALTH, *arguments, "--config", str(half.config)]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=os.environ | SLOWLY, stderr=out, stdout=out, text=True)
    try:
        yield process, log
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def clients_of(page: str) -> int:
    return len(json.loads(get(f"{page}/clients.json")[1]))


def fill(settings: Settings, group_topic: str) -> None:
    create_topics(settings.kafka, [group_topic], 4)
    now_ms = int(time.time() * 1000)
    client = {"service": "web", "host": "h", "instance": "h:1", "client_id": "c", "kind": "producer"}
    reading = json.dumps({"ts": now_ms, "client": client, "metrics": {"select-total": 1.0}}).encode()
    with producer(settings) as sink:
        for number in range(4):
            sink.send(group_topic, b"order", partition=number)
        for number in range(2):
            sink.send("client-metrics", reading, partition=number)
        for number in range(CLIENTS):
            state = healthy(number, end_ms=now_ms)
            ref = state["client"]
            name = key(ref["service"], ref["instance"], ref["client_id"])
            sink.send("client-health", json.dumps(state).encode(), key=name)
        sink.flush()
    commit(settings.kafka.bootstrap_servers, group_topic, 4)


def commit(servers: str, topic: str, partitions: int) -> None:
    consumer = KafkaConsumer(bootstrap_servers=servers.split(","), group_id=GROUP, enable_auto_commit=False)
    offsets = {TopicPartition(topic, number): OffsetAndMetadata(0, "", -1) for number in range(partitions)}
    consumer.commit(offsets)
    consumer.close()


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Half]:
    folder, controller, port = tmp_path_factory.mktemp("half"), free_port(), free_port()
    common = {"controller.quorum.voters": f"1@127.0.0.1:{controller}"}
    second = {"node.id": "2", "process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    cluster_id = new_cluster_id()
    one = Broker(folder / "1", common, controller_port=controller, cluster_id=cluster_id, heap_mb=256)
    two = Broker(folder / "2", common | second, port=port, cluster_id=cluster_id, heap_mb=256)
    running = Half(folder, one, two)
    with ExitStack() as stack:
        stack.enter_context(one)
        create_topics(one.kafka, ["before"])
        commit(one.bootstrap_servers, "before", 1)
        stack.enter_context(two)
        servers = f"{one.bootstrap_servers},{two.bootstrap_servers}"
        ours = [
            "--bootstrap-servers",
            servers,
            "--partitions",
            "2",
            "--replication-factor",
            "1",
            "--push-interval",
            "0",
        ]
        assert run("init", "--out", str(running.config), "--state", str(folder), *ours, "--yes") == 0
        fill(running.settings, "orders")
        process, log = stack.enter_context(program(running, "export", "prometheus", "--port", "0"))
        eventually(lambda: "status page at" in log.read_text() or process.poll() is not None, "the exporter")
        running.exporter = log.read_text().split("status page at ")[1].split("/,")[0]
        eventually(lambda: get(f"{running.exporter}/metrics")[0] == 200, "the exporter has caught up")
        two.stop()
        eventually(running.leaderless, "partitions lose their leader")
        yield running


def run(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_the_exporter_goes_on_names_the_partitions_and_recovers(half: Half) -> None:
    gone = ", ".join(sorted(name for name in half.leaderless() if name.startswith("client-health/")))
    trouble = f"a part of client-health cannot be read: {gone}: no leader\n"
    eventually(lambda: get(f"{half.exporter}/healthz") == (503, trouble), "the loss is noticed")
    status, page = get(f"{half.exporter}/metrics")
    assert (status, clients_of(half.exporter)) == (200, CLIENTS)
    assert "kafka_client_health_exporter_up 0" in page
    assert gone.split(",")[0] in get(f"{half.exporter}/")[1]

    # Only partitions with a leader can be read, so the data is incomplete.
    with program(half, "export", "prometheus", "--port", "0") as (process, log):
        eventually(lambda: "status page at" in log.read_text() or process.poll() is not None, "the second exporter")
        url = log.read_text().split("status page at ")[1].split("/,")[0]
        eventually(lambda: get(f"{url}/healthz") == (503, trouble), "it reports what is missing")
        assert get(f"{url}/metrics")[0] == 503
        half.two.start()
        for each in (half.exporter, url):
            eventually(lambda at=each: get(f"{at}/healthz") == (200, "ok\n"), "recovered")  # type: ignore[misc]
            assert clients_of(each) == CLIENTS
        half.two.stop()
    eventually(half.leaderless, "partitions lose their leader")


def test_commands_read_what_has_a_leader_and_name_the_rest(half: Half, capsys: pytest.CaptureFixture[str]) -> None:
    config = ("--config", str(half.config))
    gone = sorted(half.leaderless())
    (of_metrics,) = (name for name in gone if name.startswith("client-metrics/"))
    (of_logs,) = (name for name in gone if name.startswith("client-logs/"))

    assert run("formats", *config, "--topic", "client-metrics") == 2
    out, err = capsys.readouterr()
    assert out.startswith("client-metrics: 1 record, 0 rejected\n")
    assert f"a part of client-metrics could not be read: {of_metrics}: no leader" in err
    assert run("formats", *config, "--topic", "client-logs") == 2
    assert f"client-logs could not be read: {of_logs}: no leader" in capsys.readouterr().err

    command = [KAFKA_HEALTH, "export", "groups", *config, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    rows = [line.split() for line in done.stdout.splitlines() if " orders " in line]
    assert (done.returncode, sorted(row[6] for row in rows)) == (1, ["1", "1", "?", "?"])
    assert done.stderr.count("could not be read: no leader") == 2

    assert run("watch", *config, "--group", GROUP, "--for", "2") == 3
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("orders ")]
    assert sorted(row[3] for row in rows) == ["1", "1", "?", "?"]
    assert run("init", *config, "--yes", "--push-interval", "0") == 1
    out = capsys.readouterr().out
    assert "The topic client-health exists, but has replication factor 1 although there are several brokers: " in out
    assert "\nNot complete: partitions cannot be read (client-health/" in out
    assert of_metrics in out and of_logs in out and "Nothing is missing." not in out


def test_new_topics_have_as_many_copies_as_there_are_brokers(half: Half, capsys: pytest.CaptureFixture[str]) -> None:
    ours = ["--bootstrap-servers", half.one.bootstrap_servers, "--push-interval", "0", "--metrics-topic", "new-metrics"]
    out = ["--out", str(half.folder / "other.toml")]
    assert run("init", *out, *ours, "--replication-factor", "3", "--yes") == 2
    assert "start the brokers that are down, or give a smaller --replication-factor" in capsys.readouterr().err
    # The default replication factor depends on the number of all brokers, including the broker that is down.
    assert run("init", *out, *ours, "--yes") == 1
    client = admin(half.settings)
    (topic,) = client.describe_topics(["new-metrics"])
    client.close()
    assert {len(row["replica_nodes"]) for row in topic["partitions"]} == {2}
    assert half.leaderless().isdisjoint(f"new-metrics/{number}" for number in range(12))


def test_the_exporter_of_groups_goes_on(half: Half) -> None:
    with program(half, "export", "groups") as (_, log):
        eventually(lambda: log.read_text().count("cannot be read: no leader") == 2, "the partitions are named")


def test_the_doctor_names_the_broker_and_the_partitions(half: Half, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # Spark's start would take long
    findings: list[Finding] = [finding for _, check in checks() for finding in check(half.settings)]
    failed = {finding.about: finding.text for finding in findings if finding.state == "failed"}
    assert failed["kafka"].endswith("answers, but 1 of 2 brokers are down: 2. Start them.")
    for topic in ("client-metrics", "client-logs", "client-health", "client-rejects"):
        gone = ", ".join(sorted(name for name in half.leaderless() if name.startswith(f"{topic}/")))
        assert failed[f"topic {topic}"].startswith(f"{gone}: no leader. ")
        risks = [f.text for f in findings if (f.about, f.state) == (f"topic {topic}", "warning")]
        assert any("has replication factor 1 although there are several brokers: " in risk for risk in risks)
