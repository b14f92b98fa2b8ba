"""Run `kafka-health init` on a real broker, with answers typed at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.model.subscription import Subscription
from clienthealth.ops import initialise
from clienthealth.ops.cli import main
from clienthealth.ops.doctor.brokers import kafka_works
from clienthealth.platform.kafka import admin
from clienthealth.settings import Settings
from deploy.demo.broker import Broker
from tests.support.waiting import eventually

PROGRAM = [sys.executable, "-m", "clienthealth.ops.cli", "init"]
TOPICS = {"client-health", "client-rejects", "in-house-metrics", "in-house-logs"}


@pytest.fixture(scope="module")
def fresh(broker: Broker) -> Broker:
    client = admin(Settings(kafka=broker.kafka))
    try:
        client.delete_topics(sorted(TOPICS & {*client.list_topics()}))
        eventually(lambda: not TOPICS & {*client.list_topics()}, "they are gone")
    finally:
        client.close()
    return broker


def init(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_shows_does_and_keeps(fresh: Broker, tmp_path: Path) -> None:
    file = tmp_path / "new" / "health.toml"
    cluster = ["--out", str(file), "--bootstrap-servers", fresh.bootstrap_servers]
    ours = [*cluster, "--metrics-topic", "in-house-metrics", "--logs-topic", "in-house-logs", "--partitions", "2"]

    shown = init(*ours, "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f'bootstrap_servers = "{fresh.bootstrap_servers}"' in shown.stdout
    assert all(f"--create --topic {topic} " in shown.stdout for topic in TOPICS)
    assert not file.exists()

    unasked = init(*ours)
    assert (unasked.returncode, file.exists()) == (2, False)
    assert "give --yes to confirm, or --dry-run to only show the changes" in unasked.stderr

    done = init(*ours, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"created {topic}\n" in done.stdout for topic in TOPICS)
    assert f"kafka-health monitor --config {file}" in done.stdout
    settings = load(str(file), {})
    assert settings.topics.metrics == ("in-house-metrics",)
    assert {f.about: f.state for f in kafka_works(settings) if f.state == "failed"} == {}

    again = init(*ours, "--yes")
    assert (again.returncode, again.stderr) == (0, "")
    assert "\nNothing is missing. Now start " in again.stdout
    assert all(f"The topic {topic} exists.\n" in again.stdout for topic in TOPICS)
    assert "created" not in again.stdout


def test_a_person_is_asked(fresh: Broker, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    file = tmp_path / "health.toml"
    with subprocess.Popen(
        [*PROGRAM, "--out", str(file), "--logs-topic", "in-house-logs", "--metrics-topic", "in-house-metrics"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        os.write(ours, f"{fresh.bootstrap_servers}\nno such protocol\n\nn\n".encode())
        output, _ = running.communicate(timeout=300)
    os.close(ours)
    os.close(theirs)
    assert running.returncode == 1
    assert "please answer with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in output
    assert output.endswith("Nothing was changed.\n")
    assert not file.exists()


def test_what_this_user_may_not_do_is_shown_once_and_not_called_done(
    fresh: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(subscription: Subscription, client: object) -> None:
        raise ServiceError("ClusterAuthorizationFailedError")

    monkeypatch.setattr(Subscription, "write", refuse)
    monkeypatch.setattr(initialise, "subscriptions", lambda client: {})
    ours = ["--bootstrap-servers", fresh.bootstrap_servers, "--metrics-topic", "in-house-metrics"]
    with pytest.raises(SystemExit) as ended:
        main(["init", "--out", str(tmp_path / "health.toml"), *ours, "--logs-topic", "in-house-logs", "--yes"])
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert out.count("kafka-client-metrics.sh") == 2
    assert "the subscription kafka-client-health could not be written: ClusterAuthorizationFailedError\n" in out
    assert "Nothing is missing." not in out
    assert (
        "\nNot complete: an administrator has to run the commands above for kafka-client-health and "
        "kafka-client-health-librdkafka. Now start " in out
    )
