"""Why a fault happens, in a sentence, and what helps where that is known: by cause, and by client library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cause:
    """One of the causes that a judge tells apart.

    id        `detail.cause`; '' where the mode has only one
    sentence  why it happens; what stands in braces is taken from the detail
    vague     the same where the detail does not say all of it
    title     instead of the mode's, where that would not be true of this cause
    summary   likewise
    advice    instead of the mode's action, by a part of the library's name ('' for all others)
    assumed   it is named where nothing tells why: what another window of the same failure tells holds before it
    """

    id: str
    sentence: str
    vague: str = ""
    title: str = ""
    summary: str = ""
    advice: Mapping[str, str] = field(default_factory=dict)
    assumed: bool = False

    def why(self, detail: Mapping[str, Any]) -> str:
        """Why it happened, '' where not enough is known to say it."""
        values = {name: _words(value) for name, value in detail.items() if value not in (None, [], ())}
        try:
            return self.sentence.format_map(values)
        except KeyError:
            return self.vague

    def advice_for(self, library: str) -> str:
        """What to do where this library runs, '' where it is the mode's action."""
        names = (part for part in self.advice if part and part in library.lower())
        return self.advice.get(next(names, ""), "")


def _words(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
