"""Run the quick commands of our pages, and check that the rest are run elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from clienthealth.ops.cli import commands as names
from clienthealth.ops.cli import main
from deploy.reference.rooms import ROOT
from tests.laws.pages import commands, pages

PROVEN = {
    "make demo": "tests/e2e/test_demo.py",
    "make test": "tests/stages.py",
    "make check": "tests/stages.py",
    "make setup": "tests/stages.py",
    "make lint": "tests/stages.py",
    ".venv/bin/python -m pytest": "tests/stages.py",
    ".venv/bin/kafka-health diagnose": "tests/spark/test_readme.py",
    "kafka-health review": "tests/spark/test_readme.py",
    "kafka-health doctor": "tests/kafka/test_own_kafka.py",
    "kafka-health formats": "tests/kafka/test_leaderless.py",
    "kafka-health monitor": "tests/kafka/test_own_kafka.py",
    "kafka-health export groups": "tests/kafka/test_own_kafka.py",
    "kafka-health export prometheus": "tests/kafka/test_own_kafka.py",
    **dict.fromkeys(
        (
            *("kafka-topics.sh", "kafka-acls.sh", "kafka-configs.sh", "kafka-consumer-groups.sh"),
            *(
                "kafka-console-consumer.sh",
                "kafka-metadata-quorum.sh",
                "kafka-get-offsets.sh",
                "jcmd",
                "jstat",
                "kill",
                "for i in 1 2 3; do jcmd",
                "grep",
                "curl",
                "tail",
            ),
            *("truncate", "timeout", "getent"),
        ),
        "tests/kafka/test_runbooks.py",
    ),
    "amtool silence": "tests/rules/test_amtool.py",
    "py-spy": "not run: needs the right to trace processes",
    "journalctl": "not run: needs systemd",
    "date -u; chronyc": "not run: needs a time service",
    "chronyc": "not run: needs a time service",
    "kafka-health watch": "tests/unit/test_watch.py",
    "kafka-health export jvm": "tests/kafka/test_jvm_exporter.py",
    "java -jar jolokia-agent": "tests/kafka/test_jvm_exporter.py",
    "KAFKA_BOOTSTRAP_SERVERS=broker-1:9092 GRAFANA_ADMIN_PASSWORD=…": "not run: needs a container engine",
    "KAFKA_BOOTSTRAP_SERVERS=broker:9092 GRAFANA_ADMIN_PASSWORD=…": "tests/e2e/test_compose_demo.py",
    "useradd": "not run: needs root; tests/unit/test_systemd.py has the units verified",
    "chown": "not run: needs the user that useradd makes",
    "cp deploy/systemd": "not run: needs systemd",
    "systemctl": "not run: needs systemd",
    "kafka-health init": "tests/kafka/test_init.py",
    "docker build": "not run: needs a container engine",
    "kubectl": "not run: needs a Kubernetes; tests/kafka/test_runbooks.py checks the options",
    "helm upgrade": "not run: needs a Kubernetes; the chart is rendered by tests/unit/test_chart.py",
    "kafka-health dashboards push": "tests/unit/test_dashboards_push.py",
    "export GRAFANA_TOKEN": "tests/unit/test_dashboards_push.py",
    "spark-submit": "tests/cluster/test_spark_cluster.py",
    "kafka-client-failures": "tests/unit/test_benchmark.py",
    "pip install kafka-client-failures": "not run: it is not published yet; tests/e2e/test_release.py builds it",
}
QUICK = (
    ".venv/bin/kafka-health modes",
    ".venv/bin/kafka-health explain",
    "kafka-health check-config",
    "kafka-health explain",
    "kafka-health alerts",
)
EVERY = sorted({command for text in pages().values() for command in commands(text)})


def quick(command: str) -> bool:
    return command.startswith(QUICK)


@pytest.mark.parametrize("command", EVERY)
def test_every_command_of_our_pages_is_run_somewhere(command: str) -> None:
    proofs = [proof for begins, proof in PROVEN.items() if command.startswith(begins)]
    assert quick(command) or proofs, "run it in a test, and name that test here"
    assert all(proof.startswith("not run: ") or (ROOT / proof).is_file() for proof in proofs)


@pytest.mark.parametrize("begins", PROVEN)
def test_what_is_proven_is_documented(begins: str) -> None:
    assert any(command.startswith(begins) for command in EVERY)


@pytest.mark.parametrize("command", [command for command in EVERY if quick(command)])
def test_the_quick_ones_work(command: str, tmp_path: Path) -> None:
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    (tmp_path / "settings.toml").touch()
    here = command.removeprefix(".venv/bin/").replace("/etc/prometheus/", "")
    done = subprocess.run(here, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "--json" in command or max(map(len, done.stdout.splitlines())) <= 80


def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("setup", "demo", "check", "test", "test-all", "bench", "lint"):
        assert f"  make {target}" in done.stdout


def test_every_help_lists_the_settings_file_and_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    nested = [(name, action) for name, stated in names().items() for action in stated.actions]
    for command in (*((name,) for name in names()), *nested):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == 0
        assert "--config FILE" in capsys.readouterr().out, command
    asked = [sys.executable, "-m", "clienthealth.ops.cli", "--version"]
    printed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert printed == f"kafka-health {version('kafka-client-health')}\n"


def test_setup_fetches_no_jars_of_the_demo() -> None:
    def fetched(target: str) -> list[tuple[str, str]]:
        dry = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
        return re.findall(r"-m (\S+\.jars) *(.*)", dry.stdout)

    ours, demos = ("clienthealth.platform.jars", "spark"), ("deploy.demo.jars", "")
    assert fetched("setup") == [ours]
    assert fetched("test") == fetched("demo") == [ours, demos]


@pytest.mark.parametrize(
    "command", ["modes", "explain producer-not-closed", "check-config", "doctor --help", "export groups --help"]
)
def test_commands_without_spark_need_none(command: str, tmp_path: Path) -> None:
    for name in ("pyspark", "delta", "pandas", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError(name=__name__)", "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, "-m", "clienthealth.ops.cli", *command.split()]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_names_what_users_need(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    named = set(re.findall(r"^    ([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert names().keys() - named == {"generate", "replay"}


@pytest.mark.parametrize("command", ["generate", "replay"])
def test_commands_for_the_project_work_though_the_help_leaves_them_out(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: kafka-health {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scope", "wish", "code", "called", "message"),
    [
        ("needed", "yes", 0, False, "Java 17 or later is missing: doctor and monitor need it"),
        ("all", "no", 1, False, " prometheus prometheus-alertmanager chromium. Run make with SYSTEM=yes"),
        (
            "all",
            "yes",
            1,
            True,
            "apt-get installs: openjdk-17-jdk-headless prometheus prometheus-alertmanager chromium",
        ),
    ],
)
def test_nothing_is_installed_on_the_machine_unasked(
    scope: str, wish: str, code: int, called: bool, message: str, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    stubs = {"id": "echo 1000", "apt-cache": "exit 0", "apt-get": "exit 1", "sudo": f"echo $* >>{tmp_path}/called"}
    for name, line in stubs.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        (programs / name).chmod(0o755)
    for name in ("sh", "mkdir", "find", "sed", "head", "grep", "touch", "env", "tee", "chmod", "rm", "true"):
        (programs / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(programs), "PYTHON": sys.executable, "SYSTEM": wish}
    done = subprocess.run(
        ["sh", str(ROOT / "deploy/demo/system.sh"), scope],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, (tmp_path / "called").exists()) == (code, called), done.stderr
    assert message in done.stderr
