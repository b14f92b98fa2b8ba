"""Read recordings and other files as records, as if the records came from topics.

`metrics.jsonl`  one sample per line
*.log, *.txt   one thread dump, or log entries; a stack trace belongs to the log line above it
other files    records in any known format, one per line; a binary file, JSON document or Prometheus page is one record
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth.model.errors import InputError
from clienthealth.model.telemetry import LogLine, Snapshot
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.mbeans import snapshots

Stream = Literal["metrics", "logs", "any"]
Timed = Literal["own", "file", "order"]
NEW_ENTRY = re.compile(r"^\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}|^%\d\|")
DUMP = re.compile(r"Full thread dump ", re.MULTILINE)
METRIC = re.compile(r"(?P<group>[\w-]+)/(?P<name>[^{}]+)\{(?P<tags>.*)\}")
MAX_ENTRY_LINES = 500
PAGE = (b"# HELP ", b"# TYPE ")


@dataclass(frozen=True)
class Recorded:
    """A record from a file. `offset` is the number of the record's first line, from 0.

    `stream`   the kind of record, if the file's name or the file's reader shows it; `any` if only the record's content
               shows the kind
    `ts_ms`    the time (epoch ms) to use if the record contains no time; 0 if unknown
    `timed`    where the time comes from: `own` (the record or a line before it), `file` (the file's time), or `order`
               (the time is unknown; only the order of the records is known)
    `repeats`  number of equal records of a burst that this record represents
    `content`  the parsed record if it was parsed when the file was read; `value` is then empty. None for other records
    """

    stream: Stream
    service: str
    instance: str
    file: str
    offset: int
    value: bytes
    ts_ms: int = 0
    timed: Timed = "own"
    repeats: int = 1
    content: LogLine | Snapshot | None = None


def read(paths: Sequence[Path]) -> list[Recorded]:
    """Return all records in files and folders; files that end with `.gz` are unpacked.

    Subfolders are read only if the folder itself has no recording (`metrics.jsonl`, `jstack-…`). Raises InputError if a
    path cannot be read, or if there is no record at all.
    """
    records: list[Recorded] = []
    for path in paths:
        try:
            if path.is_dir():
                records += _folder(path)
            elif path.is_file():
                records += _file(path, service=_stem(path), instance=_stem(path))
            else:
                raise InputError(f"{path}: no such file or folder")
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
    if not records:
        raise InputError(f"nothing to read in {', '.join(map(str, paths))}")
    return records


def _folder(folder: Path) -> Iterator[Recorded]:
    files = sorted(f for f in folder.iterdir() if f.is_file())
    subfolders = sorted(f for f in folder.iterdir() if f.is_dir())
    stems = [_stem(file) for file in files]
    recorded = any(stem == "metrics" or stem.endswith("-metrics") or stem.startswith("jstack-") for stem in stems)
    if subfolders and not recorded:
        for inner in subfolders:
            yield from _folder(inner)
        if not files:
            return
    name = folder.resolve().name
    second_of = second_process(stems)
    for file in files:
        if file.name in ("truth.json", "README.md", "loop-lines-per-second.txt"):
            continue
        second = second_of(_stem(file))
        yield from _file(file, service=name, instance=f"{name}/{second}" if second else name)


def second_process(stems: Sequence[str]) -> Callable[[str], str | None]:
    """Return a function that maps a file's name to the name of its process; None means the main process.

    `stems`: the folder's file names without endings. If the folder has `X-metrics.jsonl`, this file and the files
    `X.log`, `X-….log` and `jstack-…X…` belong to process X.
    """
    prefixes = sorted(stem.removesuffix("-metrics") for stem in set(stems) if stem.endswith("-metrics"))

    def process_of(stem: str) -> str | None:
        words = stem.split("-")
        return next((p for p in prefixes if words[0] == p or (words[0] == "jstack" and p in words)), None)

    return process_of


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]


def _file(file: Path, service: str, instance: str) -> Iterator[Recorded]:
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    name = file.name.removesuffix(".gz")
    kind: Stream = "any"
    if name.endswith((".log", ".txt")):
        kind = "logs"
        text = data.decode("utf-8", "replace")
        values: Iterable[tuple[int, bytes]] = [(0, data)] if DUMP.search(text[:4000]) else _entries(text)
    elif name.endswith("metrics.jsonl"):
        kind = "metrics"
        process = ClientProcess(service, instance, instance)
        numbered = ((n, line, readings(line, process)) for n, line in enumerate(data.splitlines()))
        values = (
            (n, value)
            for n, line, content in numbered
            for value in (
                [line] if content is None else [json.dumps(canonical.written(one)).encode() for one in content]
            )
        )
    elif name.endswith((".jsonl", ".ndjson")):
        values = enumerate(data.splitlines())
    else:
        one = name.endswith((".bin", ".pb")) or b"\x00" in data or data.startswith(PAGE) or parsed(data) is not None
        values = [(0, data)] if one else enumerate(data.splitlines())
    for offset, value in values:
        if value.strip():
            yield Recorded(kind, service, instance, file.name, offset, value)


def readings(line: bytes, process: ClientProcess) -> list[Snapshot] | None:
    """Return one snapshot per client in a line of a recording's metrics file; None if the line has another form.

    The line is a JSON object with `ts` (epoch ms) and `metrics`. Metrics are named `group/name{tag=value,…}` or, like
    MBean attributes, `domain:key=value,…/Attribute`.
    """
    try:
        row = json.loads(line)
        ts_ms, values = int(row["ts"]), dict(row["metrics"])
    except (ValueError, TypeError, KeyError):
        return None
    mbeans: dict[str, dict[str, Any]] = {}
    of_producer = any(key.startswith("producer-") for key in values)
    for key, value in values.items():
        mbean, attribute = _mbean(key, "kafka.producer" if of_producer else "kafka.consumer")
        mbeans.setdefault(mbean, {})[attribute] = value
    return snapshots(mbeans, process, ts_ms)


def _mbean(key: str, domain: str) -> tuple[str, str]:
    """Return (MBean's name, attribute) of a metric. If `key` contains no domain, the MBean's domain is `domain`."""
    if (named := METRIC.fullmatch(key)) is None:
        mbean, _, attribute = key.rpartition("/")
        return mbean, attribute
    return f"{domain}:type={named['group']},{named['tags']}", named["name"]


def _entries(text: str) -> Iterator[tuple[int, bytes]]:
    entry: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines()):
        if entry and (NEW_ENTRY.match(line) or len(entry) >= MAX_ENTRY_LINES):
            yield start, "\n".join(entry).encode()
            entry, start = [], number
        entry.append(line)
    if entry:
        yield start, "\n".join(entry).encode()
