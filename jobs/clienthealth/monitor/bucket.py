"""Arrange a bucket's samples as windows for the judges of failure modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from clienthealth.measure.client_window import LEAD_MS, ClientWindow
from clienthealth.measure.columns import Bools, Floats, Ints
from clienthealth.measure.packed import LogEntry, Parts, Readings
from clienthealth.measure.view import POSITION, About, Rows, Windows
from clienthealth.model.clients import Client, Kind
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.readings import Reading, TopicReading
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Seen
from clienthealth.monitor import also_seen
from clienthealth.monitor.attribution import NO_LOG, ProcessLog, WindowLog, logged_options, process_logs
from clienthealth.monitor.process_log import Start, lives, starts
from clienthealth.monitor.readings import SHIFT, Grid, grid_of, intervals, keys, totals_added_up
from clienthealth.monitor.state import BucketState, Life, ProcessKey, Run
from clienthealth.settings import Settings

#: A client has departed after INTERVALS reporting intervals (at least `min_gap_seconds`) without data.
INTERVALS = 3


class Span(NamedTuple):
    """A client's window [start, end) of event time (epoch ms), and the rows [lo, hi) of its samples."""

    start: int
    end: int
    lo: int = 0
    hi: int = 0


@dataclass
class Bucket:
    """A bucket's samples, and values derived from them. `whole`: True if no more samples will come."""

    state: BucketState
    settings: Settings
    whole: bool = False

    @cached_property
    def grid(self) -> Grid:
        return grid_of(self.state, self.settings.monitor)

    @property
    def readings(self) -> Readings:
        """The bucket's samples, with deltas of counters added up to totals."""
        return self._totals[0]

    @property
    def parts(self) -> Parts:
        """The samples' values per topic, with deltas of counters added up to totals."""
        return self._totals[1]

    @cached_property
    def _totals(self) -> tuple[Readings, Parts]:
        return totals_added_up(self.state.readings, self.state.parts, self.state.all_clients)

    @cached_property
    def newest_ms(self) -> int:
        """Time (epoch ms) of the newest sample or log entry; 0 without any."""
        entries = (entry.ts_ms for entry in self.state.log_entries)
        return max([*self.state.clients.last.tolist(), *entries], default=0)

    @cached_property
    def keys(self) -> Ints:
        """One number per sample. The order of the numbers is the order of clients, then of time."""
        return keys(self.state.readings)

    @cached_property
    def part_begin(self) -> Ints:
        """For each sample, the index of its first row in `parts`. The last element is the length of `parts`."""
        return np.searchsorted(self.state.parts.row, np.arange(len(self.state.readings) + 1))

    @cached_property
    def _of_deltas(self) -> frozenset[int]:
        """The clients (positions in `state.all_clients`) that report deltas (OTLP)."""
        readings = self.state.readings
        return frozenset(readings.client[readings.delta > 0].tolist())

    def span(self, client: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return (lo, hi): rows [lo, hi) are the samples of each window [start, end).

        Arrays have one element per window. `client`: position in `state.all_clients`. `start`, `end`: epoch ms.
        """
        base = client << SHIFT
        return np.searchsorted(self.keys, base | np.maximum(start, 0)), np.searchsorted(self.keys, base | end)

    def windows(self, kind: str, client: Ints, lo: Ints, hi: Ints) -> Windows:
        """Return the samples of several windows. The arrays have one element per window.

        `client`: position of the window's client in `state.all_clients`. `lo`, `hi`: the window's rows [lo, hi).
        """
        state, readings = self.state, self.readings
        begin, end = (int(lo.min()), int(hi.max())) if len(lo) else (0, 0)
        parts = self.parts.at(slice(self.part_begin[begin], self.part_begin[end]))

        def about(window: int) -> About:
            number = int(client[window])
            if (known := self._abouts.get(number)) is None:
                ref = state.all_clients[number]
                logs, whole = ref.process in state.has_log_data, number not in self._of_deltas
                known = self._abouts[number] = About(self.config(number), ref.group or ref.client_id, logs, whole)
            return known

        values, parts = readings.values[begin:end, : len(CLIENT_METRICS[kind])], replace(parts, row=parts.row - begin)
        rows = Rows(readings.ts[begin:end], values, parts, state.names)
        return Windows(cast(Kind, kind), rows, lo - begin, hi - begin, about)

    _abouts: dict[int, About] = field(default_factory=dict)

    def config(self, number: int) -> Mapping[str, str]:
        """Return a client's options by name. Reported values replace logged ones."""
        if (config := self._configs.get(number)) is None:
            options = int(self.state.clients.config[number])
            reported = self.state.configs[options] if options >= 0 else {}
            client = self.state.all_clients[number]
            logged = logged_options(self.state, client, self.alone(client)) if self.state.lifecycle else {}
            config = self._configs[number] = {**logged, **reported} if logged else reported
        return config

    @cached_property
    def numbers(self) -> Mapping[ProcessKey, Sequence[int]]:
        """For each process, the positions of its reporting clients in `state.all_clients`."""
        return self.state.numbers()

    @cached_property
    def of_kinds(self) -> Mapping[str, Bools]:
        """For each kind of client, an array over all clients: True if the client is of this kind."""
        kinds = [client.kind or "" for client in self.state.all_clients]
        return {kind: np.array([one == kind for one in kinds]) for kind in sorted({*kinds})}

    @cached_property
    def gaps(self) -> Floats:
        """The time (ms) without data after which each client has departed."""
        every: Floats = np.ceil(INTERVALS * self.state.clients.every / 1000) * 1000
        return np.maximum(every, 1000.0 * self.settings.absence.min_gap_seconds)

    @cached_property
    def quiet(self) -> Floats:
        """For each client, the time (ms) after its last sample from which other data proves that its process runs."""
        often = np.maximum(INTERVALS * intervals(self.state), 1000.0 * self.settings.absence.min_gap_seconds)
        return np.minimum(self.gaps, often)

    @cached_property
    def lives(self) -> Mapping[ProcessKey, Sequence[Life]]:
        """For each process, the lifetimes of its clients."""
        return lives(self.state, self.numbers)

    @cached_property
    def log_entries(self) -> Mapping[ProcessKey, Sequence[LogEntry]]:
        return grouped(self.state.log_entries, lambda entry: entry.process)

    @cached_property
    def logs(self) -> Mapping[ProcessKey, ProcessLog]:
        return process_logs(self.state, self.numbers)

    @cached_property
    def starts(self) -> Mapping[ProcessKey, Sequence[Start]]:
        """The logged starts of clients, by process."""
        return starts(self.state)

    @cached_property
    def runs(self) -> Mapping[ProcessKey, Sequence[Run]]:
        """The counts of log lines on known issues, by process."""
        return also_seen.by_process(self.state)

    def also_seen(self, client: Client, kinds: Mapping[str | None, int] | None = None) -> list[Seen]:
        """Return a client's known issues.

        `kinds`: number of clients of each kind in the process; by default, only reporting clients are counted.
        """
        if client.process not in self.runs:
            return []
        in_process = self.kinds(client.process) if kinds is None else kinds
        return also_seen.seen(self.state, self.runs[client.process], client, in_process)

    def alone(self, client: Client) -> bool:
        """Return True if no other client of the same kind reports in the client's process."""
        return self.kinds(client.process)[client.kind] < 2

    def kinds(self, process: ProcessKey) -> Mapping[str | None, int]:
        """Return the number of reporting clients of each kind in a process."""
        if process not in self._kinds:
            self._kinds[process] = Counter(self.state.all_clients[at].kind for at in self.numbers.get(process, ()))
        return self._kinds[process]

    _kinds: dict[ProcessKey, Counter[str | None]] = field(default_factory=dict)
    _configs: dict[int, Mapping[str, str]] = field(default_factory=dict)

    def reading(self, row: int) -> Reading:
        if (reading := self._readings.get(row)) is None:
            state, readings, parts = self.state, self.readings, self.parts
            values = readings.values[row].tolist()
            names = CLIENT_METRICS[state.all_clients[int(readings.client[row])].kind or ""]
            metrics = {name: v for name, v in zip(names, values, strict=False) if v == v}
            topics = []
            for part in range(self.part_begin[row], self.part_begin[row + 1]):
                number, thread_at = int(parts.partition[part]), int(parts.thread[part])
                topic, partition = state.names[int(parts.topic[part])], number if number >= 0 else None
                thread = state.names[thread_at] if thread_at >= 0 else None
                of_topic = zip(TOPIC_METRICS, parts.values[part].tolist(), strict=True)
                topics.append(TopicReading(topic, partition, thread, {name: v for name, v in of_topic if v == v}))
            reading = self._readings[row] = Reading(int(readings.ts[row]), metrics, tuple(topics), state.source(row))
        return reading

    _readings: dict[int, Reading] = field(default_factory=dict)

    def known(self, number: int, name: str) -> tuple[Ints, Floats]:
        """Return (times in epoch ms, known values) of a client's metric."""
        rows, at = self.state.rows(number), POSITION[self.state.all_clients[number].kind or ""][name]
        column = self.readings.values[rows, at]
        known = ~np.isnan(column)
        return self.readings.ts[rows][known], column[known]

    def window(
        self,
        client: Client,
        number: int | None,
        span: Span,
        log: WindowLog = NO_LOG,
        table: Callable[[], Windows] | None = None,
    ) -> ClientWindow:
        """Return a window of a client for the judges of failure modes.

        `number`  position of the client in `state.all_clients`; None if the client does not report
        `span`    times of the window, and rows of the window's samples
        `table`   returns the window's samples as a table
        """
        start, end, lo, hi = span
        before = max(0, start - max(LEAD_MS, end - start))
        lead = lo if number is None else int(np.searchsorted(self.keys, (number << SHIFT) | before))
        return ClientWindow(
            client,
            start,
            end,
            tuple(map(self.reading, range(lo, hi))),
            **log._asdict(),
            earlier_readings=tuple(map(self.reading, range(lead, lo))),
            config=logged_options(self.state, client, self.alone(client)) if number is None else self.config(number),
            has_log_data=client.process in self.state.has_log_data,
            ends_ms=int(self.state.clients.last[number]) if self.whole and number is not None else None,
            rows=table,
        )
