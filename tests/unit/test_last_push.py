"""A client's last push (KIP-714) can show that the client was closed, but not that all records were delivered."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.support.stepped import Stepped, logged, snapshot

BUFFER = 33_554_432.0


def verdict(monitor: Stepped) -> dict[str, Any]:
    mode_verdicts = [v for v in monitor.records["shop|h:1|p"]["verdicts"] if v["mode"] == "producer-not-closed"]
    assert len(mode_verdicts) == 1
    return dict(mode_verdicts[0])


def ended(
    left: float, terminating: bool, *lines: Any, version: str = "3.9.1", idle_since: float = 60
) -> dict[str, Any]:
    inputs: list[Any] = [*lines]
    for second in range(0, 70, 10):
        metrics = {
            "record-send-total": 100.0 * min(second, idle_since),
            "select-total": 50.0 * second,
            "buffer-total-bytes": BUFFER,
        }
        metrics["buffer-available-bytes"] = BUFFER - left
        metrics["terminating"] = float(terminating and second == 60)
        inputs.append(pushed := snapshot(second, metrics, "p", instance="h:1"))
        pushed.client = structs.replace(pushed.client, version=version)
    others = [snapshot(s, {"select-total": 1000.0 + s}, "o", instance="o:1", host="o") for s in range(0, 600, 10)]
    monitor = Stepped()
    monitor.batches([*inputs, *others], 10, "o")
    return verdict(monitor)


@pytest.mark.parametrize(
    ("left", "terminating", "status"),
    [
        (0.0, True, "ok"),
        (4e6, True, "unknown"),
        (0.0, False, "ok"),
        (16_384.0, False, "unknown"),
        (4e6, False, "suspected"),
    ],
)
def test_the_last_push_decides(left: float, terminating: bool, status: str) -> None:
    assert ended(left, terminating)["status"] == status


def test_the_reason_is_given() -> None:
    assert ended(0.0, True)["detail"]["note"].startswith("close() sent the producer's last push")
    left = ended(4e6, True)
    assert "3.8 MiB (12 % of the buffer) undelivered" in left["reason"]
    assert left["detail"]["lost_bytes"] == [0, 4_000_000]


def test_a_close_that_is_proved_proves_no_delivery() -> None:
    """A librdkafka producer that is closed without flush() does not report how many records it loses."""
    monitor = Stepped()
    pushes = [snapshot(s, {"terminating": float(s == 60)}, "p", instance="h:1") for s in range(0, 70, 10)]
    others = [snapshot(s, {"select-total": 1000.0 + s}, "o", instance="o:1", host="o") for s in range(0, 600, 10)]
    monitor.batches([*pushes, *others], 10, "o")
    found = verdict(monitor)
    assert (found["status"], "did not report how many records were undelivered" in found["reason"]) == ("unknown", True)


def test_its_log_counts_for_more() -> None:
    started = logged(0, "producer-config", "p")
    assert ended(4e6, False, started)["status"] == "suspected"
    assert ended(16_384.0, False, started)["status"] == "unknown"
    killed = logged(61, "process-killed-for-memory", None)
    assert ended(4e6, True, killed)["status"] == "confirmed"
    forced = [
        logged(60, "producer-closing", "p", timeout="5000"),
        logged(65, "producer-force-close", "p", timeout="5000"),
    ]
    assert ended(4e6, True, *forced)["status"] == "confirmed"


def test_missing_pushes_confirm_only_for_idle_clients_with_a_log() -> None:
    started = logged(0, "producer-config", "p")
    idle: dict[str, Any] = {"version": "4.1.2", "idle_since": 50}
    went = ended(4e6, False, started, **idle)
    assert (went["status"], went["evidence"][-1]["kind"]) == ("confirmed", "absence")
    assert went["evidence"][-1]["text"].endswith("but no close(); its last push did not come from close() either")
    assert ended(4e6, False, started, version="4.1.2")["status"] == "suspected"
    assert ended(4e6, False, started, version="4.1.1", idle_since=50)["status"] == "suspected"
    # Confluent's build 7.9 is Kafka 3.9, which does not push again after a broken connection.
    assert ended(4e6, False, started, version="7.9.0-ccs", idle_since=50)["status"] == "suspected"
    assert ended(4e6, False, **idle)["status"] == "suspected"
    assert ended(4e6, True, started, **idle)["status"] == "unknown"
    assert ended(0.0, False, started, **idle)["status"] == "ok"
    assert ended(16_384.0, False, started, **idle)["status"] == "suspected"
    assert ended(16_384.0, False, started, version="4.1.2")["status"] == "unknown"
