"""Run a Kafka Streams program on the monitor's input topic, for comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clienthealth.platform.jars import java
from deploy.demo import jars
from deploy.demo.processes import Process
from tests.bench.lab import Lab
from tests.bench.publish import Filled
from tests.bench.usage import Usage

KAFKA_STREAMS = "4.1.2"
JARS = jars.JarSet(
    (
        f"org.apache.kafka:kafka-streams:{KAFKA_STREAMS}",
        "com.fasterxml.jackson.core:jackson-databind:2.19.4",
        "ch.qos.reload4j:reload4j:1.2.26",
        "org.slf4j:slf4j-reload4j:1.7.36",
    )
)
PROGRAM = Path(__file__).with_name("WindowedIndicators.java")
LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class PeerPass:
    rate: float
    micros: float
    broker_micros: float
    cold_rate: float
    peak_mb: float
    windows: int

    @property
    def total(self) -> float:
        return self.micros + self.broker_micros


def run(lab: Lab, name: str, topic: str, filled: Filled, threads: int) -> PeerPass:
    process = started(lab, name, topic, filled.records, threads)
    try:
        with Usage({"peer": process.pid, "broker": lab.broker.pid}) as usage:

            def done() -> bool:
                rows = progress(process.log)
                return bool(rows) and rows[-1][1] >= filled.records

            process.wait_until(done, LIMIT_SECONDS)
            rows = progress(process.log)
            first = next(row for row in rows if row[1] > 0)
            half = next(row for row in rows if row[1] >= filled.records / 2)
            last = next(row for row in rows if row[1] >= filled.records)
            broker = usage.cost(half[0], last[0]).per_record(last[1] - half[1], "broker")
            peak_mb = usage.peak_mb("peer")
    finally:
        process.stop(20)
    peer_pass = PeerPass(
        rate=(last[1] - half[1]) / (last[0] - half[0]),
        micros=(last[2] - half[2]) / (last[1] - half[1]) * 1e6,
        broker_micros=broker,
        cold_rate=last[1] / (last[0] - first[0]),
        peak_mb=peak_mb,
        windows=last[3],
    )
    print(
        f"  {name}: {peer_pass.rate:,.0f} records/s warm ({peer_pass.cold_rate:,.0f} from the first record), "
        f"CPU {peer_pass.micros:.1f} + {peer_pass.broker_micros:.1f} µs a record, {peer_pass.peak_mb:,.0f} MB",
        flush=True,
    )
    return peer_pass


def started(lab: Lab, name: str, topic: str, records: int, threads: int) -> Process:
    jars.SETS.setdefault("streams", JARS)
    folder = lab.folder / name
    folder.mkdir()
    path = os.pathsep.join(map(str, jars.classpath("streams")))
    command = [java(), "-Xmx1g", "-cp", path, str(PROGRAM)]
    command += [lab.servers, topic, str(records), str(threads), str(folder / "state")]
    return Process(name, command, folder / "output.txt")


def progress(output: Path) -> Sequence[tuple[float, int, float, int]]:
    """Return (epoch seconds, records read, CPU seconds, expired windows) for each of the program's reports."""
    lines = []
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) == 4 and all(word.isdigit() for word in words):
            lines.append((int(words[0]) / 1000, int(words[1]), int(words[2]) / 1e9, int(words[3])))
    return lines
