"""The units of systemd, as systemd itself reads them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clienthealth.cli import commands
from clienthealth.reference.sources import ROOT

UNITS = sorted((ROOT / "deploy/systemd").iterdir())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (apt-get install systemd)")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    program = tmp_path / "kafka-health"
    program.symlink_to("/bin/true")
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("/opt/kafka-client-health/.venv/bin/kafka-health", str(program))
        (tmp_path / unit.name).write_text(text, "utf-8")
    verify = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "kafka-client-health" in line] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.stem)
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


def test_every_timer_has_its_service() -> None:
    timers = [unit for unit in UNITS if unit.suffix == ".timer"]
    assert timers
    assert all(timer.with_suffix(".service") in UNITS for timer in timers)
