"""A test run leaves no process behind, and tests/README.md lists its stages."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from deploy.reference.rooms import ROOT
from tests import stages
from tests.stages import ALL, TEST, Stage
from tests.support.waiting import eventually

STARTS = """
import os, subprocess, sys, time
shell = "setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & setsid sh -c 'echo $$ >> {pids}; kill -STOP $$' &"
subprocess.run(["sh", "-c", shell])
while len(open("{pids}").read().split()) < 2: time.sleep(0.05)
{then}
"""
HERE: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def starting(pids: Path, then: str) -> Sequence[str]:
    pids.touch()
    return [sys.executable, "-c", STARTS.format(pids=pids, then=then)]


def running(pids: Path) -> list[str]:
    return [pid for pid in pids.read_text("utf-8").split() if Path(f"/proc/{pid}").exists()]


def test_what_a_program_leaves_running_is_named_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    patient = (
        "from tests.support import contained; contained.GRACE_SECONDS = 0; import sys; contained.main(0, sys.argv[1:])"
    )
    command = [sys.executable, "-c", patient, *starting(pids, "sys.exit(7)")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as held:
        assert held.stdout is not None
        outcome = json.loads(held.stdout.read())
    assert outcome["code"] == 7 and "sleep 1000" in outcome["left"] and len(outcome["left"]) == 2
    assert outcome["cpu_seconds"] >= 0
    assert running(pids) == []


def test_however_a_run_ends_all_of_it_ends(tmp_path: Path) -> None:
    """After SIGKILL, a test run cannot end its own processes, so another process has to end them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pids = tmp_path / number.name
        sleeps = {"unit": [starting(pids, "time.sleep(1000)")]}
        program = (
            "import sys; from pathlib import Path; from tests import stages; "
            f"stages.LOGS = Path({str(tmp_path)!r}); stages.STAGES = "
            f"{{name: stages.Stage('', commands, {{'test': 1}}) for name, commands in {sleeps!r}.items()}}; "
            "sys.exit(stages._main([]))"
        )
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=HERE, stdout=subprocess.DEVNULL) as run:
            eventually(lambda: pids.exists() and len(running(pids)) == 2, "what it runs has started")  # noqa: B023
            run.send_signal(number)
            assert run.wait() == (143 if number == signal.SIGTERM else -number)
        eventually(lambda: not running(pids), "all has ended")  # noqa: B023


def test_what_stands_in_the_checkout_after_a_run_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "mine").touch()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    monkeypatch.setattr(stages, "LOGS", tmp_path / ".git" / "logs")
    work = "mkdir state && echo 1 > state/lock"
    monkeypatch.setattr(stages, "STAGES", {"unit": Stage("", [["sh", "-c", work]], {TEST: 1})})
    assert asyncio.run(stages.run(TEST, ["unit"])) == 1
    assert "checkout   FAILED  the run left state/\n" in capsys.readouterr().out
    monkeypatch.setattr(stages, "STAGES", {"unit": Stage("", [["true"]], {TEST: 1})})
    assert asyncio.run(stages.run(TEST, ["unit"])) == 0


def test_workers_of_a_layer_run_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two", "three"):
        test = f"def test_it(): open({str(tmp_path / 'ran')!r}, 'a').write('{name}\\n')\n"
        (tmp_path / f"test_{name}.py").write_text(test + "def test_more(): pass\n", "utf-8")
    options = ["--quiet", "--disable-plugin-autoload", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    monkeypatch.setattr(stages, "STAGES", {"unit": Stage("", [command], {TEST: 1}, workers=2)})
    assert asyncio.run(stages.run(TEST, ["unit"])) == 0, capsys.readouterr().out
    assert sorted((tmp_path / "ran").read_text("utf-8").split()) == ["one", "three", "two"]
    assert capsys.readouterr().out.splitlines()[-1].startswith("==== 6 passed in ")


def test_what_is_long_is_run_by_the_whole_alone() -> None:
    short, whole = (stages.STAGES["kafka"].chosen(suite)[0] for suite in (TEST, ALL))
    assert [*whole, "-m", "not long"] == short
    assert stages.STAGES["lint"].chosen(TEST) == stages.STAGES["lint"].chosen(ALL)


def test_a_stage_over_budget_by_half_is_reported_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "STAGES", {name: Stage("", [["true"]], {TEST: 100}) for name in ("frugal", "greedy")})
    stages._tell_end(
        TEST, [stages.Result("frugal", True, 1, 149, []), stages.Result("greedy", True, 1, 151, [])], [], 2
    )
    assert capsys.readouterr().out.splitlines() == [
        "total      passed     2.0 s   300.0 s CPU",
        "greedy took 151 s of CPU, and is to take 100 s in `make test`",
    ]


def test_the_page_lists_what_runs_where() -> None:
    assert stages.table() in stages.README.read_text("utf-8"), "write it: python -m tests.stages --table"
