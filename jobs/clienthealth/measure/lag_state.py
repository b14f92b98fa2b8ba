"""Judge the state of a consumer on one partition from its last commits.

The rules are those of LinkedIn's Burrow, in the same order (STOP, REWIND, "was caught up", STALL, WARN). The rules
apply only while the lag exceeds the tolerated lag. Where Burrow judged wrongly in tests, the rules differ:

- With fewer than three commits (`min_commits`), the state is UNKNOWN until half of `window_seconds` (section `[lag]`
  of the settings) has passed without a commit. Burrow reports STOP a millisecond after a single commit.
- If the end offset does not move, the state is IDLE, never STOP.
- The state becomes STOP after a time without commits. The time is three usual commit intervals (`stop_gaps`), but not
  below 60 s (`stop_min_seconds`) and not above half of `window_seconds`. Only time with unread records counts, because
  some consumers commit only when data comes.
- WARN uses a robust slope of the lag (Theil–Sen), so that one lower sample does not hide a climb.
- If commits stop while a member of the group owns the partition, the state is STALL.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Literal, NamedTuple

from clienthealth.settings import LagSettings

State = Literal["OK", "WARN", "STOP", "STALL", "REWIND", "UNKNOWN", "IDLE"]

#: The states of a partition, from harmless to worst; a group has the worst state of its partitions.
STATE_ORDER: tuple[State, ...] = ("IDLE", "OK", "UNKNOWN", "WARN", "REWIND", "STALL", "STOP")
FINE = STATE_ORDER[: STATE_ORDER.index("UNKNOWN")]

#: Number of newest commits that the rules use (Burrow's `intervals`).
COMMITS = 10

#: A lag counts as climbing only if at most this share of all pairs of commits shows no rise of the lag. One outlier
#: among ten commits can hide the rise in 9 of the 45 pairs.
FALLING_SHARE = 0.2


class Commit(NamedTuple):
    """A committed offset, the time of the commit (epoch ms), and the lag in records at that time (None: unknown)."""

    ts_ms: int
    offset: int
    lag: int | None


class Known(NamedTuple):
    """The input of the function `state`. `commits`: oldest first. `lag`: the present lag in records."""

    commits: Sequence[Commit]
    lag: int
    silent_seconds: float
    idle: bool
    allowed: int = 0
    owned: bool = False
    gap_seconds: float | None = None


def state(known: Known, limits: LagSettings) -> State:
    """Return the state of a partition from its last commits and its present lag."""
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
    """Return the seconds without a commit after which a consumer counts as stopped.

    The result is `stop_gaps` times the usual gap between commits, but at least `stop_min_seconds` and at most half of
    `window_seconds`. With fewer than `min_commits` commits, the result is half of `window_seconds`. `gap_seconds`: the
    usual gap; None to compute the gap from `commits`.
    """
    longest = limits.window_seconds / 2
    if len(commits) < limits.min_commits:
        return longest
    gap = median_gap(gaps(commits)) if gap_seconds is None else gap_seconds
    return min(longest, max(float(limits.stop_min_seconds), limits.stop_gaps * gap))


def gaps(commits: Sequence[Commit]) -> list[float]:
    """Return the seconds between consecutive commits."""
    return [(later.ts_ms - earlier.ts_ms) / 1000 for earlier, later in pairwise(commits)]


def median_gap(values: Sequence[float]) -> float:
    """Return the median of gaps (s) between commits; 0 without gaps."""
    return median(values) if values else 0.0


def rewound(commits: Sequence[Commit]) -> bool:
    """True if the committed offset fell, and then always stayed below its value before the first fall."""
    for position, (before, commit) in enumerate(pairwise(commits), 1):
        if commit.offset < before.offset:
            return all(later.offset < before.offset for later in commits[position:])
    return False


def climbs(points: Sequence[tuple[float, float]], dead_band: float) -> bool:
    """True if values rise steadily and by more than `dead_band` per second (Theil–Sen slope).

    A rise is steady if, in at least four fifths (1 − FALLING_SHARE) of all pairs of points, the later value is greater
    than the earlier value.
    `points`: (time in s, value), in order of time.
    """
    apart = ((earlier, later) for earlier, later in combinations(points, 2) if later[0] > earlier[0])
    slopes = sorted((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in apart)
    return bool(slopes) and median(slopes) > dead_band and slopes[int(len(slopes) * FALLING_SHARE)] > 0
