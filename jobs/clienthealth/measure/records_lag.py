"""Judge the lag that a consumer itself reports (`records-lag`), even if the consumer never commits.

A consumer that no longer fetches does not know its lag. The first rule that applies gives a partition's state:

1. UNKNOWN if the consumer does not fetch.
2. OK if the lag is tolerated (`[lag] allowed_lag`).
3. UNKNOWN if the consumer consumes nothing, the partition is paused, or the window has under three samples of the lag.
4. WARN if the lag climbs steadily (Theil–Sen slope), and consuming it at the present rate would take over ten seconds.
5. OK in all other cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.columns import Bools, Floats, Ints, begins, ranks, spread
from clienthealth.measure.lag import allowed_lag
from clienthealth.measure.lag_state import COMMITS, climbs
from clienthealth.measure.view import MIN_READINGS, Windows, per_rows, per_windows
from clienthealth.settings import LagSettings

#: A lag that the consumer works off within this time (s) is no backlog.
BACKLOG_SECONDS = 10.0


@dataclass(frozen=True)
class Points:
    """All reported lags of partitions, one element per sample and partition.

    `row`      row number of the sample in `Windows.table`
    `topic`    index of the topic's name in `Windows.names`
    `records`  the lag in records, known and ≥ 0
    `paused`   True if the client has paused the partition
    `before`   index of the previous point of the same partition, even if another client reported it; -1 if there is
               none
    `order`    indices of all points, sorted by row, then by topic and partition
    `begin`    positions in `order`: the points of row r of the table are order[begin[r]:begin[r + 1]]
    """

    row: Ints
    topic: Ints
    partition: Ints
    records: Floats
    paused: Bools
    before: Ints
    begin: Ints
    order: Ints


@dataclass(frozen=True)
class Lags:
    """The partitions with a reported lag in each window's last sample, in order of window, topic and partition.

    `window`  number of the window
    `point`   index into `Points`; topic, partition, records and paused are copied from there
    `blind`   True if the client's last three samples show no fetch: the reported lag may then be out of date
    """

    window: Ints
    point: Ints
    blind: Bools
    topic: Ints
    partition: Ints
    records: Floats
    paused: Bools


@per_rows
def points(w: Windows) -> Points:
    """Return the reported lags of all samples."""
    reported = np.flatnonzero((w.of_topics("records-lag") >= 0) & (w.parts.partition >= 0))
    parts = w.parts.at(reported)
    row, topic, partition = parts.row, parts.topic, parts.partition
    records, paused = w.of_topics("records-lag")[reported], w.of_topics("paused")[reported] > 0
    order = np.lexsort((paused, records, row, partition, ranks(w.names)[topic]))
    row, topic, partition = row[order], topic[order], partition[order]
    before = np.where(begins(topic, partition), -1, np.arange(-1, len(row) - 1))
    by_row = np.argsort(row, kind="stable")
    begin = np.searchsorted(row[by_row], np.arange(len(w.ts) + 1))
    return Points(row, topic, partition, records[order], paused[order], before, begin, by_row)


@per_windows
def lags(w: Windows) -> Lags:
    """Return the reported lags in the last sample of each window."""
    if not w.last_knows("records-lag").any():
        none = np.zeros(0, np.int64)
        return Lags(none, none, none > 0, none, none, np.zeros(0), none > 0)
    p = points(w)
    row = np.maximum(w.last_row, 0)
    at, window = spread(p.begin[row], np.where(w.samples > 0, p.begin[row + 1], 0))
    fetches = "fetch-requests-total" if w.kind == "legacy-consumer" else "fetch-total"
    blind = w.last(fetches) == w.from_last(fetches, MIN_READINGS - 1)
    point = p.order[at]
    return Lags(window, point, blind[window], p.topic[point], p.partition[point], p.records[point], p.paused[point])


def lag_entries(w: Windows, limits: LagSettings) -> list[list[dict[str, Any]]]:
    """Return, for each window, JSON objects: one for each partition that has a lag in the window's last sample.

    Fields: topic, partition, records, seconds, quality, state, paused. `quality` is exact, or unknown if the client
    does not fetch. `records` is absent if `quality` is unknown. `seconds` is 0 if `records` is 0. Otherwise `seconds`
    is absent, because clients do not report lag in seconds.
    """
    entries: list[list[dict[str, Any]]] = [[] for _ in range(len(w))]
    lag = lags(w)
    if not len(lag.point):
        return entries
    columns = lag.window, lag.topic, lag.partition, lag.records, lag.blind, states(w, limits), lag.paused
    for window, topic, partition, records, blind, state, paused in zip(*(c.tolist() for c in columns), strict=True):
        entry: dict[str, Any] = {"topic": w.names[topic], "partition": partition}
        if not blind:
            entry["records"] = int(records)
            if records == 0:
                entry["seconds"] = 0.0
        entry |= {"quality": "unknown" if blind else "exact", "state": state, "paused": paused}
        entries[window].append(entry)
    return entries


def states(w: Windows, limits: LagSettings) -> NDArray[np.object_]:
    """Return the state of each lag that the function `lags` returns: OK, WARN or UNKNOWN."""
    lag, p = lags(w), points(w)
    rate = w.last("records-consumed-rate")
    consumed = w.grown("records-consumed-total")
    stuck = np.where(np.isnan(consumed), rate, consumed) <= 0
    backlog = BACKLOG_SECONDS * np.nan_to_num(rate) / np.maximum(1, np.bincount(lag.window, minlength=len(w)))
    fine = lag.records <= _allowed(w, limits)
    measured, point = np.ones(len(lag.point), np.bool_), lag.point
    for _ in range(MIN_READINGS):
        measured = measured & (point >= 0) & (p.row[point] >= w.lo[lag.window])
        point = p.before[point]
    state = np.full(len(lag.point), "OK", np.object_)
    state[lag.blind | (~fine & (stuck[lag.window] | lag.paused | ~measured))] = "UNKNOWN"
    for at in np.flatnonzero(~fine & (state == "OK") & (lag.records > backlog[lag.window])).tolist():
        first, newest = w.lo[lag.window[at]], lag.point[at]
        seen: list[tuple[float, float]] = []
        while newest >= 0 and p.row[newest] >= first and len(seen) < COMMITS:
            seen.append((w.ts[p.row[newest]] / 1000, float(p.records[newest])))
            newest = p.before[newest]
        if climbs(seen[::-1], limits.dead_band_per_second):
            state[at] = "WARN"
    return state


def _allowed(w: Windows, limits: LagSettings) -> Floats:
    lag, patterns = lags(w), tuple(limits.allowed_lag.items())
    if not patterns:
        return np.zeros(len(lag.point))
    clients = zip(w.about(lag.window), lag.topic.tolist(), strict=True)
    return np.array([allowed_lag(patterns, client.group, w.names[topic]) for client, topic in clients], np.float64)
