"""What a bucket of processes remembers between two batches, and the versioned bytes that it is kept as.

Everything is bounded: readings, events and dumps last as long as a window can still be judged; of clients that have
gone only open incidents stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from clienthealth.errors import StateError
from clienthealth.incidents import Incidents, OpenIncident, Transition
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source
from clienthealth.model.telemetry import Member
from clienthealth.windows.packed import (
    HEAD,
    PART_HEAD,
    PART_WIDTH,
    WHO,
    WIDTH,
    Chunk,
    LogEntry,
    Matrix,
    Who,
)

VERSION = 1
_MAGIC = b"KCH"

#: What tells how much a producer still had to deliver: its newest known values outlive the readings.
UNDELIVERED = (
    "buffer-total-bytes",
    "buffer-available-bytes",
    "queue-records",
    "record-send-total",
    "record-ack-total",
    "record-error-total",
)
#: The columns of the table of clients: first and newest reading (its own clock, epoch ms), when it was last heard of
#: by the clock of all (`step.clock`), reporting interval (ms), the first minute that is not in the history yet
#: (epoch ms), configuration (position, -1: none); then the newest known values of UNDELIVERED.
FIRST, LAST, HEARD, EVERY, MINUTE, OPTIONS = range(6)
LEFT = 6
CLIENT_WIDTH = LEFT + len(UNDELIVERED)


class GroupState(msgspec.Struct):
    """What is remembered of a consumer group.

    who, members    as its newest reading says
    partitions      topic, number and owner (None: nobody known) of each partition that `data` speaks of
    data            int64 matrix [observations, 6]: time (epoch ms), partition (position), committed, end and start
                    offset, time of the commit (-1: not known), in order of time
    newest_ms       the newest reading
    heard_ms        when it was heard of, by the clock of all
    minute          the history's row of the minute that is not over yet
    """

    who: Who
    members: float | None = None
    partitions: list[tuple[str, int, Member | None]] = []
    data: bytes = b""
    newest_ms: int = 0
    heard_ms: int = 0
    minute: dict[str, Any] | None = None


class Gone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client that has gone, while its process goes on or is still spoken of.

    first_ms, until_ms  when it was there, by its own clock: from its first reading until the next one was overdue
    gone_ms             when that was found, by the clock of all
    """

    who: Who
    first_ms: float
    until_ms: float
    gone_ms: int


class Run(msgspec.Struct, array_like=True):
    """Lines of one trouble of one client that came one after the other (`step/also_seen.py`).

    Whose they are, as they say it ("": they do not); how many, from when to when; the first of them and where it
    stood. `unwritten`: how many of them are not in the history yet.
    """

    instance: str
    client_id: str
    kind: str
    what: str
    lines: int
    first_ms: int
    last_ms: int
    text: str
    source: Source | None
    unwritten: int


@dataclass
class BucketState:
    """The state of a bucket in memory.

    time_ms   the clock of all, by which silence is measured
    idle_ms   for how long nothing at all has arrived, by steps of this monitor; `stepped_ms`: when the last one was
    shared    silences of all (from, to), that count against nobody (`step/departures.py`)
    whos      the clients that report; `clients`: a row of CLIENT_WIDTH for each
    rows      readings, WHO being the position in `whos`, by client and time; `parts`: what they say of topics
    configs, names  texts that rows point to
    log_entries  log events and thread dumps of processes, in order of time
    waiting   log entries that are not judged until metrics have got so far; `waited_ms`: for how long any wait, by
              steps of this monitor
    lifecycle lines about the beginning and the end of a client, by process and client id, each with the instance
              that it names ("": none)
    also_seen trouble that no failure mode is about, by process
    gone      clients that have gone lately, so that what their processes logged is not taken for their successors'
    told      processes of which a log line or a thread dump was read
    former    clients that report no more but have an open incident: their processes still log
    reported_once  marks of clients that found no room yet, in the order in which they reported (`step/limits.py`)
    incidents the open ones; `over`: those that were closed lately, for the minutes that are not written yet
    """

    time_ms: int = 0
    idle_ms: int = 0
    stepped_ms: int = 0
    shared: list[tuple[int, int]] = field(default_factory=list)
    whos: list[Who] = field(default_factory=list)
    clients: Matrix = field(default_factory=lambda: np.empty((0, CLIENT_WIDTH)))
    rows: Matrix = field(default_factory=lambda: np.empty((0, WIDTH)))
    parts: Matrix = field(default_factory=lambda: np.empty((0, PART_WIDTH)))
    configs: list[dict[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    log_entries: list[LogEntry] = field(default_factory=list)
    waiting: list[LogEntry] = field(default_factory=list)
    waited_ms: int = 0
    lifecycle: dict[tuple[str, str, str], list[tuple[str, LogEvent]]] = field(default_factory=dict)
    also_seen: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    told: set[tuple[str, str]] = field(default_factory=set)
    incidents: Incidents = field(default_factory=Incidents)
    over: list[Transition] = field(default_factory=list)
    former: list[Who] = field(default_factory=list)
    groups: list[GroupState] = field(default_factory=list)
    reported_once: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    @property
    def empty(self) -> bool:
        """Is there nothing to remember?"""
        kept = self.whos, self.log_entries, self.waiting, self.groups, self.lifecycle, self.over
        return not (any(kept) or any(self.incidents.all))


class _Saved(msgspec.Struct):
    """The form on disk. Names of metrics are kept with the matrices, so that a later vocabulary can read them."""

    buckets: int
    vocabulary: dict[str, tuple[str, ...]]
    topic_metrics: tuple[str, ...]
    undelivered: tuple[str, ...]
    heads: tuple[int, int, int]
    time_ms: int
    whos: list[Who]
    clients: bytes
    readings: Chunk
    lifecycle: list[tuple[str, str, str, list[LogEvent]]] = msgspec.field(name="farewells")
    incidents: list[OpenIncident]
    over: list[Transition]
    groups: list[GroupState]
    former: list[Who] = []
    shared: list[tuple[int, int]] = []
    #: The instances that the lines of `lifecycle` name; the first two releases kept none.
    instances: list[list[str]] = []
    gone: list[Gone] = []
    idle_ms: int = 0
    stepped_ms: int = 0
    told: list[tuple[str, str]] = []
    waiting: list[LogEntry] = []
    waited_ms: int = 0
    also_seen: list[tuple[str, str, list[Run]]] = []
    reported_once: bytes = b""


_VOCABULARY = {kind: tuple(names) for kind, names in CLIENT_METRICS.items()}
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Saved)


def save(state: BucketState, buckets: int) -> bytes:
    """The state as bytes. `buckets`: over how many buckets processes are spread."""
    saved = _Saved(
        buckets=buckets,
        vocabulary=_VOCABULARY,
        topic_metrics=tuple(TOPIC_METRICS),
        undelivered=UNDELIVERED,
        heads=(HEAD, PART_HEAD, LEFT),
        time_ms=state.time_ms,
        whos=state.whos,
        clients=state.clients.tobytes(),
        readings=Chunk(
            [], [], state.configs, state.names, state.rows.tobytes(), state.parts.tobytes(), state.log_entries
        ),
        lifecycle=[(*key, [event for _, event in lines]) for key, lines in state.lifecycle.items()],
        instances=[[instance for instance, _ in lines] for lines in state.lifecycle.values()],
        incidents=list(state.incidents.all),
        over=state.over,
        groups=state.groups,
        former=state.former,
        shared=state.shared,
        gone=state.gone,
        idle_ms=state.idle_ms,
        stepped_ms=state.stepped_ms,
        told=sorted(state.told),
        waiting=state.waiting,
        waited_ms=state.waited_ms,
        also_seen=[(*process, runs) for process, runs in state.also_seen.items()],
        reported_once=state.reported_once.tobytes(),
    )
    return _MAGIC + bytes([VERSION]) + _encoder.encode(saved)


def load(data: bytes, buckets: int) -> BucketState:
    """The inverse of `save`, for states that any released version wrote. Raises StateError."""
    if data[:3] != _MAGIC:
        raise StateError("the checkpoint holds no state of this monitor; name another folder in [monitor] checkpoint")
    if data[3] != VERSION:
        raise StateError(
            f"the checkpoint was written in form {data[3]} of the state, this program reads form {VERSION}; "
            "run the release that wrote it, or begin anew with another folder in [monitor] checkpoint"
        )
    saved = _decoder.decode(memoryview(data)[4:])
    if saved.buckets != buckets:
        raise StateError(
            f"the checkpoint was written with {saved.buckets} buckets, [monitor] buckets says {buckets}; "
            "set it back, or begin anew with another folder in [monitor] checkpoint"
        )
    return BucketState(
        time_ms=saved.time_ms,
        whos=saved.whos,
        clients=_clients(saved),
        rows=_rows(saved),
        parts=_parts(saved),
        configs=saved.readings.configs,
        names=saved.readings.names,
        log_entries=saved.readings.log_entries,
        lifecycle=_lifecycle(saved),
        incidents=Incidents(saved.incidents),
        over=saved.over,
        groups=saved.groups,
        former=saved.former,
        shared=saved.shared,
        gone=saved.gone,
        idle_ms=saved.idle_ms,
        stepped_ms=saved.stepped_ms,
        told={*saved.told, *((service, host) for service, host, *_ in saved.lifecycle)},
        waiting=saved.waiting,
        waited_ms=saved.waited_ms,
        also_seen={(service, host): runs for service, host, runs in saved.also_seen},
        reported_once=np.frombuffer(saved.reported_once, np.uint32),
    )


def _lifecycle(saved: _Saved) -> dict[tuple[str, str, str], list[tuple[str, LogEvent]]]:
    instances = saved.instances or [[""] * len(events) for *_, events in saved.lifecycle]
    return {
        (service, host, client): list(zip(named, events, strict=True))
        for (service, host, client, events), named in zip(saved.lifecycle, instances, strict=True)
    }


def _matrix(data: bytes, width: int) -> Matrix:
    return np.frombuffer(data, np.float64).reshape(-1, width).copy()


def _rows(saved: _Saved) -> Matrix:
    head = saved.heads[0]
    width = head + max(map(len, saved.vocabulary.values()))
    rows = _matrix(saved.readings.rows, width)
    if saved.vocabulary == _VOCABULARY and width == WIDTH:
        return rows
    current = np.full((len(rows), WIDTH), np.nan)
    current[:, :HEAD] = rows[:, :HEAD]
    kinds = np.array([who.kind for who in saved.whos])[rows[:, WHO].astype(np.int64)] if len(rows) else np.empty(0)
    for kind, names in _VOCABULARY.items():
        before = saved.vocabulary.get(kind, ())
        of_kind = np.flatnonzero(kinds == kind)
        for position, name in enumerate(names):
            if name in before:
                current[of_kind, HEAD + position] = rows[of_kind, head + before.index(name)]
    return current


def _parts(saved: _Saved) -> Matrix:
    head = saved.heads[1]
    parts = _matrix(saved.readings.parts, head + len(saved.topic_metrics))
    if saved.topic_metrics == tuple(TOPIC_METRICS):
        return parts
    current = np.full((len(parts), PART_WIDTH), np.nan)
    current[:, :PART_HEAD] = parts[:, :PART_HEAD]
    _renamed(parts[:, head:], saved.topic_metrics, current[:, PART_HEAD:], tuple(TOPIC_METRICS))
    return current


def _clients(saved: _Saved) -> Matrix:
    head = saved.heads[2]
    clients = _matrix(saved.clients, head + len(saved.undelivered))
    if saved.undelivered == UNDELIVERED:
        return clients
    current = np.full((len(clients), CLIENT_WIDTH), np.nan)
    current[:, :LEFT] = clients[:, :LEFT]
    _renamed(clients[:, head:], saved.undelivered, current[:, LEFT:], UNDELIVERED)
    return current


def _renamed(values: Matrix, names: Sequence[str], into: Matrix, into_names: Sequence[str]) -> None:
    for position, name in enumerate(into_names):
        if name in names:
            into[:, position] = values[:, names.index(name)]
