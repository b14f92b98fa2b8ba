"""A review carries open actions over to the next review."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from clienthealth.model.errors import InputError
from clienthealth.review.actions import carried_over

MONDAY_AFTER, MONDAY = date(2026, 11, 16), date(2026, 11, 9)

FILE = """
[[action]]
title = "later"
owner = "a"
due = 2026-11-30
[[action]]
title = "due on Sunday"
owner = "a"
due = 2026-11-15
[[action]]
title = "due on Monday"
owner = "a"
due = 2026-11-16
[[action]]
title = "long overdue"
owner = "b"
due = 2026-10-17
state = "open"
[[action]]
title = "done this week"
owner = "a"
due = 2026-11-01
state = "done"
done = 2026-11-09
[[action]]
title = "done last week"
owner = "a"
due = 2026-11-01
state = "done"
done = 2026-11-08
[[action]]
title = "dropped"
owner = "a"
due = 2026-11-01
state = "dropped"
"""


def test_overdue_first_by_the_end_of_the_review(tmp_path: Path) -> None:
    file = tmp_path / "actions.toml"
    file.write_text(FILE)
    actions = [(a.title, a.overdue_days) for a in carried_over(file, MONDAY_AFTER, MONDAY)]
    assert actions == [
        ("long overdue", 30),
        ("due on Sunday", 1),
        ("due on Monday", 0),
        ("later", 0),
        ("done this week", 0),
    ]


def test_no_file_is_no_action(tmp_path: Path) -> None:
    assert carried_over(tmp_path / "actions.toml", MONDAY_AFTER, MONDAY) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[action]]\ntitle = 'x'\nowner = 'y'", "action[0]: Object missing required field `due`"),
        ("[[action]]\ntitle = 'x'\nowner = ''\ndue = 2026-01-01", "action[0].owner: Expected `str` of length >= 1"),
        ("[[action]]\ntitle = 'x'\nowner = 'y'\ndue = 'soon'", "action[0].due: Invalid"),
        ("[[action]]\ntitel = 'x'", "action[0]: Object contains unknown field `titel`"),
        ("[[actions]]\n", "Object contains unknown field `actions`"),
        ("[[action]]\ntitle='x'\nowner='y'\ndue=2026-01-01\nstate='won'", "action[0].state: Invalid enum value 'won'"),
        (
            "[[action]]\ntitle='x'\nowner='y'\ndue=2026-01-01\nlink='javascript:alert(1)'",
            "action[0].link: Expected `str` matching regex",
        ),
        ("[[action]", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_reported_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "actions.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        carried_over(file, MONDAY_AFTER, MONDAY)
    assert message in str(caught.value)
