"""Records of clients that have no state here, but that an alert may name: who was silent for long, and those of other
shards. Their pages are then still found, whenever and wherever the link is followed.
"""

from __future__ import annotations

import threading

import msgspec

from clienthealth.model.health_record import strict

#: Unhealthy clients are few; beyond this the one that was heard of least lately is forgotten.
MAX_RECALLED = 5_000
Names = tuple[str, str, str]


class NamedRecord(msgspec.Struct):
    """As much of a client's record as tells who it is and which group it speaks of."""

    service: str
    instance: str
    client_id: str
    kind: str | None = None
    group: str | None = None

    @property
    def names(self) -> Names:
        """What the address of its page has."""
        return self.service, self.instance, self.client_id


class Recall:
    """Thread-safe, bounded. Names of a client → its newest record on the wire, and when that was written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Names, tuple[str, bytes, float]] = {}

    def keep(self, names: Names, key: str, raw: bytes, written: float) -> None:
        """Keep a record in place of an older one."""
        with self._lock:
            self._records.pop(names, None)
            if len(self._records) >= MAX_RECALLED:
                del self._records[next(iter(self._records))]
            self._records[names] = key, strict(raw), written

    def __contains__(self, names: Names) -> bool:
        return names in self._records

    def get(self, names: Names) -> tuple[str, bytes, float] | None:
        """The key of a client, its record, and when it was written, in epoch seconds."""
        return self._records.get(names)
