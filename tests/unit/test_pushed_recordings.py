"""What real clients pushed through our plugin, and nothing else: what is found of that, and what is not.

Recorded by `deploy.demo.record --pushes` of the demo's clients 3.9.1 and 4.1.2 on brokers 4.1.2, which asked them every
10 and every 30 s: one record a line, as it stood on the topic. `truth.json` says what was wrong with each, since when.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clienthealth.decode import decode_metrics
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import Identity, RawRecord, Snapshot
from clienthealth.modes.producer_callback_deadlock import MODE
from clienthealth.settings import Settings
from tests.scenarios import _making as making
from tests.support.stepped import Stepped

PUSHES = Path(__file__).parents[1] / "pushes"
TRUTH: Mapping[str, Mapping[str, Any]] = json.loads((PUSHES / "truth.json").read_text(encoding="utf-8"))
#: Modes during which a client goes on pushing, or whose end shows.
SEEN = {"send-blocked-on-metadata", "producer-not-closed", "delivery-stalled"}
#: From the onset, by how often it pushes. What fails by waiting (20 s; delivery.timeout.ms = 60 s) fails later.
FOUND_SECONDS = {10: 120, 30: 200}
#: How long the callback of the recorded producer takes, and how far off the measurement may be.
CALLBACK_SECONDS, TOLERANCE = 0.1, 0.1


@dataclass(frozen=True)
class Said:
    """What the monitor says of the client at a time: status by mode, and what it measured."""

    ts_ms: int
    verdicts: Mapping[str, str]
    indicators: Mapping[str, Any]


def pushed(name: str) -> Iterator[Snapshot]:
    """The pushes of a client, decoded: one snapshot each."""
    with gzip.open(PUSHES / f"{name}.jsonl.gz", "rt") as lines:
        for offset, line in enumerate(lines):
            push = json.loads(line)
            headers = {key: value.encode() for key, value in push["headers"].items()}
            record = RawRecord(base64.b64decode(push["value"]), Source("m", 0, offset), push["ts"], None, headers)
            decoded = decode_metrics(record, Settings(), push["ts"])
            assert (decoded.errors, len(decoded.snapshots)) == ([], 1)
            yield decoded.snapshots[0]


def said_of(name: str) -> Sequence[Said]:
    """After each push, and for five minutes after the last one, while another client goes on."""
    monitor, said = Stepped(), list[Said]()

    def take(snapshot: Snapshot) -> None:
        monitor.batch([snapshot])
        for key, record in monitor.records.items():
            if "other" not in key:
                verdicts = {verdict["mode"]: verdict["status"] for verdict in record["verdicts"]}
                said.append(Said(snapshot.ts_ms or 0, verdicts, record.get("indicators", {})))

    last = 0
    for snapshot in pushed(name):
        take(snapshot)
        last = snapshot.ts_ms or 0
    for second in range(10, 310, 10):
        who = Identity("other", "o", "o:1", "other", "producer", "java", "4.1.2")
        take(Snapshot(last + 1000 * second, who, {"select-total": 1000.0 + second}, interval_ms=10_000))
    return said


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_is_found_and_nothing_else(name: str) -> None:
    truth, said = TRUTH[name], said_of(name)
    accused = {
        (mode, of.ts_ms) for of in said for mode, status in of.verdicts.items() if status not in ("ok", "unknown")
    }
    if truth["mode"] not in SEEN:
        assert accused == set()
        return
    assert {mode for mode, _ in accused} == {truth["mode"]}
    seconds = min(ts_ms - truth["onset_ms"] for _, ts_ms in accused) / 1000
    assert 0 < seconds <= FOUND_SECONDS[truth["push_seconds"]]


@pytest.mark.parametrize("name", [name for name in TRUTH if name.startswith("healthy")])
def test_of_the_healthy_every_mode_is_judged_at_last(name: str) -> None:
    assert any(set(of.verdicts.values()) == {"ok"} for of in said_of(name))


@pytest.mark.parametrize("name", [name for name in TRUTH if name.startswith("slow-callback")])
def test_a_slow_callback_is_measured(name: str) -> None:
    callbacks = [of.indicators["callback_seconds"] for of in said_of(name) if "callback_seconds" in of.indicators]
    averages = [callback["avg"] for callback in callbacks if callback.get("avg")]
    assert averages and averages == pytest.approx([CALLBACK_SECONDS] * len(averages), rel=TOLERANCE)


@pytest.mark.parametrize("name", [name for name, truth in TRUTH.items() if truth["mode"] and truth["mode"] not in SEEN])
def test_who_pushes_on_the_thread_that_is_stuck_falls_silent_and_is_not_called_healthy(name: str) -> None:
    said = said_of(name)
    assert max(snapshot.ts_ms or 0 for snapshot in pushed(name)) < TRUTH[name]["onset_ms"] + 60_000
    assert said[-1].verdicts.get(TRUTH[name]["mode"]) != "ok"


def test_of_a_deadlock_that_ended_the_pushes_a_dump_and_the_log_are_two_kinds_of_evidence() -> None:
    failed = [making.line(second, "buffer-exhausted", making.FULL) for second in (25, 35)]
    stuck = making.dump(30, making.network(making.GET))
    verdict = MODE.judge(making.window(logs=failed, dumps=[stuck]), MODE.thresholds)
    assert (verdict.status, {fact.kind for fact in verdict.evidence}) == ("confirmed", {"thread-dump", "log"})
    alone = MODE.judge(making.window(logs=failed), MODE.thresholds)
    assert alone.status == "unknown"
