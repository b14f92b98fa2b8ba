"""All that is known of one client in one window of time: what a judge is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property

import numpy as np

from clienthealth.measure.columns import Floats
from clienthealth.measure.packed import Parts
from clienthealth.measure.view import POSITION, TOPIC_POSITION, About, Rows, Windows
from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, Reading, Sign, ThreadDump

#: A window begins in the midst of things: so far back (ms) its judges may look for what explains its first moments.
LEAD_MS = 30_000


@dataclass(frozen=True)
class ClientWindow:
    """All that is known of one client in one window of event time [start_ms, end_ms).

    Readings, events and dumps are in order of time. Events and dumps of the client's process that name no client
    are in the window of each of its clients. `earlier_dumps`: the newest of those before the window, to tell which
    thread still stands where it stood, however long ago that was. `earlier_readings`: those that are kept of as long
    before the window as it spans, LEAD_MS at least; `earlier_logs`: those of the LEAD_MS before it. `told`: was a log
    line or a dump of the process ever
    read, in the window or before. `departed_ms` is set for a client that stopped
    reporting: the time of its last reading; such a window covers the last readings of its session and the log lines
    after them. `spoke_ms`: when its process was heard of after that by its log, as one that goes on; None where it was
    not. `outlived`: something else was heard of after its last reading, so that its silence is known. `alive`: of each
    kind the newest sign of its process's life, later than the client may be silent.
    `ends_ms`: the time of its very last reading, where it is known that none comes after it.
    `rows`: gives the readings as the table that they were made of, where they were.
    """

    client: Client
    start_ms: int
    end_ms: int
    readings: tuple[Reading, ...] = ()
    logs: tuple[LogEvent, ...] = ()
    dumps: tuple[ThreadDump, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    departed_ms: int | None = None
    earlier_dumps: tuple[ThreadDump, ...] = ()
    spoke_ms: int | None = None
    outlived: bool = True
    ends_ms: int | None = None
    alive: tuple[Sign, ...] = ()
    told: bool = False
    earlier_readings: tuple[Reading, ...] = ()
    earlier_logs: tuple[LogEvent, ...] = ()
    rows: InitVar[Callable[[], Windows] | None] = None

    def __post_init__(self, rows: Callable[[], Windows] | None) -> None:
        # Not a field: another window, made of this one by `dataclasses.replace`, may have other readings.
        object.__setattr__(self, "_rows", rows)

    @property
    def newest_ms(self) -> int:
        """The time of the newest that is in it (epoch ms); 0 where nothing is."""
        return max((one.ts_ms for all_ in (self.readings, self.logs, self.dumps) for one in all_[-1:]), default=0)

    @cached_property
    def table(self) -> Windows:
        """The window as an array of one window: row r is `readings[r]`."""
        rows: Callable[[], Windows] | None = self.__dict__["_rows"]
        if rows is not None:
            return rows()
        readings, kind = self.readings, self.client.kind
        # What the readings say of topics, and the names of these.
        entries = [topic for reading in readings for topic in reading.topics]
        named: Iterable[str | None] = (name for entry in entries for name in (entry.topic, entry.thread))
        index = {name: at for at, name in enumerate(dict.fromkeys(name for name in named if name is not None))}
        parts = Parts(
            _matrix([entry.metrics for entry in entries], TOPIC_POSITION),
            np.array([row for row, reading in enumerate(readings) for _ in reading.topics], np.int64),
            np.array([index[entry.topic] for entry in entries], np.int64),
            np.array([-1 if entry.partition is None else entry.partition for entry in entries], np.int64),
            np.array([-1 if entry.thread is None else index[entry.thread] for entry in entries], np.int64),
        )
        times = np.array([reading.ts_ms for reading in readings], np.int64)
        values = _matrix([reading.metrics for reading in readings], POSITION.get(kind or "", {}))
        return Windows(
            kind,
            Rows(times, values, parts, list(index)),
            np.zeros(1, np.int64),
            np.full(1, len(readings), np.int64),
            lambda _: about(self),
        )


def about(window: ClientWindow) -> About:
    """What is known of its client."""
    told = window.told or bool(window.logs or window.dumps or window.earlier_dumps)
    return About(window.config, window.client.group or window.client.client_id, told)


def _matrix(rows: Sequence[Mapping[str, float]], positions: Mapping[str, int]) -> Floats:
    matrix = np.full((len(rows), len(positions)), np.nan)
    for number, row in enumerate(rows):
        for name, value in row.items():
            at = positions.get(name)
            if at is not None:
                matrix[number, at] = value
    return matrix
