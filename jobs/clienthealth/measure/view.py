"""Windows of samples as arrays, for the evaluation of thousands of windows at once.

A window is a span [lo, hi) of the rows of one table. A result is an array with one element per window.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from clienthealth.measure.columns import Bools, Column, Floats, Ints, counted, or_zero, spread, unknown
from clienthealth.measure.packed import Parts
from clienthealth.model.clients import Kind
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.values import option

__all__ = ["MIN_READINGS", "Bools", "Floats", "Ints", "Runs", "Windows"]

P = ParamSpec("P")
T = TypeVar("T")

#: Minimum number of samples in a window for a verdict from metrics alone.
MIN_READINGS = 3

POSITION = {kind: {name: at for at, name in enumerate(names)} for kind, names in CLIENT_METRICS.items()}
TOPIC_POSITION = {name: at for at, name in enumerate(TOPIC_METRICS)}


class About(NamedTuple):
    """What is known about a client besides its samples.

    `config`        the client's options
    `group`         the client's consumer group; without a group, the client id
    `has_log_data`  True if a log line or a thread dump of the client's process was ever read
    `whole`         True if counters are totals since the client's start, False if they are increments since the
                    previous sample
    """

    config: Mapping[str, str]
    group: str
    has_log_data: bool
    whole: bool = False


@dataclass(frozen=True)
class Runs:
    """Runs of at least two samples over which a metric does not change; one element per run.

    A window can have several runs, in order of time. Samples without a value of the metric do not interrupt a run.

    `window`   number of the window
    `first`    row number of the run's first sample
    `last`     row number of the run's last sample
    `seconds`  time from the first sample to the last: the metric was unchanged for at least this time
    """

    window: Ints
    first: Ints
    last: Ints
    seconds: Floats

    def at(self, chosen: Bools | Ints) -> Runs:
        """Return the selected runs. `chosen`: a mask, or indexes of runs."""
        return Runs(self.window[chosen], self.first[chosen], self.last[chosen], self.seconds[chosen])

    def __len__(self) -> int:
        return len(self.window)

    def alone(self, at: int, lo: int) -> Runs:
        """Return only the runs of the window with the index `at`.

        In the result, the window and its first row (`lo`) have the number 0.
        """
        runs = self.at(self.window == at)
        return Runs(runs.window - at, runs.first - lo, runs.last - lo, runs.seconds)


class Rows(NamedTuple):
    """Samples as a table.

    `ts`      times of the samples (epoch ms)
    `values`  one column per metric of CLIENT_METRICS[kind]; NaN if unknown, else finite and ≥ 0; counters are
              cumulative
    `parts`   the samples' values per topic, partition or thread, sorted by the row number of their sample
    `names`   the names of topics and threads; `parts` has indexes into this list
    """

    ts: Ints
    values: Floats
    parts: Parts
    names: Sequence[str]


class Windows:
    """Windows of samples, all from clients of one kind. Window i is the table's rows from lo[i] up to hi[i] − 1.

    Each client's rows are adjacent and in order of time. Results are arrays with one element per window; NaN means
    unknown. `about`: takes a window's number and returns what is known about its client.
    """

    def __init__(self, kind: Kind | None, table: Rows, lo: Ints, hi: Ints, about: Callable[[int], About]) -> None:
        self.kind, self.table, self.lo, self.hi = kind, table, lo, hi
        self.ts, self.values, self.parts, self.names = table
        self._about = about
        self._which: Ints = np.arange(len(lo))
        self._columns: dict[str, Column] = {}
        self._of_rows: dict[str, object] = {}
        self._of_windows: dict[Hashable, object] = {}
        self._whole: tuple[Windows, int] | None = None

    def __len__(self) -> int:
        return len(self.lo)

    def at(self, windows: Ints | Bools) -> Windows:
        """Return the selected windows. `windows`: a mask, or the indexes of the windows in the wanted order."""
        selected = Windows(self.kind, self.table, self.lo[windows], self.hi[windows], self._about)
        selected._which = self._which[windows]
        selected._columns, selected._of_rows = self._columns, self._of_rows
        return selected

    def alone(self, at: int) -> Windows:
        """Return the window with the index `at`, with a table of only its own samples. Row 0 is the first sample."""
        lo, hi, which = int(self.lo[at]), int(self.hi[at]), int(self._which[at])
        parts = self.parts.at(slice(self.part_begin[lo], self.part_begin[hi]))
        rows = Rows(self.ts[lo:hi], self.values[lo:hi], replace(parts, row=parts.row - lo), self.names)
        single = Windows(self.kind, rows, np.array([0]), np.array([hi - lo]), lambda _: self._about(which))
        single._whole = self, at
        return single

    def once_for_rows(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached under `name` for all `Windows` objects with this table."""
        if name not in self._of_rows:
            self._of_rows[name] = make()
        return cast(T, self._of_rows[name])

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached under `name` for this selection of windows.

        If the result is an array, it must have one element per window.
        """
        if (known := self._of_windows.get(name)) is None:
            taken = self._taken_over(name)
            known = self._of_windows[name] = make() if taken is None else taken
        return cast(T, known)

    def _taken_over(self, name: Hashable) -> object | None:
        if self._whole is None:
            return None
        whole, at = self._whole
        known = whole._of_windows.get(name)
        if isinstance(known, np.ndarray):
            # An array of integers may contain row numbers of the whole table. Row numbers of the whole table are wrong
            # for a single window, which numbers its own rows from 0.
            return None if known.dtype == np.int64 else known[at : at + 1]
        return known.alone(at, int(whole.lo[at])) if hasattr(known, "alone") else None

    def column(self, name: str) -> Column:
        """Return the column of a metric over all rows; all NaN if this kind of client lacks the metric."""
        if (column := self._columns.get(name)) is None:
            at = POSITION.get(self.kind or "", {}).get(name)
            if at is None:
                column = Column(unknown(len(self.ts)))
            else:
                # The sum of a column is NaN if any value is NaN.
                whole = self.once_for_rows("whole", lambda: ~np.isnan(self.values.sum(axis=0)))
                column = Column(self.values[:, at], bool(whole[at]))
            self._columns[name] = column
        return column

    def col(self, name: str) -> Floats:
        """Return a metric's values, one per sample of the table; NaN if unknown."""
        return self.column(name).values

    @cached_property
    def rows(self) -> Ints:
        """The row numbers of the samples in all windows, one window after the other."""
        return spread(self.lo, self.hi)[0]

    @cached_property
    def _starts(self) -> Ints:
        counts = self.samples[self.samples > 0]
        return np.cumsum(counts) - counts

    @cached_property
    def window_of_row(self) -> Ints:
        """For each element of `rows` (one sample in one window), the index of that window."""
        return np.repeat(np.arange(len(self.lo)), self.samples)

    def reduced(self, how: np.ufunc, values: Floats) -> Floats:
        """Reduce the `values` of each window's samples to one number; NaN for an empty window.

        `how`: a ufunc that makes one number out of two. `values`: one number for each sample in a window, in the order
        of the property `rows`.
        """
        if not len(values):
            return unknown(len(self))
        reduced = how.reduceat(values, self._starts)
        if len(reduced) == len(self):
            return cast(Floats, reduced)
        whole = unknown(len(self))
        whole[self.samples > 0] = reduced
        return whole

    def total(self, values: Floats, skip_first: bool = False) -> Floats:
        """Return, for each window, the sum of the `values` of its samples; 0 for an empty window.

        `values`: one number per sample of the table, never NaN. `skip_first`: True to leave out each window's first
        sample.
        """
        differences = values[self.rows]
        if skip_first:
            differences[self._starts] = 0.0
        return or_zero(self.reduced(np.add, differences))

    @cached_property
    def samples(self) -> Ints:
        """The number of samples of each window."""
        return self.hi - self.lo

    @cached_property
    def _none_empty(self) -> bool:
        return bool((self.samples > 0).all())

    def first(self, metric: str | Column) -> Floats:
        """Return each window's first known value of a metric; NaN for a window without known values."""
        column = self._column(metric)
        return column.at(self.lo) if column.whole and self._none_empty else column.first(self.lo, self.hi)

    def last(self, metric: str | Column) -> Floats:
        """Return each window's last known value of a metric; NaN for a window without known values."""
        column = self._column(metric)
        return column.at(self.last_row) if column.whole and self._none_empty else column.last(self.lo, self.hi)

    def from_last(self, metric: str | Column, back: int) -> Floats:
        """Return each window's known value that is `back` places before the last one; NaN if there is none."""
        return self._column(metric).from_last(self.lo, self.hi, back)

    def min(self, metric: str | Column) -> Floats:
        """Return each window's smallest known value of a metric; NaN for a window without known values."""
        return self._extreme(np.fmin, self._column(metric))

    def max(self, metric: str | Column) -> Floats:
        """Return each window's largest known value of a metric; NaN for a window without known values."""
        return self._extreme(np.fmax, self._column(metric))

    def _extreme(self, how: np.ufunc, column: Column) -> Floats:
        return self.reduced(how, column.values[self.rows]) if column.reported else unknown(len(self))

    def count(self, metric: str | Column) -> Ints:
        """Return the number of samples in each window that have a value of the metric."""
        column = self._column(metric)
        return self.samples if column.whole else column.count(self.lo, self.hi)

    def reported(self, metric: str | Column) -> Bools:
        """Return one flag per window: True if any sample of the window has a value of the metric."""
        return self.count(metric) > 0

    def rises(self, metric: str | Column) -> Ints:
        """Return, for each window, how often the metric rose from one known value to the next."""
        return self._column(metric).rises(self.lo, self.hi)

    def rose(self, metric: str | Column) -> Bools:
        """Return one flag per window: True if the metric rose from any known value to the next."""
        return self.rises(metric) > 0

    def grown(self, metric: str | Column) -> Floats:
        """Return each window's last known value of a metric minus its first known value."""
        return self.last(metric) - self.first(metric)

    def _column(self, metric: str | Column) -> Column:
        return self.column(metric) if isinstance(metric, str) else metric

    def still(self, name: str) -> Runs:
        """Return, for all windows, the runs of samples over which a metric does not change."""
        column = self.column(name)
        begin, end = column.still
        a, b = column.bounds(self.lo, self.hi)
        behind = np.where(b - a > 1, np.searchsorted(begin, b - 1, "left"), 0)
        at, window = spread(np.searchsorted(end, a + 1, "right"), behind)
        first, last = np.maximum(begin[at], a[window]), np.minimum(end[at], b[window]) - 1
        rows = column.reported_rows
        first, last = rows[first], rows[last]
        return Runs(window, first, last, (self.ts[last] - self.ts[first]) / 1000)

    @cached_property
    def last_row(self) -> Ints:
        """The row number of each window's last sample; -1 for a window without samples."""
        return np.where(self.samples > 0, self.hi - 1, -1)

    def about(self, windows: Ints | None = None) -> list[About]:
        """Return what is known about each window's client. `windows`: indexes of the windows, None for all."""
        which = self._which if windows is None else self._which[windows]
        return list(map(self._about, which.tolist()))

    def option(self, name: str, windows: Ints | None = None) -> Floats:
        """Return the client option `name` for each window. `windows`: indexes of the windows, None for all.

        The value is NaN if the option is absent, or not an integer from 0 to 2³¹ − 1.
        """
        return np.array([option(client.config.get(name)) for client in self.about(windows)], np.float64)

    def has_log_data(self, windows: Ints) -> Bools:
        """Return, per element of `windows`, whether a log line or dump of the client's process was ever read.

        If no log line and no dump was read, the absence of a log line proves nothing.
        """
        return np.array([client.has_log_data for client in self.about(windows)], np.bool_)

    @property
    def part_begin(self) -> Ints:
        """An array a with the first row of each sample in `parts`. The last element is the length of `parts`.

        Sample i has the rows a[i] to a[i + 1] − 1.
        """
        return self.once_for_rows("parts", lambda: np.searchsorted(self.parts.row, np.arange(len(self.ts) + 1)))

    def of_topics(self, name: str) -> Floats:
        """Return the values of a metric per topic, one for each row of the table `parts`; NaN if unknown."""
        return self.parts.values[:, TOPIC_POSITION[name]]

    def summed(self, name: str) -> Floats:
        """Return the sum of a metric over all topics of each sample; NaN if unknown."""
        values, begin, end = self.of_topics(name), self.part_begin[:-1], self.part_begin[1:]
        counts = counted(~np.isnan(values))
        sums = np.concatenate([[0.0], np.cumsum(or_zero(values))])
        by_row: Floats = np.where(counts[end] > counts[begin], sums[end] - sums[begin], np.nan)
        return by_row

    @cached_property
    def has_topics(self) -> Bools:
        """One flag per window: True if any sample of the window has values per topic."""
        return self.part_begin[self.hi] > self.part_begin[self.lo]

    def last_parts(self) -> tuple[Ints, Ints]:
        """Return where in `parts` the rows of each window's last sample begin (first row) and end (last row + 1)."""
        row = np.maximum(self.hi - 1, self.lo)
        return self.part_begin[row], np.where(self.samples > 0, self.part_begin[np.minimum(row + 1, self.hi)], 0)

    def last_knows(self, *names: str) -> Bools:
        """Return one flag per window: True if the window's last sample has any of the metrics `names` for any topic."""
        if not len(self.parts):
            return np.zeros(len(self), np.bool_)
        counts = self.once_for_rows(
            f"parts that know {names}",
            lambda: counted(np.logical_or.reduce([~np.isnan(self.of_topics(n)) for n in names])),
        )
        begin, end = self.last_parts()
        return counts[np.maximum(begin, end)] > counts[begin]

    def apart(self) -> Windows:
        """Split the windows: return one window per sample, in order."""
        single_readings = self.at(self.window_of_row)
        single_readings.lo, single_readings.hi = self.rows, self.rows + 1
        return single_readings


def per_rows(make: Callable[[Windows], T]) -> Callable[[Windows], T]:
    """Decorate a function of `Windows`: all `Windows` objects with the same table share one cached result."""
    name = f"{make.__module__}.{make.__qualname__}"
    return wraps(make)(lambda w: w.once_for_rows(name, lambda: make(w)))


def per_windows(make: Callable[Concatenate[Windows, P], T]) -> Callable[Concatenate[Windows, P], T]:
    """Decorate a function so that its result is cached per `Windows` object and arguments."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def once(w: Windows, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return w.once((name, *args, *kwargs.items()), lambda: make(w, *args, **kwargs))

    return once
