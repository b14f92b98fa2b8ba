"""Faults where readings and lines enter a bucket: they cost whom they concern, are told, and nobody else."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from clienthealth.model.readings import Source
from clienthealth.step import process_log, readings
from tests.support.stepped import Stepped, logged, snapshot


def test_a_client_whose_readings_cannot_be_entered_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered = readings._numbered

    def numbered(state: Any, whos: Any, numbers: Any) -> Any:
        if any(who.client_id == "bad" for who in whos):
            raise ZeroDivisionError("absurd reading")
        return entered(state, whos, numbers)

    monitor = Stepped()
    names = [*(f"p{n}" for n in range(9)), "bad"]
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(readings, "_numbered", numbered)
        for second in (0, 10):
            published = monitor.batch([snapshot(second, {"select-total": second}, name) for name in names], second + 1)
            (fault,) = published.faults
            assert (fault.client.key, fault.reason) == (
                "shop|h:1|bad",
                "step-failed: ZeroDivisionError: absurd reading",
            )
            assert fault.source == Source("client-metrics", 0, 9 + second)
    assert sorted(monitor.clients) == [f"p{n}" for n in range(9)]
    assert all(len(client.readings) == 2 for client in monitor.clients.values())
    assert set(monitor.state.readings.who.tolist()) == set(range(9))
    # Once with its traceback, not once for each batch.
    assert [record.getMessage() for record in caplog.records] == ["a client cannot be judged: absurd reading"]
    assert caplog.records[0].exc_info
    # Whole again when its readings are.
    monitor.batch([snapshot(20, {"select-total": 20}, name) for name in names], 21)
    assert "bad" in monitor.clients


@pytest.mark.parametrize("where", ["_sample", "_remember"])
def test_a_process_whose_lines_cannot_be_entered_costs_no_other(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = getattr(process_log, where)

    def broken(*given: Any) -> Any:
        if given[-1].host == "bad":
            raise ValueError("absurd line")
        return honest(*given)

    monkeypatch.setattr(process_log, where, broken)
    monitor = Stepped()
    lines = [logged(n, client_id="p") for n in range(5)]
    for line in lines[3:]:
        line.host = "bad"
    published = monitor.batch([snapshot(0, {"select-total": 1}), *lines], 10)
    assert [(fault.client.host, fault.reason) for fault in published.faults] == [
        ("bad", "step-failed: ValueError: absurd line")
    ]
    assert [entry.host for entry in monitor.state.log_entries] == ["h"] * 3
    assert list(monitor.records) == ["shop|h:1|p"]


def test_lines_that_cannot_be_looked_at_do_not_keep_a_client_from_being_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def about(self: Any, who: Any) -> Any:
        if who.host == "bad":
            raise RuntimeError("absurd window")
        return (), (), ()

    monkeypatch.setattr(process_log.ProcessLog, "about", about)
    monitor = Stepped()
    line = logged(2)
    line.host = "bad"
    both = [
        snapshot(s, {"select-total": s}, f"on-{host}", instance=f"{host}:1", host=host)
        for s in (0, 10)
        for host in ("h", "bad")
    ]
    published = monitor.batch([*both, logged(1), line], 11)
    assert [(fault.client.host, fault.reason) for fault in published.faults] == [
        ("bad", "step-failed: RuntimeError: absurd window")
    ]
    assert sorted(monitor.records) == ["shop|bad:1|on-bad", "shop|h:1|on-h"]
    assert [entry.host for entry in monitor.state.log_entries] == ["h"]
