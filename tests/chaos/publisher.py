"""Publish a flood of records for a chaos test."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from tests.bench import log_lines
from tests.bench.checkpoints import Checkpoints
from tests.bench.templates import INTERVAL_MS
from tests.chaos import floods

DIFFERENT = 1_000


def main(servers: str, what: str, count: int, checkpoints: Path) -> None:
    to = Producer(
        {
            "bootstrap.servers": servers, "linger.ms": 50, "batch.size": 500_000, "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 500_000, "log_level": 2,
        }
    )  # fmt: skip
    topic = floods.LOGS if what == "lines" else floods.METRICS
    paces = {
        "lines": floods.LINES,
        "ids": floods.IDS / floods.IDS_SECONDS,
        "fleet": count / floods.FLEET_READINGS / INTERVAL_MS * 1000,
    }
    pace = paces.get(what)
    made = {"records": floods.records, "ids": floods.ids, "lines": _lines, "fleet": floods.fleet}[what](count)
    read, began = Checkpoints(checkpoints), time.time()
    for number, (key, value) in enumerate(made):
        if not number % 10_000:
            to.poll(0)
            while pace and number / pace > time.time() - began:
                to.poll(0.02)
            if pace and what == "lines" and time.time() - began > count / pace:
                break
            read.look()
            while not pace and number - read.count(topic) > floods.AHEAD:
                to.poll(0.5)
                read.look()
        while True:
            try:
                to.produce(topic, value, key)
                break
            except BufferError:
                to.poll(0.05)
    to.flush()


def _lines(count: int) -> Iterator[tuple[bytes, bytes]]:
    until, lines = 0.0, list[tuple[bytes, bytes]]()
    for number in range(count):
        if not number % DIFFERENT:
            now = time.time()
            if now > until:
                until = now + 1
                lines = list(log_lines.one_process_lines(DIFFERENT, now))
        yield lines[number % DIFFERENT]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
