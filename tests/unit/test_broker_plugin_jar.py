"""The brokers' plugin logs which settings are wrong, and how many pushes were lost."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from clienthealth.model.subscription import PLUGIN
from clienthealth.platform.jars import java
from deploy.demo import jars
from deploy.demo.broker import Broker, plugin_properties
from deploy.demo.processes import free_port
from deploy.supply import plugin

#: Version of the class files of Java 11.
JAVA_11 = 55


@pytest.mark.long
def test_it_is_built_for_java_11_and_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars.classpath(plugin.COMPILED_WITH)
    first = plugin.jar().read_bytes()
    classes = jars.classpath(plugin.COMPILED_WITH)
    monkeypatch.setattr(jars, "classpath", lambda name: classes)
    monkeypatch.setattr(jars, "cache", lambda: tmp_path)
    again = plugin.jar()
    assert again.is_relative_to(tmp_path)
    assert again.read_bytes() == first
    with zipfile.ZipFile(again) as archive:
        assert f"{PLUGIN.replace('.', '/')}.class" in archive.namelist()
        versions = {archive.read(name)[7] for name in archive.namelist() if name.endswith(".class")}
    assert versions == {JAVA_11}


def test_a_broker_with_it_keeps_its_own_reporter(tmp_path: Path) -> None:
    assert plugin_properties("b:1")["metric.reporters"] == f"org.apache.kafka.common.metrics.JmxReporter,{PLUGIN}"
    with_plugin = Broker(tmp_path, telemetry_to="")
    assert with_plugin._properties["clienthealth.producer.bootstrap.servers"] == with_plugin.bootstrap_servers


_TARGET = "clienthealth.producer.bootstrap.servers"
_CASES: dict[str, dict[str, str]] = {
    "right": {_TARGET: "127.0.0.1:1"},
    "numbers": {
        _TARGET: "127.0.0.1:1",
        "clienthealth.queue.bytes": "16MB",
        "clienthealth.producer.linger.ms": "5s",
        "clienthealth.topic": "client metrics",
    },
    "negative": {_TARGET: "127.0.0.1:1", "clienthealth.queue.bytes": "-1"},
    "missing": {"clienthealth.producer.bootstrap.server": "127.0.0.1:1", "clienthealth.quue.bytes": "1000"},
    "unknown": {
        _TARGET: "127.0.0.1:1",
        "clienthealth.bootstrap.servers": "127.0.0.1:1",
        "client-health.topic": "orders",
        "clienthealth.colour": "blue",
        "client.quota.window.num": "11",
    },
    "unreachable": {
        _TARGET: f"127.0.0.1:{free_port()}",
        "clienthealth.producer.max.block.ms": "100",
        "pushes": "5",
        "lost": "5",
    },
    "unresolved": {
        _TARGET: "no-such-host.invalid:9092",
        "clienthealth.queue.bytes": "250",
        "pushes": "12",
        "lost": "10",
    },
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("plugin")
    logging = folder / "log4j.properties"
    appender = "log4j.appender.out"
    logging.write_text(
        "log4j.rootLogger=OFF, out\nlog4j.logger.clienthealth=INFO\n"
        f"{appender}=org.apache.log4j.ConsoleAppender\n"
        f"{appender}.layout=org.apache.log4j.PatternLayout\n{appender}.layout.ConversionPattern=%p %m%n\n"
    )
    path = os.pathsep.join(map(str, [*jars.classpath("clients-3.9"), plugin.jar(), folder]))
    program = Path(__file__).with_name("PluginCases.java")
    compiler = Path(java()).resolve().with_name("javac")
    subprocess.run([compiler, "-proc:none", "-cp", path, "-d", folder, program], check=True)
    cases = ["\n".join(f"{name}={value}" for name, value in case.items()) for case in _CASES.values()]
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j.configuration={logging.as_uri()}"]
    command = [java(), *options, "-cp", path, "clienthealth.PluginCases", *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    by_case: dict[str, list[str]] = {}
    names = iter(_CASES)
    for line in done.stdout.splitlines():
        if line.startswith("case ") or line == "clock":
            lines = by_case.setdefault(next(names, "clock"), [])
        elif "is no longer written" not in line:
            lines.append(line)
    return by_case


@pytest.mark.long
def test_settings_that_are_wrong_are_named_and_nothing_is_taken(printed: dict[str, list[str]]) -> None:
    assert printed["right"] == [
        "INFO Client telemetry is written to topic client-metrics at 127.0.0.1:1",
        "takes pushes: true",
    ]
    refused = (
        "ERROR Client telemetry is not taken by this broker until its settings are corrected and it is restarted: "
    )
    numbers, takes = printed["numbers"]
    assert numbers.startswith(refused)
    assert "clienthealth.queue.bytes=16MB is not a whole number of bytes" in numbers
    assert "clienthealth.producer.linger.ms: Invalid value 5s" in numbers
    assert "clienthealth.topic=client metrics is not a valid topic name" in numbers
    assert takes == "takes pushes: false"
    assert "clienthealth.queue.bytes=-1 is not a whole number of bytes above 0" in printed["negative"][0]
    unknown, missing, takes = printed["missing"]
    assert unknown.startswith("WARN ")
    assert "clienthealth.producer.bootstrap.server (do you mean clienthealth.producer.bootstrap.servers?)" in unknown
    assert "clienthealth.quue.bytes (do you mean clienthealth.queue.bytes?)" in unknown
    assert missing == f"{refused}{_TARGET} is missing: the brokers that have topic client-metrics"
    assert takes == "takes pushes: false"


@pytest.mark.long
def test_settings_that_are_unknown_are_named_with_the_nearest(printed: dict[str, list[str]]) -> None:
    unknown, written, takes = printed["unknown"]
    assert unknown == (
        "WARN Neither the plugin nor a producer knows these settings: "
        "client-health.topic (do you mean clienthealth.topic?), "
        "clienthealth.bootstrap.servers (do you mean clienthealth.producer.bootstrap.servers?), "
        "clienthealth.colour"
    )
    assert written.startswith("INFO Client telemetry is written")
    assert takes == "takes pushes: true"


@pytest.mark.long
def test_a_target_that_is_away_is_one_line(printed: dict[str, list[str]]) -> None:
    _, takes, lost, counted = printed["unreachable"]
    assert (takes, counted) == ("takes pushes: true", "failed 5, dropped 0")
    assert "client-metrics not present in metadata after 100 ms" in lost
    assert lost.endswith(
        "Pushes lost since the last such line: 1 could not be written, 0 found the queue full. "
        "JMX counts on: clienthealth:type=ClientTelemetryToTopic"
    )
    losses = [line for line in printed["unresolved"] if line.startswith("WARN")]
    assert len(losses) == 1
    # Of twelve pushes of 100 bytes, two fit into the queue of 250 bytes.
    assert "failed 0, dropped 10" in printed["unresolved"]


@pytest.mark.long
def test_losses_are_logged_once_a_minute_with_their_number(printed: dict[str, list[str]]) -> None:
    lines = [
        re.findall(r"(.*) Pushes .* line: (\d+) could not be written, (\d+) found", line) for line in printed["clock"]
    ]
    reason = "Client telemetry does not reach topic t at b:1: TimeoutException: too late."
    assert lines == [[(reason, "1", "0")], [(reason, "60", "60")], [(reason, "39", "61")]]
