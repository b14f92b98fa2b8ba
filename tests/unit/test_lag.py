"""The lag of consumer groups equals values that were calculated by hand."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.measure.lag import (
    Observation,
    PartitionLag,
    allowed_lag,
    commits_of,
    partitions_lag,
)
from clienthealth.measure.lag_state import STATE_ORDER
from clienthealth.settings import LagSettings
from tests.support.group_histories import lag_of

LIMITS = LagSettings()
GROUP = "invoices"


def seen(rows: Sequence[tuple[float, int | None, int | None]], start: int | None = 0) -> list[Observation]:
    return [(round(t * 1000), committed, end, start, None) for t, committed, end in rows]


def partition_lag(
    history: Sequence[Observation], limits: LagSettings, owned: bool = False, allowed: int = 0
) -> PartitionLag:
    where = ("orders", 0)
    limits = dataclasses.replace(limits, allowed_lag={"*": allowed})
    return partitions_lag(GROUP, {where: history}, {where} if owned else set(), limits)[where]


def reading(second: float, *partitions: dict[str, Any], members: float | None = 1.0) -> dict[str, Any]:
    return {"ts_ms": round(second * 1000), "members": members, "topics": list(partitions)}


def at(partition: int, committed: int | None, end: int | None, topic: str = "orders", **more: Any) -> dict[str, Any]:
    defaults = {"start_offset": 0, "commit_timestamp_ms": None, "member": None}
    return {
        "topic": topic,
        "partition": partition,
        "committed_offset": committed,
        "end_offset": end,
        **defaults,
        **more,
    }


def test_a_single_commit_is_unknown_and_not_stop() -> None:
    assert partition_lag(seen([(0, 100, 150), (0.001, 100, 150)]), LIMITS).state == "UNKNOWN"
    assert partition_lag(seen([(t, 100, 150 + t) for t in range(0, 120, 10)]), LIMITS).state == "UNKNOWN"


def test_a_climb_with_one_dip_is_warn() -> None:
    lags = [200_000, 210_000, 220_000, 230_000, 229_999, 240_000, 250_000, 260_000, 270_000, 280_000]
    rows = [(10.0 * i, 1000 * i, 1000 * i + lag) for i, lag in enumerate(lags)]
    assert partition_lag(seen(rows), LIMITS).state == "WARN"


def test_commits_every_minute_that_stop_are_found_in_three_minutes() -> None:
    def state_after(silent: int) -> str:
        rows = [(float(t), 100 * min(t // 60, 5), 100 * (t // 60) + 50) for t in range(0, 300 + silent + 1, 10)]
        return partition_lag(seen(rows), LIMITS).state

    assert state_after(60) == "OK"
    assert state_after(170) == "OK"
    assert state_after(180) == "STOP"


def test_a_slow_topic_is_not_stop() -> None:
    commits = [(float(t), t // 300, t // 300) for t in range(0, 900, 10)]
    lag = partition_lag(seen([*commits, (900, 2, 3)]), LIMITS)
    assert lag.records == 1
    assert lag.state in ("OK", "UNKNOWN")


def test_stop_lasts_when_the_last_commit_has_left_the_window() -> None:
    rows = [(float(t), 500, 600 + t) for t in range(0, 900, 10)]
    assert partition_lag(seen(rows), LIMITS).state == "STOP"


def test_a_member_that_gets_nowhere_is_a_stall() -> None:
    rows = [(float(t), min(t, 60), 10 + t) for t in range(0, 130, 10)]
    assert partition_lag(seen(rows), LIMITS, owned=False).state == "STOP"
    assert partition_lag(seen(rows), LIMITS, owned=True).state == "STALL"


def test_commits_of_the_same_offset_are_a_stall() -> None:
    history: list[Observation] = [(t * 1000, 70, 100 + t, 0, t * 1000) for t in range(0, 100, 10)]
    assert len(commits_of(history)) == 10
    assert partition_lag(history, LIMITS).state == "STALL"


def test_rewind_until_the_old_offset_is_reached_again() -> None:
    back = [(0.0, 1000, 2000), (10.0, 1100, 2100), (20.0, 300, 2200), (30.0, 400, 2300)]
    assert partition_lag(seen(back), LIMITS).state == "REWIND"
    assert partition_lag(seen([*back, (40.0, 1100, 2320)]), LIMITS).state != "REWIND"


def test_an_end_offset_that_stands_still_is_idle() -> None:
    assert partition_lag(seen([(float(t), 40, 50) for t in range(0, 900, 10)]), LIMITS).state == "IDLE"
    assert partition_lag(seen([(float(t), 50, 50) for t in range(0, 900, 10)]), LIMITS).state == "IDLE"
    too_short = seen([(float(t), 40, 50) for t in range(0, 60, 10)])
    assert partition_lag(too_short, LIMITS).state == "UNKNOWN"


def test_the_dead_band_is_one_message_a_second() -> None:
    def climbing(per_second: float) -> str:
        rows = [(10.0 * i, 500 * i, 500 * i + 1000 + round(10 * i * per_second)) for i in range(10)]
        return partition_lag(seen(rows), LIMITS).state

    assert climbing(1.0) == "OK"
    assert climbing(1.1) == "WARN"
    assert climbing(-5.0) == "OK"


def test_noise_is_no_climb() -> None:
    lags = [900, 200, 1500, 400, 1100, 300, 1600, 250, 1000, 1700]
    rows = [(10.0 * i, 5000 * i, 5000 * i + lag) for i, lag in enumerate(lags)]
    assert partition_lag(seen(rows), LIMITS).state == "OK"


def test_slow_but_steady_is_ok_and_allowed_lag_is_ok() -> None:
    rows = [(10.0 * i, 100 * i, 100 * i + 5000) for i in range(20)]
    assert partition_lag(seen(rows), LIMITS).state == "OK"
    climbing = seen([(10.0 * i, 100 * i, 100 * i + 100 + 50 * i) for i in range(10)])
    assert partition_lag(climbing, LIMITS, allowed=0).state == "WARN"
    assert partition_lag(climbing, LIMITS, allowed=550).state == "OK"


def test_records_seconds_age_and_retention() -> None:
    # Offset 550 was produced at second 55, five seconds before the newest sample.
    history: list[Observation] = [(t * 1000, 10 * t - 50, 10 * t, 0, t * 1000 - 2000) for t in range(10, 61, 10)]
    assert partition_lag(history, LIMITS) == PartitionLag(
        records=50,
        seconds=5.0,
        quality="interpolated",
        state="OK",
        committed_offset=550,
        end_offset=600,
        start_offset=0,
        commit_age_seconds=2.0,
        retention_used_ratio=50 / 600,
    )


def test_no_lag_is_no_seconds_exactly() -> None:
    lag = partition_lag(seen([(0, 10, 10), (10, 20, 20)]), LIMITS)
    assert (lag.records, lag.seconds, lag.quality) == (0, 0.0, "exact")


def test_seconds_are_extrapolated_ten_minutes_at_most() -> None:
    # The end offset is 1,000 at second 0, and grows by 1 per second. So offset 900 is from second -100, and offset 0 is
    # from second -1,000.
    ends = [(float(t), 1000 + t) for t in range(0, 61, 10)]
    near = partition_lag(seen([(t, 900, end) for t, end in ends]), LIMITS)
    assert (near.seconds, near.quality) == (160.0, "extrapolated")
    far = partition_lag(seen([(t, 0, end) for t, end in ends]), LIMITS)
    assert (far.seconds, far.quality) == (660.0, "extrapolated")


def test_records_that_are_gone_do_not_count_for_the_seconds() -> None:
    # Records before offset 1030 are deleted, so the oldest unread record is from second 30.
    lag = partition_lag(seen([(float(t), 0, 1000 + t) for t in range(0, 61, 10)], start=1030), LIMITS)
    assert lag.seconds == 30.0
    assert lag.retention_used_ratio == 1.0


def test_one_end_offset_gives_no_time() -> None:
    lag = partition_lag(seen([(0, 10, 20)]), LIMITS)
    assert (lag.records, lag.seconds, lag.quality, lag.state) == (10, None, "unknown", "UNKNOWN")


def test_a_recreated_topic_restarts_its_history() -> None:
    before = [(10.0 * i, 1000 + 100 * i, 1100 + 100 * i) for i in range(10)]
    stale = partition_lag(seen([*before, (100, 1900, 5)]), LIMITS)
    assert (stale.records, stale.seconds, stale.state, stale.clamped) == (0, None, "UNKNOWN", 1)
    fresh = partition_lag(seen([*before, (100, 2, 5), (110, 4, 8), (120, 6, 11)]), LIMITS)
    assert (fresh.records, fresh.state, fresh.clamped) == (5, "OK", 0)


def test_what_cannot_be_read_is_absent() -> None:
    no_end = partition_lag(seen([(0, 5, None)]), LIMITS)
    no_commit = partition_lag(seen([(0, None, 5)]), LIMITS)
    for lag in (no_end, no_commit):
        assert (lag.records, lag.seconds, lag.quality, lag.state) == (None, None, "unknown", "UNKNOWN")


def test_a_group_is_as_bad_as_its_worst_partition() -> None:
    readings = [
        reading(10.0 * i, at(0, 10 * i, 10 * i + 3), at(1, 10 * min(i, 3), 10 * i), at(2, 7, 7), members=2.0)
        for i in range(13)
    ]
    lag = lag_of(GROUP, readings, LIMITS)
    assert [(p["partition"], p["records"], p["state"]) for p in lag["lag"]] == [
        (0, 3, "OK"),
        (1, 90, "STOP"),
        (2, 0, "IDLE"),
    ]
    # Partition 1: at second 30, 90 s before the newest sample, the end offset was 30.
    assert lag["group"] == {
        "status": "STOP",
        "max_lag": 90,
        "max_lag_seconds": 90.0,
        "sum_lag": 93,
        "members": 2,
        "clamped": 0,
    }


def test_partitions_that_the_last_reading_does_not_name_are_gone() -> None:
    readings = [reading(0, at(0, 1, 1), at(1, 1, 1)), reading(10, at(1, 1, 2))]
    assert [p["partition"] for p in lag_of(GROUP, readings, LIMITS)["lag"]] == [1]


def test_a_group_without_offsets_is_unknown() -> None:
    expected = {
        "status": "UNKNOWN",
        "max_lag": None,
        "max_lag_seconds": None,
        "sum_lag": None,
        "members": 0,
        "clamped": 0,
    }
    assert lag_of(GROUP, [reading(0, members=0.0)], LIMITS) == {"lag": [], "group": expected}


def test_offsets_that_arrive_as_floating_point_numbers_leave_as_whole_ones() -> None:
    topic = at(0, 5.0, 9.0, start_offset=1.0)  # type: ignore[arg-type]
    lag = json.loads(json.dumps(lag_of(GROUP, [reading(0, topic)], LIMITS)))
    assert {key: repr(lag["lag"][0][key]) for key in ("records", "committed_offset", "end_offset", "start_offset")} == {
        "records": "4",
        "committed_offset": "5",
        "end_offset": "9",
        "start_offset": "1",
    }
    assert repr(lag["group"]["sum_lag"]) == "4"


def test_members_are_named() -> None:
    member = {"client_id": "c-1", "consumer_id": "c-1-uuid", "host": "/10.0.0.1"}
    lag = lag_of(GROUP, [reading(0, at(0, 1, 1, member=member))], LIMITS)
    assert lag["lag"][0]["member"] == member


def test_the_stop_of_a_quiet_partition_goes_by_the_groups_gap() -> None:
    readings = [reading(10.0 * i, at(0, 10 * i, 10 * i + 1), at(1, i // 20, i // 20)) for i in range(80)]
    readings += [reading(800.0 + 10 * i, at(0, 800 + i, 801 + i), at(1, 4, 5)) for i in range(7)]
    assert [p["state"] for p in lag_of(GROUP, readings, LIMITS)["lag"]] == ["OK", "STOP"]


def test_allowed_lag_by_pattern() -> None:
    patterns = (("batch-*/audit", 9), ("batch-*", 5), ("*/orders", 3))
    assert allowed_lag(patterns, "batch-1", "audit") == 9
    assert allowed_lag(patterns, "batch-1", "orders") == 5
    assert allowed_lag(patterns, "web", "orders") == 3
    assert allowed_lag(patterns, "web", "audit") == 0
    limits = dataclasses.replace(LIMITS, allowed_lag={"invoices/orders": 100})
    rows = [reading(10.0 * i, at(0, 10 * i, 20 * i)) for i in range(10)]
    assert lag_of(GROUP, rows, LIMITS)["group"]["status"] == "OK"  # the lag was 0 at the beginning
    assert lag_of(GROUP, rows[1:], LIMITS)["group"]["status"] == "OK"  # the lag grows by only one record a second
    climbing = [reading(10.0 * i, at(0, 10 * i, 30 * i)) for i in range(1, 10)]
    assert lag_of(GROUP, climbing, LIMITS)["group"]["status"] == "WARN"
    assert lag_of(GROUP, climbing[:5], limits)["group"]["status"] == "OK"


offsets = st.none() | st.integers(0, 2**62)
observations = st.lists(
    st.tuples(st.integers(1, 400_000), offsets, offsets, offsets, st.none() | st.integers(0, 2**41)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(observations, st.booleans(), st.integers(0, 1000))
def test_any_history_gives_a_finite_lag_or_an_absence(steps: list[Observation], owned: bool, allowed: int) -> None:
    now = 1_700_000_000_000
    history: list[Observation] = []
    for step, committed, end, start, commit_ts in steps:
        now += step
        history.append((now, committed, end, start, commit_ts))
    lag = partition_lag(history, LIMITS, owned=owned, allowed=allowed)
    assert lag.state in STATE_ORDER
    for figure in (lag.records, lag.seconds, lag.commit_age_seconds, lag.retention_used_ratio):
        assert figure is None or (math.isfinite(figure) and figure >= 0)
    assert (lag.seconds is None) == (lag.quality == "unknown")
    if lag.seconds is not None:
        assert lag.seconds <= (history[-1][0] - history[0][0]) / 1000 + LIMITS.max_extrapolation_seconds


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=90))
def test_a_flat_end_never_looks_stopped(commits: list[int]) -> None:
    committed = 0
    history: list[Observation] = []
    for position, progress in enumerate(commits):
        committed = min(5000, committed + progress)
        history.append((position * 30_000, committed, 5000, 0, None))
    assert partition_lag(history, LIMITS).state == "IDLE"
