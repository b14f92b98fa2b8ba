"""`diagnose` judges attachments of real programs that hang, and of healthy programs."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from clienthealth.modes import modes
from tests.support.attachments import statuses, worst

FOLDER = Path(__file__).parents[1] / "hangs"
#: Smallest number of failures that `diagnose` must find. A change of the code must not lower FOUND.
FOUND = 87
EVERY = 12


class Case(NamedTuple):
    name: str
    modes: frozenset[str]


def cases() -> list[Case]:
    rows = [row.split("\t") for row in (FOLDER / "labels.tsv").read_text("utf-8").splitlines()]
    return [Case(row[0], frozenset(row[2].split("/")) - {"-"}) for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hangs")
    with tarfile.open(FOLDER / "cases.tar.xz") as packed:
        packed.extractall(place, filter="data")
    return place / "cases"


def accused(path: Path) -> Mapping[str, str]:
    judged, _ = statuses(path)
    return {mode: status for mode in modes() if (status := worst(judged, mode)) in ("suspected", "confirmed")}


def wrong(case: Case, found: Mapping[str, str]) -> bool:
    return any(mode not in case.modes and (status == "confirmed" or not case.modes) for mode, status in found.items())


@pytest.mark.parametrize("case", cases()[::EVERY], ids=lambda case: case.name)
def test_no_program_is_accused_of_what_it_did_not_have(case: Case, folder: Path) -> None:
    found = accused(folder / case.name)
    assert not wrong(case, found), found


@pytest.mark.long
def test_all_programs_are_judged_as_before(folder: Path) -> None:
    verdicts = {case: accused(folder / case.name) for case in cases()}
    assert {case.name: found for case, found in verdicts.items() if wrong(case, found)} == {}
    assert sum(bool(case.modes & found.keys()) for case, found in verdicts.items()) >= FOUND
