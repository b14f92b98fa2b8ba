"""The newest state of every client, as the topic `client-health` has it so far."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

import msgspec

from clienthealth.configuration.installation import named_apart, served
from clienthealth.measure.lag_state import FINE, STATE_ORDER
from clienthealth.model import wording
from clienthealth.model.clients import Client
from clienthealth.model.errors import RecordError
from clienthealth.model.health_record import HealthRecord, aged, amount, decode, strict
from clienthealth.model.verdicts import Standing, Status
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.exposition import Lines, Shown, beginning, group_of, lines
from clienthealth_exporters.prometheus.history import History, NamedRecord, Names, Recall, lag_of
from clienthealth_exporters.prometheus.limits import LIMITS
from clienthealth_exporters.prometheus.series import EVERYBODY, PEERS
from clienthealth_exporters.prometheus.services import largest, sent, standing

log = logging.getLogger(__name__)
_URGENCY: Mapping[Standing, int] = {"ok": 0, "partial": 5, "unknown": 10, "suspected": 20, "confirmed": 30}
#: The limits of `largest`, None where there is none.
_LIMITS = (LIMITS.buffer_used_ratio, LIMITS.callback_seconds, None, LIMITS.queue_used_ratio, None)
#: What records speak of.
CLIENTS, GROUPS = "clients", "groups"
#: States of a consumer group that want attention, the most urgent last.
LAG_ALARMS = STATE_ORDER[STATE_ORDER.index("WARN") :]
#: The state of a client is unknown if the monitor has not published any for so long, not even that it has gone:
#: nothing arrives, or the monitor has stopped. Departures are published sooner; a longer window has as much more time.
SILENT_SECONDS = 180
#: Records that cannot be read are logged so often at most; they are counted always.
COMPLAINT_SECONDS = 60
#: Whoever can make room is looked for at most so often, and so many are found at once, where none is left.
ROOM_SECONDS = 5.0
_ROOM_SHARE = 0.1


@dataclass(slots=True)
class State:
    """A client's newest record. `written`: when the monitor wrote it; `seen`: when the client was last heard of.

    Both in epoch seconds, as is `silent_from`, when nobody knows any more how the client is. The record itself is kept
    as bytes: few clients are ever looked at in full. `standing`, `statuses` (all but the ok ones, by mode), `largest`
    and `sent` (records per second) are what its service is summed up from; `lag` is in records. `shown`: it has series
    of its own; their `lines` are made when first asked for. `failures`: mode, status and cause of those that are
    suspected or confirmed.
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
    standing: str
    statuses: tuple[tuple[str, Status], ...]
    failures: tuple[tuple[str, Status, str], ...]
    largest: tuple[float | None, ...]
    lag: float | None
    sent: float | None
    shown: bool
    silent_from: float
    lines: Lines | None = None

    @property
    def record(self) -> HealthRecord:
        """The whole record."""
        return decode(self.raw)

    @property
    def worth(self) -> tuple[bool, bool]:
        """Who has less of it makes room where there is no more: the healthy that have gone, then the healthy."""
        return self.urgency >= _URGENCY["suspected"], not self.departed

    @property
    def group(self) -> str:
        """The consumer group that it speaks of, '' where it speaks of none."""
        return group_of(self.client)

    @property
    def identity(self) -> tuple[str, ...]:
        """Whose state it is: a group may be reported under several services."""
        who = self.client
        if who.kind == "group":
            return "group", who.instance, self.group
        return who.service, who.host, who.instance, who.client_id


class _Elsewhere(msgspec.Struct):
    client: NamedRecord
    worst: str = "ok"


_ELSEWHERE = msgspec.json.Decoder(_Elsewhere)


class States:
    """Newest record per key. Thread-safe: the reader of the topic writes, the web server reads.

    A record with an older window than the known one is ignored. The record of a departure overlaps with the last
    windows before it: it replaces them, and only a window that those cannot reach brings the client back.

    Where no record comes any more, time stands still: a client does not lose its series because the monitor is blind,
    but nobody is `ok` without evidence (`aged`).

    No more are kept than the settings allow (`left_out` counts the records that found no room): names that change with
    every start do not fill the memory, nor make scrapes slow.

    Where several exporters share a fleet, it keeps the clients of its own shard. Of the others it keeps only the names
    of the groups that have records, as a group's own record stands for its lag, whoever serves it, and the records of
    the unhealthy (`recalled`): whichever exporter a link leads to knows them. Raises SettingsError.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._elsewhere: dict[str, tuple[str, float]] = {}
        self._owned, self._named = served(settings.prometheus), named_apart(settings.prometheus)
        self._begin = beginning(settings)
        self._live: tuple[int, list[State]] = (0, [])
        self._version = 0
        self._newest: dict[str, float] = {}
        self._written = 0.0
        self._spare: list[str] = []
        self._looked = -inf
        self.decode_errors = 0
        self.left_out = 0
        self._complained = -inf
        self.history = History()
        #: Called with the state before and after, None where there is none.
        self.changed: Callable[[State | None, State | None], None] = lambda before, after: None
        self._recall = Recall()

    def put(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Take in a record; one without a value removes its client. What cannot be read is counted, no more."""
        name = (key or b"").decode("utf-8", "replace")
        if value is None:
            with self._lock:
                if (ended := self._states.pop(name, None)) is not None:
                    self._forgotten(ended)
                    self._version += 1
                self._version += self._elsewhere.pop(name, None) is not None
            if ended is not None:
                self.changed(ended, None)
            return
        if not self._owned(key or b""):
            self._note(name, value, timestamp_ms / 1000)
            return
        try:
            state = self._state(name, value, timestamp_ms)
        except RecordError as error:
            self.decode_errors += 1
            if self._clock() - self._complained >= COMPLAINT_SECONDS:
                self._complained = self._clock()
                log.warning("%d records could not be read; the last: %s", self.decode_errors, error)
            return
        with self._lock:
            current = self._states.get(name)
            if kept := self._room(state) if current is None else self._replaces(current, state):
                self._states[name] = state
                self._version += 1
                self.history.note(state)
            subject = GROUPS if state.client.kind == "group" else CLIENTS
            self._newest[subject] = max(self._newest.get(subject, 0.0), state.seen)
            self._written = max(self._written, state.written)
        if kept:
            self.changed(current, state)

    @property
    def newest(self) -> float | None:
        """What the newest record speaks of, in epoch seconds; None before the first record. Groups count alone."""
        newest_of = self.newest_of
        return newest_of.get(CLIENTS, newest_of.get(GROUPS))

    @property
    def newest_of(self) -> Mapping[str, float]:
        """The same of clients and of consumer groups, of those that there was a record of."""
        with self._lock:
            return dict(self._newest)

    def live(self) -> list[State]:
        """All clients that have not been silent for the time to live, the worst first; one state per client.

        The same list, not to be changed, as long as nothing has changed.
        """
        now = self._clock()
        with self._lock:
            # Who has been silent for the time to live is forgotten; who is silent is unknown.
            oldest = min(now, self._written + SILENT_SECONDS) - self._settings.prometheus.ttl_seconds
            for key in [key for key, state in self._states.items() if state.written < oldest]:
                self._forgotten(self._states.pop(key))
                self._version += 1
            for key in [key for key, (_, written) in self._elsewhere.items() if written < oldest]:
                del self._elsewhere[key]
                self._version += 1
            for key, state in [item for item in self._states.items() if item[1].silent_from < now]:
                reason = f"nothing was heard of it after {wording.moment(state.seen, now)}"
                self._states[key] = self._state(key, aged(state.raw, reason), round(1000 * state.written))
                self._version += 1
            version, states = self._live
            if version == self._version:
                return states
            version, states = self._version, list(self._states.values())
        newest: dict[tuple[str, ...], State] = {}
        for state in states:
            other = newest.setdefault(state.identity, state)
            if (state.window_end, state.key) > (other.window_end, other.key):
                newest[state.identity] = state
        ordered = sorted(newest.values(), key=attrgetter("key"))
        ordered.sort(key=attrgetter("urgency"), reverse=True)
        self._live = (version, ordered)
        return ordered

    def recalled(self, names: Names) -> State | None:
        """The last that was heard of a client that is not among the live: of an unhealthy one, or of another shard."""
        if (known := self._recall.get(names)) is None:
            return None
        key, raw, written = known
        return self._state(key, raw, round(1000 * written))

    def _forgotten(self, state: State) -> None:
        """An alert may have named it."""
        names = state.client.service, state.client.instance, state.client.client_id
        track = self.history.track(state.key)
        if state.urgency >= _URGENCY["suspected"] or names in self._recall or (track and track.unhealthy_at):
            self._recall.keep(names, state.key, state.raw, state.written)

    def shown(self, states: Sequence[State], most: int, dropped: MutableMapping[str, int]) -> list[Shown]:
        """What a page has of some states. A group's own record speaks for its lag, a consumer where there is none.

        Of more than `most` clients, or groups, with series those that come first have them: each has the metric of
        `dropped` that is raised by the others, and their lines need not be made.
        """
        groups = {state.group for state in states if state.client.kind == "group"}
        groups |= {group for group, _ in list(self._elsewhere.values())}
        compared = _compared(states)
        series: list[Shown] = []
        left = {True: most, False: most}
        for state in states:
            of_group = state.client.kind == "group"
            evidence = state.key in compared
            if state.shown or of_group or evidence:
                left[of_group] -= 1
                if left[of_group] < 0:
                    dropped[EVERYBODY] = dropped.get(EVERYBODY, 0) + 1
                    continue
                if state.lines is None:
                    record = decode(state.raw, round(1000 * state.written))
                    state.lines = lines(record, self._settings.prometheus.cluster_name, self._begin)
                series.append(Shown(state.lines, of_group or state.group not in groups, state.shown, evidence))
        return series

    def _room(self, new: State) -> bool:
        """Whether there is room for another client; somebody of less worth may have to make it."""
        most = self._settings.prometheus.max_clients
        if len(self._states) < most:
            return True
        if self._clock() >= self._looked + ROOM_SECONDS:
            # Who is to make room first is the last in the list.
            self._looked = self._clock()
            lesser = [state for state in self._states.values() if state.worth < (True, True)]
            lesser.sort(key=attrgetter("worth", "written"))
            self._spare = [state.key for state in lesser[: max(1, int(most * _ROOM_SHARE))]][::-1]
        while self._spare:
            key = self._spare[-1]
            other = self._states.get(key)
            if other is not None and other.worth >= new.worth:
                break
            self._spare.pop()
            if not self._spare:
                # They have been used up: there may be more.
                self._looked = -inf
            if other is not None:
                self._forgotten(self._states.pop(key))
                return True
        self.left_out += 1
        return False

    def _note(self, key: str, value: bytes, written: float) -> None:
        """Take in a record of another shard."""
        try:
            record = _ELSEWHERE.decode(value)
        except msgspec.DecodeError:
            # Who serves it counts it.
            return
        who = record.client
        if record.worst in ("suspected", "confirmed") or who.names in self._recall:
            self._recall.keep(who.names, key, value, written)
        with self._lock:
            self._written = max(self._written, written)
            if who.kind == "group":
                group = who.group or who.client_id
                if key in self._elsewhere or len(self._elsewhere) < self._settings.prometheus.max_clients:
                    self._version += self._elsewhere.get(key, ("",))[0] != group
                    self._elsewhere[key] = group, written

    def _state(self, key: str, value: bytes, timestamp_ms: int) -> State:
        record = decode(value, timestamp_ms)
        urgent, most = urgency(record), largest(record)
        written = timestamp_ms / 1000 if timestamp_ms > 0 else record.window_end / 1000
        patience = max(SILENT_SECONDS, (record.window_end - record.window_start) / 1000 + SILENT_SECONDS / 2)
        return State(
            key=key,
            raw=strict(value),
            client=record.client,
            written=written,
            seen=record.seen_ms / 1000,
            window_start=record.window_start,
            window_end=record.window_end,
            departed=record.departed,
            stale=record.stale,
            urgency=urgent,
            standing=standing(record),
            statuses=tuple([(verdict.mode, verdict.status) for verdict in record.verdicts if verdict.status != "ok"]),
            failures=tuple(
                [(v.mode, v.status, str(v.detail.get("cause") or "")) for v in record.verdicts if v.unhealthy]
            ),
            largest=most,
            lag=lag_of(record),
            sent=sent(record),
            shown=urgent > _URGENCY["unknown"] or self._named(record.client) or _beyond(record, most),
            silent_from=inf if record.departed or record.stale else written + patience,
        )

    def _replaces(self, current: State, new: State) -> bool:
        if new.departed:
            return new.window_end >= current.window_start
        if current.departed:
            settings = self._settings
            overlap_ms = (settings.monitor.window_seconds - settings.absence.min_gap_seconds) * 1000
            return new.window_end > current.window_end + max(0, overlap_ms)
        return new.window_end >= current.window_end


def _compared(states: Sequence[State]) -> set[str]:
    """The keys of unhealthy clients and of some healthy ones of the same service and kind (`PEERS`)."""
    ill = [state for state in states if state.failures]
    wanted = dict.fromkeys(((state.client.service, state.client.kind) for state in ill), PEERS)
    keys = {state.key for state in ill}
    for state in states if wanted else ():
        place = state.client.service, state.client.kind
        if wanted.get(place) and not state.failures and not state.departed:
            wanted[place] -= 1
            keys.add(state.key)
    return keys


def _beyond(record: HealthRecord, most: Sequence[float | None]) -> bool:
    """Is a measurement beyond a limit that an alert has, so that the alert needs the client's own series?"""
    if "clock" in record.indicators:
        return True
    if record.client.kind == "group":
        shares = [amount(row.get("retention_used_ratio")) for row in record.rows("lag")]
        return any(share is not None and share > LIMITS.retention_used_ratio for share in shares)
    return any(
        value is not None and limit is not None and value > limit for value, limit in zip(most, _LIMITS, strict=True)
    )


def urgency(record: HealthRecord) -> int:
    """How much a client wants attention: by how it is; for a group the state of its lag, below the suspected."""
    if record.client.kind != "group":
        return _URGENCY[record.standing]
    state = record.text("group", "status")
    if state in LAG_ALARMS:
        return _URGENCY["suspected"] - len(LAG_ALARMS) + LAG_ALARMS.index(state)
    return _URGENCY["ok"] if state in FINE else _URGENCY["unknown"]
