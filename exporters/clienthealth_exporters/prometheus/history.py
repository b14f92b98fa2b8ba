"""The exporter's bounded memory of the last hours: measurements, incidents, services by hour.

It begins when the exporter starts, because the topic has only the newest record of each client. One hour of 2,000
clients took 12 MB. The memory also has records of clients that this exporter no longer serves or that another shard
serves, because an alert may have named them.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest
from math import isnan, nan
from typing import TYPE_CHECKING

import msgspec

from clienthealth.model.health_record import HealthRecord, amount, strict
from clienthealth.model.verdicts import UNHEALTHY

if TYPE_CHECKING:
    from clienthealth_exporters.prometheus.states import State

#: The measurements of a client that are kept, and their index in `State.largest`. None: lag, which is stored
#: separately.
PLOTTED: Mapping[str, int | None] = {"Buffer": 0, "Callback": 1, "Topic queue": 3, "Lag": None}
HOUR_SECONDS = 3600
#: POINTS: samples per client, one per half minute. MAX_CLIENTS: maximum number of clients; unhealthy ones replace
#: healthy ones.
POINTS = 120
MAX_CLIENTS = 2000
MAX_CHANGES = 40
HOURS = 24
MAX_SERVICES = 2000
#: Maximum number of remembered records of unhealthy clients. If there are more, the oldest is dropped.
MAX_RECALLED = 5_000
Names = tuple[str, str, str]
_WIDTH = 1 + len(PLOTTED)


@dataclass(frozen=True)
class Change:
    """One change of a client's status in a failure mode. `at`: epoch seconds."""

    at: float
    mode: str
    status: str


class Track:
    """The samples and status changes of one client in the last hour."""

    __slots__ = ("_changes", "_points", "_statuses", "unhealthy_at")

    def __init__(self) -> None:
        self._points = array("d")
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._statuses: dict[str, str] = {}
        self.unhealthy_at = 0.0

    def add(self, at: float, state: State) -> None:
        """Add a state of the client."""
        values = [state.lag if position is None else state.largest[position] for position in PLOTTED.values()]
        self._points.extend([at, *(nan if value is None else value for value in values)])
        del self._points[: -_WIDTH * POINTS]
        statuses = {mode: str(status) for mode, status in state.statuses if status != "unknown"}
        for mode in sorted(self._statuses.keys() | statuses.keys()):
            status = statuses.get(mode, "no longer")
            if status != self._statuses.get(mode, "no longer"):
                self._changes.append(Change(at, mode, status))
        self._statuses = statuses
        if statuses:
            self.unhealthy_at = at

    def series(self, name: str, since: float) -> list[tuple[float, float | None]]:
        """Return moments (epoch seconds) and values of a measurement, None where it was unknown."""
        column = 1 + list(PLOTTED).index(name)
        # Copy the list, because the writer may append to it at any time.
        points = self._points[:]
        pairs = zip(points[::_WIDTH], points[column::_WIDTH], strict=True)
        return [(at, None if isnan(value) else value) for at, value in pairs if at >= since]

    def changes(self) -> list[Change]:
        """Return the changes of the client's statuses, the newest first."""
        return list(self._changes)[::-1]


class History:
    """The last hours of all clients.

    Thread-safe. `begun`: the earliest moment that is kept, None if nothing is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[str, Track] = {}
        self._hours: dict[str, dict[int, list[int]]] = {}
        self.begun: float | None = None

    def note(self, state: State) -> None:
        """Take in a client's new state."""
        at = state.seen
        with self._lock:
            self.begun = at if self.begun is None else min(self.begun, at)
            if state.key not in self._tracks and len(self._tracks) >= MAX_CLIENTS:
                # An unhealthy client may replace a healthy one.
                calm = (key for key, track in self._tracks.items() if track.unhealthy_at < at - HOUR_SECONDS)
                oldest = next(calm, None) if any(status != "unknown" for _, status in state.statuses) else None
                if oldest is not None:
                    del self._tracks[oldest]
            if state.key in self._tracks or len(self._tracks) < MAX_CLIENTS:
                self._tracks.setdefault(state.key, Track()).add(at, state)
            service, hour = state.client.service, int(at // HOUR_SECONDS)
            full = service not in self._hours and len(self._hours) >= MAX_SERVICES
            if full or state.client.kind == "group" or state.standing in ("unknown", "gone"):
                return
            hours = self._hours.setdefault(service, {})
            count = hours.setdefault(hour, [0, 0])
            count[0] += 1
            count[1] += state.standing in UNHEALTHY
            for old in [start for start in hours if start <= hour - HOURS]:
                del hours[old]

    def track(self, key: str) -> Track | None:
        """Return the memory of a client's last hour; None if there is none."""
        return self._tracks.get(key)

    def changes(self, most: int) -> list[tuple[str, Change]]:
        """Return the newest changes of all clients, each with the client's key."""
        with self._lock:
            tracks = list(self._tracks.items())
        found = [(key, change) for key, track in tracks for change in track.changes()]
        return nlargest(most, found, key=lambda of_client: of_client[1].at)

    def services(self) -> Iterator[tuple[str, Mapping[int, float]]]:
        """Yield each service with its unhealthy share (0 to 1) of judged samples, by hour since 1970.

        The worst service comes first.
        """
        with self._lock:
            rows = [
                (service, {hour: ill / judged for hour, (judged, ill) in hours.items()})
                for service, hours in self._hours.items()
            ]
        yield from sorted(rows, key=lambda row: (-sum(row[1].values()), row[0]))


def lag_of(record: HealthRecord) -> float | None:
    """Return the total lag in records of a consumer or group, None if unknown."""
    total = amount(record.value("group", "sum_lag"))
    of_partitions = [records for row in record.rows("lag") if (records := amount(row.get("records"))) is not None]
    return total if total is not None else sum(of_partitions) if of_partitions else None


class NamedRecord(msgspec.Struct):
    """The part of a client's record that holds its identity and its group."""

    service: str
    instance: str
    client_id: str
    kind: str | None = None
    group: str | None = None

    @property
    def names(self) -> Names:
        """The names in the address of its page."""
        return self.service, self.instance, self.client_id


class Recall:
    """Records of stale clients, and of clients of other shards, so that they still have pages.

    Thread-safe and bounded. It maps the names of a client to its newest record as bytes, and the time when that was
    written.
    """

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

    def get(self, names: Names) -> tuple[str, bytes, float] | None:
        """Return a client's key, its record, and when the record was written (epoch seconds)."""
        return self._records.get(names)
