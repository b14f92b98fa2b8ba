"""The newest state of every client, as the topic `client-health` has told it so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clienthealth.indicators.lag_state import STATE_ORDER
from clienthealth.model import wording
from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Status
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.exposition import Lines, Shown, group_of, lines
from clienthealth_exporters.prometheus.health_record import HealthRecord, RecordError, aged, read, strict

_URGENCY: Mapping[Status, int] = {"ok": 0, "unknown": 10, "suspected": 20, "confirmed": 30}
#: States of a consumer group that want attention, the most urgent last.
LAG_ALARMS = STATE_ORDER[STATE_ORDER.index("WARN") :]
#: Of a client about which the monitor has said nothing for so long, not even that it has gone, nobody knows anything:
#: nothing arrives, or the monitor has stopped. Departures are told sooner; a longer window has as much more time.
SILENT_SECONDS = 180


@dataclass(frozen=True, slots=True)
class State:
    """A client's newest record. `written`: when the monitor wrote it; `seen`: when the client was last heard of.

    Both in epoch seconds. The record itself is kept as bytes: few clients are ever looked at in full.
    """

    key: str
    raw: bytes
    client: Client
    written: float
    seen: float
    window_start: int
    window_end: int
    departed: bool
    stale: bool
    urgency: int
    lines: Lines

    @property
    def record(self) -> HealthRecord:
        """The whole record."""
        return read(self.raw)

    @property
    def group(self) -> str:
        """The consumer group that it speaks of, '' where it speaks of none."""
        return group_of(self.client)

    @property
    def identity(self) -> tuple[str, ...]:
        """Whose state it is: a group may be told of under several services."""
        who = self.client
        if who.kind == "group":
            return "group", who.instance, self.group
        return "client", who.service, who.host, who.instance, who.client_id


class States:
    """Newest record per key. Thread-safe: the reader of the topic writes, the web server reads.

    A record with an older window than the known one is ignored. The record of a departure overlaps with the last
    windows before it: it replaces them, and only a window that those cannot reach brings the client back.

    Where no record comes any more, time stands still: a client does not lose its series because the monitor is blind,
    but nobody is `ok` without evidence (`aged`).
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._live: tuple[int, list[State]] = (0, [])
        self._version = 0
        self._newest = 0.0
        self._written = 0.0
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
            self._written = max(self._written, state.written)

    @property
    def newest(self) -> float | None:
        """What the newest record speaks of, in epoch seconds; None before the first record."""
        return self._newest or None

    def live(self) -> list[State]:
        """All clients that have not been silent for the time to live, the worst first; one state per client.

        The same list, not to be changed, as long as nothing has changed.
        """
        now = self._clock()
        with self._lock:
            oldest = min(now, self._written + SILENT_SECONDS) - self._settings.prometheus.ttl_seconds
            for key in [key for key, state in self._states.items() if state.written < oldest]:
                del self._states[key]
                self._version += 1
            for key, state in self._states.items():
                if _silent(state, now):
                    reason = f"nothing was heard of it after {wording.moment(state.seen, now)}"
                    self._states[key] = self._state(key, aged(state.raw, reason), round(1000 * state.written))
                    self._version += 1
            version, states = self._live
            if version == self._version:
                return states
            version, states = self._version, list(self._states.values())
        newest: dict[tuple[str, ...], State] = {}
        for state in sorted(states, key=lambda s: (s.window_end, s.key)):
            newest[state.identity] = state
        found = sorted(newest.values(), key=lambda s: (-s.urgency, s.key))
        self._live = (version, found)
        return found

    def shown(self, states: Sequence[State]) -> list[Shown]:
        """What a page has of some states. A group's own record speaks for its lag, a consumer where there is none."""
        groups = {state.group for state in states if state.client.kind == "group"}
        return [Shown(state.lines, state.client.kind == "group" or state.group not in groups) for state in states]

    def _state(self, key: str, value: bytes, timestamp_ms: int) -> State:
        record = read(value, timestamp_ms)
        return State(
            key=key,
            raw=strict(value),
            client=record.client,
            written=timestamp_ms / 1000 if timestamp_ms > 0 else record.window_end / 1000,
            seen=record.seen_ms / 1000,
            window_start=record.window_start,
            window_end=record.window_end,
            departed=record.departed,
            stale=record.stale,
            urgency=urgency(record),
            lines=lines(record, self._settings.prometheus.cluster_name),
        )

    def _replaces(self, known: State, new: State) -> bool:
        if new.departed:
            return new.window_end >= known.window_start
        if known.departed:
            settings = self._settings
            overlap_ms = (settings.monitor.window_seconds - settings.absence.min_gap_seconds) * 1000
            return new.window_end > known.window_end + max(0, overlap_ms)
        return new.window_end >= known.window_end


def _silent(state: State, now: float) -> bool:
    patience = max(SILENT_SECONDS, (state.window_end - state.window_start) / 1000 + SILENT_SECONDS / 2)
    return not state.departed and not state.stale and now - state.written > patience


def urgency(record: HealthRecord) -> int:
    """How much a client wants attention: its worst verdict; for a group the state of its lag, below the suspected."""
    if record.client.kind != "group":
        return _URGENCY[record.worst]
    state = record.text("group", "status")
    if state in LAG_ALARMS:
        return _URGENCY["suspected"] - len(LAG_ALARMS) + LAG_ALARMS.index(state)
    return _URGENCY["ok"] if state in ("OK", "IDLE") else _URGENCY["unknown"]
