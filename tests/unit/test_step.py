"""The monitor's step assigns log lines to clients. No client's fault affects another client."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
from typing import Any

import pytest

from clienthealth.model.clients import key_parts
from clienthealth.model.telemetry import Snapshot
from tests.support.stepped import SETTINGS, START, Stepped, logged, snapshot


@pytest.mark.parametrize("parts", [("a|b", "c", "d"), ("a", "b|c", "d"), ("a\\", "|b", "c|"), ("a\\|", "b\\\\", "|")])
def test_bars_and_backslashes_in_names_keep_clients_apart(parts: tuple[str, str, str]) -> None:
    service, instance, client_id = parts
    monitor = Stepped()
    monitor.batch([snapshot(s, {"select-total": s}, client_id, service=service, instance=instance) for s in (0, 10)])
    ((key, record),) = monitor.records.items()
    assert key_parts(key) == parts
    client = record["client"]
    assert (client["service"], client["instance"], client["client_id"]) == parts


def test_names_that_join_to_the_same_text_are_two_clients() -> None:
    monitor = Stepped()
    monitor.batch(
        [snapshot(0, {}, "c", service="a|b", instance="x"), snapshot(0, {}, "c", service="a", instance="b|x")]
    )
    assert sorted(monitor.records) == ["a\\|b|x|c", "a|b\\|x|c"]


def evidence(monitor: Stepped, client_id: str) -> int:
    return sum(len(window.logs) for window in monitor.clients[client_id].windows if window.start_ms == START)


def test_two_clients_of_a_process_are_distinguished_and_a_nameless_line_is_of_all_of_its_kind() -> None:
    monitor = Stepped()
    monitor.batch(
        [
            *(snapshot(0, {"select-total": 1}, name) for name in ("p", "q")),
            snapshot(0, {"records-lag-max": 1}, "c", "consumer"),
            logged(1, client_id="q"),
            logged(2),
        ]
    )
    assert {name: evidence(monitor, name) for name in ("p", "q", "c")} == {"p": 1, "q": 2, "c": 0}


def test_values_that_are_none_are_not_known() -> None:
    monitor = Stepped()
    odd = {"select-total": float("inf"), "waiting-threads": -1.0, "metadata-age": float("nan"), "requests-in-flight": 2}
    monitor.batch([snapshot(0, odd)])
    (reading,) = monitor.clients["p"].readings
    assert dict(reading.metrics) == {"requests-in-flight": 2.0}
    assert dataclasses.replace(reading, metrics={}).ts_ms == START


def working(second: float, **other: float) -> Snapshot:
    sent = {name: 100 * second for name in ("select-total", "record-send-total", "record-ack-total")}
    buffer = {"buffer-total-bytes": 1000, "buffer-available-bytes": 1000, "waiting-threads": 0, "metadata-age": 1}
    return snapshot(second, {**sent, **buffer, **{name.replace("_", "-"): value for name, value in other.items()}})


def standing(second: float) -> Snapshot:
    return snapshot(second, {**working(300).metrics, "buffer-available-bytes": 0, "waiting-threads": 2})


FATE = [*map(working, range(0, 310, 10)), *map(standing, range(310, 420, 10))]


def published(every: int, repeated: bool = False) -> tuple[list[int], list[tuple[int, Any]]]:
    monitor = Stepped(
        dataclasses.replace(SETTINGS, monitor=dataclasses.replace(SETTINGS.monitor, publish_seconds=every))
    )
    seconds: list[int] = []
    changes: list[tuple[int, Any]] = []
    for second, sample in zip(range(0, 420, 10), FATE, strict=True):
        if repeated and second:
            before = copy.deepcopy(monitor._kept)
            lost = monitor.batch([sample], second + 1).records
            monitor._kept, monitor._state, monitor._offset = before, None, monitor._offset - 1
            assert monitor.batch([sample], second + 1).records == lost
        else:
            monitor.batch([sample], second + 1)
        for _, value in monitor.published[-1].records:
            seconds.append(second)
            verdicts = json.loads(value or b"null")["verdicts"]
            changes += [(second, verdicts)] if not changes or changes[-1][1] != verdicts else []
    return seconds, changes


def test_measurements_are_published_every_15_seconds_and_a_new_verdict_at_once() -> None:
    every_sample, changes = published(0)
    assert every_sample == [*range(0, 420, 10)]
    assert {verdict["status"] for verdict in changes[-1][1]} & {"suspected", "confirmed"}
    seconds, same_changes = published(15)
    assert same_changes == changes
    assert seconds == [s for s in every_sample if s in seconds]
    healthy = [second for second in seconds if 100 <= second <= 300]
    assert {later - earlier for earlier, later in itertools.pairwise(healthy)} == {20}


def test_nothing_is_lost_when_a_monitor_ends_between_two_publications() -> None:
    assert published(15, repeated=True) == published(15)
