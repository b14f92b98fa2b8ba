"""The monitor's states of lag are compared with test cases of Burrow, kafka-lag-exporter and Datadog."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from clienthealth.measure.lag import (
    Observation,
    Point,
    compressed,
    produced_at,
    seconds_behind,
    silent_seconds,
    stands_still,
)
from clienthealth.measure.lag_state import Commit, Known, state
from clienthealth.settings import LagSettings

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "lag-vectors.json").read_text())

FLAT = "the end offset stands at 1100 throughout: IDLE, never STOP or STALL"
SOONER = "STOP by time: silent for 400 s, four of the group's commit gaps; Burrow waits for the fifth"
FLOOR = "STOP by time: silent for 18 s; below 60 s no group counts as stopped"

#: Cases in which our state differs from Burrow's. Maps Burrow's number of a case to (our state, the reason).
AS_BURROW = {6: ("IDLE", FLAT)}
BY_DEFAULT = {1: ("STOP", SOONER), 6: ("IDLE", FLAT), 9: ("OK", FLOOR)}


def judged(case: list[Any], limits: LagSettings) -> str:
    _, offsets, broker_offsets, lag, now_s, allowed, _ = case
    commits = [Commit(ts, offset, seen) for offset, ts, seen in offsets]
    last = commits[-1]
    # Burrow stores end offsets without times.
    step = (now_s * 1000 - last.ts_ms) / len(broker_offsets)
    since: list[Observation] = [
        (round(last.ts_ms + step * (position + 1)), last.offset, end, None, last.ts_ms)
        for position, end in enumerate(reversed(broker_offsets))
    ]
    first_seen: Observation = (last.ts_ms, last.offset, last.offset + max(1, last.lag or 1), None, last.ts_ms)
    ends = [Point(c.offset + c.lag, c.ts_ms) for c in commits if c.lag is not None]
    ends += [Point(end, ts) for ts, _, end, _, _ in since if end is not None]
    silent = silent_seconds([first_seen, *since])
    idle = stands_still(compressed(sorted(ends)), limits.stop_min_seconds)
    return state(Known(commits, lag, silent, idle, allowed), limits)


@pytest.mark.parametrize("case", VECTORS["burrow"]["cases"], ids=lambda case: f"case-{case[0]}")
def test_burrows_windows_with_its_own_rule_for_stop(case: list[Any]) -> None:
    # Burrow says STOP if the time since the last commit exceeds the time between first and last commit.
    spans = len(case[1]) - 1
    limits = dataclasses.replace(LagSettings(), stop_min_seconds=0, stop_gaps=spans + 1e-9, window_seconds=10_000)
    expected, _ = AS_BURROW.get(case[0], (case[6].upper(), ""))
    assert judged(case, limits) == expected


@pytest.mark.parametrize("case", VECTORS["burrow"]["cases"], ids=lambda case: f"case-{case[0]}")
def test_burrows_windows_judged_our_way(case: list[Any]) -> None:
    expected, _ = BY_DEFAULT.get(case[0], (case[6].upper(), ""))
    assert judged(case, LagSettings()) == expected


@pytest.mark.parametrize("case", VECTORS["interpolation"]["cases"])
def test_times_of_offsets_as_kafka_lag_exporter_reads_them(case: dict[str, Any]) -> None:
    history = compressed((offset, time) for offset, time in case["add"])
    if "stored" in case:
        assert history == [tuple(point) for point in case["stored"]]
    for offset, time in case["lookup"].items():
        if time == "lag is zero":
            assert seconds_behind(history, int(offset), 10**6, 600) == (0.0, "exact")
        else:
            produced = produced_at(history, int(offset))
            assert produced is not None
            assert math.isclose(produced[0], time, rel_tol=1e-6)


@pytest.mark.parametrize("case", VECTORS["interpolation_datadog"]["cases"])
def test_times_of_offsets_as_datadog_reads_them(case: dict[str, Any]) -> None:
    history = [Point(int(offset), time) for offset, time in sorted(case["table"].items(), key=lambda p: int(p[0]))]
    produced = produced_at(history, case["offset"])
    assert (produced and produced[0]) == case["time"]
