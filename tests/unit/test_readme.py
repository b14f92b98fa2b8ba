"""The command `diagnose` that README.md prints finds the recorded deadlock."""

from __future__ import annotations

import shlex

import pytest

from clienthealth.ops.cli import main
from deploy.reference.rooms import ROOT
from tests.laws.pages import commands, pages


def test_the_recorded_deadlock_is_diagnosed_in_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = (c for c in commands(pages()["README.md"]) if " diagnose " in c)
    program, *arguments = shlex.split(command)
    assert program.endswith("kafka-health")
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    output = capsys.readouterr().out
    assert "CONFIRMED  order-producer" in output
    assert "Confirmed   producer-callback-deadlock" in output
    assert max(map(len, output.splitlines())) <= 80
