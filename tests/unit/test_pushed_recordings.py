"""What real clients pushed through our plugin every 10 s, and nothing else: what is found of that, and what is not.

Recorded of the demo's clients (3.9.1; `4.1`: 4.1.2) on brokers 4.1.2, one record a line, as it stood on the topic.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from clienthealth.decode import decode_metrics
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import Identity, RawRecord, Snapshot
from clienthealth.settings import Settings
from tests.support.stepped import Stepped

PUSHES = Path(__file__).parents[1] / "pushes"


def pushed(name: str) -> list[Snapshot]:
    """The pushes of a client, decoded: one snapshot each."""
    snapshots = []
    with gzip.open(PUSHES / f"{name}.jsonl.gz", "rt") as lines:
        for offset, line in enumerate(lines):
            push = json.loads(line)
            headers = {key: value.encode() for key, value in push["headers"].items()}
            record = RawRecord(base64.b64decode(push["value"]), Source("m", 0, offset), push["ts"], None, headers)
            decoded = decode_metrics(record, Settings(), push["ts"])
            assert (decoded.errors, len(decoded.snapshots)) == ([], 1)
            snapshots += decoded.snapshots
    return snapshots


def verdicts(name: str) -> Sequence[Mapping[str, str]]:
    """What is said of the client after each push, status by mode; at last, three minutes after the last push."""
    snapshots = pushed(name)
    monitor = Stepped()
    said: list[Mapping[str, str]] = []

    def take(snapshot: Snapshot) -> None:
        monitor.batch([snapshot])
        for key, record in monitor.records.items():
            if "other" not in key:
                said.append({verdict["mode"]: verdict["status"] for verdict in record["verdicts"]})

    for snapshot in snapshots:
        take(snapshot)
    last = snapshots[-1].ts_ms or 0
    for second in range(10, 190, 10):
        who = Identity("other", "o", "o:1", "other", "producer", "java", "4.1.2")
        take(Snapshot(last + 1000 * second, who, {"select-total": 1000.0 + second}, interval_ms=10_000))
    return said


@pytest.mark.parametrize("name", ["healthy", "healthy-consumer"])
def test_healthy_clients_are_well_and_stay_so_when_they_go(name: str) -> None:
    said = verdicts(name)
    assert {status for verdict in said for status in verdict.values()} <= {"ok", "unknown"}
    assert any(set(verdict.values()) == {"ok"} for verdict in said)


@pytest.mark.parametrize("name", ["send-blocked", "send-blocked-4.1"])
def test_callers_that_wait_for_a_missing_topic_are_suspected(name: str) -> None:
    assert "suspected" in {verdict.get("send-blocked-on-metadata") for verdict in verdicts(name)}


@pytest.mark.parametrize(
    "name",
    [
        "callback-deadlock",
        "callback-deadlock-4.1",
        "consumer-stalled-consumer",
        "consumer-stalled-4.1-consumer",
    ],
)
def test_who_pushes_on_the_thread_that_is_stuck_falls_silent_and_accuses_nobody(name: str) -> None:
    said = verdicts(name)
    assert {status for verdict in said for status in verdict.values()} <= {"ok", "unknown"}


def test_a_job_that_left_records_behind() -> None:
    assert verdicts("not-closed")[-1] == {"producer-not-closed": "suspected"}
