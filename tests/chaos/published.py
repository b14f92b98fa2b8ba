"""Read a monitor's history, rejects and newest states without the monitor's own code."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, TopicPartition

Row = Mapping[str, Any]
ANSWER_SECONDS = 20.0
LOOK_SECONDS = 0.1


class Table:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0
        self.rows: list[Row] = []

    def look(self) -> list[Row]:
        while (log := self._folder / "_delta_log" / f"{self._version:020}.json").exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                action = json.loads(line)
                if "remove" in action:
                    raise ValueError(f"{log}: a file was removed from a table that is only appended to")
                if "add" in action:
                    self.rows += map(_plain, pq.ParquetFile(self._folder / action["add"]["path"]).read().to_pylist())
            self._version += 1
        return self.rows


def _plain(row: Row) -> Row:
    return {name: _ms(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _ms(time: datetime) -> int:
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass
class History:
    folder: Path
    minutes: Table = field(init=False)
    verdicts: Table = field(init=False)
    quality: Table = field(init=False)

    def __post_init__(self) -> None:
        self.minutes, self.verdicts, self.quality = (
            Table(self.folder / name) for name in ("minutes", "verdicts", "quality")
        )


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
    )


class Ends:
    def __init__(self, servers: str) -> None:
        self._consumer = _consumer(servers)

    def ends(self, topic: str) -> Mapping[int, int]:
        listed = self._consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions
        places = (TopicPartition(topic, number) for number in listed)
        return {p.partition: self._consumer.get_watermark_offsets(p, timeout=ANSWER_SECONDS)[1] for p in places}

    def close(self) -> None:
        self._consumer.close()


class Topic:
    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._consumer = _consumer(servers)
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self._at: dict[int, int] = {}

    def look(self, seconds: float = ANSWER_SECONDS) -> list[tuple[bytes | None, bytes | None]]:
        listed = self._consumer.list_topics(self._topic, timeout=seconds).topics[self._topic].partitions
        self._consumer.assign([TopicPartition(self._topic, p, self._at.get(p, 0)) for p in listed])
        left, deadline = set(listed), time.monotonic() + seconds
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {self._topic} was not reached in {seconds:.0f} s")
            for message in self._consumer.consume(1_000, timeout=LOOK_SECONDS):
                error = message.error()
                if error is None:
                    self.records.append((message.key(), message.value()))
                    self._at[message.partition() or 0] = (message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        self._consumer.unassign()
        return self.records

    def close(self) -> None:
        self._consumer.close()


def position(checkpoint: Path) -> Mapping[str, Mapping[int, int]]:
    done = sorted((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), reverse=True)
    for number in done:
        try:
            lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
            # Skip Spark's rate source: it has a number in place of offsets.
            sources = [read for line in lines[2:] if isinstance(read := json.loads(line), dict)]
        except (OSError, ValueError):
            continue
        ends = {topic: of for source in sources for topic, of in source.items()}
        return {topic: {int(p): offset for p, offset in of.items()} for topic, of in ends.items()}
    return {}


@dataclass(frozen=True)
class Incident:
    client: str
    mode: str
    status: str
    end: str | None
    changed_ms: int


def incidents(verdicts: list[Row]) -> Iterator[Incident]:
    by_client: dict[tuple[str, str], list[Row]] = {}
    for row in verdicts:
        key = "|".join(row[name] for name in ("service", "instance", "client_id"))
        by_client.setdefault((key, row["mode"]), []).append(row)
    for (key, mode), rows in by_client.items():
        status: str | None = None
        first = 0
        for row in sorted(rows, key=lambda row: (row["observed"], row["ts"], _ORDER[row["change"]])):
            if (row["change"] == "opened") != (status is None):
                raise ValueError(f"{key} {mode}: {row['change']} while the incident is {status or 'not open'}")
            if row["change"] in ("opened", "escalated"):
                first = row["ts"] if status is None else first
                status = row["status"]
            else:
                assert status is not None
                yield Incident(key, mode, status, row["change"], first)
                status = None
        if status is not None:
            yield Incident(key, mode, status, None, first)


_ORDER = {"opened": 0, "escalated": 1, "closed": 2, "withdrawn": 2}


def newest(records: list[tuple[bytes | None, bytes | None]]) -> dict[str, Any]:
    by_key: dict[str, Any] = {}
    for key, value in records:
        name = (key or b"").decode()
        if value is None:
            by_key.pop(name, None)
        else:
            by_key[name] = json.loads(value)
    return by_key
