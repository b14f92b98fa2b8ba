"""The command of the page on reviews, as it stands there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from clienthealth.reference.sources import ROOT
from deploy.demo.stack import QUICK_START
from tests.laws.pages import commands, pages


def run(command: str, *more: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A documented `kafka-health …` with further options."""
    program, *arguments = shlex.split(command)
    assert Path(program).name == "kafka-health"
    return subprocess.run(
        [str(Path(sys.executable).with_name("kafka-health")), *arguments, *more],
        cwd=cwd,
        env={**os.environ, **QUICK_START, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_review_is_written(known_history: str, tmp_path: Path) -> None:
    config = tmp_path / "health.toml"
    config.write_text(f'[monitor]\nhistory = "{known_history}"\n', "utf-8")
    (command,) = (c for c in commands(pages()["jobs/clienthealth/review/README.md"]) if "--week" in c)
    command = command.replace("health.toml", str(config)).replace(
        " --prometheus http://prometheus.example.org:9090", ""
    )
    done = run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = tmp_path / "reports" / "2026-W46"
    assert {path.name for path in written.iterdir()} == {"review.html", "review.md", "review.json"}
    assert done.stdout.rstrip().endswith("reports/2026-W46/review.html")
    assert json.loads((written / "review.json").read_text("utf-8"))["headline"][0] == done.stdout.splitlines()[0]
