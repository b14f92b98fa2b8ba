"""The command printed in review/README.md writes a review."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.ops.cli import main
from clienthealth.review.render import write
from tests.laws.pages import commands, pages
from tests.spark import known_weeks
from tests.spark.conftest import Reviewed

pytestmark = pytest.mark.long


def test_a_review_is_written_the_same_each_time(
    known_history: str,
    reviewed: Reviewed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, reports = tmp_path / "health.toml", tmp_path / "reports"
    links = f'[links]\ndashboards = "{known_weeks.DASHBOARDS}"\n'
    config.write_text(f'[monitor]\nhistory = "{known_history}"\n{links}', "utf-8")
    reports.mkdir()
    (reports / "actions.toml").write_text(known_weeks.ACTIONS, "utf-8")
    (command,) = (c for c in commands(pages()["jobs/clienthealth/review/README.md"]) if "--week" in c)
    command = command.replace("health.toml", str(config))
    program, *arguments = shlex.split(command)
    assert Path(program).name == "kafka-health"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    written = reports / "2026-W46"
    first = {file.name: file.read_bytes() for file in write(reviewed(known_weeks.W46), tmp_path / "first")}
    assert {*first} == {"review.html", "review.md", "review.json", "review-details.html"}
    assert {path.name: path.read_bytes() for path in written.iterdir()} == first
    assert printed.rstrip().endswith("reports/2026-W46/review.html")
    assert json.loads((written / "review.json").read_text("utf-8"))["headline"][0] == printed.splitlines()[0]
