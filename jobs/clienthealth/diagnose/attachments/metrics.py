"""Make snapshots of clients from pasted metrics, in any of these forms:

- a Prometheus exposition, scraped once or several times
- `attribute = value`, which JMX shells print after or below the name of an MBean
- `group:name:{tags} : value`, which Kafka's tools print
- JmxTool's CSV, with one sample per line
- a consumer group's listing by `kafka-consumer-groups --describe`, with one partition per line
- within a log line: librdkafka's statistics, answers of Jolokia, `print(producer.metrics())` of kafka-python
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from clienthealth.model.clients import ClientProcess
from clienthealth.model.samples import Samples
from clienthealth.model.tables import table
from clienthealth.model.telemetry import Identity, Member, Snapshot, TopicMetrics
from clienthealth.model.values import epoch, integer, number
from clienthealth.read.formats import _prometheus
from clienthealth.read.logs.times import Times
from clienthealth.read.mbeans import snapshots

UNNAMED = "unnamed"
MAX_TEXT = 1 << 22
_BRACES = 40

_OFFSETS, _OF_MEMBER = ("committed-offset", "end-offset", "records-lag"), ("client_id", "consumer_id", "host")
_TABLES = table(Path(__file__).with_suffix(".toml"))
_TEXTS = {name: "".join(text).replace("%number%", _TABLES["number"]) for name, text in _TABLES["patterns"].items()}
_RE = {name: re.compile(text.replace("%mbean%", _TABLES["mbean"]), re.ASCII) for name, text in _TEXTS.items()}
_LINES = tuple(find for name, find in _RE.items() if name.startswith("line_"))
#: _ANYWHERE matches the beginning of JSON. _AT_LINE matches the blanks before JSON at the beginning of a line. _PARTED
#: matches the text between two documents.
_ANYWHERE = re.compile(r"(?:\[\s*)?\{\s*\"")
_AT_LINE = re.compile(rf"^[ \t\ufeff]*(?={_ANYWHERE.pattern})", re.MULTILINE)
_PARTED = re.compile(r"[\s,]*")
#: The search for JSON ends when the cost of failed attempts exceeds _ATTEMPTS × the text's length. In an attempt, the
#: parser reads a part of the text up to an error, and then counts the line ends in all text before the error. The cost
#: of an attempt is therefore the length of the part, plus 1/_COUNTED of the length of all text before the error.
_ATTEMPTS, _COUNTED = 4, 50
_NOT_NUMBER = re.compile(r"(?<=[\s:(\[,])-?(?:inf|nan)\b")


class Reading(NamedTuple):
    """One sample: the values of one moment. `line`: number of the sample's first line. `ts_ms`: None if unknown."""

    line: int
    ts_ms: int | None
    snapshots: list[Snapshot]


def kind_of(head: str) -> str | None:
    """Return the format of metrics in a text's first lines, such as "JmxTool (CSV)"; None if there are no metrics."""
    rows = [line for line in head.splitlines()[:2_000] if line.strip()]
    if any(_is_csv(line) for line in rows[:20]):
        return "JmxTool (CSV)"
    data_rows = [line for line in rows if not line.startswith("#")]
    samples = [line for line in data_rows if _RE["sample"].match(line) and ("{" in line or "_" in line.split()[0])]
    if samples and len(samples) * 2 > len(data_rows):
        return "Prometheus exposition"
    if any(map(_columns, rows)):
        return "listing of a consumer group"
    if any(_of_client(_RE["sample"].match(line)) or any(pattern.match(line) for pattern in _LINES) for line in rows):
        return "metrics as text"
    heading = next((n for n, line in enumerate(rows) if _RE["heading"].match(line)), None)
    if heading is not None and any(_RE["attribute"].match(line) for line in rows[heading + 1 : heading + 40]):
        return "MBeans as text"
    return None


def _of_client(sample: re.Match[str] | None) -> bool:
    return sample is not None and _prometheus.kind_of(sample["name"]) is not None


def _columns(line: str) -> list[str]:
    """Return our names for the columns of a listing's heading; [] for any other line."""
    heading = line.upper().replace("CURRENT OFFSET", "CURRENT-OFFSET").replace("LOG END OFFSET", "LOG-END-OFFSET")
    names = [_TABLES["columns"].get(cell, "") for cell in _RE["cell"].findall(heading)] if "TOPIC" in heading else []
    return names if {"topic", "partition", *_OFFSETS[:2]}.issubset(names) else []


def _is_csv(line: str) -> bool:
    return "kafka." in line and re.match(r'\ufeff?"?[Tt]ime"?,', line) is not None


def readings(lines: Iterable[str], jvm: ClientProcess, file_ms: int) -> Iterator[Reading]:
    """Yield the samples in the lines of a text. `jvm`: the process in which the measured clients run.

    `file_ms`: the file's time (epoch ms). If a sample has no time, its `Reading.ts_ms` is None, and its snapshots get
    the file's time.
    """
    table: _Table | None = None
    pile = _Pile(jvm, file_ms)
    for count, raw in enumerate(lines):
        line = raw.replace("\r", "").rstrip("\n")
        if _is_csv(line):
            table = _Table(line)
        elif table is not None:
            if row := table.row(line):
                yield Reading(count, row[0], snapshots(row[1], jvm, row[0] or file_ms))
        else:
            yield from pile.take(count, line)
    yield from pile.close()


def timed(found: Iterator[Reading], named_ms: Callable[[], int | None]) -> Iterator[Reading]:
    """Yield the samples of a file. If a file's only sample has no time, the sample gets the time in the file's name.

    `named_ms` returns the time in the file's name, or None.
    """
    begin = list(islice(found, 2))
    if [reading.ts_ms for reading in begin] == [None] and (ts_ms := named_ms()) is not None:
        for snapshot in begin[0].snapshots:
            snapshot.ts_ms = ts_ms
        begin = [begin[0]._replace(ts_ms=ts_ms)]
    return chain(begin, found)


class _Table:
    """Reads JmxTool's CSV. The first line has the MBean and attribute of each column."""

    def __init__(self, header: str) -> None:
        self.columns = [name.strip().rpartition(":") for name in next(csv.reader([header]))]
        self.times = Times.all()

    def row(self, line: str) -> tuple[int | None, dict[str, dict[str, Any]]] | None:
        cells = next(csv.reader([line]), [])
        if len(cells) != len(self.columns):
            return None
        stamp = self.times.stamp(cells[0].strip().encode())
        mbeans: dict[str, dict[str, Any]] = {}
        for (mbean, _, name), cell in zip(self.columns[1:], cells[1:], strict=True):
            mbeans.setdefault(mbean, {})[name] = cell
        return stamp.ts_ms if stamp else None, mbeans


class _Pile:
    """Collects a sample's metrics; a repeated metric or a time begins a new sample."""

    def __init__(self, jvm: ClientProcess, file_ms: int) -> None:
        self.jvm, self.file_ms = jvm, file_ms
        self.times = Times.all()
        self.ts_ms: int | None = None
        self.heading = self.group = ""
        self.columns: list[str] = []
        self._clear(0)

    def _clear(self, line: int) -> None:
        self.line = line
        self.sampled_ms: int | None = None
        self.mbeans: dict[str, dict[str, str]] = {}
        self.series: dict[tuple[str, str], str] = {}
        self.listed: dict[str, dict[tuple[str, int], TopicMetrics]] = {}

    def take(self, count: int, line: str) -> Iterator[Reading]:
        match = _RE["sample"].match(line)
        if match and _of_client(match):
            key = match["name"], match["labels"] or ""
            ts = epoch(number(match["ts"]))
            if key in self.series or (ts is not None and self.sampled_ms not in (None, ts)):
                yield from self.close(count)
            self.series[key], self.sampled_ms = match["value"], ts or self.sampled_ms
            return
        attribute = next((match for pattern in _LINES if (match := pattern.match(line))), None)
        if attribute is not None:
            parts = attribute.groupdict()
            mbean = parts.get("mbean") or f"kafka.{parts['group'].split('-')[0]}:type={parts['group']},{parts['tags']}"
            yield from self._value(count, mbean, parts["name"], parts["value"])
        elif heading := _RE["heading"].match(line):
            self.heading = heading["mbean"]
        elif self.heading and (attribute := _RE["attribute"].match(line)):
            yield from self._value(count, self.heading, attribute["name"], attribute["value"])
        elif columns := _columns(line):
            yield from self.close(count)
            self.columns = columns
        elif self.columns and len(cells := _RE["cell"].findall(line)) > self.columns.index("end-offset"):
            yield from self._partition(count, dict(zip(self.columns, cells, strict=False)))
        elif line.strip() and not match:
            if named := _RE["group_named"].search(line):
                self.group = named[1] or named[2]
            stamp = self.times.stamp(_RE["before_time"].sub("", line, count=1).encode())
            if stamp is not None and stamp.ts_ms is not None and stamp.end > 7:
                yield from self.close(count)
                self.ts_ms, self.heading = stamp.ts_ms, ""

    def _value(self, count: int, mbean: str, name: str, value: str) -> Iterator[Reading]:
        if name in self.mbeans.get(mbean, ()):
            yield from self.close(count)
        self.mbeans.setdefault(mbean, {})[name] = value

    def _partition(self, count: int, row: Mapping[str, str]) -> Iterator[Reading]:
        """Add a row of a listing of consumer groups to the sample.

        If the listing has no columns for members, the partition counts as assigned.
        """
        group, partition = row.get("group") or self.group or UNNAMED, integer(row["partition"])
        metrics = {name: value for name in _OFFSETS if (value := number(row.get(name))) is not None}
        if partition is None or "end-offset" not in metrics:
            return
        if (row["topic"], partition) in self.listed.get(group, ()):
            yield from self.close(count)
        owner = {name: row[name] for name in _OF_MEMBER if row.get(name, "-") not in ("-", "none")}
        member = Member(**owner) if owner or not {*_OF_MEMBER} & {*self.columns} else None
        topic = TopicMetrics(row["topic"], partition, member=member, metrics=metrics)
        self.listed.setdefault(group, {})[row["topic"], partition] = topic

    def close(self, count: int = 0) -> Iterator[Reading]:
        """Yield the collected sample, if there is one. `count`: the line number at which the next sample begins."""
        ts_ms = self.sampled_ms or self.ts_ms
        at = ts_ms or self.file_ms
        process = self.jvm.service, self.jvm.host, self.jvm.instance
        groups = {group: Identity(*process, group, "group", "broker", group=group) for group in self.listed}
        listed = [Snapshot(at, groups[group], topics=[*rows.values()]) for group, rows in self.listed.items()]
        if collected := [*self._exposed(at), *snapshots(self.mbeans, self.jvm, at), *listed]:
            yield Reading(self.line, ts_ms, collected)
            self.ts_ms = None
        self._clear(count)

    def _exposed(self, ts_ms: int) -> list[Snapshot]:
        jvm = self.jvm
        process = Samples(ts_ms, Identity(jvm.service, jvm.host, jvm.instance, library="java"))
        for (name, text), value in self.series.items():
            labels = tuple((key, re.sub(r"\\(.)", r"\1", quoted)) for key, quoted in _RE["label"].findall(text))
            spellings = (name, name.removesuffix("_total"))
            described = [one for spelled in spellings if (one := _prometheus.series(spelled, labels)) is not None]
            subject, ours = described[0][1], described[0][2] or described[-1][2]
            client_id = subject.client_id or _prometheus.label(dict(labels), "client_id_", "id") or UNNAMED
            process.add(subject._replace(client_id=client_id), ours, number(value))
        return process.snapshots(rolled_up=True)


def rounds(document: object) -> list[Any]:
    """Split Jolokia's answers to repeated requests into one list per repetition; return [document] for other JSON."""
    if not isinstance(document, list) or not all(isinstance(one, dict) and "request" in one for one in document):
        return [document]
    result: list[Any] = []
    for one in document:
        if not result or any(one["request"] == answer["request"] for answer in result[-1]):
            result.append([])
        result[-1].append(one)
    return result


class Document(NamedTuple):
    """A JSON document (object or array) in a text.

    `begin`: index of the document's first character. `lines`: the line numbers of the document.
    """

    text: str
    value: Any
    begin: int
    lines: range


def documents(text: str, begins: re.Pattern[str] = _AT_LINE) -> Iterator[Document]:
    """Yield the JSON objects and lists in a text.

    Each document begins at a match of `begins` (by default at the start of a line), or follows another document.
    `Document.lines` are numbered from 0.
    """
    decoder, line, counted, at, left = json.JSONDecoder(), 0, 0, 0, _ATTEMPTS * len(text)
    while left >= 0 and (opened := begins.search(text, at)):
        begin = opened.end() if begins is _AT_LINE else opened.start()
        while text[begin : begin + 1] in ("{", "["):
            try:
                value, at = decoder.raw_decode(text, begin)
            except RecursionError:
                return
            except ValueError as error:
                end = getattr(error, "pos", len(text))
                at, left = begin + 1, left - (end - begin) - end // _COUNTED
                break
            line, counted = line + text.count("\n", counted, begin), begin
            yield Document(text[begin:at], value, begin, range(line, line + 1 + text.count("\n", begin, at)))
            begin = at = _PARTED.match(text, at).end()  # type: ignore[union-attr]


def between(text: str, found: Iterable[Document]) -> str:
    """Return the text outside the JSON documents that were found in it."""
    parts, end = [], 0
    for document in found:
        parts.append(text[end : document.begin])
        end = document.begin + len(document.text)
    return "".join([*parts, text[end:]])


def in_entry(text: str, ts_ms: int) -> list[bytes]:
    """Return the metrics in a log entry, as JSON that the decoders read.

    `ts_ms`: time (epoch ms) for the metrics of kafka-python, which contain no time.
    """
    records = []
    if '\\"txmsgs\\"' in text:
        text = text.replace('\\"', '"')
    if '"txmsgs"' in text or '"mbean"' in text:
        records += [one.text.encode() for one in documents(text, _ANYWHERE) if _is_reading(one.value)]
    if "-metrics'" in text and (printed := _printed(text)):
        envelope = {"client_id": UNNAMED, "ts_ms": ts_ms, "metrics": printed, "library": "kafka-python"}
        records.append(json.dumps(envelope).encode())
    return records


def _is_reading(value: Any) -> bool:
    """Return True for librdkafka's statistics or an answer of Jolokia."""
    listed = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    return any({"brokers", "topics"} <= one.keys() or {"request", "value"} <= one.keys() for one in listed)


def _printed(text: str) -> dict[str, dict[str, Any]] | None:
    """Return the first dict in the text that looks like a client's `metrics()`, or None."""
    at = text.find("{'")
    for _ in range(_BRACES):
        end = _closing(text, at) if at >= 0 else 0
        if not end:
            return None
        try:
            document = ast.literal_eval(_NOT_NUMBER.sub("None", text[at:end]))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            document = None
        if isinstance(document, dict) and any(str(group).endswith("-metrics") for group in document):
            return {str(group): values for group, values in document.items() if isinstance(values, dict)}
        at = text.find("{'", at + 1)
    return None


def _closing(text: str, at: int) -> int:
    """Return the index after the `}` that closes the `{` at index `at`; 0 if there is no such `}`."""
    depth = 0
    for match in re.finditer(r"[{}]", text[at : at + MAX_TEXT]):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return at + match.end()
    return 0
