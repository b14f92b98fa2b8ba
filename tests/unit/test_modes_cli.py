"""`kafka-health modes` and `kafka-health explain` print the failure modes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clienthealth.modes import modes
from clienthealth.ops.cli import main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(args)
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_modes_lists_each_with_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "modes")
    assert code == 0
    assert all(mode in out for mode in modes())
    assert max(map(len, out.splitlines())) <= 80


def test_modes_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "modes", "--json")
    assert [entry["id"] for entry in json.loads(out)] == list(modes())


@pytest.mark.parametrize("mode", list(modes()))
def test_explain_prints_everything_in_80_columns(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    code, out, _ = run(capsys, "explain", mode)
    assert code == 0
    for heading in ("What to do", "How it comes about", "Not to be confused with", "Thresholds in force", "Evidence"):
        assert heading in out
    assert max(map(len, out.splitlines())) <= 80


def test_explain_shows_the_thresholds_that_the_settings_put_in_force(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "health.toml"
    config.write_text("[modes.producer-callback-deadlock]\nmin_fills = 4\n", encoding="utf-8")
    _, out, _ = run(capsys, "explain", "producer-callback-deadlock", "--config", str(config))
    assert "min_fills = 4 (set; the default is 2)" in out
    _, out, _ = run(capsys, "explain", "producer-callback-deadlock", "--config", str(config), "--json")
    limits = {limit["name"]: limit for limit in json.loads(out)["thresholds"]}
    assert (limits["min_fills"]["value"], limits["min_fills"]["default"]) == (4, 2)


def test_an_unknown_mode_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "explain", "no-such-mode")
    assert code == 2
    assert out == ""
    assert "producer-not-closed" in err


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [(["demo", "--folder", "x"], "kafka-health demo"), (["export", "jvm", "--folder", "x"], "kafka-health export jvm")],
)
def test_an_unknown_argument_is_reported_with_the_commands_usage(
    arguments: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, *arguments)
    assert code == 2
    assert error.startswith(f"usage: {usage} [-h]")
    assert error.endswith(f"\n{usage}: error: unrecognized arguments: --folder x\n")
