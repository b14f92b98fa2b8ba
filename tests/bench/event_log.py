"""Read from Spark's event log how long the parts of a query's batches took."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


@dataclass(frozen=True)
class BatchTime:
    """The times of a batch in seconds. `busy` is the time with at least one running stage."""

    records: int
    begin: float
    seconds: float
    busy: float
    tasks: float
    shuffle: float
    state: float

    @property
    def driver(self) -> float:
        return 1 - self.busy / self.seconds


def batches(folder: Path) -> Sequence[BatchTime]:
    events = list(_events(folder))
    stages = [_stage(e["Stage Info"]) for e in events if e["Event"] == "SparkListenerStageCompleted"]
    tasks = [e for e in events if e["Event"] == "SparkListenerTaskEnd" and e.get("Task Metrics")]
    listed = []
    for event in events:
        if event["Event"] != PROGRESS:
            continue
        progress = event["progress"] if isinstance(event["progress"], dict) else json.loads(event["progress"])
        begin = datetime.fromisoformat(progress["timestamp"]).timestamp()
        seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
        records = sum(source.get("numInputRows", 0) for source in progress["sources"])
        if not records:
            continue
        inside = [(a, b) for a, b in stages if begin <= a <= begin + seconds]
        mine = [t["Task Metrics"] for t in tasks if begin <= t["Task Info"]["Launch Time"] / 1000 <= begin + seconds]
        listed.append(
            BatchTime(
                records,
                begin,
                seconds,
                _union(inside),
                sum(task["Executor Run Time"] for task in mine) / 1000,
                sum(map(_shuffle, mine)),
                sum(operator.get("commitTimeMs", 0) for operator in progress["stateOperators"]) / 1000,
            )
        )
    return listed


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def _stage(info: Mapping[str, Any]) -> tuple[float, float]:
    return info["Submission Time"] / 1000, info["Completion Time"] / 1000


def _shuffle(task: Mapping[str, Any]) -> float:
    read, written = task.get("Shuffle Read Metrics", {}), task.get("Shuffle Write Metrics", {})
    return float(read.get("Fetch Wait Time", 0) / 1e3 + written.get("Shuffle Write Time", 0) / 1e9)


def _union(spans: Sequence[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
