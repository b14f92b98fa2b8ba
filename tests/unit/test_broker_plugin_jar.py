"""The jar of the brokers' plugin: for the Java of the oldest brokers, under the name that they are told."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from clienthealth.platform import jars
from clienthealth.subscription import PLUGIN
from deploy.demo.broker import Broker, plugin_properties
from deploy.supply import plugin

#: Major version of the class files of Java 11.
JAVA_11 = 55


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
