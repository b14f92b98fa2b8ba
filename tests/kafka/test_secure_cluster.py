"""Install the monitor on a cluster with TLS, SCRAM and access control, as our pages describe."""

from __future__ import annotations

import json
import re
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.model.subscription import Subscription, subscriptions
from clienthealth.ops.doctor import records
from clienthealth.ops.doctor.brokers import kafka_works
from clienthealth.platform.kafka import admin, consumer, producer
from clienthealth.settings import KafkaSettings, Settings
from deploy.demo.processes import Process, free_port
from deploy.demo.stack import QUICK_START
from tests.kafka.secure_broker import SecureBroker, authority
from tests.kafka.test_runbooks import RUNBOOKS, runbook_world, works
from tests.laws.pages import commands
from tests.support.subscribing import subscribe
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = [pytest.mark.long, pytest.mark.early]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "deploy/secure.md").read_text("utf-8")
USER, PASSWORD = "health", "s3cret-of-the-user"
KAFKA_HEALTH = str(Path(sys.executable).with_name("kafka-health"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure"), USER, PASSWORD) as running:
        running.administer((ROOT / "deploy/README.md").read_text("utf-8"))
        running.administer(PAGE)
        yield running


@pytest.fixture(scope="module")
def config(cluster: SecureBroker) -> Path:
    blocks = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (shown,) = (block for block in blocks if 'username="health"' in block)
    for theirs, ours in (
        ("broker-1:9093,broker-2:9093", cluster.address),
        ("/etc/kafka-client-health/ca.pem", str(cluster.ca)),
        ('password="…"', f'password="{PASSWORD}"'),
    ):
        assert shown.count(theirs) == 1
        shown = shown.replace(theirs, ours)
    tomllib.loads(shown)
    path = cluster.folder / "health.toml"
    monitor = f'\n[monitor]\ncheckpoint = "{path.parent}/checkpoints"\nhistory = "{path.parent}/history"\n'
    ports = f"trigger_seconds = 1\nmetrics_port = 0\n\n[prometheus]\nport = {free_port()}\n"
    path.write_text(f"{shown}{monitor}{ports}\n[groups]\ninterval_seconds = 2.0\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def settings(config: Path) -> Settings:
    return load(str(config), {})


class Started:
    def __init__(self, folder: Path, config: Path) -> None:
        self.folder, self.config = folder, config
        self.running: list[Process] = []

    def start(self, *command: str) -> Process:
        log = self.folder / f"{'-'.join(command)}.log"
        whole = [KAFKA_HEALTH, *command, "--config", str(self.config)]
        process = Process(" ".join(command), whole, log, environment=QUICK_START)
        self.running.append(process)
        return process


@pytest.fixture
def started(tmp_path: Path, config: Path) -> Iterator[Started]:
    programs = Started(tmp_path, config)
    yield programs
    for process in programs.running:
        process.stop(WAIT_SECONDS)
    for process in programs.running:
        assert PASSWORD not in process.log.read_text("utf-8", "replace")


def until(condition: Callable[[], bool], process: Process) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert process.alive and time.monotonic() < deadline, process.log.read_text("utf-8", "replace")[-3000:]
        time.sleep(0.2)


def test_the_doctor_finds_nothing_to_mend(started: Started) -> None:
    doctor = started.start("doctor")
    until(lambda: not doctor.alive, doctor) if doctor.alive else None
    output = doctor.log.read_text("utf-8")
    assert doctor.exit_code == 0, output
    assert output.splitlines()[-1].startswith("Nothing failed; not checked: "), output


@pytest.mark.parametrize(
    ("option", "wrong", "sentence"),
    [
        ("sasl.jaas.config", None, r"invalid credentials|user and password"),
        ("security.protocol", "PLAINTEXT", r"(?:set|check) security\.protocol"),
        ("sasl.mechanism", "PLAIN", r"sasl\.mechanism"),
        ("ssl.truststore.location", "/no/such/ca.pem", r"an option ssl\.….location names a file that does not exist"),
        ("ssl.truststore.location", "other-ca.pem", "certificate is for another host, or no authority in"),
    ],
)
def test_a_mistake_is_reported_in_words_without_secrets(
    cluster: SecureBroker,
    settings: Settings,
    option: str,
    wrong: str | None,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(records.CLIENT, "bootstrap_timeout_ms", 3000)
    right = settings.kafka.options
    changed = {**right, option: right[option].replace(PASSWORD, "not-the-password") if wrong is None else wrong}
    if wrong == "other-ca.pem":
        changed[option] = str(authority(cluster.folder, "other-ca"))
    if changed["security.protocol"] == "PLAINTEXT":
        changed = {"security.protocol": "PLAINTEXT"}
    (finding,) = kafka_works(replace(settings, kafka=replace(settings.kafka, options=changed)))
    assert finding.state == "failed"
    assert re.search(sentence, finding.text), finding.text
    assert PASSWORD not in finding.text and "not-the-password" not in finding.text


def test_init_without_the_right_to_create_prints_commands_for_an_administrator(
    cluster: SecureBroker, config: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HEALTH_TOPICS_LOGS", "logs-to-be")
    init = started.start("init", "--yes")
    until(lambda: not init.alive, init) if init.alive else None
    output = init.log.read_text("utf-8")
    assert init.exit_code == 2, output
    assert "this user may not create the topic logs-to-be" in output
    assert f"kafka-topics.sh --bootstrap-server {cluster.address} --create --topic logs-to-be --partitions 12" in output


def test_rights_that_are_missing_are_named(cluster: SecureBroker, settings: Settings) -> None:
    cluster.administer("kafka-topics.sh --create --topic others --partitions 1")
    findings = list(kafka_works(replace(settings, topics=replace(settings.topics, rejects="others"))))
    problems = [f for f in findings if f.state != "ok" and f.about not in ("clock", "groups", "pushes")]
    problems = [f for f in problems if not f.text.startswith("The topic has no records yet, ")]
    assert [(f.about, f.state, f.text) for f in problems] == [
        ("topic others", "failed", "This user lacks the right to WRITE; grant it with kafka-acls.sh."),
        (
            "topic others",
            "warning",
            "This user may not read the topic's configuration. To check it, grant DescribeConfigs.",
        ),
    ]


def test_rights_on_groups_that_are_missing_are_named(cluster: SecureBroker, settings: Settings) -> None:
    cluster.add_user("narrow", PASSWORD)
    cluster.administer(
        "kafka-acls.sh --add --allow-principal User:narrow --operation Read --operation Write --operation "
        "DescribeConfigs --topic client-metrics --topic client-logs --topic client-rejects --topic client-health"
    )
    options = settings.kafka.options
    narrow = {**options, "sasl.jaas.config": options["sasl.jaas.config"].replace('"health"', '"narrow"')}
    findings = list(kafka_works(replace(settings, kafka=replace(settings.kafka, options=narrow))))
    (read,) = [f.text for f in findings if (f.about, f.state) == ("groups", "failed")]
    assert (
        "lacks the READ right on the monitor's consumer groups" in read
        and "--group spark-kafka-source- --resource-pattern-type prefixed" in read
    )
    assert any(f.about == "groups" and "sees no consumer group" in f.text for f in findings)
    assert [f.text for f in findings if f.about == "pushes"] == [
        "This user may not see which metrics the brokers request from clients (ClusterAuthorizationFailedError); "
        "grant DescribeConfigs: kafka-acls.sh --operation DescribeConfigs --cluster."
    ]
    client = admin(replace(settings, kafka=replace(settings.kafka, options=narrow)))
    with closing(client), pytest.raises(ServiceError, match="Authorization"):
        Subscription.ours()[0].write(client)


def test_the_rights_of_the_page_suffice_to_ask_clients_for_their_metrics(settings: Settings) -> None:
    ours = Subscription.ours()
    with closing(admin(settings)) as client:
        for one in ours:
            one.write(client)
        # A broker shows the controller's writes only a moment later.
        wanted = {one.name: one for one in ours}
        eventually(lambda: subscriptions(client) == wanted, "all subscriptions as written")


def test_from_a_client_to_prometheus(started: Started, settings: Settings) -> None:
    writer = producer(settings)
    reader = consumer(settings, group_id="spark-kafka-source-of-this-test", auto_offset_reset="earliest")
    groups, exporter = started.start("export", "groups"), started.start("export", "prometheus")
    monitor = started.start("monitor")
    client = {"service": "orders", "host": "h", "instance": "h:1", "client_id": "secure-producer", "kind": "producer"}
    metrics = {"buffer-total-bytes": 100.0, "buffer-available-bytes": 60.0, "select-total": 1.0}

    def pages(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{settings.prometheus.port}{path}", timeout=5) as answer:
                return str(answer.read(), "utf-8")
        except (urllib.error.URLError, ConnectionError) as error:
            return str(error)

    def reported() -> bool:
        record = {"ts": int(time.time() * 1000), "client": client, "metrics": metrics}
        writer.send("client-metrics", json.dumps(record).encode())
        writer.flush()
        served = pages("/metrics")
        return 'kafka_client_producer_buffer_used_ratio{service="orders"' in served and "group_lag{" in served

    writer.send("client-metrics", b"{}")
    writer.flush()
    subscribe(reader, "client-metrics")
    until(lambda: bool(reader.poll(timeout_ms=500)), groups)
    reader.commit()
    until(reported, monitor)
    assert groups.alive and exporter.alive
    reader.close()
    writer.close()


def test_kafkas_tools_work_with_tls_and_a_password_as_in_the_runbooks(cluster: SecureBroker, tmp_path: Path) -> None:
    page = RUNBOOKS["consumer-lag"]
    ways = [f"B {option}" for option in re.findall(r"`(--[\w.-]+) CLIENT\.properties`", page)]
    assert ways == ["B --command-config", "B --consumer.config"]
    (file,) = re.findall(r"^```properties\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for place, here in (("CA.pem", str(cluster.ca)), ("USER", "on-call"), ("SECRET", "of-the-on-call")):
        assert file.count(place) == 1
        file = file.replace(place, here)
    cluster.add_user("on-call", "of-the-on-call")
    cluster.allow_all("on-call")
    asking = {c for text in RUNBOOKS.values() for c in commands(text) if "--bootstrap-server B" in c}
    with runbook_world(tmp_path, Settings(kafka=KafkaSettings(bootstrap_servers=cluster.inside))) as made:
        for options in ("client", "admin"):
            (tmp_path / f"{options}.properties").write_text(file, "utf-8")
        world = replace(made, places=made.places | {"B": cluster.address})
        assert len(asking) > 20
        for command in sorted(asking):
            if "--command-config" not in command:
                for way in ways:
                    script = (
                        r"kafka-console-consumer\.sh" if "consumer.config" in way else r"kafka-(?!console)[\w-]+\.sh"
                    )
                    given = f"--bootstrap-server {way} CLIENT.properties"
                    command = re.sub(rf"({script}) --bootstrap-server B", rf"\1 {given}", command)
            works(world, command)
