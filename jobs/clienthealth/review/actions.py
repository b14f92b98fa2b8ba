"""Actions carried from review to review: `actions.toml`, kept by people beside the reports.

[[action]]
title = "Move the confirmation mail out of the producer callback"
owner = "orders team"
due   = 2026-11-20
state = "open"            # open (default), done or dropped
link  = "https://tracker.example/ORD-1312"      # optional
mode  = "…"               # the failure mode that it is against, by its id; optional
done  = 2026-11-18        # the day it was done; optional
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

from clienthealth.model.errors import InputError

FILE = "actions.toml"
STATES = ("open", "done", "dropped")


@dataclass(frozen=True)
class Action:
    """One action. `overdue_days`: days since its due date at the end of the review, 0 if it is not overdue."""

    title: str
    owner: str
    due: date
    state: str = "open"
    link: str = ""
    mode: str = ""
    done: date | None = None
    overdue_days: int = 0


#: The keys of an action in the file, with their types.
KINDS: Mapping[str, type] = {
    field.name: date if str(field.type).startswith("date") else str
    for field in fields(Action)
    if field.name != "overdue_days"
}
REQUIRED = ("title", "owner", "due")


def carried_over(file: Path, review_end: date, review_start: date) -> list[Action]:
    """Return the actions to discuss: overdue ones first, then open ones by due date, then those done in the period.

    `review_end`, not the clock, decides if an action is overdue. Dropped actions, and actions done before
    `review_start`, are left out. Raises InputError if the file does not have the form above.
    """
    if not file.is_file():
        return []
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not valid TOML: {error}") from error
    if unknown := set(tables) - {"action"}:
        raise InputError(f"{file}: unknown '{sorted(unknown)[0]}'; each action is a table [[action]]")
    kept = []
    for number, table in enumerate(tables.get("action", []), start=1):
        where = f"{file}: action {number}"
        for key, value in table.items():
            kind = KINDS.get(key)
            if kind is None:
                raise InputError(f"{where}: unknown key '{key}'; known are {', '.join(KINDS)}")
            if type(value) is not kind:
                raise InputError(f"{where}: {key} = {value!r} is not a {'date' if kind is date else 'string'}")
        if missing := [key for key in REQUIRED if not table.get(key)]:
            raise InputError(f"{where}: {missing[0]} is missing")
        action = Action(**table)
        if action.state not in STATES:
            raise InputError(f"{where}: state '{action.state}' is none of {', '.join(STATES)}")
        if action.link and urlsplit(action.link).scheme not in ("http", "https"):
            raise InputError(f"{where}: link '{action.link}' is not an http or https address")
        if action.state == "open":
            kept.append(replace(action, overdue_days=max((review_end - action.due).days, 0)))
        elif action.state == "done" and action.done and action.done >= review_start:
            kept.append(action)
    return sorted(kept, key=lambda a: (a.state != "open", not a.overdue_days, a.due, a.owner, a.title))
