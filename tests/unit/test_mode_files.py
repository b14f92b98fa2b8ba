"""A mistake in the file of a failure mode gives a sentence with the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import clienthealth.modes
from clienthealth.model.errors import CatalogueError
from clienthealth.modes import Limits, mode_file
from clienthealth.read.logs.also_seen import TROUBLES

GOOD = """
title = "Slow"
summary = "It is slow."
effect = "being slow"
impact = "It costs."
action = "Look."
kinds = ["consumer"]
evidence = ["metric"]
background = "It is slow."

[thresholds.slow_seconds]
default = 3.0
at_least = 1
reason = "others take one"

[[confusions]]
looks_like = "A holiday: it ends."
settled_by = "a calendar"

[[causes]]
id = "laziness"
sentence = "It rests."

[lines.rests]
says = "it rests"

[[lines.rests.wordings]]
id = "it-rests"
source.java = "Rest"
literal = "resting"
pattern = 'resting'
"""


def limits(folder: Path, text: str) -> type[Limits]:
    place = folder / "too_slow"
    place.mkdir()
    (place / "mode.toml").write_text(text, "utf-8")
    file = mode_file(str(place / "rules.py"))
    file.reads("rests")

    class Thresholds(Limits, of=file):
        slow_seconds: float

    assert file.facts(Thresholds())["id"] == "too-slow"
    return Thresholds


def test_what_is_in_order_is_read(tmp_path: Path) -> None:
    assert vars(limits(tmp_path, GOOD)()) == {"slow_seconds": 3.0}


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("title", "titel", "modes/too_slow/mode.toml: there is no key titel; known keys: title, "),
        ('title = "Slow"', "", "modes/too_slow/mode.toml: Object missing required field `title`"),
        ('["consumer"]', '["producers"]', "modes/too_slow/mode.toml, kinds[0]: Invalid enum value 'producers'"),
        (
            "[[causes]]",
            "[[causes]]\nwhy = 3",
            "modes/too_slow/mode.toml, causes[0]: Object contains unknown field `why`",
        ),
        ('id = "laziness"', "id = 3", "modes/too_slow/mode.toml, causes[0].id: Expected `str`, got `int`"),
        ('says = "', 'tells = "', "modes/too_slow/mode.toml: lines.rests: Object contains unknown field `tells`"),
        ("literal", "literl", "modes/too_slow/mode.toml: lines.rests, wording it-rests: Object contains unknown field"),
        (
            "literal",
            'also = "boredom"\nliteral',
            "mode.toml: the key `also` of wording it-rests contains boredom, which is not a known issue",
        ),
        ("lines.rests", "lines.naps", "modes/too_slow/mode.toml: there is no log event rests; known events: naps"),
        (
            "at_least = 1",
            "at_least = 5",
            "modes/too_slow/mode.toml: thresholds.slow_seconds must be a number, at least 5",
        ),
        (
            "at_least = 1",
            'at_least = "fast"',
            "thresholds.slow_seconds: the key `at_least`, `at_most` or `needs` names the setting fast, "
            "which does not exist",
        ),
        (
            "slow_seconds",
            "slow_minutes",
            "thresholds.slow_minutes is missing either in this file or in its Python class",
        ),
        ("reason", "why", "modes/too_slow/mode.toml: thresholds.slow_seconds: Object contains unknown field `why`"),
        (
            "kinds",
            'suspected = { severity = "warning", hold = "5 minutes" }\nkinds',
            "modes/too_slow/mode.toml, suspected.hold: Expected `str` matching regex",
        ),
        (
            "kinds",
            'confirmed = { severity = "page" }\nkinds',
            "mode.toml, confirmed.severity: Invalid enum value 'page'",
        ),
        ("title =", "title", "too_slow/mode.toml: Expected '=' after a key in a key/value pair (at line 2, column 7)"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, right: str, wrong: str, fault: str) -> None:
    with pytest.raises(CatalogueError) as raised:
        limits(tmp_path, GOOD.replace(right, wrong))
    assert fault in str(raised.value)


def test_a_mode_explains_modes_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlock = clienthealth.modes.modes()["producer-callback-deadlock"]
    monkeypatch.setitem(vars(deadlock), "explains", frozenset({"delivery-staled"}))
    with pytest.raises(
        CatalogueError, match="producer-callback-deadlock: the key `explains` contains delivery-staled, which is no"
    ):
        clienthealth.modes.modes.__wrapped__()


def test_a_log_event_suspects_modes_and_causes_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    issue = replace(TROUBLES[0], suspects={"consumer-stalled": "boredom"})
    monkeypatch.setattr(clienthealth.modes, "TROUBLES", (issue,))
    with pytest.raises(CatalogueError, match="an unknown mode or cause: consumer-stalled = boredom"):
        clienthealth.modes.catalogue.__wrapped__()
