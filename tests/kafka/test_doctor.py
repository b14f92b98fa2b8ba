"""Run the doctor against a real broker, and without a broker."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

from clienthealth.ops.cli import main
from clienthealth.ops.doctor import Finding, checks, machine
from clienthealth.ops.doctor.brokers import groups_readable, kafka_works
from clienthealth.ops.doctor.servers import servers
from clienthealth.platform.kafka import producer
from clienthealth.settings import KafkaSettings, LinkSettings, ReviewSettings, Settings, TopicSettings
from deploy.demo.broker import Broker
from deploy.demo.processes import free_port
from deploy.demo.topics import create_ours, create_topics


def settings_for(broker: Broker, prefix: str) -> Settings:
    topics = TopicSettings((f"{prefix}-metrics",), (f"{prefix}-logs",), f"{prefix}-health", f"{prefix}-rejects")
    return Settings(kafka=broker.kafka, topics=topics)


def texts(findings: Iterator[Finding], about: str, state: str) -> list[str]:
    return [finding.text for finding in findings if (finding.about, finding.state) == (about, state)]


def test_a_healthy_kafka_has_no_failure(broker: Broker) -> None:
    settings = settings_for(broker, "well")
    create_ours(settings)
    findings = list(kafka_works(settings))
    assert texts(iter(findings), "topic well-metrics", "warning") == [
        "The topic has no records yet, so no client can be judged."
    ]
    assert texts(iter(findings), "topic well-logs", "skipped")
    writer = producer(settings)
    writer.send("well-metrics", reading("web", 0.0))
    writer.close()
    findings = list(kafka_works(settings))
    assert [finding for finding in findings if finding.state not in ("ok", "skipped")] == []
    assert any(finding.about == "groups" for finding in findings)
    assert texts(iter(findings), "kafka", "ok") == [
        f"Kafka at {broker.bootstrap_servers} answers; the cluster has 1 broker(s)."
    ]
    assert "This user may read." in texts(iter(findings), "topic well-metrics", "ok")
    assert "This user may read and write." in texts(iter(findings), "topic well-health", "ok")


def test_topics_that_are_missing_are_named_with_the_command_that_makes_them(broker: Broker) -> None:
    findings = list(kafka_works(settings_for(broker, "none")))
    failed = [finding for finding in findings if finding.state == "failed"]
    assert [finding.about for finding in failed] == [
        "topic none-metrics",
        "topic none-logs",
        "topic none-rejects",
        "topic none-health",
    ]
    assert (
        "--topic none-health --partitions 6 --replication-factor 1 --config cleanup.policy=compact,delete"
        in failed[3].text
    )


class LoadingBrokers:
    def describe_topics(self, topics: list[str]) -> list[dict[str, object]]:
        return [{"name": topics[0], "error_code": 0, "partitions": [{"partition_index": 0, "leader_id": 1}]}]

    def list_partition_offsets(self, wanted: dict[object, object]) -> dict[object, SimpleNamespace]:
        return dict.fromkeys(wanted, SimpleNamespace(offset=0))

    def describe_groups(self, names: list[str]) -> dict[str, dict[str, object]]:
        return {name: {"error": None, "authorized_operations": ["READ"]} for name in names}

    def list_groups(self) -> list[dict[str, object]]:
        raise CoordinatorLoadInProgressError


def test_brokers_that_still_load_their_groups_are_no_failure() -> None:
    findings = list(groups_readable(cast("KafkaAdminClient", LoadingBrokers())))
    assert [(finding.about, finding.state) for finding in findings] == [("groups", "ok"), ("groups", "skipped")]
    assert "run the check again in a minute" in findings[1].text


class WithoutACoordinator(LoadingBrokers):
    def describe_topics(self, topics: list[str]) -> list[dict[str, object]]:
        return [{"name": topics[0], "error_code": 0, "partitions": [{"partition_index": 0, "leader_id": -1}]}]

    def describe_groups(self, names: list[str]) -> dict[str, dict[str, object]]:
        raise CoordinatorNotAvailableError


def test_groups_on_a_broker_that_is_down_are_not_called_absent() -> None:
    (finding,) = groups_readable(cast("KafkaAdminClient", WithoutACoordinator()))
    assert (finding.state, finding.text.partition(". ")[0]) == ("failed", "__consumer_offsets/0: no leader")


def test_policies_and_retention_that_lose_data_are_failures(broker: Broker) -> None:
    settings = settings_for(broker, "odd")
    create_topics(broker.kafka, ["odd-metrics"], config={"retention.ms": "60000"})
    create_topics(broker.kafka, ["odd-logs"], config={"cleanup.policy": "compact"})
    create_topics(broker.kafka, ["odd-health", "odd-rejects"])
    findings = list(kafka_works(settings))
    (retention,) = texts(iter(findings), "topic odd-metrics", "failed")
    assert "the last 900 s" in retention and "only 60 s" in retention
    (inputs,) = texts(iter(findings), "topic odd-logs", "failed")
    assert "Set the policy to delete." in inputs
    (states,) = texts(iter(findings), "topic odd-health", "failed")
    assert "compact,delete" in states
    assert texts(iter(findings), "clock", "skipped")


def reading(service: str, ahead_seconds: float) -> bytes:
    client = {"service": service, "host": "h", "instance": "h:1", "client_id": "c", "kind": "producer"}
    ts = int((time.time() + ahead_seconds) * 1000)
    return json.dumps({"ts": ts, "client": client, "metrics": {"select-total": 1.0}}).encode()


def test_clocks_are_taken_from_samples_and_not_from_their_senders(broker: Broker) -> None:
    settings = settings_for(broker, "clock")
    create_ours(settings)
    writer = producer(settings)
    for service, ahead in (("fast", 240.0), ("gone", 3000.0), ("slow", -240.0), ("good", 0.0)):
        writer.send("clock-metrics", reading(service, ahead))
    writer.send("clock-metrics", b"no format can read this")
    writer.close()
    findings = list(kafka_works(settings))
    (rejected,) = texts(iter(findings), "clock", "failed")
    early, late = texts(iter(findings), "clock", "warning")
    # On a busy machine, up to 100 s may pass before a sample is checked.
    assert 2900 < seconds_off(rejected, "gone") <= 3000 and "fast" not in rejected
    assert 140 < seconds_off(early, "fast") <= 240 and "good" not in early
    assert 240 <= seconds_off(late, "slow") < 340 and "good" not in late


def seconds_off(text: str, service: str) -> int:
    reported = re.search(rf"{service}/h:1/c by (\d+) s", text)
    assert reported is not None, text
    return int(reported[1])


def test_what_the_newest_records_are_and_why_some_are_rejected(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_for(broker, "mixed")
    create_ours(settings)
    writer = producer(settings)
    for value in (reading("web", 0.0), reading("app", 0.0), b'{"a": 1}', b'{"b": 1}'):
        writer.send("mixed-metrics", value, partition=0)
    writer.send("mixed-logs", b"\x00\x00\x00\x00\x07framed", partition=0)
    writer.close()
    findings = list(kafka_works(settings))
    (unknown,) = texts(iter(findings), "topic mixed-metrics", "warning")
    assert unknown == (
        "2 of the newest 4 records are rejected as unknown-format (the first: partition 0, offset 2). "
        "For details, run: kafka-health formats --topic mixed-metrics"
    )
    read = texts(iter(findings), "topic mixed-metrics", "ok")
    assert "Of the newest 4 records, these can be read: 2 canonical." in read
    (framed,) = texts(iter(findings), "topic mixed-logs", "failed")
    assert "rejected as binary: needs schema 7, but [registry] url is not set" in framed

    config = tmp_path / "health.toml"
    servers = f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
    config.write_text(f'{servers}[topics]\nmetrics = ["mixed-metrics"]\n')
    ended = []
    for topic, limit in (("mixed-metrics", "100"), ("mixed-health", "100"), ("mixed-nowhere", "100")):
        with pytest.raises(SystemExit) as exited:
            main(["formats", "--config", str(config), "--topic", topic, "--limit", limit])
        ended.append(exited.value.code)
    assert ended == [1, 3, 2]
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "mixed-metrics: 4 records, 2 rejected",
        "          2  canonical: 2 readings, 2 clients",
        "          2  REJECTED unknown-format; the first: partition 0, offset 2",
        "mixed-health: 0 records, 0 rejected",
    ]
    assert "mixed-nowhere does not exist" in err


def test_a_topic_shows_its_codec(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(broker, "packed")
    create_ours(settings)
    create_topics(broker.kafka, ["packed-lz4"], config={"compression.type": "lz4"})
    settings = replace(settings, topics=replace(settings.topics, logs=("packed-lz4",)))
    findings = list(kafka_works(settings))
    assert "The topic is compressed with lz4, which the exporters here can read." in texts(
        iter(findings), "topic packed-lz4", "ok"
    )
    assert machine.of_topic("topic plain", "uncompressed").text == "The topic is not compressed."
    assert [finding.state for finding in machine.codecs_present(settings)] == ["ok"]
    monkeypatch.setattr(machine, "READABLE", {**machine.READABLE, "lz4": lambda: False})
    findings = list(kafka_works(settings))
    (lz4,) = texts(iter(findings), "topic packed-lz4", "failed")
    assert lz4.startswith("The topic is compressed with lz4, which the exporters here cannot read. Remedy: pip install")
    any_codec, empty = texts(iter(findings), "topic packed-metrics", "warning")
    assert "cannot read lz4 here" in any_codec and "no records yet" in empty
    assert [finding.state for finding in machine.codecs_present(settings)] == ["warning"]


def test_an_absent_kafka_is_one_failure() -> None:
    servers_ = f"127.0.0.1:{free_port()}"
    findings = list(kafka_works(Settings(kafka=KafkaSettings(servers_))))
    assert [finding.state for finding in findings] == ["failed"]
    assert servers_ in findings[0].text


def test_the_checks_of_this_machine_pass_here() -> None:
    findings = [finding for _, check in checks()[:2] for finding in check(Settings())]
    assert {finding.about: finding.state for finding in findings} == {"java": "ok", "jars": "ok"}


@pytest.fixture
def web() -> Iterator[tuple[str, dict[str, object]]]:
    answers: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = answers.get(self.path.partition("?")[0])
            body = json.dumps(document).encode()
            self.send_response(404 if document is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", answers
    server.shutdown()
    server.server_close()
    thread.join()


def test_prometheus_must_scrape_both_jobs(web: tuple[str, dict[str, object]]) -> None:
    url, answers = web
    target = {"labels": {"job": "kafka-client-health"}, "health": "down", "lastError": "connection refused"}
    answers["/api/v1/targets"] = {"data": {"activeTargets": [target]}}
    settings = Settings(review=ReviewSettings(prometheus_url=url))
    failed = texts(servers(settings), "prometheus", "failed")
    assert failed == [
        "1 of 1 targets of 'kafka-client-health' do not answer: connection refused.",
        "Prometheus has no target with the job 'kafka-client-health-monitor', which the alerts need: add this job.",
    ]


def test_grafana_is_asked_for_its_health(web: tuple[str, dict[str, object]]) -> None:
    url, answers = web
    settings = Settings(links=LinkSettings(dashboards=url))
    assert texts(servers(settings), "grafana", "failed") == [f"Grafana at {url} does not answer: status 404."]
    answers["/api/health"] = {"version": "12.1.0", "database": "ok"}
    assert texts(servers(settings), "grafana", "ok") == [f"Grafana 12.1.0 at {url} answers."]
