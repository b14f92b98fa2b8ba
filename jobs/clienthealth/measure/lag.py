"""Compute the lag of consumer groups in records and seconds, and the states of groups and partitions.

Lag in seconds is the age of the first unread record. To find out when this record was produced, interpolate between
samples of the end offset. If the record's offset is outside the samples, extrapolate with the average rate at which the
end offset grew. Interpolation and extrapolation come from kafka-lag-exporter. The limit `max_extrapolation_seconds`
comes from Datadog's agent.

The committed offset is read before the end offset. If a group commits between the two reads, the computed lag is too
great, but not negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from clienthealth.measure.lag_state import COMMITS, STATE_ORDER, Commit, Known, State, gaps, median_gap, state
from clienthealth.settings import LagSettings

Quality = Literal["exact", "interpolated", "extrapolated", "unknown"]


class Point(NamedTuple):
    """The end offset of a partition at a moment. `time`: epoch milliseconds."""

    offset: int
    time: float


def compressed(points: Iterable[tuple[int, float]]) -> list[Point]:
    """Leave out each point that has the same end offset as both its neighbours.

    `points`: (end offset, time), in order of time.
    """
    seen = list(points)
    neighbours = zip(seen, seen[1:], seen[2:], strict=False)
    inner = [p for before, p, after in neighbours if before[0] < p[0] or p[0] < after[0]]
    return list(map(Point._make, [*seen[:1], *inner, *seen[1:][-1:]]))


def produced_at(history: Sequence[Point], offset: int) -> tuple[float, Quality] | None:
    """Return (time, quality): when the record at `offset` was produced (epoch ms), and how this time was found.

    `history`: the end offsets, which never fall, in order of time. Returns None if the end offset never moved.
    """
    if not history or history[0].offset == history[-1].offset:
        return None
    newest = bisect_right(history, offset, key=lambda point: point.offset) - 1
    if newest < 0 or newest == len(history) - 1:
        first, last = history[0], history[-1]
        slope = (last.time - first.time) / (last.offset - first.offset)
        nearest = last if newest >= 0 else first
        return nearest.time + (offset - nearest.offset) * slope, "extrapolated"
    before, after = history[newest], history[newest + 1]
    share = (offset - before.offset) / (after.offset - before.offset)
    return before.time + share * (after.time - before.time), "interpolated"


def seconds_behind(
    history: Sequence[Point], offset: int, now_ms: float, max_extrapolation_seconds: float
) -> tuple[float | None, Quality]:
    """Return (age, quality): the age (s) of the first unread record or None, and how it was found.

    `offset`: offset of the first unread record. `history`: the end offsets, which never fall, in order of time. If
    every record is read, the result is (0, exact).
    """
    if history and offset >= history[-1].offset:
        return 0.0, "exact"
    if (produced := produced_at(history, offset)) is None:
        return None, "unknown"
    time, quality = produced
    earliest = history[0].time - max_extrapolation_seconds * 1000
    return max(0.0, now_ms - max(time, earliest)) / 1000, quality


Partition = tuple[str, int]

#: (epoch ms, committed offset, end offset, start offset, epoch ms of the commit); None means unknown.
Observation = tuple[int, int | None, int | None, int | None, int | None]


Histories = Mapping[Partition, Sequence[Observation]]


class PartitionLag(NamedTuple):
    """The lag of a group on one partition at the last sample. None means unknown.

    `commit_age_seconds`: time since the newest commit. `quality`: how `seconds` was found. `clamped`: number of samples
    with a committed offset beyond the end offset. `retention_used_ratio`: unread share (0 to 1) of the retained
    records; at 1, retention deletes unread records.
    """

    records: int | None
    seconds: float | None
    quality: Quality
    state: State
    committed_offset: int | None
    end_offset: int | None
    start_offset: int | None
    commit_age_seconds: float | None
    retention_used_ratio: float | None
    clamped: int = 0


def group_lag(
    group: str,
    histories: Histories,
    owners: Mapping[Partition, Mapping[str, Any] | None],
    members: float | None,
    limits: LagSettings,
) -> dict[str, Any]:
    """Return the indicators `lag` and `group` of a consumer group for the partitions of its last sample.

    `owners`: the member (as a JSON object) to which each partition is assigned, None if unknown or unassigned.
    `members`: number of members of the group, None if unknown.
    """
    of_partitions = partitions_lag(group, histories, {where for where, member in owners.items() if member}, limits)
    lags = [
        {"topic": topic, "partition": partition, **lag._asdict(), "member": owners[topic, partition]}
        for (topic, partition), lag in of_partitions.items()
    ]
    return {"lag": lags, "group": summary(of_partitions.values(), members)}


def partitions_lag(
    group: str, histories: Histories, owned: set[Partition], limits: LagSettings
) -> dict[Partition, PartitionLag]:
    """Return the lag of a group on each partition in `histories`. `owned`: the partitions assigned to a member."""
    patterns = tuple(limits.allowed_lag.items())
    fresh = {where: since_reset(history) for where, history in histories.items()}
    commits = {where: commits_of(history) for where, history in fresh.items()}
    pooled = [gap for some in commits.values() for gap in gaps(some)]
    gap = median_gap(pooled) if pooled else None
    of_partitions = {}
    for where, history in fresh.items():
        allowed = allowed_lag(patterns, group, where[0])
        known = Known(commits[where], 0, silent_seconds(history), False, allowed, where in owned, gap)
        of_partitions[where] = _lag(history, known, limits)
    return of_partitions


def _lag(history: Sequence[Observation], known: Known, limits: LagSettings) -> PartitionLag:
    """Return the lag at the end of `history`.

    `known`: the input of `state`. The values of `Known.lag` and `Known.idle` are replaced by computed values.
    """
    now_ms, *offsets, commit_ts = history[-1]
    committed, end, start = (None if offset is None else int(offset) for offset in offsets)
    age = None if commit_ts is None else max(0.0, (now_ms - commit_ts) / 1000)
    records, seconds, used = None, None, None
    quality: Quality = "unknown"
    judged: State = "UNKNOWN"
    if committed is not None and end is not None:
        records = max(0, end - committed)
    if committed is not None and end is not None and committed <= end:
        ends = compressed([(e, t) for t, _, e, _, _ in history if e is not None])
        unread = committed if start is None else max(committed, start)
        seconds, quality = seconds_behind(ends, unread, now_ms, limits.max_extrapolation_seconds)
        idle = stands_still(ends, limits.stop_min_seconds)
        judged = state(known._replace(lag=end - committed, idle=idle), limits)
        used = retention_used(committed, start, end)
    clamped = sum([c is not None and e is not None and c > e for _, c, e, _, _ in history])
    return PartitionLag(records, seconds, quality, judged, committed, end, start, age, used, clamped)


def since_reset(history: Sequence[Observation]) -> Sequence[Observation]:
    """Return the observations since the end offset last fell; all observations if it never fell."""
    ends = [end for _, _, end, _, _ in history if end is not None]
    if ends == sorted(ends):
        return history
    ends_at = [(end, position) for position, (_, _, end, _, _) in enumerate(history) if end is not None]
    return history[[position for (before, _), (end, position) in pairwise(ends_at) if end < before][-1] :]


def commits_of(history: Iterable[Observation]) -> list[Commit]:
    """Return the newest commits, at most COMMITS (10), in order of time.

    A commit is a change of the offset or of the commit time. If the commit time is unknown, the commit gets the time
    of the first observation with its offset.
    """
    committed_at = [seen for seen in history if seen[1] is not None]
    changed = [
        seen
        for before, seen in pairwise(committed_at)
        if seen[1] != before[1] or (seen[4] != before[4] and seen[4] is not None and before[4] is not None)
    ]
    return [
        Commit(ts_ms if at is None else at, committed, None if end is None else max(0, end - committed))
        for ts_ms, committed, end, _, at in [*committed_at[:1], *changed][-COMMITS:]
        if committed is not None
    ]


def silent_seconds(history: Sequence[Observation]) -> float:
    """Return for how many seconds, up to the last observation, records were unread and nothing was committed."""
    now_ms, last, _, _, last_at = history[-1]
    since = now_ms
    for ts_ms, committed, end, _, commit_ts in reversed(history):
        if committed is None or end is None:
            continue
        committed_anew = commit_ts is not None and last_at is not None and commit_ts != last_at
        if committed != last or committed_anew or end <= committed:
            break
        since = ts_ms
    return (now_ms - max(since, last_at or since)) / 1000


def stands_still(ends: Sequence[Point], least_seconds: float) -> bool:
    """True if the end offset did not change for `least_seconds`; False for a single point."""
    return len(ends) > 1 and ends[0].offset == ends[-1].offset and ends[-1].time - ends[0].time >= least_seconds * 1000


def retention_used(committed: int, start: int | None, end: int) -> float | None:
    """Return which share (0 to 1) of the retained records is unread; None without a start offset.

    For a partition without retained records, the result is 1 if unread records were deleted, and 0 if none were.
    """
    if start is None:
        return None
    kept = end - start
    return min(1.0, (end - committed) / kept) if kept > 0 else float(end > committed)


@lru_cache(maxsize=65_536)
def allowed_lag(patterns: tuple[tuple[str, int], ...], group: str, topic: str) -> int:
    """Return the tolerated lag (records) of the first glob that matches `group` or `group/topic`; 0 without a match."""
    for pattern, records in patterns:
        if fnmatchcase(group, pattern) or fnmatchcase(f"{group}/{topic}", pattern):
            return records
    return 0


def summary(lags: Iterable[PartitionLag], members: float | None) -> dict[str, Any]:
    """Return the indicator `group` of a consumer group; None means unknown.

    `status`                      the worst state of the group's partitions; UNKNOWN without partitions
    `max_lag`, `max_lag_seconds`  the greatest known lag of a partition, in records and in seconds
    `sum_lag`                     the sum of the known lags in records
    `clamped`                     the number of partitions that had a committed offset beyond the end offset
    """
    partitions = list(lags)
    records = [lag.records for lag in partitions if lag.records is not None]
    seconds = [lag.seconds for lag in partitions if lag.seconds is not None]
    return {
        "status": max((lag.state for lag in partitions), key=STATE_ORDER.index, default="UNKNOWN"),
        "max_lag": max(records, default=None),
        "max_lag_seconds": max(seconds, default=None),
        "sum_lag": sum(records) if records else None,
        "members": None if members is None else int(members),
        "clamped": sum(1 for lag in partitions if lag.clamped),
    }
