"""Simulate a client that keeps reporting impossible values, next to three healthy clients."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, TOPIC_METRICS
from tests.support.golden_metrics import AT, GOLDEN
from tests.support.raw_records import SAMPLES, Raw, sample
from tests.support.streamed import Streamed

BEGIN = AT // 1000
NUMBERS = (
    *("1e30", "1e308", "-1e30", "1.7976931348623157e308", "5e-324", "NaN", "Infinity", "-Infinity", "1e999", "0", "-1"),
    *(str(2**63 - 1), str(2**63), str(2**64), str(-(2**63) - 1), str(2**53), str(2**31), "1" + "0" * 400, "0.1"),
    *('"1e30"', '"123"', f'"{"9" * 5000}"', '"NaN"', "null", "true", "[]", "{}", '"\\u0663"'),
)
NAMES = (
    *("", " ", "\0", "|", "\\", "a|b\\c", "\ud800", "x" * 100_000, "\u202e\u0000", "<script>", '"', "\n", "ä" * 300),
    *("s", "10.0.0.1", "web-7:31337", "kafka-producer-network-thread | p"),
)
TIMES = ("0", "-1", "1e30", "253402300799999", "253402300800000", "1e18", "9223372036854775807", "1", '"now"', "NaN")
METRICS = [raw.value or b"" for name in GOLDEN for raw in sample(name)]
LOGS = [
    raw.value or b""
    for pattern in ("*log*", "filebeat_*")
    for file in SAMPLES.glob(pattern)
    for raw in sample(file.name)
]
#: Values for a push (KIP-714), which contains floating-point numbers.
PUSHED = (1e30, 1e308, -1e30, float("nan"), float("inf"), 2.0**63, 2.0**64, 5e-324, 0.0, 100.0)
DIGITS = re.compile(rb"(?<![\w.\-])\d[\d.]*(?![\w.\-])")


class Hostile:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.kind = self.dice.choice(list(CLIENT_METRICS))
        self.share = self.dice.choice((0.02, 0.1, 0.5, 1.0))
        client = {"service": "evil", "host": "e", "instance": "e:1", "client_id": "e", "library": "java", "group": "g"}
        self.client = {name: self.dice.choice(NAMES) if self.odd(0.1) else value for name, value in client.items()}
        self.topics = [self.dice.choice((*NAMES, "orders")) for _ in range(self.dice.choice((0, 1, 3, 20)))]

    def odd(self, share: float | None = None) -> bool:
        return self.dice.random() < (self.share if share is None else share)

    def number(self, plausible: float) -> str:
        return self.dice.choice(NUMBERS) if self.odd() else str(plausible)

    def metrics(self, names: Sequence[str], second: int) -> str:
        metrics = (f'"{name}": {self.number(second % 1000 * self.dice.choice((0, 1, 7)))}' for name in names)
        return f"{{{', '.join(metrics)}}}"

    def snapshot(self, second: int) -> Raw:
        ts = self.dice.choice(TIMES) if self.odd(0.1) else str(1000 * second)
        topics = ", ".join(
            f'{{"topic": {json.dumps(name)}, "partition": {self.number(at)}, "thread": {json.dumps(name)}, '
            f'"metrics": {self.metrics([*TOPIC_METRICS], second)}}}'
            for at, name in enumerate(self.topics)
        )
        config = ", ".join(f'"{name}": {self.number(60_000)}' for name in CONFIG_OPTIONS)
        value = (
            f'{{"ts": {ts}, "client": {json.dumps(self.client | {"kind": self.kind})}, '
            f'"metrics": {self.metrics([*CLIENT_METRICS[self.kind]], second)}, "topics": [{topics}], '
            f'"config": {{{config}}}, "interval_ms": {self.number(10_000)}}}'
        )
        return Raw("", value.encode())

    def sampled(self, samples: Sequence[bytes], second: int) -> Raw:
        return Raw("", self.numbered(moved(self.dice.choice(samples), second)), key=b"evil|e:1|e")

    def numbered(self, value: bytes) -> bytes:
        return DIGITS.sub(lambda digits: self.dice.choice(NUMBERS).encode() if self.odd() else digits[0], value)

    def line(self, examples: Sequence[str], second: int) -> Raw:
        message = self.numbered(self.dice.choice(examples).encode()).decode()
        at = datetime.fromtimestamp(second, UTC).isoformat()
        of = {"service": {"name": self.client["service"]}, "host": {"name": self.client["host"]}}
        document = {"@timestamp": at, "message": message, "log": {"level": "WARN"}, **of}
        return Raw("", json.dumps(document).encode())

    def push(self, honest: Raw) -> Raw:
        data = MetricsData.FromString(honest.value or b"")
        for resource in data.resource_metrics:
            for metric in resource.scope_metrics[0].metrics:
                for point in (*metric.sum.data_points, *metric.gauge.data_points):
                    if self.odd():
                        point.as_double = self.dice.choice(PUSHED)
        return Raw("", data.SerializeToString(), headers=honest.headers)


def moved(value: bytes, second: int) -> bytes:
    iso = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
    return value.replace(str(BEGIN).encode(), str(second).encode()).replace(b"2026-11-20T18:40:30", iso)


def healthy(second: int) -> list[Raw]:
    return [
        Raw("", json.dumps(good_snapshot(host, at)).encode())
        for at in range(second - 30, second, 10)
        for host in ("a", "b", "c")
    ]


def good_snapshot(host: str, second: int) -> dict[str, Any]:
    n = float(second - BEGIN)
    buffer = {"buffer-total-bytes": 100.0, "buffer-available-bytes": 100.0, "waiting-threads": 0.0}
    client = {"service": "good", "host": host, "instance": f"{host}:1", "client_id": "p", "kind": "producer"}
    counted = {"select-total": n + 100, "record-send-total": n, "metadata-age": n % 300}
    return {
        "ts": 1000 * second,
        "client": client | {"library": "java", "version": "3.9.1"},
        "metrics": buffer | counted,
    }


def lived(seed: int | None, examples: Sequence[str] = (), push: Raw | None = None) -> Streamed:
    """Run the monitor on healthy clients and, with a `seed`, on the hostile client."""
    monitor = Streamed()
    hostile = None if seed is None else Hostile(seed)
    for second in range(BEGIN + 60, BEGIN + 480, 30):
        metrics, logs = healthy(second), list[Raw]()
        if hostile and second < BEGIN + 300:
            metrics += [hostile.snapshot(at) for at in range(second - 30, second, 10)]
            metrics += [hostile.sampled(METRICS, second - 5), *([hostile.push(push)] if push else [])]
            logs = [
                hostile.sampled(LOGS, second - 4),
                *(hostile.line(examples, second - 3) for _ in range(3 if examples else 0)),
            ]
            hostile.dice.shuffle(metrics)
        monitor.batch(second, metrics, logs)
    monitor.shown()
    return monitor


def repeated(value: bytes, log: bool = False) -> Streamed:
    """Run the monitor on a client that sends `value` again and again."""
    monitor = Streamed()
    for second in (*range(BEGIN + 60, BEGIN + 180, 30), *range(BEGIN + 180, BEGIN + 361, 60)):
        raws = [Raw("", moved(value, at), key=b"evil|e:1|e") for at in range(second - 30, second, 10)]
        raws = raws if second < BEGIN + 180 else []
        monitor.batch(second, [*healthy(second), *(raws if not log else [])], raws if log else [])
    monitor.shown()
    return monitor
