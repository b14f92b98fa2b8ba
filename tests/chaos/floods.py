"""Flood the complete monitor with excessive input at default settings, and measure the effect."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from tests.bench import canonical
from tests.bench.lab import Lab, Monitor
from tests.bench.publish import ends
from tests.bench.results import conditions
from tests.bench.templates import INTERVAL_MS, values
from tests.chaos.onlookers import NEXT_SECONDS, Onlookers, clients_of

RECORDS, CLIENTS, CORRUPT = 10_000_000, 10_000, 0.1
LINES, LINES_SECONDS = 100_000, 600
IDS, IDS_SECONDS = 1_000_000, 60
FLEET, FLEET_READINGS = 100_000, 6
ONSET_SECONDS = 60.0
AHEAD = 2_000_000
BEFORE_SECONDS, AFTER_SECONDS = 160.0, 90.0
LIMIT_SECONDS = 3600.0
LATER_SECONDS = 5.0
METRICS, LOGS = "client-metrics", "client-logs"


@dataclass
class Flood:
    name: str
    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def check(self, right: bool, line: str) -> None:
        self.lines.append(line)
        if not right:
            self.wrong.append(line)


def run(name: str, share: float, folder: Path) -> Flood:
    flood, load = Flood(name), os.getloadavg()[0]
    with Lab() as lab:
        lab.topics()
        FLOODS[name](lab, share, flood)
    under = conditions(load, 0.0)
    flood.lines.append(", ".join(f"{what}: {under[what]}" for what in ("date", "commit", "load before", "CPU")))
    if share == 1:
        (folder / f"flood-{name}.json").write_text(json.dumps(asdict(flood), indent=1), encoding="utf-8")
    return flood


def kept(folder: Path) -> Iterator[Flood]:
    for name in FLOODS:
        file = folder / f"flood-{name}.json"
        if file.exists():
            yield Flood(**json.loads(file.read_text(encoding="utf-8")))


def _records(lab: Lab, share: float, flood: Flood) -> None:
    """Ten million records, a tenth of them corrupt"""
    count = round(RECORDS * share)
    with lab.monitor("monitor") as monitor:
        monitor.wait_for_queries()
        began = time.time()
        with _publisher(lab, "records", count):
            monitor.work_off(METRICS, count, LIMIT_SECONDS)
        seconds = time.time() - began
        read, rejected = _total(monitor, "records_read_total"), monitor.rejected()
        unreadable = sum(1 for number in range(count) if corruption(number) == "cut")
        rejected_records, twice = _rejects(lab, monitor)
        flood.lines.append(
            f"The monitor read {count:,} records of {CLIENTS:,} clients in {seconds:,.0f} s. {CORRUPT:.0%} of the "
            "records are corrupt. One half of the corrupt records is cut off, and the other half has a wrong byte."
        )
        flood.check(read == count, f"The monitor decoded {read - rejected:,} records and rejected {rejected:,}.")
        flood.check(unreadable <= rejected, f"The monitor must reject all {unreadable:,} records that were cut off.")
        flood.check(
            rejected_records == rejected and not twice,
            f"The topic of rejects contains {rejected_records:,} records, and {twice} duplicates.",
        )
        _memory(monitor, flood, began)


def _lines(lab: Lab, share: float, measured: Flood) -> None:
    """A process that logs without end"""
    seconds = LINES_SECONDS * share

    def flood(monitor: Monitor) -> None:
        with _publisher(lab, "lines", round(LINES * seconds)) as publishing:
            publishing.wait()
        since = time.time()
        sent = ends(lab.servers, LOGS)
        micros = monitor.usage.cost(since - seconds, since).per_record(sent)
        monitor.checkpoints.look()
        left = sent - monitor.checkpoints.count(LOGS)
        monitor.work_off(LOGS, sent, LIMIT_SECONDS)
        measured.lines.append(
            f"One process sent {sent:,} log lines in {seconds:,.0f} s. Each line costs {micros:.1f} µs of CPU in "
            f"monitor and broker. {max(0, left):,} lines were unread when the last line was sent. The monitor had "
            f"read all lines {time.time() - since:.0f} s after the last line was sent."
        )

    _beside(lab, measured, flood, LATER_SECONDS)


def _ids(lab: Lab, share: float, measured: Flood) -> None:
    """A million client ids in a minute"""
    count = round(IDS * share)

    def flood(monitor: Monitor) -> None:
        began = time.time()
        with _publisher(lab, "ids", count) as publishing:
            publishing.wait()
        took = time.time() - began
        monitor.work_off(METRICS, ends(lab.servers, METRICS), LIMIT_SECONDS)
        left_out, rows = _total(monitor, "left_out_total"), _total(monitor, "state_rows")
        measured.lines.append(
            f"{count:,} client ids arrived in {took:.0f} s. The monitor had read all records "
            f"{time.time() - began - took:.0f} s after the last record was sent. The monitor keeps the state of "
            f"{rows:,} clients, and counts {left_out:,} clients as left out."
        )
        monitor.watch(AFTER_SECONDS)
        measured.check(
            rows <= monitor.settings.monitor.max_clients + 32,
            f"The limit (`max_clients`) is {monitor.settings.monitor.max_clients:,} clients.",
        )

    _beside(lab, measured, flood)


def _fleet(lab: Lab, share: float, measured: Flood) -> None:
    """A hundred thousand clients start at once"""
    count = round(FLEET * share)

    def flood(monitor: Monitor) -> None:
        began = time.time()
        with _publisher(lab, "fleet", count * FLEET_READINGS):
            monitor.wait_until(lambda: _state_rows(monitor) >= count, LIMIT_SECONDS)
            took = time.time() - began
        monitor.work_off(METRICS, ends(lab.servers, METRICS), LIMIT_SECONDS)
        measured.lines.append(
            f"{count:,} clients start at once, and report every {INTERVAL_MS // 1000} s. The monitor knows all of them "
            f"after {took:.0f} s, and counts {_total(monitor, 'left_out_total'):,} first samples as left out."
        )
        monitor.watch(AFTER_SECONDS)

    _beside(lab, measured, flood)


#: The docstring of a flood's function is a heading on the page of results.
FLOODS: Mapping[str, Callable[[Lab, float, Flood], None]] = {
    "records": _records,
    "lines": _lines,
    "ids": _ids,
    "fleet": _fleet,
}


def _beside(lab: Lab, outcome: Flood, flood: Callable[[Monitor], None], most: float = math.inf) -> None:
    with lab.monitor("monitor") as monitor, Onlookers(lab.servers, METRICS, 60) as onlookers:
        monitor.wait_for_queries()
        calm_since = time.time()
        monitor.watch(BEFORE_SECONDS)
        began = time.time()
        flood(monitor)
        over = time.time()
        onlookers.settle()
        monitor.watch(AFTER_SECONDS)
        failing, clients = clients_of(lab.servers, monitor.settings.topics.health)
        before, during = (
            {name: failing.get(name, time.time()) - at for name, at in onlookers.stuck(*span)}
            for span in ((calm_since, began - NEXT_SECONDS), (began, over))
        )
        missed = [name for name in during if name not in failing]
        later = max(during.values()) - max(before.values())
        outcome.check(
            not missed and later <= most and median(during.values()) <= ONSET_SECONDS,
            f"During the flood, {len(during)} clients outside the flood became stuck, and the monitor found "
            f"{len(during) - len(missed)} of the stuck clients. The verdicts on stuck clients took "
            f"{median(during.values()):.1f} s (median) and {max(during.values()):.1f} s (longest). Before the flood, "
            f"the verdicts on {len(before)} stuck clients took {median(before.values()):.1f} s (median) and "
            f"{max(before.values()):.1f} s (longest).",
        )
        innocent = set(failing) - {name for name, _ in onlookers.stuck(0, time.time())}
        outcome.check(not innocent and "onlooker-0" in clients, f"{len(innocent)} healthy clients got a wrong verdict.")
        _memory(monitor, outcome, began)


def _memory(monitor: Monitor, flood: Flood, since: float) -> None:
    jvm, python = (monitor.usage.peak_mb(part, since=since) for part in ("jvm", "python"))
    flood.lines.append(
        f"Peak memory: {jvm:,.0f} MB for the JVM, {python:,.0f} MB for all Python processes. Shared memory is counted "
        "once for each process that uses the memory."
    )


def _state_rows(monitor: Monitor) -> float:
    return sum(monitor.metrics().get("state_rows", {}).values())


def _total(monitor: Monitor, name: str) -> int:
    time.sleep(2)
    return round(sum(monitor.metrics().get(name, {}).values()))


def _rejects(lab: Lab, monitor: Monitor) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": lab.servers, "group.id": "rejects", "enable.partition.eof": True})
    topic, places, all_of_them = monitor.settings.topics.rejects, set[tuple[object, object]](), 0
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        left = len(partitions)
        while left:
            for message in consumer.consume(10_000, timeout=5.0):
                if message.error():
                    left -= 1
                    continue
                all_of_them += 1
                headers = dict(message.headers() or ())
                places.add((headers["source_partition"], headers["source_offset"]))
    finally:
        consumer.close()
    return len(places), all_of_them - len(places)


@contextmanager
def _publisher(lab: Lab, what: str, count: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.chaos.publisher", lab.servers, what, str(count)]
    checkpoints = str(lab.folder / "monitor" / "checkpoints")
    process = subprocess.Popen([*command, checkpoints])
    try:
        yield process
        if process.wait(LIMIT_SECONDS):
            raise RuntimeError(f"the publisher of {what} ended with exit code {process.returncode}")
    finally:
        process.kill()
        process.wait()


def corruption(number: int) -> str | None:
    chosen = (number * 2_654_435_761) % 1000
    return "cut" if chosen < 500 * CORRUPT else "changed" if chosen < 1000 * CORRUPT else None


def records(count: int) -> Iterator[tuple[bytes, bytes]]:
    template, chosen = canonical.producer(), random.Random(1)
    start_ms = round(time.time() * 1000) - count // CLIENTS * INTERVAL_MS
    for number in range(count):
        client, reading = number % CLIENTS, number // CLIENTS
        key, value = template.record(values(client, reading, start_ms + reading * INTERVAL_MS))
        match corruption(number):
            case "cut":
                value = value[: chosen.randrange(1, len(value) - 1)]
            case "changed":
                at = chosen.randrange(len(value))
                value = value[:at] + bytes([chosen.randrange(256)]) + value[at + 1 :]
        yield key, value


def fleet(count: int) -> Iterator[tuple[bytes, bytes]]:
    template, clients = canonical.producer(), count // FLEET_READINGS
    for number in range(count):
        yield template.record(values(number % clients, number // clients, round(time.time() * 1000)))


def ids(count: int) -> Iterator[tuple[bytes, bytes]]:
    template = canonical.producer()
    value = template.value.replace(b"service-%(service)d", b"attack-%(service)d")
    for number in range(count):
        filled = {**values(number, 1, round(time.time() * 1000)), b"service": number % 40}
        yield b"attack-%d|host-%d:4711|order-producer" % (number % 40, number), value % filled
