"""Of 200,000 records, one in ten is broken. Each record is decoded or rejected exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord
from clienthealth.read.decode import decode_metrics, fast
from clienthealth.settings import Settings
from tests.support.golden_metrics import GOLDEN
from tests.support.mutations import damaged
from tests.support.raw_records import ARRIVED_MS, sample

pytestmark = pytest.mark.long

SENT = 200_000
OTHERS = [r.value or b"" for name in GOLDEN if len(GOLDEN[name]) == 1 and "json" in name for r in sample(name)]
METRICS = {
    "select-total": 10213.0,
    "io-time-ns-total": 5.1e9,
    "io-wait-time-ns-total": 4.0e11,
    "buffer-total-bytes": 33554432.0,
    "waiting-threads": 0.0,
    "record-queue-time-avg": 5.25,
    "request-latency-max": 41.0,
}


def canonical(n: int) -> bytes:
    client = {
        "service": f"service-{n % 500}",
        "host": f"web-{n % 50}",
        "instance": f"web-{n % 50}:31337",
        "client_id": f"producer-{n % 5000}",
        "kind": "producer",
        "library": "java",
        "version": "3.9.1",
    }
    topics = [{"topic": f"orders-{t}", "metrics": {"record-send-total": n + t}} for t in range(3)]
    metrics = {**METRICS, "buffer-available-bytes": n}
    return msgspec.json.encode({"ts": 1795200030000 + n, "client": client, "metrics": metrics, "topics": topics})


def broken(dice: random.Random, value: bytes) -> bytes | None:
    brackets = [at for at, byte in enumerate(value) if byte in b'{}[]"']
    at = dice.choice(brackets)
    cut = value[: dice.randrange(1, len(value.rstrip()))]
    return dice.choice((cut, value[:at] + value[at + 1 :], b"\x00" + dice.randbytes(30), None))


def records(dice: random.Random) -> Iterator[tuple[bytes | None, str]]:
    for n in range(SENT):
        value = canonical(n) if dice.random() < 0.97 else dice.choice(OTHERS)
        fate = "whole" if n % 10 else dice.choice(("broken", "damaged"))
        yield (value if fate == "whole" else broken(dice, value) if fate == "broken" else damaged(dice, value)), fate


def test_decoded_and_rejected_are_what_was_sent() -> None:
    settings, count, fates = Settings(), Counter[tuple[str, str]](), Counter[str]()
    for offset, (value, fate) in enumerate(records(random.Random(20261120))):
        fates[fate] += 1
        if fast(value, False, ARRIVED_MS + 300_000, settings.monitor.max_record_bytes) is not None:
            count[fate, "decoded"] += 1
            continue
        record = RawRecord(value, Source(fate, 0, offset), ARRIVED_MS, b"service|instance|client")
        decoded = decode_metrics(record, settings, ARRIVED_MS)
        count[fate, "rejected" if decoded.errors else "decoded"] += 1
        assert bool(decoded.errors) != bool(decoded.snapshots)
    assert sum(count.values()) == SENT
    assert count["whole", "decoded"] == fates["whole"] == SENT * 9 // 10
    assert count["broken", "rejected"] == fates["broken"]
    assert count["damaged", "decoded"] + count["damaged", "rejected"] == fates["damaged"]
    assert set(count) == {("whole", "decoded"), ("broken", "rejected"), ("damaged", "decoded"), ("damaged", "rejected")}
