"""Judge the lag that a consumer itself reports (`records-lag`), even if it never commits.

A consumer learns the end of its partitions while it fetches. A consumer that no longer fetches does not know its lag:
an old Scala consumer with a full queue goes on reporting 0. If it fetches and consumes nothing, its lag stands still
and proves nothing: UNKNOWN, never OK. Otherwise the state follows the trend of the lag: WARN if the lag climbs steadily
(Theil–Sen, as for groups) and exceeds the partition's share of ten seconds of the client's consumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.columns import Bools, Floats, Ints, spread
from clienthealth.measure.lag import allowed_lag
from clienthealth.measure.lag_state import COMMITS, climbs
from clienthealth.measure.view import MIN_READINGS, Windows
from clienthealth.settings import LagSettings

#: A lag that the consumer reads within this time (s) at its present rate is not a backlog.
BACKLOG_SECONDS = 10.0


@dataclass(frozen=True)
class Points:
    """All reported lags of partitions, one per sample and partition.

    row      the sample's row
    topic    index into the names of the parts
    records  the lag, known and ≥ 0
    before   the previous point of the same partition, from any client; -1 if there is none
    begin    the points of a row are order[begin[row]:begin[row + 1]], by topic and partition
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
    """The partitions that report a lag in each window's last sample, by window, topic and partition.

    point  index into `Points`
    blind  True if the client has not fetched over its last MIN_READINGS samples, so that its lag is not known
    """

    window: Ints
    point: Ints
    blind: Bools


def points(w: Windows) -> Points:
    """Return the `Points` of windows."""
    return w.once_for_rows("points of lag", lambda: _points(w))


def _points(w: Windows) -> Points:
    reported = np.flatnonzero((w.of_topics("records-lag") >= 0) & (w.parts.partition >= 0))
    parts = w.parts.at(reported)
    row, topic, partition = parts.row, parts.topic, parts.partition
    records, paused = w.of_topics("records-lag")[reported], w.of_topics("paused")[reported] > 0
    rank = np.empty(len(w.names), np.int64)
    rank[sorted(range(len(rank)), key=w.names.__getitem__)] = np.arange(len(rank))
    order = np.lexsort((paused, records, row, partition, rank[topic]))
    row, topic, partition = row[order], topic[order], partition[order]
    before = np.arange(-1, len(row) - 1)
    before[1:][(topic[1:] != topic[:-1]) | (partition[1:] != partition[:-1])] = -1
    by_row = np.argsort(row, kind="stable")
    begin = np.searchsorted(row[by_row], np.arange(len(w.ts) + 1))
    return Points(row, topic, partition, records[order], paused[order], before, begin, by_row)


def lags(w: Windows) -> Lags:
    """Return the `Lags` of windows."""
    return w.once("lags", lambda: _lags(w))


def _lags(w: Windows) -> Lags:
    if not w.last_knows("records-lag").any():
        none = np.zeros(0, np.int64)
        return Lags(none, none, none > 0)
    p = points(w)
    row = np.maximum(w.last_row, 0)
    at, window = spread(p.begin[row], np.where(w.samples > 0, p.begin[row + 1], 0))
    fetches = "fetch-requests-total" if w.kind == "legacy-consumer" else "fetch-total"
    blind = w.last(fetches) == w.from_last(fetches, MIN_READINGS - 1)
    return Lags(window, p.order[at], blind[window])


def lag_entries(w: Windows, limits: LagSettings) -> list[list[dict[str, Any]]]:
    """Return one list per window: topic, partition, records, seconds, quality, state and paused at the last sample.

    `quality` refers to the records, and unknown records are absent; seconds are known only if there is no lag.
    """
    entries: list[list[dict[str, Any]]] = [[] for _ in range(len(w))]
    of_partitions = lags(w)
    if not len(of_partitions.point):
        return entries
    p, names = points(w), w.names
    rows = zip(
        of_partitions.window.tolist(),
        (names[topic] for topic in p.topic[of_partitions.point].tolist()),
        p.partition[of_partitions.point].tolist(),
        p.records[of_partitions.point].tolist(),
        of_partitions.blind.tolist(),
        states(w, limits).tolist(),
        p.paused[of_partitions.point].tolist(),
        strict=True,
    )
    for window, topic, partition, records, blind, state, paused in rows:
        entry: dict[str, Any] = {"topic": topic, "partition": partition}
        if not blind:
            entry["records"] = int(records)
            if records == 0:
                entry["seconds"] = 0.0
        entry |= {"quality": "unknown" if blind else "exact", "state": state, "paused": paused}
        entries[window].append(entry)
    return entries


def states(w: Windows, limits: LagSettings) -> NDArray[np.object_]:
    """Return OK, WARN or UNKNOWN for each of `lags`."""
    of_partitions, p = lags(w), points(w)
    rate = w.last("records-consumed-rate")
    consumed = w.grown("records-consumed-total")
    stands = np.where(np.isnan(consumed), rate, consumed) <= 0
    backlog = BACKLOG_SECONDS * np.nan_to_num(rate) / np.maximum(1, np.bincount(of_partitions.window, minlength=len(w)))
    records = p.records[of_partitions.point]
    fine = records <= _allowed(w, limits)
    # True for partitions of which the window has at least MIN_READINGS points.
    measured, point = np.ones(len(records), np.bool_), of_partitions.point
    for _ in range(MIN_READINGS):
        measured = measured & (point >= 0) & (p.row[point] >= w.lo[of_partitions.window])
        point = p.before[point]
    state = np.full(len(records), "OK", np.object_)
    state[~fine & (stands[of_partitions.window] | p.paused[of_partitions.point] | ~measured)] = "UNKNOWN"
    state[of_partitions.blind] = "UNKNOWN"
    for at in np.flatnonzero(~fine & (state == "OK") & (records > backlog[of_partitions.window])).tolist():
        # The partition's newest points in the window, at most COMMITS: time (s) and lag.
        first, newest = w.lo[of_partitions.window[at]], of_partitions.point[at]
        seen: list[tuple[float, float]] = []
        while newest >= 0 and p.row[newest] >= first and len(seen) < COMMITS:
            seen.append((w.ts[p.row[newest]] / 1000, float(p.records[newest])))
            newest = p.before[newest]
        if climbs(seen[::-1], limits.dead_band_per_second):
            state[at] = "WARN"
    return state


def _allowed(w: Windows, limits: LagSettings) -> Floats:
    """Return the tolerated lag in records for each of `lags`."""
    of_partitions, p = lags(w), points(w)
    patterns = tuple(limits.allowed_lag.items())
    if not patterns:
        return np.zeros(len(of_partitions.point))
    topics = (w.names[topic] for topic in p.topic[of_partitions.point].tolist())
    groups = w.groups(of_partitions.window)
    return np.array(
        [allowed_lag(patterns, group, topic) for group, topic in zip(groups, topics, strict=True)], np.float64
    )
