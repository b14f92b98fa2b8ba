"""Recordings with only the pushes of real clients get the right verdicts."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import Identity, RawRecord, Snapshot
from clienthealth.model.verdicts import UNHEALTHY
from clienthealth.modes.producer_callback_deadlock.rules import MODE
from clienthealth.read.decode import decode_metrics
from tests.scenarios import _making as making
from tests.support.stepped import SETTINGS, Stepped

PUSHES = Path(__file__).parents[1] / "pushes"
TRUTH: Mapping[str, Mapping[str, Any]] = json.loads((PUSHES / "truth.json").read_text(encoding="utf-8"))
OF_JAVA = [name for name in TRUTH if not name.startswith(("librdkafka", "deadlock-beside", "handler-hangs"))]
CROSSED = [
    name
    if name.partition("-3.9")[2].startswith("-30s") or name.partition("-4.1")[2].startswith("-10s")
    else pytest.param(name, marks=pytest.mark.long)
    for name in OF_JAVA
]
OF_LIBRDKAFKA = [name for name in TRUTH if name.startswith("librdkafka")]
SEEN = {"send-blocked-on-metadata", "producer-not-closed", "delivery-stalled"}
#: Maps the push interval (s) to the longest time from onset to verdict (s).
FOUND_SECONDS = {10: 80, 30: 115}
CALLBACK_SECONDS, TOLERANCE = 0.1, 0.1


@dataclass(frozen=True)
class Result:
    ts_ms: int
    verdicts: Mapping[str, str]
    indicators: Mapping[str, Any]


def pushed(name: str) -> Iterator[Snapshot]:
    with gzip.open(PUSHES / f"{name}.jsonl.gz", "rt") as lines:
        for offset, line in enumerate(lines):
            push = json.loads(line)
            headers = {key: value.encode() for key, value in push["headers"].items()}
            record = RawRecord(base64.b64decode(push["value"]), Source("m", 0, offset), push["ts"], None, headers)
            decoded = decode_metrics(record, SETTINGS, push["ts"])
            assert (decoded.errors, len(decoded.snapshots)) == ([], 1)
            yield decoded.snapshots[0]


@cache
def results_of(name: str) -> Sequence[Result]:
    monitor, results = Stepped(), list[Result]()

    records: dict[str, Mapping[str, Any]] = {}

    def take(*snapshots: Snapshot) -> None:
        published = monitor.batch(snapshots)
        records.update((key, json.loads(value)) for key, value in published.records if value)
        for key, record in records.items():
            if "other" not in key:
                verdicts = {verdict["mode"]: verdict["status"] for verdict in record["verdicts"]}
                results.append(Result(snapshots[-1].ts_ms or 0, verdicts, record.get("indicators", {})))

    last = 0
    for snapshot in pushed(name):
        take(snapshot)
        last = snapshot.ts_ms or 0
    client = Identity("other", "o", "o:1", "other", "producer", "java", "4.1.2")
    for begin, end in pairwise([*range(10, 180, 10), *range(180, 301, 60), 310]):
        moments = ((last + 1000 * second, 1000.0 + second) for second in range(begin, end, 10))
        take(*(Snapshot(ts_ms, client, {"select-total": total}, interval_ms=10_000) for ts_ms, total in moments))
    return results


@pytest.mark.parametrize("name", CROSSED)
def test_the_truth_is_found_and_nothing_else(name: str) -> None:
    truth, results = TRUTH[name], results_of(name)
    accused = {
        (mode, of.ts_ms) for of in results for mode, status in of.verdicts.items() if status not in ("ok", "unknown")
    }
    if truth["mode"] not in SEEN:
        assert accused == set()
        return
    assert {mode for mode, _ in accused} == {truth["mode"]}
    seconds = min(ts_ms - truth["onset_ms"] for _, ts_ms in accused) / 1000
    assert 0 < seconds <= FOUND_SECONDS[truth["push_seconds"]]


def test_a_handler_that_hangs_is_suspected_as_soon_as_two_pushes_show_it() -> None:
    onset_ms, results = TRUTH["handler-hangs-late-3.9-30s"]["onset_ms"], results_of("handler-hangs-late-3.9-30s")
    accused = [(mode, of.ts_ms) for of in results for mode, status in of.verdicts.items() if status in UNHEALTHY]
    assert {mode for mode, _ in accused} == {"consumer-stalled"}
    assert 30 < (accused[0][1] - onset_ms) / 1000 < 61


@pytest.mark.parametrize("name", [name for name in TRUTH if name.startswith("healthy")])
def test_of_the_healthy_every_mode_is_judged_at_last(name: str) -> None:
    assert any(set(of.verdicts.values()) == {"ok"} for of in results_of(name))


@pytest.mark.parametrize("name", [name for name in TRUTH if name.startswith("slow-callback")])
def test_a_slow_callback_is_measured(name: str) -> None:
    callbacks = [of.indicators["callback_seconds"] for of in results_of(name) if "callback_seconds" in of.indicators]
    averages = [callback["avg"] for callback in callbacks if callback.get("avg")]
    assert averages and averages == pytest.approx([CALLBACK_SECONDS] * len(averages), rel=TOLERANCE)


@pytest.mark.parametrize("name", [name for name in OF_JAVA if TRUTH[name]["mode"] and TRUTH[name]["mode"] not in SEEN])
def test_a_client_that_pushes_on_its_stuck_thread_goes_stale_and_is_not_healthy(name: str) -> None:
    results = results_of(name)
    assert max(snapshot.ts_ms or 0 for snapshot in pushed(name)) < TRUTH[name]["onset_ms"] + 60_000
    assert results[-1].verdicts.get(TRUTH[name]["mode"]) != "ok"


def deadlock_beside(version: str, every: int, seconds: int = 0, without: str = "", as_well: str = "") -> Stepped:
    name, monitor = f"deadlock-beside-{version}-{every}s", Stepped()
    beside = [*pushed(f"{name}-audit")]
    last = beside[-1]
    for second in range(every, seconds, every):
        beside.append(replace(last, ts_ms=(last.ts_ms or 0) + 1000 * second))
    both = [*pushed(name), *([] if without else beside)]
    if as_well:
        both += [
            replace(one, client=replace(one.client, client_id=as_well, instance="127.0.0.1:z")) for one in beside[-6:]
        ]
    for snapshot in sorted(both, key=lambda one: one.ts_ms or 0):
        snapshot.client = replace(snapshot.client, service="ledger")
        monitor.batch([snapshot])
    return monitor


def deadlock_changes(monitor: Stepped) -> list[tuple[str, str, float]]:
    return [
        (of.verdict.mode, f"{of.change} {of.verdict.status}", of.ts_ms)
        for published in monitor.published
        for of in published.changes
        if of.client.client_id == "ledger-writer"
    ]


@pytest.mark.parametrize("every", [10, 30])
def test_a_deadlocked_producer_beside_a_working_one_stays_suspected(every: int) -> None:
    monitor = deadlock_beside("4.1", every, seconds=400)
    ((mode, change, _),) = deadlock_changes(monitor)
    assert (mode, change) == (MODE.id, "opened suspected")
    departed = (json.loads(v or b"{}") for p in monitor.published for k, v in p.records if k.endswith("ledger-writer"))
    record = next(record for record in departed if record.get("departed"))
    verdicts = {verdict["mode"]: verdict for verdict in record["verdicts"]}
    assert {fact["kind"] for fact in verdicts[MODE.id]["evidence"]} == {"metric", "absence"}
    assert verdicts["producer-not-closed"]["status"] == "unknown"
    assert "its I/O thread is stuck" in verdicts["producer-not-closed"]["reason"]


@pytest.mark.parametrize("every", [10, 30])
def test_one_that_may_push_no_more_though_it_lives_is_unknown_with_both_reasons(every: int) -> None:
    monitor = deadlock_beside("3.9", every)
    assert deadlock_changes(monitor) == []
    (record,) = (record for key, record in monitor.records.items() if key.endswith("ledger-writer"))
    reasons = {verdict["mode"]: verdict["reason"] for verdict in record["verdicts"]}
    assert "its process has ended, or its I/O thread is stuck" in reasons[MODE.id]


@pytest.mark.parametrize("another", ["ledger-writer", "ledger-next"])
def test_a_replica_or_a_successor_at_the_same_address_leaves_it_open(another: str) -> None:
    monitor = deadlock_beside("4.1", 10, as_well=another)
    assert not [change for mode, change, _ in deadlock_changes(monitor) if mode == MODE.id]


def test_of_a_deadlock_that_ended_the_pushes_a_dump_and_the_log_are_two_kinds_of_evidence() -> None:
    failed = [making.line(second, "buffer-exhausted", making.FULL) for second in (25, 35)]
    stuck = making.dump(30, making.network(making.GET))
    verdict = MODE.judge(making.window(logs=failed, dumps=[stuck]), MODE.thresholds)
    assert (verdict.status, {fact.kind for fact in verdict.evidence}) == ("confirmed", {"thread-dump", "log"})
    alone = MODE.judge(making.window(logs=failed), MODE.thresholds)
    assert alone.status == "unknown"


@pytest.mark.parametrize("name", OF_LIBRDKAFKA)
def test_the_few_metrics_of_librdkafka_prove_neither_failure_nor_health(name: str) -> None:
    snapshots, results = [*pushed(name)], results_of(name)
    assert all(one.client.library == "librdkafka" and one.client.version == "2.16.0" for one in snapshots)
    assert all(9_000 <= (one.interval_ms or 0) <= 10_500 for one in snapshots[:-1])
    assert {status for of in results for status in of.verdicts.values()} == {"unknown"}
    assert bool(snapshots[-1].metrics["terminating"]) == (TRUTH[name]["mode"] is None)


def test_librdkafka_keeps_pushing_while_its_application_hangs() -> None:
    truth = TRUTH["librdkafka-handler-hangs-2.16-10s"]
    by_second = [
        (((one.ts_ms or 0) - truth["onset_ms"]) / 1000, one.metrics)
        for one in pushed("librdkafka-handler-hangs-2.16-10s")
    ]
    assert by_second[-1][0] > 60
    assert all((metrics["poll-idle-ratio-avg"] == 0) == (second > 10) for second, metrics in by_second)
    assert all((metrics["assigned-partitions"] == 0) == (second > 30) for second, metrics in by_second)
