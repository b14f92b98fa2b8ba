"""What a bucket of processes remembers between two batches, and the versioned bytes that it is kept as.

Everything is bounded: readings, events and dumps last as long as a window can still be judged; of clients that have
gone only open incidents stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from clienthealth.errors import StateError
from clienthealth.incidents import Incidents, OpenIncident, Transition
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source
from clienthealth.model.telemetry import Member
from clienthealth.windows.columns import Floats, Ints, Table
from clienthealth.windows.packed import METRICS_MAX, Chunk, LogEntry, Parts, Readings, Who

T = TypeVar("T", bound=Table)

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


@dataclass
class Clients(Table):
    """The clients that report; `values`: the newest known ones of UNDELIVERED.

    first, last  its first and newest reading (its own clock, epoch ms)
    heard        when it was last heard of, by the clock of all (`step.clock`)
    every        how often it reports, ms
    minute       the first one that is not in the history yet (epoch ms)
    config       position in `configs`
    """

    first: Ints
    last: Ints
    heard: Ints
    every: Ints
    minute: Ints
    config: Ints


class GroupState(msgspec.Struct):
    """What is remembered of a consumer group.

    who, members    as its newest reading says
    partitions      topic, number and owner (None: nobody known) of each partition that `data` speaks of
    data            int64 matrix [observations, 6]: time (epoch ms), partition (position), committed, end and start
                    offset, time of the commit (-1: not known), in order of time
    newest_ms       the newest reading
    heard_ms        when it was heard of, by the clock of all
    minute          the history's row of the minute that is not over yet
    unwritten_ms    the first minute that may still be written to the history (epoch ms)
    """

    who: Who
    members: float | None = None
    partitions: list[tuple[str, int, Member | None]] = []
    data: bytes = b""
    newest_ms: int = 0
    heard_ms: int = 0
    minute: dict[str, Any] | None = None
    unwritten_ms: int = 0


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
    whos      the clients that report; `clients`: what is known of each
    readings  theirs, by client (its position in `whos`) and time; `parts`: what they say of topics
    configs, names  texts that these point to
    log_entries  log events and thread dumps of processes, in order of time
    waiting   log entries that are not judged until metrics have got so far; `waited_ms`: for how long any wait, by
              steps of this monitor
    lifecycle lines about the beginning and the end of a client, by process and client id, each with the instance
              that it names ("": none)
    also_seen trouble that no failure mode is about, by process
    gone      clients that have gone lately, so that what their processes logged is not taken for their successors'
    told      processes of which a log line or a thread dump was read
    former    clients that report no more but have an open incident: their processes still log
    ended     the newest time that is known of clients and of processes' logs that have ended (`step/ended.py`)
    reported_once  marks of clients that found no room yet, in the order in which they reported (`step/limits.py`)
    incidents the open ones; `over`: those that were closed lately, for the minutes that are not written yet
    """

    time_ms: int = 0
    idle_ms: int = 0
    stepped_ms: int = 0
    shared: list[tuple[int, int]] = field(default_factory=list)
    whos: list[Who] = field(default_factory=list)
    clients: Clients = field(default_factory=lambda: Clients.none(len(UNDELIVERED)))
    readings: Readings = field(default_factory=lambda: Readings.none(METRICS_MAX))
    parts: Parts = field(default_factory=lambda: Parts.none(len(TOPIC_METRICS)))
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
    ended: dict[int, int] = field(default_factory=dict)
    reported_once: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    def source(self, row: int) -> Source:
        """The input record of a reading."""
        readings = self.readings
        return Source(self.names[readings.topic[row]], int(readings.partition[row]), int(readings.offset[row]))

    def newest(self, number: int) -> Source | None:
        """The input record of a client's newest reading."""
        end = int(np.searchsorted(self.readings.who, number, "right"))
        return self.source(end - 1) if end and self.readings.who[end - 1] == number else None


class _Saved(msgspec.Struct):
    """The form on disk. Names of metrics are kept with the tables, so that a later vocabulary can read them."""

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
    ended: dict[int, int] = {}


_VOCABULARY = {kind: tuple(names) for kind, names in CLIENT_METRICS.items()}
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Saved)


def save(state: BucketState, buckets: int) -> bytearray:
    """The state as bytes. `buckets`: over how many buckets processes are spread."""
    saved = _Saved(
        buckets=buckets,
        vocabulary=_VOCABULARY,
        topic_metrics=tuple(TOPIC_METRICS),
        undelivered=UNDELIVERED,
        heads=(Readings.head(), Parts.head(), Clients.head()),
        time_ms=state.time_ms,
        whos=state.whos,
        clients=_bytes(state.clients),
        readings=Chunk(
            configs=state.configs,
            names=state.names,
            rows=_bytes(state.readings),
            parts=_bytes(state.parts),
            log_entries=state.log_entries,
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
        ended=state.ended,
    )
    data = bytearray((*_MAGIC, VERSION))
    _encoder.encode_into(saved, data, len(data))
    return data


def _bytes(table: Table) -> bytes:
    # The encoder takes a view as well, and a state is not copied once more.
    return cast(bytes, table.matrix().reshape(-1).view(np.uint8).data)


def load(data: bytes | bytearray, buckets: int) -> BucketState:
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
        readings=_readings(saved),
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
        ended=saved.ended,
    )


def _lifecycle(saved: _Saved) -> dict[tuple[str, str, str], list[tuple[str, LogEvent]]]:
    instances = saved.instances or [[""] * len(events) for *_, events in saved.lifecycle]
    return {
        (service, host, client): list(zip(named, events, strict=True))
        for (service, host, client, events), named in zip(saved.lifecycle, instances, strict=True)
    }


def _table(kind: type[T], data: bytes, head: int, width: int) -> T:
    return kind.of_matrix(np.frombuffer(data, np.float64).reshape(-1, head + width), head)


def _readings(saved: _Saved) -> Readings:
    width = max(map(len, saved.vocabulary.values()))
    readings = _table(Readings, saved.readings.rows, saved.heads[0], width)
    if saved.vocabulary == _VOCABULARY:
        return readings
    values = np.full((len(readings), METRICS_MAX), np.nan)
    kinds = np.array([who.kind for who in saved.whos], np.str_)[readings.who]
    for kind, names in _VOCABULARY.items():
        of_kind = np.flatnonzero(kinds == kind)
        values[of_kind, : len(names)] = _named(readings.values[of_kind], saved.vocabulary.get(kind, ()), names)
    return replace(readings, values=values)


def _parts(saved: _Saved) -> Parts:
    parts = _table(Parts, saved.readings.parts, saved.heads[1], len(saved.topic_metrics))
    return replace(parts, values=_named(parts.values, saved.topic_metrics, tuple(TOPIC_METRICS)))


def _clients(saved: _Saved) -> Clients:
    clients = _table(Clients, saved.clients, saved.heads[2], len(saved.undelivered))
    return replace(clients, values=_named(clients.values, saved.undelivered, UNDELIVERED).copy())


def _named(values: Floats, before: Sequence[str], names: Sequence[str]) -> Floats:
    """The values by these names, of those by the names `before`."""
    if before == names:
        return values[:, : len(names)]
    known = np.column_stack([values, np.full(len(values), np.nan)])
    return known[:, [before.index(name) if name in before else -1 for name in names]]
