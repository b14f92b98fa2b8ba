"""Reads recordings of real clients into windows in plain Python, so that judges are tested without Spark.

The production path (formats → windows → judging, `kafka-health diagnose`) is tested elsewhere; what is read here
differs from it only in that nothing but a recording's own layout is understood.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from clienthealth.logs.signatures import SIGNATURES, compiled
from clienthealth.records import (
    CLIENT_METRICS,
    CONFIG_OPTIONS,
    TOPIC_METRICS,
    Client,
    ClientWindow,
    Kind,
    LogEvent,
    Reading,
    Source,
    Thread,
    ThreadDump,
    TopicReading,
)

RECORDINGS = Path(__file__).parent / "recordings"
WINDOW_MS, SLIDE_MS = 60_000, 30_000

JAVA_KINDS: Mapping[str, Kind] = {"producer": "producer", "consumer": "consumer"}
ALIASES = {"iotime-total": "io-time-ns-total", "io-waittime-total": "io-wait-time-ns-total"}
NEVER_SECONDS = 1e8


@dataclass(frozen=True)
class Process:
    """One process of a recording: its clients with their readings, its log events and thread dumps."""

    name: str
    clients: Mapping[Client, tuple[Reading, ...]]
    events: tuple[LogEvent, ...]
    dumps: tuple[ThreadDump, ...]
    config: Mapping[str, str]

    def windows(self, client: Client, every_ms: int = 0) -> list[ClientWindow]:
        """Windows of 60 s sliding by 30 s; `every_ms` thins the readings to one in so many milliseconds."""
        readings = thinned(self.clients[client], every_ms)
        events, dumps = self.events_of(client), self.dumps
        times = [*(r.ts_ms for r in readings), *(e.ts_ms for e in events), *(d.ts_ms for d in dumps)]
        found = []
        for start in range((min(times) - WINDOW_MS) // SLIDE_MS * SLIDE_MS, max(times) + 1, SLIDE_MS):
            end = start + WINDOW_MS
            window = ClientWindow(
                client=client,
                start_ms=start,
                end_ms=end,
                readings=tuple(r for r in readings if start <= r.ts_ms < end),
                logs=tuple(e for e in events if start <= e.ts_ms < end),
                dumps=tuple(d for d in dumps if start <= d.ts_ms < end),
                config=self.config if any(start <= r.ts_ms < end for r in readings) else {},
            )
            if window.readings or window.logs or window.dumps:
                found.append(window)
        return found

    def departure(self, client: Client, every_ms: int = 0) -> ClientWindow | None:
        """The window of the client's end: its last reading and the lines that speak of its beginning and end."""
        readings = thinned(self.clients[client], every_ms)
        if not readings:
            return None
        return ClientWindow(
            client=client,
            start_ms=readings[0].ts_ms,
            end_ms=readings[-1].ts_ms + 45_000,
            readings=readings[-1:],
            logs=tuple(
                e
                for e in self.events
                if FAREWELLS.get(e.signature) and (e.client_id or e.captures.get("client")) == client.client_id
            ),
            config=self.config,
            departed_ms=readings[-1].ts_ms,
        )

    def events_of(self, client: Client) -> tuple[LogEvent, ...]:
        """Events that name the client or no client of its process, and speak of its kind."""
        kinds = {s.id: s.kind for s in SIGNATURES}
        return tuple(
            e
            for e in self.events
            if e.client_id in (None, client.client_id) and kinds[e.signature] in (None, client.kind)
        )


FAREWELLS = {s.id: s.mode == "producer-not-closed" for s in SIGNATURES}


def thinned(readings: tuple[Reading, ...], every_ms: int) -> tuple[Reading, ...]:
    """The first reading of every stretch of `every_ms` milliseconds."""
    if not every_ms:
        return readings
    kept: list[Reading] = []
    for reading in readings:
        if not kept or reading.ts_ms >= kept[-1].ts_ms + every_ms - every_ms // 20:
            kept.append(reading)
    return tuple(kept)


@cache
def processes(folder: Path) -> tuple[Process, ...]:
    """The processes of a recording: files with a common prefix are one."""
    prefixes = {""} | {
        path.name.split("-metrics.jsonl")[0] for path in folder.iterdir() if "-metrics.jsonl" in path.name
    }
    return tuple(_process(folder, prefix) for prefix in sorted(prefixes))


def folders(root: Path = RECORDINGS) -> list[Path]:
    """Every recording below tests/recordings, by path."""
    return sorted(path.parent for path in root.rglob("truth.json"))


def _process(folder: Path, prefix: str) -> Process:
    metrics = f"{prefix}-metrics.jsonl.gz" if prefix else "metrics.jsonl.gz"
    log = f"{prefix}.log.gz" if prefix else "app.log.gz"
    clients = _clients(folder / metrics) if (folder / metrics).exists() else {}
    events = tuple(_events(folder / log)) if (folder / log).exists() else ()
    dumps = []
    for path in folder.glob("jstack-*.txt"):
        named = [part for part in path.stem.split("-") if part in ("producer", "consumer")]
        if (named == ["consumer"]) == (prefix == "consumer"):
            dumps.append(dump(path.read_text(encoding="utf-8"), path.name))
    return Process(
        name=f"{folder.name}/{prefix or 'app'}",
        clients=clients,
        events=events,
        dumps=tuple(sorted((d for d in dumps if d), key=lambda d: d.ts_ms)),
        config=_config(folder / "truth.json"),
    )


def _config(truth: Path) -> dict[str, str]:
    """Client options that the recording's own description names (`-Dp.request.timeout.ms=4000`)."""
    text = json.loads(truth.read_text(encoding="utf-8")).get("client_options") or ""
    options = dict(re.findall(r"-Dp\.([\w.]+)=(\S+)", text if isinstance(text, str) else ""))
    return {name: value for name, value in options.items() if name in CONFIG_OPTIONS}


def _clients(path: Path) -> dict[Client, tuple[Reading, ...]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = {}
    for client_id in dict.fromkeys(row["client_id"] for row in rows):
        of_client = [(number, row) for number, row in enumerate(rows) if row["client_id"] == client_id]
        kind = _kind(name for _, row in of_client for name in row["metrics"])
        decoded = [_reading(row, kind, Source(path.name, 0, number)) for number, row in of_client]
        version = next((v for v, _ in reversed(decoded) if v), None)
        client = Client(path.parent.name, "host", f"host:{path.stem}", client_id, kind, "java", version)
        found[client] = tuple(sorted((reading for _, reading in decoded), key=lambda r: r.ts_ms))
    return found


def _kind(names: Iterable[str]) -> Kind:
    group = next((name.split("-")[0] for name in names if name.startswith(("producer-", "consumer-"))), None)
    return JAVA_KINDS[group] if group else "legacy-consumer"


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _reading(row: Mapping[str, Any], kind: Kind, source: Source) -> tuple[str | None, Reading]:
    names = row["metrics"]
    if kind == "legacy-consumer":
        return names.get("kafka.common:name=Version,type=AppInfo/Value"), _legacy(row, source)
    metrics: dict[str, float] = {}
    topics: dict[tuple[str, int | None], dict[str, float]] = defaultdict(dict)
    version = None
    for key, raw in names.items():
        name, topic = _named(key, kind)
        if name == "version":
            version = str(raw)
            continue
        value = _number(raw) if name else None
        if value is None or value == -1 or (name == "metadata-age" and value > NEVER_SECONDS):
            continue
        if topic:
            topics[topic][name] = value
        else:
            metrics[name] = value
    found = tuple(
        TopicReading(topic, partition, None, values)
        for (topic, partition), values in sorted(
            topics.items(), key=lambda t: (t[0][0], -1 if t[0][1] is None else t[0][1])
        )
    )
    return version, Reading(row["ts"], metrics, found, source)


@cache
def _named(key: str, kind: Kind) -> tuple[str, tuple[str, int | None] | None]:
    """What `group/name{tag=value,…}` is to us: a metric, and the topic and partition it is of; '' where nothing."""
    of, _, rest = key.partition("/")
    name, _, tags = rest.partition("{")
    name = ALIASES.get(name, name)
    if name == "version" or key.endswith("type=app-info/Version"):
        return "version", None
    labels = dict(tag.split("=", 1) for tag in tags.rstrip("}").split(",") if "=" in tag)
    if "topic" in labels:
        partition = int(labels["partition"]) if "partition" in labels else None
        return (name, (labels["topic"], partition)) if name in TOPIC_METRICS else ("", None)
    return (name if "node" not in of and ":" not in of and name in CLIENT_METRICS[kind] else ""), None


@cache
def _bean(name: str) -> Mapping[str, str]:
    """`domain:k=v,…` as its properties."""
    return dict(tag.split("=", 1) for tag in name.partition(":")[2].split(","))


def _legacy(row: Mapping[str, Any], source: Source) -> Reading:
    metrics: dict[str, float] = defaultdict(float)
    topics: dict[tuple[str, int | None, str | None], dict[str, float]] = defaultdict(dict)
    for key, raw in row["metrics"].items():
        bean, _, attribute = key.rpartition("/")
        value = _number(raw)
        if value is None or attribute not in ("Value", "Count"):
            continue
        tags = _bean(bean)
        name, topic = tags.get("name"), tags.get("topic")
        if name == "FetchQueueSize" and topic:
            topics[(topic, None, tags.get("threadId"))]["queue-chunks"] = value
        elif name == "ConsumerLag" and topic and value >= 0:
            topics[(topic, int(tags["partition"]), None)]["records-lag"] = value
        elif name == "MessagesPerSec" and tags["type"] == "ConsumerTopicMetrics":
            if topic:
                topics[(topic, None, None)]["messages-total"] = value
            else:
                metrics["messages-total"] = value
        elif name == "FetchRequestRateAndTimeMs":
            metrics["fetch-requests-total"] += value
        elif name == "MaxLag":
            metrics["max-lag"] = value
        elif name == "MinFetchRate":
            metrics["min-fetch-rate"] = value
        elif name in ("KafkaCommitsPerSec", "ZooKeeperCommitsPerSec"):
            metrics["commits-total"] += value
        elif name == "OwnedPartitionsCount" and not topic:
            metrics["owned-partitions"] = value
    found = tuple(
        TopicReading(topic, partition, thread, values)
        for (topic, partition, thread), values in sorted(
            topics.items(), key=lambda t: tuple(str(part) for part in t[0])
        )
    )
    return Reading(row["ts"], dict(metrics), found, source)


LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (\w+) +\[(.*?)\] (\S+) - ", re.MULTILINE)
PREFIX = re.compile(r"\[(?:Producer|Consumer) clientId=([^,\]]+)")
NETWORK_THREAD = "kafka-producer-network-thread | "


def _millis(stamp: str, layout: str) -> int:
    return round(datetime.strptime(stamp, layout).replace(tzinfo=UTC).timestamp() * 1000)


def _events(path: Path) -> Iterator[LogEvent]:
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    literals = re.compile("|".join(re.escape(s.literal) for s in SIGNATURES))
    seen: set[tuple[str, ...]] = set()
    starts = list(LINE.finditer(text))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        hit = literals.search(text, start.end(), end)
        if not hit:
            continue
        stamp, level, thread, logger = start.groups()
        if (hit.group(), thread, stamp[:21]) in seen:
            continue
        seen.add((hit.group(), thread, stamp[:21]))
        body = text[start.end() : end].rstrip("\n")
        for signature in SIGNATURES:
            if signature.literal not in body or (signature.logger and not logger.startswith(signature.logger)):
                continue
            match = compiled(signature).search(body)
            if not match:
                continue
            prefix = PREFIX.search(body)
            client_id = prefix.group(1) if prefix else None
            if client_id is None and thread.startswith(NETWORK_THREAD):
                client_id = thread.removeprefix(NETWORK_THREAD)
            yield LogEvent(
                ts_ms=_millis(stamp, "%Y-%m-%d %H:%M:%S,%f"),
                signature=signature.id,
                text=body[:500],
                client_id=client_id,
                logger=logger,
                level=level,
                thread=thread,
                captures={k: v for k, v in match.groupdict().items() if v},
                source=Source(path.name, 0, number),
            )


HEADER = re.compile(r'^"(?P<name>.*?)"(?P<rest>.*)$')


def dump(text: str, file: str = "dump") -> ThreadDump | None:
    """The threads of a `jstack` text that touch a Kafka client; None where it is no dump."""
    if "Full thread dump" not in text:
        return None
    threads = []
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        header = HEADER.match(lines[0])
        if not header:
            continue
        state = next((line.split("State:")[1].split()[0] for line in lines[1:2] if "State:" in line), "")
        frames = tuple(line.strip()[3:].split("(")[0] for line in lines if line.strip().startswith("at "))
        cpu = re.search(r"cpu=([\d.]+)ms", header["rest"])
        thread = Thread(header["name"], state, frames, float(cpu.group(1)) if cpu else None)
        if thread.name == "DestroyJavaVM" or any("kafka" in part.lower() for part in (thread.name, *frames)):
            threads.append(thread)
    stamp = text.split("\n", 1)[0]
    return ThreadDump(_millis(stamp, "%Y-%m-%d %H:%M:%S"), tuple(threads), Source(file, 0, 0))
