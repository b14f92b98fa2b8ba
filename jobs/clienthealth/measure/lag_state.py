"""The state of a consumer on one partition, judged from its last commits.

Burrow's rules in Burrow's order (STOP, REWIND, "was caught up", STALL, WARN), judged only while the lag is more than
what is allowed, and mended where running Burrow showed it wrong:

- With fewer than three commits the state is UNKNOWN; Burrow calls a single commit STOP a millisecond later.
- An end offset that does not move is IDLE, never STOP.
- STOP goes by time: nothing committed for 60 s and three commit gaps *while there was something to read*. A consumer
  that commits only when data comes does not look stopped on a slow topic.
- WARN goes by a robust slope of the lag, so that one reading that dips does not hide a climb.
- Commits that stop while a member of the group owns the partition are a STALL: somebody is there and gets nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from clienthealth.settings import LagSettings

State = Literal["OK", "WARN", "STOP", "STALL", "REWIND", "UNKNOWN", "IDLE"]

#: From harmless to worst. A group is IDLE when all of its partitions are; what cannot be judged is never OK.
STATE_ORDER: tuple[State, ...] = ("IDLE", "OK", "UNKNOWN", "WARN", "REWIND", "STALL", "STOP")
#: Those that are fine.
FINE = STATE_ORDER[: STATE_ORDER.index("UNKNOWN")]

#: The rules look at this many of the newest commits (Burrow's `intervals`).
COMMITS = 10

#: Of all pairs of commits so many may show no rise before a climb is taken for noise. One outlier among ten commits
#: spoils a fifth; ten commits of pure noise pass once in 120 times (Kendall's S ≥ 27).
FALLING_SHARE = 0.2


class Commit(NamedTuple):
    """An offset committed at a time (epoch ms), and the lag that was seen with it (None: not known)."""

    ts_ms: int
    offset: int
    lag: int | None


class Known(NamedTuple):
    """What is known of a partition with `lag` now. `commits`: in order of time, oldest first.

    silent_seconds  for how long nothing was committed though there was something to read
    idle            the end offset has not moved
    allowed         the lag that is fine
    owned           a member of the group has the partition
    gap_seconds     the usual time between two commits of the group, where known
    """

    commits: Sequence[Commit]
    lag: int
    silent_seconds: float
    idle: bool
    allowed: int = 0
    owned: bool = False
    gap_seconds: float | None = None


def state(known: Known, limits: LagSettings) -> State:
    """The state of a partition."""
    newest = known.commits[-COMMITS:]
    if known.idle:
        return "IDLE"
    if known.lag <= known.allowed:
        return "OK"
    if known.silent_seconds >= stop_seconds(newest, known.gap_seconds, limits):
        return "STALL" if known.owned else "STOP"
    if len(newest) < limits.min_commits:
        return "UNKNOWN"
    if rewound(newest):
        return "REWIND"
    points = [(commit.ts_ms / 1000, float(commit.lag)) for commit in newest if commit.lag is not None]
    if any(lag <= known.allowed for _, lag in points):
        return "OK"
    if newest[0].offset == newest[-1].offset:
        return "STALL"
    return "WARN" if climbs(points, limits.dead_band_per_second) else "OK"


def stop_seconds(commits: Sequence[Commit], gap_seconds: float | None, limits: LagSettings) -> float:
    """After how long without a commit a consumer counts as stopped.

    Where the usual gap is not known, and at most, half a window: a longer silence could not be told from the
    window's beginning.
    """
    longest = limits.window_seconds / 2
    if len(commits) < limits.min_commits:
        return longest
    gap = median_gap(gaps(commits)) if gap_seconds is None else gap_seconds
    return min(longest, max(float(limits.stop_min_seconds), limits.stop_gaps * gap))


def gaps(commits: Sequence[Commit]) -> list[float]:
    """The seconds between each two consecutive commits."""
    return [(later.ts_ms - earlier.ts_ms) / 1000 for earlier, later in pairwise(commits)]


def median_gap(values: Sequence[float]) -> float:
    """The median of some gaps; 0 where there is none."""
    return median(values) if values else 0.0


def rewound(commits: Sequence[Commit]) -> bool:
    """Was an offset committed that is lower than the one before, and has no later commit made up for it?"""
    for position in range(1, len(commits)):
        before = commits[position - 1].offset
        if commits[position].offset < before:
            return all(commit.offset < before for commit in commits[position:])
    return False


def climbs(points: Sequence[tuple[float, float]], dead_band: float) -> bool:
    """Do values at times (seconds) rise by more than `dead_band` per second, by the Theil–Sen slope, and steadily?"""
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for position, earlier in enumerate(points)
        for later in points[position + 1 :]
        if later[0] > earlier[0]
    )
    if not slopes:
        return False
    middle = len(slopes) // 2
    slope = slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2
    return slope > dead_band and slopes[int(len(slopes) * FALLING_SHARE)] > 0
