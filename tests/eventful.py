"""A quarter of an hour in which much happens to some thirty clients, as records for the input topics.

The same for the same `begin_ms`: clients that are well, that leave, that come back; recordings of all five failures;
a consumer group; records that come late, and some that nobody can read.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clienthealth.cli.replay import in_order
from clienthealth.recordings import read
from clienthealth.recordtimes import moved

RECORDINGS = Path(__file__).parent / "recordings"
SECONDS = 16 * 60
STEP = 10
MIB = 1 << 20
#: Recording → the second at which it begins.
FAILURES = {
    "deadlock-0.11": 60,
    "cross-topic-a": 150,
    "not-closed-3.9": 240,
    "shutdown-loop-a": 300,
    "deadlock-4.1-small": 420,
    "send-blocked-topic-4.1": 560,
}
#: What they show.
MODES = {
    "producer-callback-deadlock",
    "cross-topic-blocking",
    "producer-not-closed",
    "consumer-shutdown-loop",
    "send-blocked-on-metadata",
}
#: Of a storm one line in so many: all of it would take longer to read than all the rest.
THINNED = 30
#: Client → the seconds in which it reports.
PRESENT = {
    3: [(0, 240)],
    4: [(0, 300), (540, SECONDS)],
    5: [(120, SECONDS)],
    6: [(0, 400), (430, SECONDS)],
    7: [(0, 180), (360, 500)],
}
CLIENTS = 24
JUNK = (b"", b"{", b'{"a": 1}', b"\x0a\x07\xff\x00\x80", b"[1, 2", b"42")


@dataclass(frozen=True)
class Published:
    """A record to publish. `ts_ms`: its time on the topic, which is that of the event but for what comes late."""

    stream: Literal["metrics", "logs"]
    ts_ms: int
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    key: str = ""

    @property
    def partition(self) -> int:
        """Of the two partitions of its topic."""
        return zlib.crc32(self.key.encode()) % 2


def records(begin_ms: int) -> list[Published]:
    """All records, in the order of their times on the topics."""
    found = [*_well(begin_ms), *_failures(begin_ms), *_group(begin_ms), *_unreadable(begin_ms), *_chatter(begin_ms)]
    return sorted(found, key=lambda record: record.ts_ms)


def _well(begin_ms: int) -> Iterator[Published]:
    for number in range(CLIENTS):
        for second in range(number % STEP, SECONDS, STEP):
            if any(a <= second < b for a, b in PRESENT.get(number, [(0, SECONDS)])):
                yield _snapshot(number, begin_ms + 1000 * second, second)


def _snapshot(number: int, ts_ms: int, second: int) -> Published:
    who = {
        "service": f"service-{number % 5}", "host": f"web-{number % 9}", "instance": f"web-{number % 9}:{100 + number}",
        "client_id": f"client-{number}", "kind": "consumer" if number % 4 == 0 else "producer", "library": "java",
        "version": "3.9.1", "group": "billing" if number % 4 == 0 else None,
    }  # fmt: skip
    random_ = random.Random(1000 * number + second)
    late_ms = 200_000 if random_.random() < 0.01 else 0
    document: dict[str, Any] = {"ts": ts_ms, "client": who, "topics": [], "config": {"buffer.memory": str(32 * MIB)}}
    if who["kind"] == "producer":
        document["metrics"] = {
            "select-total": 50.0 * second, "buffer-total-bytes": 32.0 * MIB, "record-send-total": 20.0 * second,
            # The seventh leaves with records in its buffer.
            "buffer-available-bytes": 32.0 * MIB - (8 * MIB if number == 7 else random_.randrange(100_000)),
            "waiting-threads": 0.0, "io-time-ns-total": second * 1e7, "io-wait-time-ns-total": second * 9e8,
            "requests-in-flight": 1.0, "metadata-age": float(second % 300), "connection-count": 2.0,
        }  # fmt: skip
    else:
        document["metrics"] = {"records-consumed-total": 100.0 * second, "fetch-total": 3.0 * second}
        lag = {"records-lag": float(random_.randrange(50))}
        document["topics"] = [{"topic": "orders", "partition": 0, "thread": None, "metrics": lag}]
    value = json.dumps(document).encode()
    return Published("metrics", ts_ms + late_ms, value, key=f"{who['service']}|{who['client_id']}")


def _failures(begin_ms: int) -> Iterator[Published]:
    for name, second in FAILURES.items():
        timed = in_order(read([RECORDINGS / name]))
        if len(timed) > 10_000:
            timed = [pair for at, pair in enumerate(timed) if at % THINNED == 0 or len(pair[1].value) > 1000]
        shift_ms = begin_ms + 1000 * second - timed[0][0]
        for ts_ms, record in timed:
            identity = {"service": record.service, "host": record.instance, "instance": record.instance}
            headers = tuple((key, value.encode()) for key, value in identity.items())
            stream: Literal["metrics", "logs"] = "logs" if record.stream == "logs" else "metrics"
            value = moved(record.value, shift_ms)
            yield Published(stream, ts_ms + shift_ms, value, headers, record.instance)


def _group(begin_ms: int) -> Iterator[Published]:
    for second in range(0, SECONDS, STEP):
        # It stands still for five minutes.
        committed = 100 * (second if second < 400 else max(400, second - 300))
        topics = [
            {
                "topic": "orders", "partition": partition, "thread": None,
                "metrics": {"committed-offset": committed, "end-offset": 100 * second + 50, "start-offset": 0},
            }
            for partition in range(3)
        ]  # fmt: skip
        who = {
            "service": "billing", "host": "", "instance": "main", "client_id": "billing", "kind": "group",
            "library": None, "version": None, "group": "billing",
        }  # fmt: skip
        document = {"ts": begin_ms + 1000 * second, "client": who, "metrics": {"members": 2}, "topics": topics}
        yield Published("metrics", begin_ms + 1000 * second, json.dumps(document).encode(), key="group billing")


def _unreadable(begin_ms: int) -> Iterator[Published]:
    random_ = random.Random(5)
    for number in range(40):
        stream: Literal["metrics", "logs"] = "logs" if number % 4 == 0 else "metrics"
        value = b"\xff\x00" if stream == "logs" else JUNK[number % len(JUNK)]
        yield Published(stream, begin_ms + 1000 * random_.randrange(SECONDS), value, key=str(number))


def _chatter(begin_ms: int) -> Iterator[Published]:
    """Lines that have nothing to do with Kafka, so that both topics are read at the same pace."""
    for tenth in range(0, 10 * SECONDS, 4):
        yield Published("logs", begin_ms + 100 * tenth, b"GET /orders/7 200 in 4 ms", key=str(tenth % 8))
