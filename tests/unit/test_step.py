"""Test the step: identities of clients, attribution of log lines, and that a fault of one client affects no other."""

from __future__ import annotations

import dataclasses

import pytest

from clienthealth.model.clients import key_parts
from tests.support.stepped import START, Stepped, logged, snapshot


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
