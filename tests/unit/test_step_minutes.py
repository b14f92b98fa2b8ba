"""Minutes of the history: each finished one of every client exactly once, however the records come."""

from __future__ import annotations

from collections import Counter

import pytest

from clienthealth.model.telemetry import Snapshot, TopicMetrics
from tests.support.stepped import START, Stepped, snapshot

CLIENTS = {"a": 1, "b": 10, "c": 60}
SECONDS = 15 * 60


def minutes_of() -> list[Snapshot]:
    """Three clients in a quarter of an hour, a reading every 1, 10 and 60 s."""
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
    """Somebody else reports for a while."""
    return [snapshot(SECONDS + after + n, {"select-total": 1}, "z", instance="h:z") for n in range(20)]


def rows(seconds: float) -> list[dict[str, object]]:
    monitor = Stepped()
    monitor.batches(minutes_of(), seconds)
    # Nobody was heard of for half an hour; then all of them have gone, and all their minutes are over.
    for after in range(1800, 2101, 60):
        monitor.batch(later(after), SECONDS + after + 60)
    mine = [row for row in monitor.minutes if row["client_id"] != "z"]
    return sorted(mine, key=lambda row: (row["client_id"], row["minute"]))


ONE_BATCH = 3600


def test_every_minute_of_every_client_is_written_once() -> None:
    counts = Counter((row["client_id"], row["minute"]) for row in rows(ONE_BATCH))
    assert counts == Counter((name, START + 60_000 * n) for name in CLIENTS for n in range(15))


def test_what_a_minute_says() -> None:
    (row,) = (row for row in rows(ONE_BATCH) if row["client_id"] == "a" and row["minute"] == START + 120_000)
    assert (row["samples"], row["kind"], row["service"], row["instance"]) == (60, "producer", "shop", "h:a")
    assert row["buffer_used_ratio_max"] == pytest.approx(0.02)
    # It does not count what it sent, so that only the deadlock could be judged.
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


@pytest.mark.parametrize("seconds", [3, 20, 200])
def test_the_rows_are_the_same_in_batches_of_any_length(seconds: float) -> None:
    assert rows(seconds) == rows(ONE_BATCH)


def readings_of_a_group() -> list[Snapshot]:
    """Three quarters of an hour of a consumer group, of which the lag is looked at over a quarter."""
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
    # Lag windows begin every five minutes: the one that holds a minute and ends next reaches back ten to fifteen.
    offset = START // 1000 % 300
    windows = {minute: (minute * 60 + offset) // 300 * 300 + 300 - 900 - offset for minute in range(44)}
    assert samples == {minute: 6 * (minute + 1) - max(0, begin) // 10 for minute, begin in windows.items()}
