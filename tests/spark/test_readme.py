"""The command of the page on reviews, as it stands there; in a process of its own `tests/e2e/test_demo.py` runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.cli import main
from tests.laws.pages import commands, pages


def test_a_review_is_written(
    known_history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "health.toml"
    config.write_text(f'[monitor]\nhistory = "{known_history}"\n', "utf-8")
    (command,) = (c for c in commands(pages()["jobs/clienthealth/review/README.md"]) if "--week" in c)
    command = command.replace("health.toml", str(config)).replace(
        " --prometheus http://prometheus.example.org:9090", ""
    )
    program, *arguments = shlex.split(command)
    assert Path(program).name == "kafka-health"
    monkeypatch.chdir(tmp_path)
    # It ends the session of its process, which is that of all tests here.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    written = tmp_path / "reports" / "2026-W46"
    assert {path.name for path in written.iterdir()} == {"review.html", "review.md", "review.json"}
    assert printed.rstrip().endswith("reports/2026-W46/review.html")
    assert json.loads((written / "review.json").read_text("utf-8"))["headline"][0] == printed.splitlines()[0]
