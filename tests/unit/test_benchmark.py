"""The open benchmark has all recordings, and its blind copy hides the expected verdicts."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.reference.rooms import ROOT
from tests.support.recorded import RECORDINGS

sys.path.append(str(ROOT / "deploy/benchmark"))
import kafka_client_failures as benchmark
from kafka_client_failures.__main__ import main

PAGE = (ROOT / "deploy/benchmark/README.md").read_text("utf-8")
DEADLOCK, STALLED, NOT_CLOSED = "producer-callback-deadlock", "consumer-stalled", "producer-not-closed"
TRUTHS: Mapping[str, Mapping[str, Any]] = {
    "a": {"expected_mode": DEADLOCK},
    "b": {"expected_mode": STALLED, "also": ["delivery-stalled"]},
    "c": {"expected_mode": None},
    "d": {"expected_mode": None},
}


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    for name, truth in TRUTHS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "app.log").write_text(f"log of {name}", "utf-8")
        (tmp_path / name / "truth.json").write_text(json.dumps({"versions": "3.9", "notes": "", **truth}), "utf-8")
    monkeypatch.setattr(benchmark, "RECORDINGS", tmp_path)
    return {case.name: case.id for case in benchmark.cases()}


def test_it_has_all_recordings_and_the_page_says_how_many() -> None:
    found = benchmark.cases()
    assert {case.name for case in found} == {
        path.parent.relative_to(RECORDINGS).as_posix() for path in RECORDINGS.rglob("truth.json")
    }
    assert len({case.id for case in found}) == len(found)
    assert all(case.files for case in found)
    (numbers,) = re.findall(
        r"has (\d+) runs .*? (\d+) runs are failures of seven kinds\. (\d+) runs are controls", " ".join(PAGE.split())
    )
    runs, failures, controls = map(int, numbers)
    counted = Counter(case.expected_mode is None for case in found)
    assert (runs, failures, controls) == (len(found), counted[False], counted[True])


def test_a_tool_that_is_right_has_full_marks(ids: Mapping[str, str]) -> None:
    result = benchmark.score({ids["a"]: [DEADLOCK], ids["b"]: [STALLED], ids["c"]: [], ids["d"]: []})
    assert (result.recall, result.precision, result.accused_controls, result.unanswered) == (1, 1, 0, 0)
    assert result.by_mode == {DEADLOCK: (1, 1), STALLED: (1, 1)}


def test_false_accusations_and_what_is_missed_count_and_what_happened_too_does_not(ids: Mapping[str, str]) -> None:
    result = benchmark.score(
        {
            ids["a"]: [STALLED, NOT_CLOSED],
            ids["b"]: [STALLED, "delivery-stalled"],
            ids["c"]: [NOT_CLOSED],
        }
    )
    assert result.wrong == [("a", STALLED), ("c", NOT_CLOSED)]
    assert (result.recall, result.precision) == (1 / 2, 1 / 3)
    assert (result.accused_controls, result.controls, result.unanswered) == (1, 2, 1)
    assert "| producer-callback-deadlock | 0 of 1 |" in result.text()


def test_silence_is_precise_and_finds_nothing(ids: Mapping[str, str]) -> None:
    result = benchmark.score({})
    assert (result.recall, result.precision, result.unanswered) == (0, 1, 4)
    with pytest.raises(ValueError, match="no case has these ids: typo"):
        benchmark.score({"typo": []})


def test_a_blind_copy_tells_nothing_of_the_truth(
    ids: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, copies = tmp_path / "answers.json", tmp_path / "copies"
    monkeypatch.setattr("sys.argv", ["kafka-client-failures", "blind", str(copies)])
    assert main() == 0
    assert {path.relative_to(copies).as_posix() for path in copies.rglob("*.*")} == {
        f"{at}/app.log" for at in ids.values()
    }
    answers.write_text(json.dumps({ids["c"]: [STALLED]}), "utf-8")
    monkeypatch.setattr("sys.argv", ["kafka-client-failures", "score", str(answers)])
    assert main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"false accusation: c had no {STALLED}"
