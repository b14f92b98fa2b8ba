"""The lab chooses random cases by a seed, and derives the right verdicts from each recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cases import described, drawn
from tests.lab.families import FAMILIES
from tests.lab.judge import graded
from tests.lab.label import Label, Recorded, labels
from tests.lab.layouts import LAYOUTS, WRAPPINGS, Line
from tests.lab.mechanisms import CONSUMER, CROSS_TOPIC, DEADLOCK, LOOP, MECHANISMS
from tests.lab.world import EVENTS

START = 1_795_208_640_000


def test_a_seed_gives_the_same_cases_and_another_seed_others() -> None:
    once, again, other = ([described(case) for case in drawn(seed, 12)] for seed in (7, 7, 8))
    assert once == again
    assert once != other


def test_every_mechanism_has_a_family_and_a_world() -> None:
    for mechanism in MECHANISMS.values():
        assert any(mechanism.suits(family) for family in FAMILIES.values()), mechanism.name
        assert mechanism.world in EVENTS, mechanism.name


def test_two_cases_of_three_are_failures() -> None:
    assert [case.mechanism.mode is None for case in drawn(7, 9)] == [False, False, True] * 3


def test_a_line_keeps_its_words_in_every_wrapping() -> None:
    for wrap in WRAPPINGS.values():
        assert "order 7 accepted" in wrap(Line(START, "order 7 accepted"))
    assert all(layout.backend in ("reload4j", "logback", "log4j2", "jul") for layout in LAYOUTS.values())


def _recorded(
    folder: Path,
    mechanism: str,
    mode: str | None,
    truth: list[dict[str, Any]],
    family: str = "java-3.9",
    **written: list[int],
) -> Path:
    seen = {"metrics": "jolokia-bulk", "interval": 10.0, "layout": "none", "dumps": [], "begins": 0.0, "ends": 0.0}
    case = {
        "mechanism": mechanism, "mode": mode, "role": "producer", "family": family,
        "options": {"trouble": "join"}, "seen": seen,
        "weather": ["", 0, 0], "troubled": ["p"], "clients": ["p", "p-1"], "stored": 0, "ended_by_itself": False,
        "timeline": {"start": START, "onset": START + 30_000, "end": START + 90_000},
        "written": {"metrics": [], "dumps": [], "lines": [], **written},
    }  # fmt: skip
    (folder / "seen").mkdir()
    (folder / "seen" / "jstack-1.txt").touch()
    (folder / "case.json").write_text(json.dumps(case), encoding="utf-8")
    (folder / "truth.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in truth), encoding="utf-8")
    return folder


def _held(second: int) -> dict[str, Any]:
    counts = dict.fromkeys(("attempted", "failed", "expired", "unknown", "exhausted", "polls", "sending_ms"), 0)
    held = max(0, 1000 * (second - 30))
    return {"ts": START + 1000 * second, "id": "p", **counts, "acked": min(second, 30), "callback_ms": held}


def test_dumps_far_apart_ask_for_a_confirmed_deadlock(tmp_path: Path) -> None:
    dumps = [START + 35_000, START + 55_000]
    folder = _recorded(tmp_path, "callback-join", DEADLOCK, [_held(second) for second in range(90)], dumps=dumps)
    assert (labels(Recorded(folder)) or {})[DEADLOCK] == Label("confirmed", "confirmed", True)


def test_a_recording_that_ends_before_asks_nothing(tmp_path: Path) -> None:
    dumps = [START + 10_000, START + 25_000]
    folder = _recorded(tmp_path, "callback-join", DEADLOCK, [_held(second) for second in range(90)], dumps=dumps)
    assert (labels(Recorded(folder)) or {})[DEADLOCK] == Label()


@pytest.mark.parametrize(
    ("mechanism", "mode", "family", "dumps", "expected"),
    [
        ("topic-hangs", CROSS_TOPIC, "legacy-0.8", [35, 50], Label("confirmed", "confirmed", True)),
        ("topic-hangs", CROSS_TOPIC, "legacy-0.8", [35], Label("suspected", "confirmed", True)),
        ("topic-hangs", CROSS_TOPIC, "java-3.9", [35, 80], Label("nothing", "confirmed", True)),
        ("close-hangs", LOOP, "java-3.9", [32, 80], Label("confirmed", "confirmed", True)),
        ("close-hangs", LOOP, "java-3.9", [32, 50], Label("suspected", "confirmed", True)),
        ("endless-lookup", LOOP, "legacy-0.8", [32, 50], Label("confirmed", "confirmed", True)),
        ("left-behind", LOOP, "legacy-0.8", [20, 25], Label()),
    ],
)
def test_what_dumps_alone_show_of_consumers(
    tmp_path: Path, mechanism: str, mode: str, family: str, dumps: list[int], expected: Label
) -> None:
    truth = [
        {**_held(second), "handled": min(second, 30), "others": min(second, 30), "in": "close"} for second in range(90)
    ]
    moments = [START + 1000 * second for second in dumps]
    folder = _recorded(tmp_path, mechanism, mode, truth, family, dumps=moments)
    assert (labels(Recorded(folder)) or {})[mode] == expected


def test_trouble_that_did_not_come_is_not_judged(tmp_path: Path) -> None:
    fine = [{**_held(second), "acked": second, "callback_ms": 0} for second in range(90)]
    folder = _recorded(tmp_path, "callback-join", DEADLOCK, fine, dumps=[START + 40_000])
    assert graded(folder, "diagnose", []) is None


def test_a_verdict_on_another_client_is_wrong(tmp_path: Path) -> None:
    dumps = [START + 35_000, START + 55_000]
    folder = _recorded(tmp_path, "callback-join", DEADLOCK, [_held(second) for second in range(90)], dumps=dumps)
    verdicts = [("p", DEADLOCK, "suspected"), ("p-1", DEADLOCK, "confirmed"), ("p", CONSUMER, "ok")]
    grades = [(one.failing, one.grade) for one in graded(folder, "diagnose", verdicts) or ()]
    assert grades == [(True, "suspected only"), (False, "wrong confirmed")]
