"""Client trouble that no failure mode is about: told and counted by the client's own lines, never judged, never paged.

Each has its wordings by library, a sentence, and what to do, in `also_seen.toml` and nowhere else. Two of them,
authentication and TLS, are also why modes happen: those modes read the same lines.
"""

from __future__ import annotations

from pathlib import Path

from clienthealth.read.logs.wordings import Meaning, meanings, table


class Trouble(Meaning, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    """What is told beside the verdicts. `says` is its title.

    id             hyphenated, the name of its table: in records, in the history and in JSON
    sentence       what it is
    action         what to do
    least          fewer lines of one run are everyday life and not told
    apart_seconds  lines further apart than this are two runs, of which the later one is told
    """

    id: str
    sentence: str
    action: str
    least: int = 1
    apart_seconds: int = 3_600


_TABLES = table(Path(__file__).with_suffix(".toml"))
#: All of them by id, the gravest first.
BY_ID = meanings({name: {**entry, "id": name} for name, entry in _TABLES.items()}, Trouble, "logs/also_seen.toml: ")
TROUBLES = tuple(BY_ID.values())
