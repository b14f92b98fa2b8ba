"""Systemd's own tools accept the systemd units."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clienthealth.configuration import load
from clienthealth.ops.cli import commands
from clienthealth.ops.initialise import Answers
from deploy.reference.rooms import ROOT

UNITS = sorted((ROOT / "deploy/systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]


#: Highest exposure that `systemd-analyze security` may report for a unit (0 to 100).
MOST_EXPOSED = 35
SYSTEMD = shutil.which("systemd-analyze")


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if SYSTEMD is None:
        pytest.skip("needs systemd-analyze (apt-get install systemd)")
    folder = tmp_path_factory.mktemp("units")
    program = folder / "kafka-health"
    program.symlink_to("/bin/true")
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("/opt/kafka-client-health/.venv/bin/kafka-health", str(program))
        (folder / unit.name).write_text(text, "utf-8")
    return folder


def test_systemd_finds_nothing_wrong(units: Path) -> None:
    verify = ["systemd-analyze", "verify", "--man=no", *(str(units / unit.name) for unit in UNITS)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "kafka-client-health" in line] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_systemd_calls_the_exposure_of_a_service_little(unit: Path, units: Path) -> None:
    judge = ["systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", str(units / unit.name)]
    done = subprocess.run(judge, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd 250")
    assert done.returncode == 0, done.stdout.splitlines()[-1:] or done.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_a_service_runs_a_command_of_ours_without_privileges(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    service = parser["Service"]
    (command,) = re.findall(r"/kafka-health (\S+)", service["ExecStart"])
    assert command in commands()
    assert (service["NoNewPrivileges"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == (
        "yes",
        "strict",
        "",
    )


def test_state_lies_where_a_service_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "deploy/README.md").read_text("utf-8")
    (state,) = re.findall(r"kafka-health init --out /etc/kafka-client-health/health.toml --state (\S+)", page)
    for unit in SERVICES:
        service = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text("utf-8"), re.MULTILINE))
        assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}" == state, unit
    folder = tmp_path / state[1:]
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (tmp_path / "health.toml").write_text(Answers("b:1", state=state).text(), "utf-8")
    for settings, root in ((load(None, {}), folder), (load(str(tmp_path / "health.toml"), {}), Path(state))):
        for place in (settings.monitor.checkpoint, settings.monitor.history, settings.review.out):
            assert Path(place).is_relative_to(root)


def test_every_timer_has_its_service() -> None:
    timers = [unit for unit in UNITS if unit.suffix == ".timer"]
    assert timers
    assert all(timer.with_suffix(".service") in UNITS for timer in timers)
