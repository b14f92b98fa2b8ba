"""Generate a campaign's input: a fleet's records, six minutes (a slice) per fault."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from clienthealth.model import canonical
from clienthealth.model.clients import Client, ClientProcess, Kind
from clienthealth.read.recordings import Recorded, read
from deploy.demo.replay import in_order, moved
from tests.support.fake_registry import framed

RECORDINGS = Path(__file__).parents[1] / "recordings"
SECONDS = 360
STEP = 10
#: FLEET: number of clients that report steadily. Without steady reports, the watermark could jump, and the clients of
#: recordings would seem silent.
PORTION = 40
MIB = 1 << 20
FLEET = 16
STUCK, STUCK_FROM = "client-0", 150
AVRO = "client-5"
#: AWAY: one client sends nothing from the first to the second of these seconds of a slice, so the monitor judges the
#: client to be gone.
AWAY = (100, 220)
FAILING: Mapping[str, str] = {
    "deadlock-0.11": "producer-callback-deadlock",
    "deadlock-3.9": "producer-callback-deadlock",
    "send-blocked-topic-3.9": "send-blocked-on-metadata",
    "not-closed-3.9": "producer-not-closed",
    "cross-topic-a": "cross-topic-blocking",
    "consumer-stalled-3.9": "consumer-stalled",
    "shutdown-left-behind-a": "consumer-shutdown-loop",
}
HARMLESS = ("healthy-3.9", "idle-4.1", "clean-close-4.1", "outage-3.9")
RECORDED_FROM = 30
JUNK = (b"{", b'{"a": 1', b"\x0a\x07\xff\x00\x80", b"[1, 2", b"42 ")


@dataclass(frozen=True)
class Published:
    stream: Literal["metrics", "logs"]
    ts_ms: int
    value: bytes
    client: str
    headers: tuple[tuple[str, bytes], ...] = ()
    unreadable: bool = False

    def partition(self, partitions: int) -> int:
        return zlib.crc32(self.client.encode()) % partitions


@dataclass(frozen=True)
class Slice:
    number: int
    begin_ms: int
    records: tuple[Published, ...]

    @property
    def end_ms(self) -> int:
        return self.begin_ms + 1000 * SECONDS

    def portions(self, begin: int, end: int = SECONDS) -> list[tuple[Published, ...]]:
        return [self.between(at, min(at + PORTION, end)) for at in range(begin, end, PORTION)]

    def between(self, begin: float, end: float) -> tuple[Published, ...]:
        a, b = self.begin_ms + 1000 * begin, self.begin_ms + 1000 * end
        return tuple(record for record in self.records if a <= record.ts_ms < b)


def slices(seed: int, numbers: Iterable[int], begin_ms: int) -> list[Slice]:
    return [_slice(seed, number, at, begin_ms + 1000 * SECONDS * at) for at, number in enumerate(numbers)]


def _slice(seed: int, number: int, at: int, begin_ms: int) -> Slice:
    chosen = random.Random(f"{seed} {number}")
    records = [*_fleet(at, begin_ms), *_group(at, begin_ms), *_unreadable(chosen, number, begin_ms)]
    records += _chatter(begin_ms)
    for name in (sorted(FAILING)[(seed + number) % len(FAILING)], HARMLESS[number % len(HARMLESS)]):
        records += _recorded(name, number, begin_ms + 1000 * RECORDED_FROM)
    return Slice(number, begin_ms, tuple(sorted(records, key=lambda record: record.ts_ms)))


def _fleet(at: int, begin_ms: int) -> Iterator[Published]:
    for client in range(FLEET):
        for second in range(client % STEP, SECONDS, STEP):
            if client != 3 or not AWAY[0] <= second < AWAY[1]:
                yield _snapshot(client, begin_ms + 1000 * second, SECONDS * at + second)


def fleet_client(number: int) -> str:
    return f"client-{number}"


def _snapshot(client: int, ts_ms: int, second: int) -> Published:
    consumer = client % 4 == 2
    process = ClientProcess(f"service-{client % 5}", f"web-{client % 9}", f"web-{client % 9}:{100 + client}")
    kind: Kind = "consumer" if consumer else "producer"
    ref = process.client(fleet_client(client), kind, "java", "3.9.1", "billing" if consumer else None)
    topics: list[dict[str, Any]] = []
    if consumer:
        metrics = {"records-consumed-total": 100.0 * second, "fetch-total": 3.0 * second}
        lag = {"records-lag": float(zlib.crc32(f"{client} {second}".encode()) % 50)}
        topics = [{"topic": "orders", "partition": 0, "thread": None, "metrics": lag}]
    else:
        stuck = max(0, second - STUCK_FROM) if fleet_client(client) == STUCK else 0
        alive = second - stuck
        metrics = {
            "select-total": 1000.0 + 50 * alive, "buffer-total-bytes": 32.0 * MIB, "record-send-total": 20.0 * alive,
            "buffer-available-bytes": max(0.0, 32.0 * MIB * (1 - stuck / 30)), "waiting-threads": 2.0 * (stuck > 30),
            "io-time-ns-total": alive * 1e7, "io-wait-time-ns-total": alive * 9e8, "requests-in-flight": 1.0,
            "metadata-age": float(second % 300), "connection-count": 2.0,
        }  # fmt: skip
    document = canonical.snapshot(ref, ts_ms, metrics, topics, {"buffer.memory": str(32 * MIB)})
    in_avro = fleet_client(client) == AVRO
    value = framed(1 + second // 60, document) if in_avro else json.dumps(document).encode()
    return Published("metrics", ts_ms, value, fleet_client(client))


def _group(at: int, begin_ms: int) -> Iterator[Published]:
    for second in range(0, SECONDS, STEP):
        end = 100 * (SECONDS * at + second)
        topics = [
            {
                "topic": "orders", "partition": partition, "thread": None,
                "metrics": {"committed-offset": end - 100 * partition, "end-offset": end + 50, "start-offset": 0},
            }
            for partition in range(3)
        ]  # fmt: skip
        client = Client("billing", "", "main", "billing", "group", group="billing")
        document = canonical.snapshot(client, begin_ms + 1000 * second, {"members": 2}, topics)
        yield Published("metrics", begin_ms + 1000 * second, json.dumps(document).encode(), "group billing")


def _recorded(name: str, number: int, begin_ms: int) -> Iterator[Published]:
    timed = _recording(name)
    shift_ms = begin_ms - timed[0][0]
    process = f"{name}-{number}"
    was, now = json.dumps(name).encode(), json.dumps(process).encode()
    headers = tuple((key, process.encode()) for key in ("service", "host", "instance"))
    for ts_ms, record in timed:
        stream: Literal["metrics", "logs"] = "logs" if record.stream == "logs" else "metrics"
        value = moved(record.value, shift_ms)
        if stream == "metrics":
            value = value.replace(was, now)
        yield Published(stream, ts_ms + shift_ms, value, process, headers)


@cache
def _recording(name: str) -> list[tuple[int, Recorded]]:
    return in_order(read([RECORDINGS / name]))


def _unreadable(chosen: random.Random, number: int, begin_ms: int) -> Iterator[Published]:
    """Yield unreadable records, which all differ, so that each can be identified."""
    for at in range(12):
        stream: Literal["metrics", "logs"] = "logs" if at % 4 == 0 else "metrics"
        what = b"\xff\x00" if stream == "logs" else JUNK[at % len(JUNK)]
        value = what + f" {number}.{at}".encode()
        ts_ms = begin_ms + 1000 * chosen.randrange(SECONDS)
        yield Published(stream, ts_ms, value, f"junk {at}", unreadable=True)


def _chatter(begin_ms: int) -> Iterator[Published]:
    for second in range(SECONDS):
        yield Published("logs", begin_ms + 1000 * second, b"GET /orders/7 200 in 4 ms", f"web-{second % 8}")
