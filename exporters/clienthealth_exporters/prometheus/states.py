"""The newest state of every client, as read so far from the topic `client-health`."""

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
_STATUSES = {urgency: status for status, urgency in _URGENCY.items()}
#: Threshold of each metric of `State.largest`; None for a metric without a threshold.
_LIMITS = (LIMITS.buffer_used_ratio, LIMITS.callback_seconds, None, LIMITS.queue_used_ratio, None)
CLIENTS, GROUPS = "clients", "groups"
LAG_ALARMS = STATE_ORDER[STATE_ORDER.index("WARN") :]
#: Minimum time (s) without a record after which a client's state becomes unknown.
SILENT_SECONDS = 180
COMPLAINT_SECONDS = 60
#: Minimum time between two searches for clients to evict, when `max_clients` is reached.
ROOM_SECONDS = 5.0
_ROOM_SHARE = 0.1


@dataclass(slots=True)
class State:
    """A client's newest record. Times are epoch seconds; only `window_start` and `window_end` are epoch milliseconds.

    `raw`          the record as JSON
    `written`      when the monitor wrote the record
    `seen`         time of the client's last data
    `urgency`      rank in lists; the largest is at the top
    `standing`     the client's state in the metrics of its service: one of `services.STANDINGS`
    `statuses`     (mode, status) of all verdicts that are not ok
    `failures`     (mode, status, cause) of the suspected and confirmed verdicts; cause '' if unknown
    `largest`      the client's value of each metric in `services.WORST`; None if unknown
    `lag`          the lag of a consumer or group, in records; None if unknown
    `sent`         the rate at which a producer sends records, per second; None if unknown
    `shown`        True if the client has series of its own
    `silent_from`  when the client's state becomes unknown if no newer record comes
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
        """The client's newest record, decoded anew at each access."""
        return decode(self.raw)

    @property
    def status(self) -> str:
        """One of confirmed, suspected, lagging (only groups), unknown, partial, ok, and gone.

        A client that has gone during a failure keeps the status confirmed or suspected.
        """
        if self.departed and self.urgency <= _URGENCY["unknown"]:
            return "gone"
        return _STATUSES.get(self.urgency, "lagging")

    @property
    def worth(self) -> tuple[bool, bool]:
        """Sort key for eviction.

        The order is: gone clients without a failure, other clients without a failure, gone clients with a failure,
        other clients with a failure.
        """
        return self.urgency >= _URGENCY["suspected"], not self.departed

    @property
    def group(self) -> str:
        """The client's consumer group; '' if the client has none."""
        return group_of(self.client)

    @property
    def identity(self) -> tuple[str, ...]:
        """The label values that identify the client or group."""
        client = self.client
        if client.kind == "group":
            return "group", client.instance, self.group
        return client.service, client.host, client.instance, client.client_id


class _Elsewhere(msgspec.Struct):
    client: NamedRecord
    worst: str = "ok"


_ELSEWHERE = msgspec.json.Decoder(_Elsewhere)


class States:
    """The newest record per key of `client-health`. Thread-safe: the topic's reader writes, the web server reads.

    Each record has verdicts on one window (time span). The windows decide whether a new record replaces the client's
    old record:

    - If the new record says that the client has gone, the new window must end at or after the old window's start.
    - If only the old record says that the client has gone, the new window must end after the old window. The time
      between the two ends must exceed `window_seconds` minus `min_gap_seconds`.
    - In all other cases, the new window must end at or after the old window's end.

    A client is dropped `ttl_seconds` after its last record. While no records arrive at all, no client is dropped.
    `left_out`: number of records that were dropped because of the setting `max_clients`.

    Raises SettingsError if a label in the settings has an invalid name.
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
        #: Called with a client's states before and after a change (None: no state).
        self.changed: Callable[[State | None, State | None], None] = lambda before, after: None
        self._recall = Recall()

    def put(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Process a record of `client-health`. If `value` is None, the client is removed.

        `timestamp_ms`: when the monitor wrote the record (epoch ms); not positive if unknown.
        """
        name = (key or b"").decode("utf-8", "replace")
        if value is None:
            self._remove(name, timestamp_ms / 1000 if timestamp_ms > 0 else inf)
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
                log.warning("%d records could not be read; the last error: %s", self.decode_errors, error)
            return
        with self._lock:
            current = self._states.get(name)
            if kept := self._room(state) if current is None else self._replaces(current, state):
                self._states[name] = state
                self._version += 1
                self.history.note(state)
            subject = GROUPS if state.client.kind == "group" else CLIENTS
            # `seen` may come from a client whose clock is ahead.
            self._newest[subject] = max(self._newest.get(subject, 0.0), min(state.seen, state.written))
            self._written = max(self._written, state.written)
        if kept:
            self.changed(current, state)

    def _remove(self, key: str, written: float) -> None:
        """Remove a client whose removal was written at `written`, unless its record is newer.

        After a lost connection, the topic is read again from its beginning, and contains old removals.
        """
        with self._lock:
            ended = self._states.get(key)
            if written < (ended.written if ended is not None else self._elsewhere.get(key, ("", -inf))[1]):
                return
            if ended is not None:
                self._keep_if_failed(self._states.pop(key))
            self._version += ended is not None or self._elsewhere.pop(key, None) is not None
        if ended is not None:
            self.changed(ended, None)

    @property
    def newest(self) -> float | None:
        """The newest event time (epoch s) of all clients, or of all groups if no client is known yet.

        None before the first record.
        """
        return self._newest.get(CLIENTS, self._newest.get(GROUPS))

    @property
    def newest_of(self) -> Mapping[str, float]:
        """The newest event times (epoch s): of clients under the key CLIENTS, of groups under the key GROUPS.

        A key is absent while its time is unknown.
        """
        with self._lock:
            return dict(self._newest)

    def live(self) -> list[State]:
        """Drop clients without a record for `[prometheus] ttl_seconds`. Return the remaining states, most urgent first.

        The caller must not change the list.
        """
        now = self._clock()
        with self._lock:
            # Time without any records is not counted, because a stopped monitor is no reason to drop a client.
            oldest = min(now, self._written + SILENT_SECONDS) - self._settings.prometheus.ttl_seconds
            old = [key for key, state in self._states.items() if state.written < oldest]
            for key in old:
                self._keep_if_failed(self._states.pop(key))
            old_elsewhere = [key for key, (_, written) in self._elsewhere.items() if written < oldest]
            for key in old_elsewhere:
                del self._elsewhere[key]
            silent = [state for state in self._states.values() if state.silent_from < now]
            for state in silent:
                reason = f"no data since {wording.moment(state.seen, now)}"
                self._states[state.key] = self._state(state.key, aged(state.raw, reason), round(1000 * state.written))
            self._version += len(old) + len(old_elsewhere) + len(silent)
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
        """Return the last state of a client that was dropped, or that another exporter serves; None if unknown."""
        if (known := self._recall.get(names)) is None:
            return None
        key, raw, written = known
        return self._state(key, raw, round(1000 * written))

    def _keep_if_failed(self, state: State) -> None:
        """Keep the record of a dropped client that has failed, because an alert may still link to the client's page."""
        names = state.client.service, state.client.instance, state.client.client_id
        track = self.history.track(state.key)
        if state.urgency >= _URGENCY["suspected"] or self._recall.get(names) or (track and track.unhealthy_at):
            self._recall.keep(names, state.key, state.raw, state.written)

    def shown(self, states: Sequence[State], most: int, dropped: MutableMapping[str, int]) -> list[Shown]:
        """Return a `Shown` object for each state that has series on /metrics, in the order of `states`.

        `most`: maximum number of clients with series, and also of groups with series. `dropped` is increased by the
        number of clients and groups without series because of this limit.
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
        """Return whether there is room for a new client. Evict a client of lower `worth` if necessary."""
        most = self._settings.prometheus.max_clients
        if len(self._states) < most:
            return True
        if self._clock() >= self._looked + ROOM_SECONDS:
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
                # The last search's candidates for eviction are used up, so allow a new search at once.
                self._looked = -inf
            if other is not None:
                self._keep_if_failed(self._states.pop(key))
                return True
        self.left_out += 1
        return False

    def _note(self, key: str, value: bytes, written: float) -> None:
        """Keep data from a record that another exporter serves.

        A failing client's record is kept for the client's page. A group's name is kept, because clients in a group that
        has its own record have no series of the scope "group" on /metrics.
        """
        try:
            record = _ELSEWHERE.decode(value)
        except msgspec.DecodeError:
            # Only the exporter that serves this client counts the unreadable record in its `decode_errors`.
            return
        client = record.client
        if record.worst in ("suspected", "confirmed") or self._recall.get(client.names):
            self._recall.keep(client.names, key, value, written)
        with self._lock:
            self._written = max(self._written, written)
            if client.kind == "group":
                group = client.group or client.client_id
                if key in self._elsewhere or len(self._elsewhere) < self._settings.prometheus.max_clients:
                    self._version += self._elsewhere.get(key, ("",))[0] != group
                    self._elsewhere[key] = group, written

    def _state(self, key: str, value: bytes, timestamp_ms: int) -> State:
        record = decode(value, timestamp_ms)
        urgent, most = urgency(record), largest(record)
        written = timestamp_ms / 1000 if timestamp_ms > 0 else record.window_end / 1000
        patience = max(SILENT_SECONDS, (record.window_end - record.window_start) / 1000 + SILENT_SECONDS / 2)
        between = self._settings.monitor.publish_seconds
        failing = [verdict for verdict in record.verdicts if verdict.unhealthy]
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
            statuses=tuple([(v.mode, v.status) for v in record.verdicts if v.status != "ok"]),
            failures=tuple([(v.mode, v.status, str(v.detail.get("cause") or "")) for v in failing]),
            largest=most,
            lag=lag_of(record),
            sent=sent(record),
            shown=urgent > _URGENCY["unknown"] or self._named(record.client) or _beyond(record, most),
            silent_from=inf if record.departed or record.stale else written + patience + between,
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
    """Return the keys of failing clients, and of up to `PEERS` healthy clients of the same service and kind."""
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
    """Return whether a measurement exceeds its alert threshold, or the client's clock is wrong."""
    if "clock" in record.indicators:
        return True
    if record.client.kind == "group":
        shares = [amount(row.get("retention_used_ratio")) for row in record.rows("lag")]
        return any(share is not None and share > LIMITS.retention_used_ratio for share in shares)
    pairs = zip(most, _LIMITS, strict=True)
    return any(value is not None and limit is not None and value > limit for value, limit in pairs)


def urgency(record: HealthRecord) -> int:
    """Return the client's rank in lists, which begin with the largest rank.

    A group with a lag state of WARN or worse ranks just below suspected clients.
    """
    if record.client.kind != "group":
        return _URGENCY[record.standing]
    state = record.text("group", "status")
    if state in LAG_ALARMS:
        return _URGENCY["suspected"] - len(LAG_ALARMS) + LAG_ALARMS.index(state)
    return _URGENCY["ok"] if state in FINE else _URGENCY["unknown"]
