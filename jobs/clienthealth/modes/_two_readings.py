"""Two readings of a client, one after the other: all that is at hand where it is decided whether to take a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clienthealth.model.readings import Reading
from clienthealth.modes._evidence import used_bytes


@dataclass(frozen=True, slots=True)
class TwoReadings:
    """The newest reading of a client, the one before it (None at first), and the client's options."""

    before: Reading | None
    now: Reading
    config: Mapping[str, str]

    def risen(self, name: str) -> float | None:
        """By how much a counter rose; None where that is not known."""
        first, last = None if self.before is None else self.before.get(name), self.now.get(name)
        return None if first is None or last is None else last - first

    @property
    def used_bytes(self) -> float:
        """Bytes of the buffer that are in use, 0 where that is not known."""
        return used_bytes(self.now) or 0.0
