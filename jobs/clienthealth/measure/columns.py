"""Tables of named columns. A `Column` answers queries (first, last, count) for many spans of rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass
class Table:
    """A table of rows: integers in named columns (-1: no value) and floats in `values` (NaN: unknown).

    Subclasses define the integer columns as fields.
    """

    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def head(cls) -> int:
        """Return the number of integer columns."""
        return len(fields(cls)) - 1

    @classmethod
    def of(cls, data: bytes, width: int) -> Self:
        """Return a read-only table from `data`. A row has its integers, then `width` floats; a number takes 8 bytes."""
        words = np.frombuffer(data, np.int64).reshape(-1, cls.head() + width)
        return cls(words[:, cls.head() :].view(np.float64), *words[:, : cls.head()].T)

    def data(self) -> bytes:
        """Return the table as bytes, for the class method `of`."""
        values, *columns = self._arrays()
        return np.column_stack([*columns, values.view(np.int64)]).tobytes()

    @classmethod
    def of_matrix(cls, matrix: Floats, head: int) -> Self:
        """Return the table made from a float matrix: first `head` integer columns, then the values.

        NaN in an integer column becomes -1. Columns that an earlier release did not write become 0.
        """
        columns = np.zeros((cls.head(), len(matrix)))
        columns[:head] = matrix[:, : min(head, cls.head())].T
        return cls(matrix[:, head:], *np.fmax(columns, -1.0).astype(np.int64))

    def matrix(self) -> Floats:
        """Return the table as a float matrix with contiguous columns, for `of_matrix`."""
        values, *columns = self._arrays()
        return np.vstack([*columns, values.T]).T

    @classmethod
    def none(cls, width: int) -> Self:
        """Return an empty table with `width` values per row."""
        return cls.of_matrix(np.empty((0, cls.head() + width)), cls.head())

    def at(self, rows: Ints | Bools | slice) -> Self:
        """Return a table of the selected rows. `rows`: a mask, a slice, or positions in the wanted order."""
        if isinstance(rows, slice):
            return type(self)(*(array[rows] for array in self._arrays()))
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return type(self)(*(np.take(array.T, chosen, axis=-1).T for array in self._arrays()))

    @classmethod
    def joined(cls, tables: Iterable[Self]) -> Self:
        """Return a table with the rows of all `tables`, in the order given."""
        columns = zip(*map(cls._arrays, tables), strict=True)
        return cls(*(np.concatenate([part.T for part in parts], axis=-1).T for parts in columns))

    def merged(self, starts: Ints) -> Self:
        """Merge each group of adjacent rows into one row. `starts`: the groups' first rows in order, beginning with 0.

        In each column, a merged row has its group's first known value (≥ 0).
        """

        def known_first(columns: NDArray[Any]) -> NDArray[Any]:
            rows = np.arange(len(self))
            first = np.minimum.reduceat(np.where(columns >= 0, rows, rows + len(self)), starts, axis=-1) % len(self)
            return np.take_along_axis(columns, first, axis=-1)

        return type(self)(*(known_first(array.T).T for array in self._arrays()))

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return tuple(vars(self).values())


class Column:
    """One number per row (NaN: unknown), with queries over spans [lo, hi) of rows."""

    def __init__(self, values: Floats, whole: bool | None = None) -> None:
        """`whole`: True if every row has a value; None to compute this when needed."""
        self._source, self._is_whole = values, whole

    @cached_property
    def values(self) -> Floats:
        """The values of all rows (NaN: unknown), contiguous in memory."""
        return np.ascontiguousarray(self._source)

    @cached_property
    def whole(self) -> bool:
        """True if every row has a value."""
        return not self._unknown.any() if self._is_whole is None else self._is_whole

    @cached_property
    def reported(self) -> bool:
        """True if any row has a value."""
        return len(self._source) > 0 and (self.whole or not self._unknown.all())

    @cached_property
    def _unknown(self) -> Bools:
        return np.isnan(self.values)

    def at(self, rows: Ints) -> Floats:
        """Return the values at the positions `rows`, in the order given."""
        return self._source[rows]

    @cached_property
    def reported_rows(self) -> Ints:
        """The numbers of the rows that have a value, in ascending order."""
        return np.arange(len(self._source)) if self.whole else np.flatnonzero(~self._unknown)

    @cached_property
    def _known(self) -> Floats:
        return np.concatenate((self.values if self.whole else self.values[self.reported_rows], [np.nan]))

    @cached_property
    def _before(self) -> Ints:
        return counted(~self._unknown)

    def bounds(self, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
        """Translate spans [lo, hi) of rows into spans in the list of known values."""
        if not self.reported:
            return np.zeros_like(lo), np.zeros_like(lo)
        return (lo, hi) if self.whole else (self._before[lo], self._before[hi])

    def count(self, lo: Ints, hi: Ints) -> Ints:
        """Return, for each span, how many of its rows have a value."""
        a, b = self.bounds(lo, hi)
        return b - a

    def _first(self, lo: Ints, hi: Ints) -> Ints:
        a, b = self.bounds(lo, hi)
        return np.where(a < b, a, -1)

    def _last(self, lo: Ints, hi: Ints, back: int = 0) -> Ints:
        """Return, per span, the index in `_known` of the value that is `back` places before the last known value.

        The result is -1 for a span with at most `back` known values.
        """
        a, b = self.bounds(lo, hi)
        return np.where(b - a > back, b - 1 - back, -1)

    def first(self, lo: Ints, hi: Ints) -> Floats:
        """Return the first known value of each span; NaN for a span without known values."""
        return self._known[self._first(lo, hi)] if self.reported else unknown(len(lo))

    def last(self, lo: Ints, hi: Ints) -> Floats:
        """Return the last known value of each span; NaN for a span without known values."""
        return self._known[self._last(lo, hi)] if self.reported else unknown(len(lo))

    def first_row(self, lo: Ints, hi: Ints) -> Ints:
        """Return the number of the first row with a value in each span; -1 if there is none."""
        return np.append(self.reported_rows, -1)[self._first(lo, hi)]

    def last_row(self, lo: Ints, hi: Ints) -> Ints:
        """Return the number of the last row with a value in each span; -1 if there is none."""
        return np.append(self.reported_rows, -1)[self._last(lo, hi)]

    def from_last(self, lo: Ints, hi: Ints, back: int) -> Floats:
        """Return each span's known value that is `back` places before the last one; NaN if there is none."""
        return self._known[self._last(lo, hi, back)]

    def rises(self, lo: Ints, hi: Ints) -> Ints:
        """Return how often, in each span, a known value is greater than the known value before it."""
        return self._changes(self._risen, lo, hi)

    def falls(self, lo: Ints, hi: Ints) -> Ints:
        """Return how often, in each span, a known value is less than the known value before it."""
        return self._changes(self._fallen, lo, hi)

    def _changes(self, cumulative: Ints, lo: Ints, hi: Ints) -> Ints:
        a, b = self.bounds(lo, hi)
        return cumulative[b - 1] - cumulative[np.minimum(a, b - 1)]

    # `_known` ends with NaN. Comparisons with NaN are False, so no change is counted after the last known value.
    @cached_property
    def _risen(self) -> Ints:
        return counted(self._known[1:] > self._known[:-1])

    @cached_property
    def _fallen(self) -> Ints:
        return counted(self._known[1:] < self._known[:-1])

    @cached_property
    def still(self) -> tuple[Ints, Ints]:
        """All runs of two or more equal known values: (starts, exclusive ends) as indices in `_known`.

        A run may continue in the next client's rows, so callers must clip each run to the rows of one client.
        """
        same = np.append(False, self._known[1:] == self._known[:-1])
        change = np.flatnonzero(same[1:] != same[:-1])
        return change[0::2], change[1::2] + 1


def spread(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Concatenate the ranges begin[i]:end[i] (empty if end ≤ begin).

    Return two arrays of equal length: the integers of all ranges, and the index i of each integer's range.
    """
    counts = np.maximum(end - begin, 0)
    which = np.repeat(np.arange(len(begin)), counts)
    origin = np.cumsum(counts) - counts
    return np.arange(len(which)) + (begin - origin)[which], which


def begins(*columns: NDArray[Any]) -> Bools:
    """Return one flag per row: False if the row equals the previous row in all columns, else True."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(True, differs)[: len(columns[0])]


def ranks(texts: Sequence[str]) -> Ints:
    """Return an array with the position of each text in the sorted list of all texts."""
    return np.argsort(sorted(range(len(texts)), key=texts.__getitem__))


def counted(flags: Bools) -> Ints:
    """Return an array with the number of True flags before each position, and at the end their total number."""
    counts = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=counts[1:])
    return counts


def or_zero(values: Floats) -> Floats:
    """Return the values with 0 in place of NaN. Infinities stay."""
    return np.where(np.isnan(values), 0.0, values)


def unknown(size: int) -> Floats:
    """Return an array of `size` NaNs."""
    return np.full(size, np.nan)
