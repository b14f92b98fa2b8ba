"""The newest state of every client, as the topic `client-health` has told it so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from clienthealth.indicators.lag_state import STATE_ORDER
from clienthealth.records import Status
from clienthealth.settings import Settings
from clienthealth_exporters.exposition import Page, Pieces, page, pieces
from clienthealth_exporters.health_record import HealthRecord, RecordError, read

_URGENCY: Mapping[Status, int] = {"ok": 0, "unknown": 10, "suspected": 20, "confirmed": 30}
#: States of a consumer group that want attention, the most urgent last.
LAG_ALARMS = STATE_ORDER[STATE_ORDER.index("WARN") :]


@dataclass(frozen=True, slots=True)
class State:
    """A client's newest record. `written`: when the monitor wrote it; `seen`: when the client was last heard of.

    Both in epoch seconds. The record itself is kept as bytes: few clients are ever looked at in full.
    """

    key: str
    raw: bytes
    written: float
    seen: float
    window_start: int
    window_end: int
    departed: bool
    urgency: int
    identity: tuple[str, ...]
    group: str
    pieces: Pieces

    @property
    def record(self) -> HealthRecord:
        """The whole record."""
        return read(self.raw)


class States:
    """Newest record per key. Thread-safe: the reader of the topic writes, the web server reads.

    A record with an older window than the known one is ignored. The record of a departure overlaps with the last
    windows before it: it replaces them, and only a window that those cannot reach brings the client back.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._page: tuple[int, int, Page] | None = None
        self._version = 0
        self._newest = 0.0
        self.decode_errors = 0

    def put(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Take in a record; one without a value removes its client. What cannot be read is counted, no more."""
        name = (key or b"").decode("utf-8", "replace")
        if value is None:
            with self._lock:
                self._version += self._states.pop(name, None) is not None
            return
        try:
            state = self._state(name, value, timestamp_ms)
        except RecordError:
            self.decode_errors += 1
            return
        with self._lock:
            known = self._states.get(name)
            if known is None or self._replaces(known, state):
                self._states[name] = state
                self._version += 1
            self._newest = max(self._newest, state.seen)

    @property
    def newest(self) -> float | None:
        """What the newest record speaks of, in epoch seconds; None before the first record."""
        return self._newest or None

    def live(self) -> list[State]:
        """All clients that have not been silent for the time to live, the worst first; one state per client."""
        oldest = self._clock() - self._settings.prometheus.ttl_seconds
        with self._lock:
            for key in [key for key, state in self._states.items() if state.written < oldest]:
                del self._states[key]
                self._version += 1
            states = list(self._states.values())
        newest: dict[tuple[str, ...], State] = {}
        for state in sorted(states, key=lambda s: (s.window_end, s.key)):
            newest[state.identity] = state
        return sorted(newest.values(), key=lambda s: (-s.urgency, s.key))

    def page(self) -> Page:
        """The metrics of all clients; made anew only when something has changed."""
        states = self.live()
        version, cached = self._version, self._page
        if cached is None or cached[:2] != (version, len(states)):
            cached = (version, len(states), page(self._shown(states), self._settings.prometheus.max_series_per_metric))
            self._page = cached
        return cached[2]

    def _shown(self, states: Iterable[State]) -> Iterable[Pieces]:
        """A group's own record speaks for its lag; what a consumer says of itself counts where there is none."""
        states = list(states)
        groups = {state.group for state in states if state.identity[0] == "group"}
        for state in states:
            covered = state.identity[0] != "group" and state.group in groups
            kept = tuple(p for p in state.pieces.own if p.family.scope != "group") if covered else state.pieces.own
            yield Pieces(kept, state.pieces.shared)

    def _state(self, key: str, value: bytes, timestamp_ms: int) -> State:
        record = read(value, timestamp_ms)
        written = timestamp_ms / 1000 if timestamp_ms > 0 else record.window_end / 1000
        client = record.client
        group = client.group or (client.client_id if client.kind == "group" else "")
        identity: tuple[str, ...] = ("client", client.service, client.host, client.instance, client.client_id)
        if client.kind == "group":
            identity = ("group", client.instance, group)
        return State(
            key=key,
            raw=value,
            written=written,
            seen=record.seen_ms / 1000,
            window_start=record.window_start,
            window_end=record.window_end,
            departed=record.departed,
            urgency=urgency(record),
            identity=identity,
            group=group,
            pieces=pieces(record, self._settings.prometheus.cluster_name),
        )

    def _replaces(self, known: State, new: State) -> bool:
        if new.departed:
            return new.window_end >= known.window_start
        if known.departed:
            settings = self._settings
            overlap_ms = (settings.monitor.window_seconds - settings.absence.min_gap_seconds) * 1000
            return new.window_end > known.window_end + max(0, overlap_ms)
        return new.window_end >= known.window_end


def urgency(record: HealthRecord) -> int:
    """How much a client wants attention: its worst verdict; for a group the state of its lag, below the suspected."""
    if record.client.kind != "group":
        return _URGENCY[record.worst]
    state = record.text("group", "status")
    if state in LAG_ALARMS:
        return _URGENCY["suspected"] - len(LAG_ALARMS) + LAG_ALARMS.index(state)
    return _URGENCY["ok"] if state in ("OK", "IDLE") else _URGENCY["unknown"]
