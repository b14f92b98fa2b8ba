"""One client in one window of event time: the input of the failure modes' rules."""

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

#: The rules also see at least the last LEAD_MS (ms) of data before a window, because this data may show causes.
LEAD_MS = 30_000


@dataclass(frozen=True)
class ClientWindow:
    """All data of one client in one window of event time [start_ms, end_ms). Times are in epoch milliseconds.

    Samples (`readings`), log events and dumps are in order of time. If `departed_ms` is set, the window covers the last
    samples and the log lines after them.

    `earlier_readings`  samples before the window, from a period that is as long as the window, but at least 30 s
    `earlier_logs`      events within 30 s before the window
    `earlier_dumps`     the newest dumps within a week before the window
    `has_log_data`      True if a log line or dump of the process was ever read
    `departed_ms`       None while the client reports. For a client that has gone: the time of its last sample, or of
                        its last log line if it has no samples
    `spoke_ms`          time of the newest log line or dump that the process wrote after the client's last sample, or
                        None
    `outlived`          False only in `diagnose`, and only if the client may still run, because all data ends soon after
                        the client's last data
    `alive`             evidence that the process ran while samples were overdue; at most one `Sign` of each kind
    `ends_ms`           in `diagnose`, time of the client's last sample in all data; None in the monitor
    `rows`              returns the table from which the samples were made; None if there is no such table
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
    has_log_data: bool = False
    earlier_readings: tuple[Reading, ...] = ()
    earlier_logs: tuple[LogEvent, ...] = ()
    rows: InitVar[Callable[[], Windows] | None] = None

    def __post_init__(self, rows: Callable[[], Windows] | None) -> None:
        # `_rows` is not a field, so `dataclasses.replace` does not copy it. A copy with other samples needs other rows.
        object.__setattr__(self, "_rows", rows)

    @property
    def known_readings(self) -> tuple[Reading, ...]:
        """The samples before the window, then the samples of the window."""
        return (*self.earlier_readings, *self.readings)

    @property
    def known_logs(self) -> tuple[LogEvent, ...]:
        """The log events before the window, then the log events of the window."""
        return (*self.earlier_logs, *self.logs)

    @property
    def newest_ms(self) -> int:
        """The time (epoch ms) of the window's newest sample, event or dump; 0 if the window is empty."""
        return max((one.ts_ms for all_ in (self.readings, self.logs, self.dumps) for one in all_[-1:]), default=0)

    @cached_property
    def table(self) -> Windows:
        """This window as a `Windows` of length 1. Row r of the table is the sample `readings[r]`."""
        rows: Callable[[], Windows] | None = self.__dict__["_rows"]
        if rows is not None:
            return rows()
        readings, kind = self.readings, self.client.kind
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
        table = Rows(times, values, parts, list(index))
        return Windows(kind, table, np.array([0]), np.array([len(readings)]), lambda _: about(self))


def about(window: ClientWindow) -> About:
    has_log_data = window.has_log_data or bool(window.logs or window.dumps or window.earlier_dumps)
    return About(window.config, window.client.group or window.client.client_id, has_log_data)


def _matrix(rows: Sequence[Mapping[str, float]], positions: Mapping[str, int]) -> Floats:
    matrix = np.full((len(rows), len(positions)), np.nan)
    for number, row in enumerate(rows):
        for name, value in row.items():
            if (at := positions.get(name)) is not None:
                matrix[number, at] = value
    return matrix
