"""The doctor tests folders with Spark, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.configuration import placed
from clienthealth.ops.doctor import Finding
from clienthealth.ops.doctor.machine import places_work
from clienthealth.settings import MonitorSettings, ReviewSettings, Settings
from clienthealth.spark import history
from tests.support.settings_file import write_settings
from tests.support.waiting import eventually


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings_of(settings: Settings) -> dict[str, Finding]:
    return {finding.about: finding for finding in places_work(settings)}


def test_in_an_empty_folder_all_works_and_the_folder_stays_empty(here: Path) -> None:
    findings = findings_of(placed(Settings()))
    assert {about: finding.state for about, finding in findings.items()} == {
        "monitor.checkpoint": "ok",
        "monitor.history": "ok",
        "review.out": "ok",
    }
    assert findings["monitor.history"].text.startswith(f"{here}/state/history: test tables were written and read, ")
    assert list(here.iterdir()) == []


def test_a_place_where_no_table_can_be_opened_is_reported(here: Path, pytestconfig: pytest.Config) -> None:
    # Delta rejects folders that are relative to the JVM's working directory.
    relative = os.path.relpath(here / "state" / "history", pytestconfig.invocation_params.dir)
    settings = placed(Settings())
    finding = findings_of(replace(settings, monitor=replace(settings.monitor, history=relative)))["monitor.history"]
    assert "state/history" in finding.text
    assert finding.state == "failed"
    (here / "taken").write_text("a file")
    finding = findings_of(placed(Settings(monitor=MonitorSettings(history="taken/history"))))["monitor.history"]
    assert (finding.state, finding.text) == (
        "failed",
        f"{here}/taken/history cannot be written: {here}/taken belongs to another user or is a file.",
    )


@pytest.mark.long
def test_a_history_of_another_release_is_found_before_the_monitor_ends_with_it(
    spark: SparkSession, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(history, "SCHEMA_VERSION", 9)
        history.create(spark, str(here / "history"))
    finding = findings_of(placed(Settings(monitor=MonitorSettings(history="history"))))["monitor.history"]
    assert finding.state == "failed"
    assert (
        "the history has schema version 9, this program reads version 1; use the release that wrote the history"
        in finding.text
    )
    assert {path.name for path in (here / "history").iterdir()} == {*history.TABLES}


def test_without_spark_the_places_are_not_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monitor = MonitorSettings(checkpoint=str(tmp_path), history="s3a://bucket/history")
    findings = findings_of(Settings(monitor=monitor, review=ReviewSettings(out=str(tmp_path))))
    assert {finding.state for finding in findings.values()} == {"skipped"}


def jvms_in(folder: Path) -> list[str]:
    there = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("comm").read_text("utf-8") == "java\n" and process.joinpath("cwd").samefile(folder):
                there.append(process.name)
    return there


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_amid_the_start_of_spark_is_one_line_and_leaves_no_jvm(begun: bool, tmp_path: Path) -> None:
    log = tmp_path / "doctor.log"
    config = write_settings(tmp_path, {"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    command = [sys.executable, "-m", "clienthealth.ops.cli", "doctor", "--config", str(config)]
    with (
        log.open("w") as out,
        subprocess.Popen(command, stderr=out, stdout=subprocess.DEVNULL, cwd=tmp_path) as running,
    ):
        java_warning = "WARNING: Using incubator modules: jdk.incubator.vector\n"
        eventually(lambda: "Starting Spark to test" in log.read_text("utf-8"), "Spark is to be started")
        eventually(lambda: java_warning in log.read_text("utf-8") if begun else jvms_in(tmp_path), "the JVM")
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 130
    eventually(lambda: not jvms_in(tmp_path), "the JVM ends")
    output = log.read_text("utf-8").partition("Starting Spark to test")[2].partition("\n")[2]
    assert output.replace(java_warning, "") == "\nInterrupted before all checks had run.\n"
