"""The step: who is who, what is said of whom, and a fault for one client that costs nobody else anything."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest

from clienthealth.adjust import Context
from clienthealth.decode import key_parts
from clienthealth.judging import gate, judge_windows
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import LiveMode, Mode
from clienthealth.step import Published, departures, judgement, minutes
from clienthealth.streaming.stepping import REJECT, _rows
from clienthealth.windows.client_window import ClientWindow
from clienthealth.windows.view import Windows
from tests.support.stepped import START, Stepped, logged, snapshot


@pytest.mark.parametrize("parts", [("a|b", "c", "d"), ("a", "b|c", "d"), ("a\\", "|b", "c|"), ("a\\|", "b\\\\", "|")])
def test_bars_and_backslashes_in_names_keep_clients_apart(parts: tuple[str, str, str]) -> None:
    service, instance, client_id = parts
    monitor = Stepped()
    monitor.batch([snapshot(s, {"select-total": s}, client_id, service=service, instance=instance) for s in (0, 10)])
    ((key, record),) = monitor.records.items()
    assert key_parts(key) == parts
    who = record["client"]
    assert (who["service"], who["instance"], who["client_id"]) == parts


def test_names_that_join_to_the_same_text_are_two_clients() -> None:
    monitor = Stepped()
    monitor.batch(
        [snapshot(0, {}, "c", service="a|b", instance="x"), snapshot(0, {}, "c", service="a", instance="b|x")]
    )
    assert sorted(monitor.records) == ["a\\|b|x|c", "a|b\\|x|c"]


def evidence(monitor: Stepped, client_id: str) -> int:
    return sum(len(window.logs) for window in monitor.clients[client_id].windows if window.start_ms == START)


def test_two_clients_of_a_process_are_told_apart_and_a_nameless_line_is_of_all_of_its_kind() -> None:
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


def of_ten(monitor: Stepped, begin: int, end: int, *bad: str) -> None:
    """A batch with readings of ten producers; those in `bad` tell of 666 waiting threads."""
    monitor.batch(
        [
            snapshot(
                s,
                {
                    "select-total": s + 1,
                    "buffer-total-bytes": 100,
                    "buffer-available-bytes": 90,
                    "waiting-threads": 666 if f"p{n}" in bad else 0,
                },
                f"p{n}",
            )
            for s in range(begin, end, 10)
            for n in range(10)
        ],
        end,
    )


def broken_gate(mode: LiveMode[Any], w: Windows) -> Any:
    """A gate with a fault that shows for some data only."""
    if (w.max("waiting-threads") == 666).any():
        raise ZeroDivisionError("absurd")
    return gate(mode, w)


def test_a_fault_of_a_gate_for_one_client_sends_it_to_the_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor, well = Stepped(), Stepped()
    of_ten(monitor, 0, 60)
    of_ten(well, 0, 60)
    monkeypatch.setattr(judgement, "gate", broken_gate)
    of_ten(monitor, 60, 90, "p3")
    of_ten(well, 60, 90)
    (fault,) = monitor.published[-1].faults
    assert fault.client.client_id == "p3"
    assert fault.reason == "step-failed: ZeroDivisionError: absurd"
    # Six readings of ten clients before, and 33 since: the last of p3 is the 84th, counted from 0.
    assert fault.source == Source("client-metrics", 0, 83)
    kept = [record for record in well.published[-1].records if "p3" not in record[0]]
    assert sorted(monitor.published[-1].records) == sorted(kept)
    assert sorted(monitor.clients) == [f"p{n}" for n in range(10) if n != 3]
    of_ten(monitor, 90, 100)
    assert monitor.published[-1].faults == []
    assert len(monitor.published[-1].records) == 10


def test_a_fault_of_a_judge_is_one_of_its_client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(mode: Mode, window: ClientWindow, known: Context) -> Verdict:
        if window.client.client_id == "p3":
            raise KeyError("no such thing")
        return mode.judge(window, mode.thresholds)

    monkeypatch.setattr(judgement, "verdict", judge)
    monitor = Stepped()
    monitor.batch([*(snapshot(s, {"select-total": s}, f"p{n}") for s in (0, 10) for n in range(5)), logged(3)])
    (fault,) = monitor.published[-1].faults
    assert (fault.client.client_id, fault.reason) == ("p3", "step-failed: KeyError: 'no such thing'")
    assert sorted(monitor.records) == [f"shop|h:1|p{n}" for n in (0, 1, 2, 4)]


def test_a_fault_with_what_a_silent_process_said_is_told_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(mode: Mode, window: ClientWindow, known: Context) -> Verdict:
        raise RuntimeError("oops")

    monitor = Stepped()
    with monkeypatch.context() as patched:
        patched.setattr(judgement, "verdict", judge)
        monitor.batch([snapshot(0, {"select-total": 1}, service="other"), logged(3)])
    (fault,) = monitor.published[-1].faults
    assert (fault.client.key, fault.source) == ("shop|h|", Source("client-logs", 0, 3000))
    assert monitor.state.log_entries == []
    assert list(monitor.records) == ["other|h:1|p"]


def test_a_fault_of_a_minute_or_of_a_departure_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Stepped()
    of_ten(monitor, 0, 60, "p3")
    with monkeypatch.context() as patched:
        patched.setattr(minutes, "gate", broken_gate)
        left = only_z_goes_on(monitor)
    assert {fault.client.client_id for one in left for fault in one.faults} == {"p3"}
    told_of = {row["client_id"] for one in left for row in one.minutes}
    assert told_of - {"z"} == {f"p{n}" for n in range(10) if n != 3}
    assert list(monitor.clients) == ["z"]


def test_a_fault_of_a_departure_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(windows: Any, *more: Any, **options: Any) -> Any:
        if windows[-1].client.client_id == "p3":
            raise ValueError("absurd")
        return judge_windows(windows, *more, **options)

    monkeypatch.setattr(departures, "judge_windows", judge)
    monitor = Stepped()
    of_ten(monitor, 0, 60)
    left = only_z_goes_on(monitor)
    assert [fault.client.client_id for one in left for fault in one.faults] == ["p3"]
    gone = [key for one in left for key, value in one.records if value and json.loads(value).get("departed")]
    assert sorted(gone) == [f"shop|h:1|p{n}" for n in range(10) if n != 3]


def only_z_goes_on(monitor: Stepped) -> list[Published]:
    """Until all others are missed: a silence that all shared would be counted against nobody."""
    for second in range(90, 420, 30):
        monitor.batch([snapshot(second, {"select-total": 1}, "z", instance="h:z")], second)
    return monitor.published[-11:]


def test_faults_become_rejects_that_name_their_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "gate", broken_gate)
    monitor = Stepped()
    of_ten(monitor, 0, 30, "p3")
    ((_, key, value, headers),) = (row for row in _rows(monitor.published[-1], 0, 10) if row[0] == REJECT)
    assert (key, value) == (b"shop|h:1|p3", None)
    assert {h["key"]: base64.b64decode(h["value"]).decode() for h in json.loads(headers or "")} == {
        "reject_reason": "step-failed: ZeroDivisionError: absurd",
        "source_topic": "client-metrics",
        "source_partition": "0",
        "source_offset": "23",
    }


def test_values_that_are_none_are_not_known() -> None:
    monitor = Stepped()
    odd = {"select-total": float("inf"), "waiting-threads": -1.0, "metadata-age": float("nan"), "requests-in-flight": 2}
    monitor.batch([snapshot(0, odd)])
    (reading,) = monitor.clients["p"].readings
    assert dict(reading.metrics) == {"requests-in-flight": 2.0}
    assert dataclasses.replace(reading, metrics={}).ts_ms == START
