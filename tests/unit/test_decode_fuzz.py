"""The decoder turns every broken record into usable data, or into a reject with a reason."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from clienthealth.read.decode import HEADERS, decode_any, decode_logs, decode_metrics, fast, latest_ms
from clienthealth.read.formats import formats
from clienthealth.settings import Settings
from tests.fuzz.targets import AROUND, IDENTITY, check
from tests.support.fake_registry import AVRO, Registry, framed, serving
from tests.support.golden_metrics import GOLDEN
from tests.support.metrics_cases import CASES, record
from tests.support.mutations import damaged, mutated
from tests.support.raw_records import ARRIVED_MS, Raw, sample
from tests.support.raw_records import SAMPLES as SAMPLES_FOLDER
from tests.support.rows import long_after

CANONICAL: list[dict[str, Any]] = [
    {
        "ts": 1795208640123.0,
        "client": {
            "service": "orders-api",
            "host": "web-7",
            "instance": "web-7:31337",
            "client_id": "order-producer",
            "kind": "producer",
            "library": "java",
            "version": "3.9.1",
            "group": None,
        },
        "metrics": {"buffer-available-bytes": 4194304.0, "select-total": 10213, "io-ratio": 0.25, "other": 5},
        "topics": [{"topic": "orders", "partition": None, "thread": None, "metrics": {"record-send-total": 3295.0}}],
        "config": {"buffer.memory": "4194304"},
    },
    {
        "ts": 1795208640123,
        "client": {"service": "s", "host": "k:9092", "instance": "k:9092", "client_id": "billing", "kind": "group"},
        "metrics": {"members": 2},
        "topics": [
            {
                "topic": "orders",
                "partition": 3,
                "member": {"client_id": "m", "consumer_id": "m-1", "host": "/10.1.2.3"},
                "metrics": {"committed-offset": 10, "end-offset": 12, "position": -1001},
            }
        ],
        "interval_ms": 5000,
    },
]
WHOLE = [json.dumps(document).encode() for document in CANONICAL]
SAMPLES = [r.value or b"" for name in GOLDEN for r in sample(name)]
VARIANTS = [record(name, value).value or b"" for name, (value, _) in CASES.items()]
LOG_SAMPLES = [
    r.value or b""
    for pattern in ("*log*", "filebeat_*", "vector_kafka*", "fluentbit_*")
    for file in sorted(SAMPLES_FOLDER.glob(pattern))
    for r in sample(file.name)
]
AVRO_READINGS = [
    {
        "ts": int(document["ts"]),
        "client": {name: document["client"].get(name) for name in IDENTITY},
        "metrics": {"select-total": 1.0},
    }
    for document in CANONICAL
]
RECORDS = 4_000
HEADER: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"format": "otlp_metrics"},
    {"kind": "producer"},
    {"traceparent": "00"},
)
SETTINGS = Settings()


@pytest.mark.parametrize("seed", long_after(1, [1, 2]))
def test_every_record_is_usable_or_rejected_with_its_reason(seed: int) -> None:
    dice = random.Random(seed)
    read: Counter[str | None] = Counter()
    for n in range(RECORDS):
        raw = Raw("x", mutated(dice, SAMPLES + VARIANTS), n, b"s|i|c", dice.choice(HEADER)).record
        decoded = decode_metrics(raw, SETTINGS, ARRIVED_MS)
        check(decoded)
        check(decode_any(raw, SETTINGS, ARRIVED_MS))
        read[decoded.format if decoded.snapshots else None] += 1
    assert set(read) - {None} == {fmt.name for fmt in formats("metrics")}


def test_whatever_stands_around_a_record_it_is_usable_or_rejected() -> None:
    dice = random.Random(4)
    registry = Registry()
    registry.schemas["/schemas/ids/7"] = {"schema": json.dumps(AVRO)}
    registry.schemas["/schemas/ids/8"] = {"schemaType": "PROTOBUF", "schema": ""}
    avro = [framed(7, document | {"config": {}}) for document in AVRO_READINGS]
    seen: Counter[str] = Counter()
    with serving(registry):
        settings = registry.settings
        for n in range(RECORDS // 8):
            value = dice.choice(AROUND)(dice.choice(SAMPLES + LOG_SAMPLES + avro))
            value = value if dice.random() < 0.3 else damaged(dice, value)
            raw = Raw("x", value, n, b"s|i|c").record
            for decode in (decode_metrics, decode_any, decode_logs):
                decoded = decode(raw, settings, ARRIVED_MS)
                check(decoded)
                seen.update(error.partition(":")[0] for error in decoded.errors)
                seen["used"] += bool(decoded.snapshots or decoded.lines)
    assert seen["used"] > RECORDS / 80 and seen["unknown-schema"] and seen["binary"]


@pytest.mark.parametrize("around", AROUND[1:3])
def test_a_bomb_is_a_reject_wherever_it_stands(around: Callable[[bytes], bytes]) -> None:
    bomb = around(b" " * 8_000_000)
    for value in (bomb, b"\0\0\0\0\x08\0" + bomb, bomb * 3):
        for decode in (decode_metrics, decode_any, decode_logs):
            (error,) = decode(Raw("x", value).record, SETTINGS, ARRIVED_MS).errors
            assert error.partition(":")[0] in ("oversized", "binary")


def test_the_fast_path_reads_what_the_careful_one_reads() -> None:
    dice = random.Random(3)
    taken = 0
    for n in range(RECORDS):
        raw = Raw("x", mutated(dice, WHOLE), n, b"s|i|c", dice.choice(HEADER)).record
        quick = fast(raw.value, not raw.headers.keys().isdisjoint(HEADERS), latest_ms(SETTINGS, ARRIVED_MS))
        if quick is not None:
            taken += 1
            careful = decode_metrics(raw, SETTINGS, ARRIVED_MS)
            # The fast path skips some fields, and so accepts invalid UTF-8 in them.
            assert [quick.snapshot()] == careful.snapshots or careful.errors == ["binary"]
    assert taken > RECORDS / 50


@pytest.mark.parametrize("document", CANONICAL)
def test_the_fast_path_takes_whole_records(document: dict[str, Any]) -> None:
    latest = latest_ms(SETTINGS, ARRIVED_MS)
    for value in (json.dumps(document).encode(), json.dumps(document | {"topics": None, "config": None}).encode()):
        quick = fast(value, False, latest)
        assert quick is not None
        assert [quick.snapshot()] == decode_metrics(Raw("x", value).record, SETTINGS, ARRIVED_MS).snapshots
        again = fast(memoryview(value), False, latest)
        assert again is not None and again.client is quick.client and again.config is quick.config


@pytest.mark.parametrize(
    "changed",
    [
        {"ts": "1795208640123"},
        {"ts": 1000},
        {"ts": ARRIVED_MS + 301_000},
        {"client": {"client_id": "c", "kind": "producer"}},
        {"client": CANONICAL[0]["client"] | {"kind": "Producer"}},
        {"client": CANONICAL[0]["client"] | {"service": " "}},
        {"metrics": {"select-total": "7"}},
        {"metrics": {"select-total": float("nan")}},
        {"metrics": {"buffer-total-bytes": 1e30}},
        {"topics": [{"topic": "t", "metrics": {"record-send-total": 2**64}}]},
        {"config": {"request.timeout.ms": "1e30"}},
        {"metrics": {"undocumented": 1}, "topics": []},
        {"metrics": {"records-lag-max": 1}, "topics": []},
        {"topics": [{"topic": None}]},
        {"topics": [{"topic": "t", "partition": 2**31}]},
    ],
)
def test_the_fast_path_leaves_what_is_doubtful(changed: dict[str, Any]) -> None:
    value = json.dumps(CANONICAL[0] | changed).encode()
    assert fast(value, False, latest_ms(SETTINGS, ARRIVED_MS)) is None


def test_the_fast_path_leaves_what_headers_or_size_decide() -> None:
    latest = latest_ms(SETTINGS, ARRIVED_MS)
    assert fast(WHOLE[0], True, latest) is None
    assert fast(WHOLE[0], False, latest, 100) is None
    assert fast(None, False, latest) is None
