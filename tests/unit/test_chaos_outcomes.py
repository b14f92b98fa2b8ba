"""An interrupted chaos campaign resumes from the stored outcomes of its faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from clienthealth.model.errors import InputError
from tests.chaos import faults, floods, page
from tests.chaos.outcomes import Outcome, Outcomes

CHOSEN = faults.campaign(1, 4, [], {})


def kept(folder: Path) -> Outcomes:
    return Outcomes(folder / "outcomes.json", 1, CHOSEN)


def outcome(number: int, *differences: str, final: bool = True) -> Outcome:
    return Outcome(number, CHOSEN[number].kind.name, differences=list(differences), final=final)


def test_a_campaign_resumes_with_faults_not_passed_and_lists_repeated_ones(tmp_path: Path) -> None:
    first = kept(tmp_path)
    first.keep(outcome(0))
    first.keep(outcome(1, "minute lost"))
    first.keep(outcome(2, final=False))
    resumed = kept(tmp_path)
    resumed.resume()
    assert [fault.number for fault in resumed.todo(CHOSEN)] == [1, 2, 3]
    resumed.seconds = 90.0
    for number in (1, 2, 3):
        resumed.keep(outcome(number))
    assert resumed.todo(CHOSEN) == []
    text = page.text(resumed, 4, {}, 1)
    assert "**4 of 4** passed, with seed 1." in text
    assert f"They passed after a correction: 2 (`{CHOSEN[1].kind.name}`)." in text
    assert "took: 90 s" in text


def test_a_campaign_is_not_resumed_as_another_one(tmp_path: Path) -> None:
    kept(tmp_path).keep(outcome(0))
    with pytest.raises(InputError, match="belongs to a campaign with other faults"):
        Outcomes(tmp_path / "outcomes.json", 2, CHOSEN).resume()
    fresh = kept(tmp_path)
    assert len(fresh.todo(CHOSEN)) == 4


def test_the_page_counts_what_did_not_strike_as_not_passed(tmp_path: Path) -> None:
    some = kept(tmp_path)
    some.keep(outcome(0))
    some.keep(outcome(1, "minute lost: a"))
    text = page.text(some, 4, {}, 1, [floods.Flood("records", ["ten"], ["nine"])])
    assert "**1 of 4** passed" in text
    assert "ended before the other 2 faults" in text
    assert "  - minute lost: a" in text
    assert "## Ten million records" in text
    assert "**Failed**: nine" in text


def test_a_tenth_of_the_flood_is_corrupt_and_what_is_cut_off_cannot_be_read() -> None:
    what, unreadable = Counter[str](), 0
    for number, (_, value) in enumerate(floods.records(20_000)):
        kind = floods.corruption(number) or "whole"
        what[kind] += 1
        if kind != "changed":
            try:
                msgspec.json.decode(value)
            except msgspec.DecodeError:
                unreadable += 1
    assert 900 < what["cut"] < 1100
    assert 900 < what["changed"] < 1100
    assert unreadable == what["cut"]
