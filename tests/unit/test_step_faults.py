"""If a step fails on the data of one process, only that process is left out."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Verdict
from clienthealth.monitor import also_seen, client_verdicts, departures, groups, minutes, process_log, readings
from clienthealth.monitor.attribution import ProcessLog
from clienthealth.monitor.incidents import OpenIncident
from clienthealth.monitor.state import BucketState, Run
from clienthealth.monitor.window_verdicts import gate
from clienthealth.spark.stepping import _fault
from tests.support.stepped import START, Stepped, logged, snapshot

HOSTS = ("a", "b", "bad", "c", "d")


def batches(monitor: Stepped, *hosts: str) -> Stepped:
    for second in range(0, 540, 30):
        inputs: list[Any] = [snapshot(s, {"select-total": s}, "z", instance="z:1", host="z") for s in (second,)]
        for host in hosts if second < 120 else ():
            inputs += [
                snapshot(second + s, {"select-total": second + s}, f"on-{host}", instance=f"{host}:1", host=host)
                for s in (0, 10, 20)
            ]
            inputs.append(snapshot(second, {"members": 1}, f"group-{host}", "group", instance=host, host=host))
            line = logged(second + 5, client_id=f"on-{host}")
            line.host = host
            inputs.append(line)
        monitor.batch(inputs, second + 30)
    return monitor


def published_of(monitor: Stepped) -> list[tuple[str, Any]]:
    return [
        (key, value and json.loads(value) | {"verdicts": []})
        for published in monitor.published
        for key, value in sorted(published.records, key=lambda record: record[0])
        if "bad" not in key
    ]


def rows(monitor: Stepped) -> list[Any]:
    key = ("minute", "host", "client_id")
    return sorted(
        (row for row in monitor.minutes if row["host"] != "bad"), key=lambda row: [str(row[name]) for name in key]
    )


def unsavable(state: BucketState, entries: Any) -> None:
    if any(entry.host == "bad" for entry in entries):
        run = Run("", "", "producer", "x", 2**70, 0, state.time_ms, "", None, 0)
        state.also_seen.remember(("shop", "bad", "", "", "producer", "x"), run, state.time_ms)


def raising(is_bad: Callable[..., bool], honest: Callable[..., Any]) -> Callable[..., Any]:
    def broken(*given: Any, **more: Any) -> Any:
        if is_bad(*given, **more):
            raise ZeroDivisionError("absurd")
        return honest(*given, **more)

    return broken


def has_bad(all_clients: Any) -> bool:
    return any(client.host == "bad" for client in all_clients)


#: Maps each part of a step to an object, the name of its function to patch, and the condition on which the function
#: fails.
PLACES: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "readings enter": (readings, "_numbered", lambda state, all_clients, numbers: has_bad(all_clients)),
    "lines enter": (process_log, "_remember", lambda state, entry: entry.host == "bad"),
    "lines of a window": (ProcessLog, "about", lambda self, client: client.host == "bad"),
    "a gate": (client_verdicts, "gate", lambda mode, w: any("bad" in w._about(n).group for n in range(len(w)))),
    "a judge": (client_verdicts, "verdict", lambda mode, window, *_: window.client.host == "bad"),
    "a minute": (minutes, "gate", lambda mode, w: any("bad" in w._about(n).group for n in range(len(w)))),
    "a departure": (departures, "judge_windows", lambda windows, *_, **__: windows[-1].client.host == "bad"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_cannot_be_stepped_costs_no_other(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = batches(Stepped(), *(host for host in HOSTS if host != "bad"))
    module, name, is_bad = PLACES[place]
    monkeypatch.setattr(module, name, raising(is_bad, getattr(module, name)))
    monitor = Stepped(apart=True)
    faults = []
    batch = monitor.batch

    def noted(*given: Any) -> Any:
        published = batch(*given)
        faults.extend(monitor.faults)
        return published

    monkeypatch.setattr(monitor, "batch", noted)
    batches(monitor, *HOSTS)
    assert faults
    assert {(fault.client.host, fault.reason) for fault in faults} == {
        ("bad", "step-failed: ZeroDivisionError: absurd")
    }
    assert published_of(monitor) == published_of(undisturbed)
    assert rows(monitor) == rows(undisturbed)


def test_a_state_that_cannot_be_saved_costs_its_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = Stepped(apart=True)
    monkeypatch.setattr(also_seen, "take", unsavable)
    with caplog.at_level(logging.ERROR):
        for second in (0, 30):
            line = logged(second)
            line.host = "bad"
            samples = [
                snapshot(second, {"select-total": second}, f"on-{host}", instance=f"{host}:1", host=host)
                for host in HOSTS
            ]
            monitor.batch([*samples, line], second + 10)
            (fault,) = monitor.faults
            assert fault.client.key == "shop|bad:1|on-bad"
            assert fault.reason.startswith("step-failed: OverflowError")
            assert sorted(monitor.clients) == [f"on-{host}" for host in HOSTS if host != "bad"]
    assert len(caplog.records) == 1 and caplog.records[0].exc_info
    monkeypatch.undo()
    monitor.batch([snapshot(60, {"select-total": 60}, "on-bad", instance="bad:1", host="bad")], 70)
    assert "on-bad" in monitor.clients and monitor.faults == []


def test_a_group_costs_no_other_of_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = groups._enter
    monkeypatch.setattr(groups, "_enter", raising(lambda group, _: group.client.client_id == "bad", entered))
    monitor = Stepped(apart=True)
    published = monitor.batch(
        [snapshot(0, {"members": 1}, name, "group", instance="kafka:9092", host="kafka:9092") for name in ("bad", "g")]
    )
    (fault,) = monitor.faults
    assert (fault.client.client_id, fault.source) == ("bad", Source("client-metrics", 0, 0))
    assert [key for key, _ in published.records] == ["shop|kafka:9092|g"]


BAD = Client("shop", "bad", "bad:1", "on-bad", "producer")


def incident(detail: int) -> OpenIncident:
    verdict = Verdict("producer-callback-deadlock", "suspected", detail={"waiting_threads": detail})
    return OpenIncident(BAD, verdict, START, heard_ms=START)


def test_its_open_incident_stays_open_while_it_cannot_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Stepped(apart=True, opened=[incident(3)])
    monkeypatch.setattr(client_verdicts, "gate", raising(lambda mode, w: True, gate))
    monitor.batch([snapshot(0, {"select-total": 1}, "on-bad", instance="bad:1", host="bad")])
    assert [fault.client.key for fault in monitor.faults] == ["shop|bad:1|on-bad"]
    assert [one.verdict.mode for one in monitor.state.incidents.all] == ["producer-callback-deadlock"]
    assert not monitor.clients


def test_an_incident_that_cannot_be_saved_goes_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(bucket: Any, *_: Any) -> Any:
        bucket.state.incidents.reopen([incident(2**70)])
        return [], []

    monitor = Stepped(apart=True)
    monkeypatch.setattr(client_verdicts, "judge", opening)
    monitor.batch([snapshot(0, {"select-total": 1}, "on-bad", instance="bad:1", host="bad")])
    assert len(monitor.faults) == 1 and not [*monitor.state.incidents.all]


def test_an_error_without_a_process_blames_and_forgets_no_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitor = Stepped(apart=True)
    monitor.batch([snapshot(0, {"select-total": 1}, "p")])
    monkeypatch.setattr(departures, "departed", raising(lambda bucket: True, departures.departed))
    published = monitor.batch([snapshot(10, {"select-total": 2}, "p")])
    (fault,) = monitor.faults
    assert (fault.client.key, fault.reason, fault.source) == ("||", "step-failed: ZeroDivisionError: absurd", None)
    assert published.records == [] and list(monitor.clients) == ["p"]


def test_faults_become_rejects_that_name_their_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_verdicts, "gate", raising(lambda mode, w: True, gate))
    monitor = Stepped(apart=True)
    monitor.batch([snapshot(s, {"select-total": s}, name) for s in (0, 10) for name in ("p", "q")])
    _, key, value, headers = _fault(*monitor.faults)
    assert (key, value) == (b"shop|h:1|", None)
    assert {h["key"]: base64.b64decode(h["value"]).decode() for h in json.loads(headers or "")} == {
        "reject_reason": "step-failed: ZeroDivisionError: absurd",
        "source_topic": "client-metrics",
        "source_partition": "0",
        "source_offset": "2",
    }
