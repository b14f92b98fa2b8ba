"""The monitor's step handles late samples, wrong clocks, and clients that leave and return."""

from __future__ import annotations

import json
from functools import cache

import pytest

from clienthealth.model.telemetry import Snapshot
from clienthealth.monitor.readings import intervals
from clienthealth.monitor.step import Published
from tests.support.rows import long_after
from tests.support.stepped import START, Stepped, snapshot

HONEST = [f"client-{n}" for n in range(20)]


def metrics(second: float) -> dict[str, float]:
    return {
        "select-total": 100 * second + 100_000,
        "io-time-ns-total": 1e8 * (second + 10_000),
        "io-wait-time-ns-total": 9e8 * (second + 10_000),
        "record-send-total": 50 * second + 500_000,
        "buffer-total-bytes": 1000,
        "buffer-available-bytes": 900,
        "waiting-threads": 0,
        "metadata-age": 10,
    }


def honest(until: int, begin: int = 0) -> list[Snapshot]:
    return [
        snapshot(second + n % 10, metrics(second), name, instance=f"h:{n}", host=f"h{n}")
        for second in range(begin, until, 10)
        for n, name in enumerate(HONEST)
    ]


def stepped(by_second: dict[int, list[Snapshot]], batches: range) -> tuple[Stepped, list[Published]]:
    monitor = Stepped()
    return monitor, [monitor.batch(by_second.get(n, []), 10.0 * (n + 1)) for n in batches]


def in_order(snapshots: list[Snapshot]) -> list[Snapshot]:
    return sorted(snapshots, key=lambda one: (one.ts_ms or 0) % 10_000)


def by_batch(snapshots: list[Snapshot], ahead: int = 0) -> dict[int, list[Snapshot]]:
    batches: dict[int, list[Snapshot]] = {}
    for one in snapshots:
        assert one.ts_ms is not None
        batches.setdefault((one.ts_ms - START - 1000 * ahead) // 10_000, []).append(one)
    return batches


def records_of_the_honest(published: list[Published]) -> list[list[tuple[str, bytes | None]]]:
    return [[record for record in one.records if "wrong" not in record[0]] for one in published]


@cache
def undisturbed() -> list[Published]:
    return stepped({n: in_order(of) for n, of in by_batch(honest(600)).items()}, range(60))[1]


@pytest.mark.parametrize("ahead", long_after(2, [295, -7200, -31, 59]))
def test_one_wrong_clock_changes_nothing_for_twenty_honest_clients(ahead: int) -> None:
    usual, last = by_batch(honest(600)), range(60)
    wrong = by_batch(
        [snapshot(s + ahead, metrics(s), "wrong", instance="h:w", host="hw") for s in range(0, 600, 10)], ahead
    )
    both = {n: in_order(usual.get(n, []) + wrong.get(n, [])) for n in last}
    without = undisturbed()
    monitor, published = stepped(both, last)
    assert [p.late for p in published] == [0] * len(last)
    assert not [change for p in published for change in p.changes]
    assert all(not json.loads(value).get("departed") for p in published for _, value in p.records if value)
    assert records_of_the_honest(published) == records_of_the_honest(without)
    minutes = [[row for row in p.minutes if row["client_id"] != "wrong"] for p in published]
    assert minutes == [p.minutes for p in without]
    assert len(monitor.state.all_clients) == 21


def test_what_no_window_is_open_for_is_counted_as_late() -> None:
    monitor = Stepped()
    monitor.batch([snapshot(s, metrics(s)) for s in range(0, 300, 10)], 300)
    # The newest sample is from second 290. Windows close 120 s after their end, so all windows up to second 170 are
    # closed. The samples of the seconds 61, 81 and 111 are only in closed windows, so these three samples are late.
    published = monitor.batch([snapshot(s + 1, metrics(s)) for s in (60, 80, 110, 120, 200)], 301)
    assert published.late == 3
    kept = [(reading.ts_ms - START) // 1000 for reading in monitor.clients["p"].readings]
    assert [second for second in kept if second % 10] == [121, 201]


def departures(published: list[Published]) -> list[str]:
    return [key for p in published for key, value in p.records if value and json.loads(value).get("departed")]


@pytest.mark.parametrize(("every", "gap"), [(1, 45), (10, 45), (20, 60), (300, 900)])
def test_a_client_departs_after_its_gap_and_a_watermark_and_not_before(every: int, gap: int) -> None:
    monitor = Stepped()
    times = [s for s in range(-900, 1, every)]
    monitor.batch([snapshot(s, metrics(s), "gone", instance="h:g", host="hg", every=every) for s in times], 1)
    for second in sorted({*range(1, gap + 20, max(1, gap // 60)), gap + 19}):
        published = monitor.batch([snapshot(second, metrics(second), "there", every=1)], second)
        assert departures([published]) == []
    (key,) = departures([monitor.batch([snapshot(gap + 20, metrics(1), "there", every=1)], gap + 20)])
    assert key == "shop|h:g|gone"
    record = monitor.records[key]
    assert record["last_seen"] == START
    assert {v["mode"] for v in record["verdicts"]} == {"producer-not-closed"}
    assert list(monitor.clients) == ["there"]


def test_a_client_that_returns_withdraws_its_departure() -> None:
    full = {"buffer-total-bytes": 32 << 20, "buffer-available-bytes": 16 << 20}
    monitor = Stepped()
    monitor.batch([snapshot(s, metrics(s) | full, "gone", instance="h:g", host="hg") for s in range(-60, 1, 10)], 1)
    for second in range(10, 90, 10):
        monitor.batch([snapshot(second, metrics(second), "there")], second)
    opened = [(c.client.client_id, c.verdict.mode, c.change) for p in monitor.published for c in p.changes]
    assert opened == [("gone", "producer-not-closed", "opened")]
    published = [
        monitor.batch([snapshot(s, metrics(s), "gone", instance="h:g", host="hg"), snapshot(s, metrics(s), "there")], s)
        for s in range(90, 200, 10)
    ]
    assert [(c.client.client_id, c.verdict.mode, c.change) for p in published for c in p.changes] == [
        ("gone", "producer-not-closed", "withdrawn")
    ]
    assert departures(published) == []
    assert not monitor.records["shop|h:g|gone"].get("departed")


def test_how_often_a_slow_reporter_reports_is_the_middle_of_its_gaps_and_others_are_believed() -> None:
    times = {
        "reports 10, gaps 30 31 90": (10, [0, 30, 61, 151]),
        "reports 10, gaps 20 50": (10, [0, 20, 70]),
        "reports 60, gaps 10 10 10 300": (60, [0, 10, 20, 30, 330]),
        "reports 60, too few": (60, [0, 10]),
        "reports 10, gaps 10 11": (10, [0, 10, 21]),
    }
    monitor = Stepped()
    monitor.batch([snapshot(s, metrics(s), name, every=every) for name, (every, at) in times.items() for s in at], 400)
    every_ms = dict(
        zip((client.client_id for client in monitor.state.all_clients), intervals(monitor.state).tolist(), strict=True)
    )
    assert {name: every_ms[name] / 1000 for name in times} == dict(zip(times, [31, 35, 10, 60, 10], strict=True))


@pytest.mark.parametrize("every", [60, 300])
def test_a_slow_reporter_is_judged_over_four_of_its_intervals(every: int) -> None:
    monitor = Stepped()
    stuck = metrics(0) | {"waiting-threads": 3, "buffer-available-bytes": 0}
    for n in range(12):
        reported = stuck | {"metadata-age": n * every} if n > 3 else metrics(n * every)
        monitor.batch([snapshot(n * every, reported, every=every)], n * every + 1)
    record = monitor.records["shop|h:1|p"]
    assert record["window_end"] - record["window_start"] == 4000 * every
    assert record["samples"] >= 3
    (verdict,) = (v for v in record["verdicts"] if v["mode"] == "producer-callback-deadlock")
    assert verdict["status"] != "unknown"
    healthy = Stepped()
    for n in range(12):
        healthy.batch([snapshot(n * every, metrics(n * every), every=every)], n * every + 1)
    statuses = {v["mode"]: v["status"] for v in healthy.records["shop|h:1|p"]["verdicts"]}
    assert (statuses["producer-callback-deadlock"], statuses["send-blocked-on-metadata"]) == ("ok", "ok")
