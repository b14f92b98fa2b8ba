"""The past states of clients and services that the exporter keeps in memory."""

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

#: The index of each plotted measurement in `State.largest`. None stands for `State.lag`.
PLOTTED: Mapping[str, int | None] = {"Buffer": 0, "Callback": 1, "Topic queue": 3, "Lag": None}
HOUR_SECONDS = 3600
#: Maximum number of samples per client.
POINTS = 120
#: Maximum number of clients with samples.
MAX_CLIENTS = 2000
MAX_CHANGES = 40
HOURS = 24
MAX_SERVICES = 2000
MAX_RECALLED = 5_000
Names = tuple[str, str, str]
_WIDTH = 1 + len(PLOTTED)


@dataclass(frozen=True)
class Change:
    """A change of a client's status in a failure mode. `status`: the new status. `at`: epoch seconds."""

    at: float
    mode: str
    status: str


class Track:
    """The newest samples and status changes of one client."""

    __slots__ = ("_changes", "_points", "_statuses", "unhealthy_at")

    def __init__(self) -> None:
        self._points = array("d")
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._statuses: dict[str, str] = {}
        self.unhealthy_at = 0.0

    def add(self, at: float, state: State) -> None:
        """Add the client's measurements and statuses at time `at` (epoch seconds)."""
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
        """Return (epoch seconds, value) of a measurement, oldest first; an unknown value is None.

        `name`: a key of `PLOTTED`. `since`: time of the first sample to return (epoch seconds).
        """
        column = 1 + list(PLOTTED).index(name)
        # Make a copy, because the thread that reads the topic may append at any time.
        points = self._points[:]
        pairs = zip(points[::_WIDTH], points[column::_WIDTH], strict=True)
        return [(at, None if isnan(value) else value) for at, value in pairs if at >= since]

    def changes(self) -> list[Change]:
        """Return the client's last changes of status, the newest first."""
        return list(self._changes)[::-1]


class History:
    """The samples and status changes of each client, and the share of unhealthy records of each service in each hour.

    Thread-safe. `begun`: the earliest event time of all states so far (epoch seconds); None before the first state.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: dict[str, Track] = {}
        self._hours: dict[str, dict[int, list[int]]] = {}
        self.begun: float | None = None

    def note(self, state: State) -> None:
        """Add a state to its client's samples and its service's hourly counts."""
        at = state.seen
        with self._lock:
            self.begun = at if self.begun is None else min(self.begun, at)
            if state.key not in self._tracks and len(self._tracks) >= MAX_CLIENTS:
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
        """Return the samples and status changes of the client with this key; None if there are none."""
        return self._tracks.get(key)

    def changes(self, most: int) -> list[tuple[str, Change]]:
        """Return the newest `most` status changes as (client key, change), the newest first."""
        with self._lock:
            tracks = list(self._tracks.items())
        found = [(key, change) for key, track in tracks for change in track.changes()]
        return nlargest(most, found, key=lambda of_client: of_client[1].at)

    def services(self) -> Iterator[tuple[str, Mapping[int, float]]]:
        """Yield (service, {hour: share}). `share`: share (0 to 1) of the service's judged records that were unhealthy.

        The share is computed per hour. `hour`: start of the hour, in hours since 1970.
        """
        with self._lock:
            rows = [
                (service, {hour: ill / judged for hour, (judged, ill) in hours.items()})
                for service, hours in self._hours.items()
            ]
        yield from sorted(rows, key=lambda row: (-sum(row[1].values()), row[0]))


def lag_of(record: HealthRecord) -> float | None:
    """Return the total lag (in records) of a consumer or group, None if unknown."""
    total = amount(record.value("group", "sum_lag"))
    of_partitions = [records for row in record.rows("lag") if (records := amount(row.get("records"))) is not None]
    return total if total is not None else sum(of_partitions) if of_partitions else None


class NamedRecord(msgspec.Struct):
    """The identity of the client that a record describes."""

    service: str
    instance: str
    client_id: str
    kind: str | None = None
    group: str | None = None

    @property
    def names(self) -> Names:
        """Service, instance and client id, as in the address of the client's page."""
        return self.service, self.instance, self.client_id


class Recall:
    """Keeps records of clients that this exporter has dropped, or that another exporter serves. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[Names, tuple[str, bytes, float]] = {}

    def keep(self, names: Names, key: str, raw: bytes, written: float) -> None:
        """Keep a client's newest record. `raw`: the record as JSON; `written`: when the monitor wrote it (epoch s)."""
        with self._lock:
            self._records.pop(names, None)
            if len(self._records) >= MAX_RECALLED:
                del self._records[next(iter(self._records))]
            self._records[names] = key, strict(raw), written

    def get(self, names: Names) -> tuple[str, bytes, float] | None:
        """Return (key, record as JSON, epoch seconds at which the record was written); None if no record is kept."""
        return self._records.get(names)
