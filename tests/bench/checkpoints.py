"""Read from Spark's checkpoints how many records each query has processed over time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Batch:
    """A batch of a query. Times are epoch seconds. `ends` maps a topic to the sum of the batch's end offsets in it."""

    query: str
    number: int
    planned: float
    committed: float
    ends: Mapping[str, int]


class Checkpoints:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches: dict[tuple[str, int], Batch] = {}

    def look(self) -> None:
        for commits in self._folder.glob("**/commits"):
            query = str(commits.parent.relative_to(self._folder))
            for commit in commits.iterdir():
                if commit.name.isdigit() and (query, int(commit.name)) not in self._batches:
                    batch = _batch(query, commit)
                    if batch is not None:
                        self._batches[query, batch.number] = batch

    def batches(self, topic: str) -> Mapping[str, Sequence[Batch]]:
        by_query: dict[str, list[Batch]] = {}
        for batch in sorted(self._batches.values(), key=lambda b: b.number):
            if topic in batch.ends:
                by_query.setdefault(batch.query, []).append(batch)
        return by_query

    def worked_off(self, topic: str) -> Sequence[tuple[float, int]]:
        queries = self.batches(topic)
        done = dict.fromkeys(queries, 0)
        progress: list[tuple[float, int]] = []
        for batch in sorted((b for batches in queries.values() for b in batches), key=lambda b: b.committed):
            done[batch.query] = batch.ends[topic]
            count = min(done.values())
            if count > (progress[-1][1] if progress else 0):
                progress.append((batch.committed, count))
        return progress

    def count(self, topic: str) -> int:
        return min((batches[-1].ends[topic] for batches in self.batches(topic).values()), default=0)


def _batch(query: str, commit: Path) -> Batch | None:
    try:
        committed = commit.stat().st_mtime
        lines = (commit.parent.parent / "offsets" / commit.name).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    ends: dict[str, int] = {}
    for line in lines[2:]:
        offsets = json.loads(line) if line.startswith("{") else {}
        for topic, partitions in offsets.items():
            if isinstance(partitions, dict):
                ends[topic] = max(ends.get(topic, 0), sum(partitions.values()))
    planned = json.loads(lines[1])["batchTimestampMs"] / 1000
    return Batch(query, int(commit.name), planned, committed, ends)
