"""The supervisor restarts the monitor with the options that spark-submit needs."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import start_http_server

from clienthealth.model.errors import SettingsError, StateError
from clienthealth.ops.cli import check_config, monitor, parser_for
from clienthealth.ops.doctor.servers import limits
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.spark.self_monitoring import SelfMetrics
from clienthealth.spark.stepping import Summary


def supervised(codes: list[int], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[list[str]], list[float]]:
    commands: list[list[str]] = []
    waits: list[float] = []

    def job(command: list[str]) -> SimpleNamespace:
        commands.append(command)
        code = codes[len(commands) - 1]
        return SimpleNamespace(wait=lambda: code)

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout or 0)
        return False

    monkeypatch.setattr("clienthealth.ops.cli.monitor.subprocess", SimpleNamespace(Popen=job))
    monkeypatch.setattr(threading.Event, "wait", wait)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return monitor._supervised("health.toml"), commands, waits


def test_a_job_that_fails_is_started_again_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    code, commands, waits = supervised([monitor.AGAIN, -9, 1, monitor.AGAIN, 3, -11, 75, 75, 75, 0], monkeypatch)
    assert code == 0
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert {tuple(command[3:]) for command in commands} == {("monitor", "--once", "--config", "health.toml")}


def test_a_second_monitor_on_a_checkpoint_ends_at_once_and_the_first_goes_on(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "state")
    with (
        monitor._alone(checkpoint),
        pytest.raises(StateError, match=f"another monitor works on the checkpoint in {checkpoint}"),
        monitor._alone(checkpoint),
    ):
        raise AssertionError("two monitors on one checkpoint")
    with monitor._alone(checkpoint):
        pass


@pytest.mark.parametrize("checkpoint", ["s3a://health/checkpoints", "/dev/null/state"])
def test_a_checkpoint_that_cannot_be_locked_is_none_of_the_lock_s_business(checkpoint: str) -> None:
    with monitor._alone(checkpoint):
        pass


def test_the_job_after_an_exhausted_heap_gets_that_information(monkeypatch: pytest.MonkeyPatch) -> None:
    _, commands, _ = supervised([monitor.HEAP, monitor.AGAIN, 0], monkeypatch)
    assert ["--heap-ran-out" in command for command in commands] == [False, True, False]


@pytest.mark.parametrize("code", [0, 2, 130])
def test_what_a_new_start_does_not_mend_ends_it(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code_of_monitor, commands, _ = supervised([code], monkeypatch)
    assert (code_of_monitor, len(commands)) == (code, 1)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_submit_gets_heap_stack_logging_and_an_exit_without_memory(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "health.toml"
    config.write_text('[monitor]\nheap_mb = 3000\n[spark.options]\n"spark.executor.memoryOverhead" = "2g"\n')
    args = parser_for("check-config").parse_args(["check-config", "--config", str(config), "--spark-submit", mode])
    assert check_config.run(args) == 0
    options = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert options["spark.driver.memory"] == options["spark.executor.memory"] == "3000m"
    for part in ("driver", "executor"):
        flags = options[f"spark.{part}.extraJavaOptions"].split()
        assert {"-XX:+ExitOnOutOfMemoryError", "-Xss16m"} <= {*flags}
    assert (options["spark.driver.memoryOverhead"], options["spark.executor.memoryOverhead"]) == ("640m", "2g")
    (log4j,) = (
        f for f in options["spark.driver.extraJavaOptions"].split() if f.startswith("-Dlog4j2.configurationFile=")
    )
    where = log4j.partition("=")[2]
    file = Path(options["spark.files"]) if mode == "cluster" else Path(where.removeprefix("file://"))
    assert file.is_file() and (mode == "client" or where == file.name)
    assert "-Dlog4j2.level=WARN" in options["spark.executor.extraJavaOptions"]


def test_a_heap_in_which_spark_does_not_start_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^heap_mb must be a whole number, at least 512, not 300$"):
        MonitorSettings(heap_mb=300)


def test_doctor_shows_limits_and_what_they_left_out() -> None:
    metrics = SelfMetrics()
    metrics.stepped(
        [Summary(bucket=0, clients=30, left_out={"clients": 970}, skewed=2), Summary(bucket=1, clients=5)], 0.0
    )
    metrics.stepped([Summary(bucket=0, clients=31)], 0.0)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=metrics.registry)
    try:
        settings = Settings(monitor=dataclasses.replace(MonitorSettings(), metrics_port=server.server_port))
        findings = [(finding.state, finding.text) for finding in limits(settings)]
    finally:
        server.shutdown()
        thread.join()
    (state, text), *warnings = findings
    assert state == "ok"
    assert (
        "clients 200,000, clients per service 50,000, new clients 10,000, events per process 20,000, events 1,000,000"
        in text
    )
    assert "The monitor now keeps the state of 36 clients." in text
    assert [(state, text[:77]) for state, text in warnings] == [
        ("warning", "970 clients exceeded the limit (200,000) and were left out since the monitor ")
    ]
    (finding,) = limits(settings)
    assert finding.state == "skipped" and "does not answer" in finding.text


def test_a_batch_that_ends_before_it_begins_is_of_a_recreated_topic() -> None:
    metrics = SelfMetrics()
    source = {
        "startOffset": {"a": {"0": 30, "1": 7}},
        "endOffset": {"a": {"0": 4, "1": 9, "2": 1}},
        "latestOffset": {"a": {"0": 4, "1": 9, "2": 1}},
    }
    metrics.progressed({"name": "monitor", "durationMs": {}, "sources": [source, {"endOffset": None}]})
    assert (
        metrics.registry.get_sample_value("kafka_client_health_recreated_partitions_total", {"source_topic": "a"}) == 1
    )
    assert metrics.registry.get_sample_value("kafka_client_health_lost_records_total", {"source_topic": "a"}) == 4
