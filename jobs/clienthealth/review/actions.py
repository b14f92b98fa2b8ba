"""Read `actions.toml`, a list of actions that people keep beside the review reports and carry from review to review.

[[action]]
title = "Move the confirmation mail out of the producer callback"
owner = "orders team"
due = 2026-11-20
state = "open"            # open (default), done or dropped
link = "https://tracker.example/ORD-1312"      # optional
mode = "…"                # the id of the failure mode that the action is to prevent; optional
done = 2026-11-18         # the day on which the action was done; optional
"""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from clienthealth.model.errors import CatalogueError, InputError
from clienthealth.model.tables import converted

FILE = "actions.toml"
_Filled = Annotated[str, Meta(min_length=1)]


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """One action of `actions.toml`.

    `overdue_days`: days from an open action's due date to the end of the reviewed period; 0 if the action is not
    overdue.
    """

    title: _Filled
    owner: _Filled
    due: date
    state: Literal["open", "done", "dropped"] = "open"
    link: Annotated[str, Meta(pattern="^(?i:https?://|$)")] = ""
    mode: str = ""
    done: date | None = None
    overdue_days: int = 0


class _File(Struct, forbid_unknown_fields=True):
    action: list[Action] = []


def carried_over(file: Path, review_end: date, review_start: date) -> list[Action]:
    """Return the actions to discuss: overdue actions, then open actions by due date, then recently done actions.

    Dropped actions, and actions done before `review_start`, are left out. Returns [] if there is no file. Raises
    InputError if the file is not valid.
    """
    if not file.is_file():
        return []
    try:
        actions = converted(tomllib.loads(file.read_text(encoding="utf-8")), _File, str(file)).action
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not valid TOML: {error}") from error
    except CatalogueError as error:
        raise InputError(str(error)) from error
    kept = [replace(a, overdue_days=max((review_end - a.due).days, 0)) for a in actions if a.state == "open"]
    kept += [one for one in actions if one.state == "done" and one.done and one.done >= review_start]
    return sorted(kept, key=lambda a: (a.state != "open", not a.overdue_days, a.due, a.owner, a.title))
