"""What is told of a client beside the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from clienthealth.logs.wordings import Meaning


@dataclass(frozen=True, eq=False, kw_only=True)
class Trouble(Meaning):
    """What is told beside the verdicts. `says` is its title.

    id             hyphenated: in records, in the history and in JSON
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
