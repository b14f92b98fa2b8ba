"""A wrong clock of one client is reported, and affects no other client."""

from __future__ import annotations

import re

import pytest

from tests.support.stepped import Stepped, snapshot
from tests.unit.test_step_time import by_batch, honest, in_order, metrics


@pytest.mark.parametrize(
    ("ahead", "text"),
    [
        (240, r"clock ahead by 2[34]\d s"),
        (-600, r"clock behind by (59|60)\d s, or samples arrive (59|60)\d s late"),
        (45, None),
        (-45, None),
    ],
)
def test_the_record_and_the_minutes_of_a_client_contain_its_clock_skew(ahead: int, text: str | None) -> None:
    usual = by_batch(honest(600))
    wrong = by_batch(
        [snapshot(s + ahead, metrics(s), "wrong", instance="h:w", host="hw") for s in range(0, 600, 10)], ahead
    )
    monitor = Stepped()
    for n in range(60):
        monitor.batch(in_order(usual.get(n, []) + wrong.get(n, [])), 10.0 * (n + 1))
    clocks = {key: record["indicators"].get("clock") for key, record in monitor.records.items()}
    mine = clocks.pop("shop|h:w|wrong")
    assert set(clocks.values()) == {None}
    assert (mine is None) == (text is None)
    if text is not None:
        assert re.fullmatch(text, mine["text"])
    minutes = [row for row in monitor.minutes if row["client_id"] == "wrong"]
    assert minutes
    skews = {row.get("clock_skew_seconds") for row in minutes[1:]}
    if text is None:
        assert skews == {None}
    else:
        assert all(abs((skew or 0) - ahead) <= 10 for skew in skews)
        assert abs(mine["skew_seconds"] - ahead) <= 10
    assert not any("clock_skew_seconds" in row for row in monitor.minutes if row["client_id"] != "wrong")
    assert monitor.published[-1].skewed == (text is not None)


def test_a_client_alone_on_its_topic_is_measured_by_the_clock_of_this_machine() -> None:
    monitor = Stepped()
    for n in range(12):
        monitor.batch([snapshot(10 * n + 200, metrics(n), "alone")], 10 * n + 1)
    assert monitor.records["shop|h:1|alone"]["indicators"]["clock"]["text"] == "clock ahead by 199 s"


def test_a_client_gone_within_a_long_backlog_has_no_wrong_clock() -> None:
    early = [
        snapshot(s, metrics(s), f"early-{n}", instance=f"h:e{n}", host=f"e{n}") for n in range(4) for s in (0, 15, 30)
    ]
    later = [
        snapshot(s, metrics(s), f"later-{n}", instance=f"h:l{n}", host=f"l{n}")
        for n in range(5)
        for s in range(100, 220, 10)
    ]
    monitor = Stepped()
    monitor.batch(sorted(early + later, key=lambda one: one.ts_ms or 0), 220)
    monitor.batch([snapshot(s, metrics(s), "later-0", instance="h:l0", host="l0") for s in (230, 240, 300)], 300)
    assert [key for key, record in monitor.records.items() if record["indicators"].get("clock")] == []
    assert not any(row.get("clock_skew_seconds") for row in monitor.minutes)
