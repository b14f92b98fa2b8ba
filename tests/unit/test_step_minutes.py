"""Each finished minute of each client is written to the history exactly once."""

from __future__ import annotations

from collections import Counter
from functools import cache

import msgspec
import pytest

from clienthealth.model.telemetry import Snapshot, TopicMetrics
from tests.support.stepped import START, Stepped, logged, snapshot

CLIENTS = {"a": 1, "b": 10, "c": 60}
SECONDS = 15 * 60


def minutes_of() -> list[Snapshot]:
    return [
        snapshot(
            second,
            {"select-total": second, "buffer-total-bytes": 100, "buffer-available-bytes": 100 - second // 60},
            name,
            instance=f"h:{name}",
            every=every,
        )
        for second in range(SECONDS)
        for name, every in CLIENTS.items()
        if second % every == 0
    ]


def later(after: float) -> list[Snapshot]:
    return [snapshot(SECONDS + after + n, {"select-total": 1}, "z", instance="h:z") for n in range(20)]


@cache
def rows(seconds: float) -> list[dict[str, object]]:
    monitor = Stepped()
    monitor.batches(minutes_of(), seconds)
    for after in range(1800, 2101, 60):
        monitor.batch(later(after), SECONDS + after + 60)
    mine = [row for row in monitor.minutes if row["client_id"] != "z"]
    return sorted(mine, key=lambda row: (row["client_id"], row["minute"]))


ONE_BATCH = 3600


def test_every_minute_of_every_client_is_written_once() -> None:
    counts = Counter((row["client_id"], row["minute"]) for row in rows(ONE_BATCH))
    assert counts == Counter((name, START + 60_000 * n) for name in CLIENTS for n in range(15))


def test_the_content_of_a_minute() -> None:
    (row,) = (row for row in rows(ONE_BATCH) if row["client_id"] == "a" and row["minute"] == START + 120_000)
    assert (row["samples"], row["kind"], row["service"], row["instance"]) == (60, "producer", "shop", "h:a")
    assert row["buffer_used_ratio_max"] == pytest.approx(0.02)
    assert row["status"] == "partial"


def test_a_minute_in_which_a_gate_suspects_and_its_judge_does_not_know_is_not_ok() -> None:
    monitor = Stepped()
    polls = {"assigned-partitions": 2, "records-consumed-total": 5, "records-lag-max": 9}
    monitor.batch(
        [snapshot(n, {**polls, "last-poll-seconds-ago": max(1, n - 60)}, "c", "consumer") for n in range(0, 125, 5)],
        130,
    )
    record = monitor.records["shop|h:1|c"]
    stalled = next(verdict for verdict in record["verdicts"] if verdict["mode"] == "consumer-stalled")
    assert stalled["status"] == "unknown" and stalled["reason"].startswith("the application has not called poll()")
    for after in range(0, 301, 60):
        monitor.batch(later(after), SECONDS + after + 60)
    by_minute = {row["minute"]: row["status"] for row in monitor.minutes if row["client_id"] == "c"}
    assert by_minute[START + 60_000] != "ok" == by_minute[START]


@pytest.mark.parametrize("seconds", [7, 20, 200])
def test_the_rows_are_the_same_in_batches_of_any_length(seconds: float) -> None:
    assert rows(seconds) == rows(ONE_BATCH)


def test_minutes_of_clients_that_fall_silent_with_all_others_are_written_though_nothing_comes_after() -> None:
    """Records may be 120 s late, and batches come every 15 s."""
    monitor = Stepped()
    monitor.batches(minutes_of(), 10)
    assert len(monitor.minutes) == 3 * 12
    wrote = {second: len(monitor.batch([], SECONDS + second).minutes) for second in range(0, 300, 15)}
    # Minutes that end at 780, 840 and 900 s are not written yet.
    assert {second: n for second, n in wrote.items() if n} == {15: 2, 60: 1, 75: 2, 120: 1, 135: 2, 180: 1}
    assert Counter((row["client_id"], row["minute"]) for row in monitor.minutes) == Counter(
        (name, START + 60_000 * n) for name in CLIENTS for n in range(15)
    )
    again = [snapshot(SECONDS - 60 + s, {"select-total": s}, "b", instance="h:b") for s in range(5, 240, 10)]
    monitor.batch(again, SECONDS + 320)
    monitor.batch([], SECONDS + 330)
    for second in range(345, 700, 15):
        monitor.batch([], SECONDS + second)
    minutes_of_b = Counter(row["minute"] for row in monitor.minutes if row["client_id"] == "b")
    assert minutes_of_b == Counter(START + 60_000 * n for n in range(18))
    assert monitor.minutes[-1]["samples"] == 6


def test_the_last_minute_of_a_group_is_written_though_nothing_comes_after() -> None:
    monitor = Stepped()
    monitor.batches(readings_of_a_group()[:30], 10)
    assert [row["minute"] for row in monitor.minutes] == [START + 60_000 * n for n in range(4)]
    (second,) = (second for second in range(300, 700, 15) if monitor.batch([], second).minutes)
    # At second 300, the newest sample is 10 s old. Samples may arrive 120 s late. So the minute that ends at second 300
    # is complete at second 430. The next batch is at second 435.
    assert second == 435
    monitor.batch(readings_of_a_group()[24:37], 700)
    for second in range(715, 1000, 15):
        monitor.batch([], second)
    assert [row["minute"] for row in monitor.minutes] == [START + 60_000 * n for n in range(7)]


def readings_of_a_group() -> list[Snapshot]:
    offsets = {"end-offset": 50.0, "start-offset": 0.0}
    return [
        snapshot(
            second,
            {"members": 2},
            "billing",
            "group",
            topics=[TopicMetrics("orders", 0, metrics={"committed-offset": float(second), **offsets})],
        )
        for second in range(0, 45 * 60, 10)
    ]


@pytest.mark.parametrize("seconds", [10, 70, 1200, ONE_BATCH])
def test_a_group_s_minutes_are_the_same_in_batches_of_any_length(seconds: float) -> None:
    monitor = Stepped()
    monitor.batches(readings_of_a_group(), seconds)
    samples = {(row["minute"] - START) // 60_000: row["samples"] for row in monitor.minutes}
    offset = START // 1000 % 300
    windows = {minute: (minute * 60 + offset) // 300 * 300 + 300 - 900 - offset for minute in range(44)}
    assert samples == {minute: 6 * (minute + 1) - max(0, begin) // 10 for minute, begin in windows.items()}


@pytest.mark.parametrize("seconds", [10, 60, 450, ONE_BATCH])
@pytest.mark.parametrize("host", ["h", ""])
def test_lines_on_a_known_issue_count_in_the_minute_of_their_time(seconds: float, host: str) -> None:
    metrics = {"select-total": 1, "buffer-total-bytes": 100, "buffer-available-bytes": 100}
    samples = [snapshot(second, metrics, host=host) for second in range(5, 300, 10)]
    others = [snapshot(second, metrics, "z", instance="i:1", host="i") for second in range(5, 900, 10)]
    lines = [logged(second, "topic-unknown", "p") for second in range(20, 296, 2)]
    if not host:
        lines = [msgspec.structs.replace(entry, host="h:1") for entry in lines]
    monitor = Stepped()
    monitor.batches([*samples, *others, *lines], seconds)
    for second in range(910, 1500, 10):
        monitor.batch([snapshot(second, metrics, "z", instance="i:1", host="i")], second)
    counts = {
        (row["minute"] - START) // 60_000: [(one["what"], one["lines"]) for one in row.get("also_seen", [])]
        for row in monitor.minutes
        if row["client_id"] == "p"
    }
    # The client logs one line every 2 s from second 20 to second 294.
    assert counts == {minute: [("unknown-topic", lines)] for minute, lines in enumerate([20, 30, 30, 30, 28])}
