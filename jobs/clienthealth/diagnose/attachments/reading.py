"""Turn a stream of bytes into records. A record contains data that may be about a Kafka client.

Only a text of at most 16 MiB (WHOLE) is examined as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from clienthealth.diagnose.attachments import exports, metrics
from clienthealth.diagnose.attachments.archives import UnreadableError
from clienthealth.diagnose.attachments.entries import METRICS, Entry, Splitter
from clienthealth.diagnose.attachments.opening import CUT, EXPLAINED, Input, Stream, named
from clienthealth.diagnose.attachments.pastes import Context, context, restored
from clienthealth.diagnose.attachments.text import Layout, Stripped, blocks, encoding_of, plain, unwrapper, utf8
from clienthealth.model.clients import ClientProcess
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import Dump, LogLine, RawRecord, Snapshot
from clienthealth.model.values import EARLIEST_MS, mapping
from clienthealth.modes import catalogue
from clienthealth.read.decode import Decoded, decode_any
from clienthealth.read.formats._json_layouts import ANY_LAYOUT, line_of, parsed
from clienthealth.read.formats._protobuf import signal
from clienthealth.read.logs import lines as log_lines
from clienthealth.read.logs.dump_formats import dumps_in, dumps_of_document, is_dump_document
from clienthealth.read.logs.events import LIBRARIES
from clienthealth.read.logs.fields import named_client
from clienthealth.read.logs.reports import reports_in
from clienthealth.read.logs.times import time_in_name, zone_between
from clienthealth.read.recordings import Recorded, Timed, readings
from clienthealth.settings import Settings

WHOLE = 1 << 24
_SAMPLE = 1 << 16
_MARKS = b"clientId= client_id= #producer- #consumer- org.apache.kafka kafka-producer-network LOG-END-OFFSET".split()
_OBJECT = re.compile(rb"\s*(?:\[\s*)?\{\s*\"")
_POINT = re.compile(rb"[^\s,=#]+(?:,[^\s,=]+=[^\s,=]+)+ [^\s=]+=")
#: A time or a stack frame shows that a program wrote the entry, not a person.
_LOGGED = re.compile(r"\d\d:\d\d:\d\d|\|\d{10}\.\d|^\s+at |^\s+File \"|^#\d", re.MULTILINE)
_LIBRARY = re.compile(LIBRARIES.encode(), re.IGNORECASE)

_Topic = Literal["metrics", "logs", "any"]
_Value = bytes | LogLine | Snapshot
Progress = Callable[[str, int, int | None], None]


class Reader:
    """Reads the records of one stream.

    `progress`  a function, called after each read with the input's name, the number of bytes read so far, and the
                input's size (None if unknown)
    `now_ms`    the present time (epoch ms), for files without a credible time of modification
    `undated`   maps a process to the time (epoch ms) that its undated data gets; all readers share this mapping
    """

    def __init__(
        self,
        stream: Stream,
        settings: Settings,
        now_ms: int,
        progress: Progress | None = None,
        undated: dict[tuple[str, str], int] | None = None,
    ) -> None:
        self.input: Input = stream.input
        self.settings, self.now_ms = settings, now_ms
        self._stream, self._progress = stream, progress
        self._done = 0
        believable = stream.file_ms is not None and EARLIEST_MS <= stream.file_ms <= now_ms + 60_000
        self._file_ms = stream.file_ms if believable and stream.file_ms else now_ms
        self._anchors = {} if undated is None else undated
        self._undated: Timed = "file" if believable else "order"
        self._cut = False
        self._found = self._logs = self._beside_kafka = False
        self._context: Callable[[int], Context] = lambda _: "logged"
        self._narrated: Mapping[int, float] = {}
        # Numbers of the lines that a person wrote, except lines that are part of an entry.
        self._narration: set[int] = set()
        service, instance = stream.process
        self._jvm = ClientProcess(service, instance, instance)

    def records(self) -> Iterator[Recorded]:
        """Yield the records of the stream as they are read."""
        if not (head := self._stream.head):
            self.input.what, self.input.left_out = "empty", {"empty": 1}
            return
        unwrap = unwrapper(head)
        if unwrap is None and encoding_of(head) is None:
            if signal(head):
                yield from self._protobuf(head)
                return
            self.input.what = "binary"
            self.input.cannot_read("binary, not text")
            return
        text = blocks(self._read, head)
        if unwrap is not None:
            self.input.what, text = unwrap[0], unwrap[1](text)
        begin, small = self._begin(self._noting_clients(text))
        if small:
            yield from self._whole(plain(b"".join(begin)))
        else:
            yield from self._large(b"".join(begin[:3]), chain(begin, self._noting_clients(text)))
        if self._cut:
            self.input.cannot_read(CUT)

    def _read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except (UnreadableError, OSError) as error:
            self.input.cannot_read(f"reading it failed ({error})" if isinstance(error, OSError) else str(error))
            return b""
        self._done += len(data)
        if self._progress is not None:
            self._progress(self.input.name, self._done, self._stream.size)
        return data

    def _noting_clients(self, text: Iterator[bytes]) -> Iterator[bytes]:
        for block in text:
            self.input.names_client = self.input.names_client or any(mark in block for mark in _MARKS)
            yield block

    def _begin(self, text: Iterator[bytes]) -> tuple[list[bytes], bool]:
        read_blocks, size = [], 0
        for block in text:
            read_blocks.append(block)
            size += len(block)
            if size > WHOLE:
                break
        return read_blocks, size <= WHOLE

    def _protobuf(self, head: bytes) -> Iterator[Recorded]:
        content, small = self._begin(blocks(self._read, head))
        if not small:
            self.input.cannot_read("oversized")
            return
        self._what("OTLP protobuf")
        self.input.read = 1
        yield self._document(0, b"".join(content))

    def _whole(self, content: bytes) -> Iterator[Recorded]:
        lines = content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        elif len(lines) > 1:
            self._cut = True
        filled = [line for line in lines if line.strip()]
        if not filled:
            self.input.what, self.input.left_out = "empty", {"empty": 1}
            return
        if _is_reading(filled[0]):
            yield from self._readings_of(lines)
            return
        by_line = len(filled) > 1 and _is_by_line(filled[:50])
        if by_line and any(map(self._has_metrics, filled[:20])):
            yield from self._record_lines("JSON lines", lines)
            return
        # The first line of an excerpt may be incomplete.
        point = next((line for line in lines[:10] if _POINT.match(line)), None)
        if point is not None and self._decoded(point).format == "influx":
            yield from self._record_lines("line protocol", lines)
            return
        by_line = by_line and not is_dump_document(utf8(filled[0]).decode())
        taken = set() if by_line else (yield from self._documents(content.decode("utf-8", "replace")))
        rest = [b"" if number in taken else line for number, line in enumerate(lines)]
        if not taken:
            yield from self._text_of(content, lines)
        elif any(line.strip() for line in rest):
            yield from self._text_of(b"\n".join(rest) + b"\n", rest)

    def _text_of(self, content: bytes, lines: list[bytes]) -> Iterator[Recorded]:
        """Yield the records of a text. The text is an export, a paste, metrics, thread dumps or a log."""
        rows, what = exports.exported(content, lines, self._is_recognised)
        if rows:
            self.input.what, self._cut = what, self._cut and what != exports.DOCUMENT
        # Call `restored` only for a pasted text: in an export, the function might remove JSON's quotation marks.
        content = content if rows else restored(content)
        self._context, self._narrated = context(b"" if rows else content)
        first = next((line for line in content.split(b"\n") if line.strip()), b"")
        broken = self._decoded(content).errors if not rows and _OBJECT.match(content) and parsed(first) is None else []
        lines = (rows or content).split(b"\n")
        if not lines[-1]:
            lines.pop()
        layout = self._learned(lines)
        parted = [layout.shipped.parted(line) for line in lines]
        text = [utf8(line.line).decode() for line in parted]
        kind = metrics.kind_of("\n".join(text[:2_000]))
        if kind:
            yield from self._metrics(kind, text)
            if kind == "Prometheus exposition" or kind.startswith("JmxTool"):
                return
        taken = yield from self._dumps_of(lines, parted, layout)
        rest = [b"" if number in taken else line for number, line in enumerate(lines)]
        if any(line.strip() for line in rest):
            self._narration = set(self._narrated)
            yield from self._log([b"\n".join(rest) + b"\n"], layout)
            # A person may report a failure in words that no log pattern contains.
            for number in sorted(self._narration):
                if any(reports_in(rest[number].decode("utf-8", "replace"), self._narrated[number])):
                    yield from self._entry(Entry(number, None, rest[number], numbers=[number]))
        else:
            self.input.read = len(lines)
        if broken and not self.input.unread and not self.input.used:
            self.input.cannot_read(broken[0])

    def _readings_of(self, lines: Iterable[bytes]) -> Iterator[Recorded]:
        for number, line in self._filled("metrics.jsonl", lines):
            content = readings(line, self._jvm)
            if content is None and line.lstrip()[:1] == b"{" and parsed(line) is None:
                self.input.cannot_read("truncated-json")
            elif content is None:
                yield self._record("metrics", number, line)
            else:
                yield from (self._record("metrics", number, snapshot) for snapshot in content)

    def _documents(self, text: str) -> Generator[Recorded, None, set[int]]:
        """Yield records for the JSON documents in `text`; return the numbers of their lines."""
        every = list(metrics.documents(text))
        alone = not metrics.between(text, every).strip(" \t\r\n,\ufeff")
        telling = [document for document in every if self._listed(document, alone)]
        values = [document.value for document in every]
        # Yield documents in an unknown format, too, so that the report gives the reason why they are rejected.
        if alone and (telling or not (exports.of_documents(values) or metrics.kind_of(text))):
            telling = every
        taken = {number for document in telling for number in document.lines}
        listed = [one for document in telling for one in self._listed(document, alone) or [document.value]]
        records = [json.dumps(one).encode() for one in listed if not isinstance(one, Dump)]
        if dumps := [one for one in listed if isinstance(one, Dump)]:
            yield from self._dump_records(dumps, lambda _: 0)
        yield from (self._document(number, record) for number, record in enumerate(records))
        self._cut = self._cut and text.count("\n") not in taken
        if records:
            self._found = True
            self._what("JSON document" if len(records) == 1 else "JSON documents")
            self.input.read += len(records)
        return taken

    def _listed(self, document: metrics.Document, alone: bool) -> list[Any]:
        """Return the thread dumps or records in a JSON document. `alone`: True if the text is only JSON."""
        value = document.value
        if is_dump_document(document.text) and (dumps := dumps_of_document(value, len(document.lines))):
            return [_numbered(dump, document.lines) for dump in dumps]
        says = self._is_recognised if alone else self._has_metrics
        if says(document.text.encode("utf-8", "replace")):
            return metrics.rounds(value)
        listed = value if isinstance(value, list) else []
        return listed if any(says(json.dumps(one).encode()) for one in listed[:20]) else []

    def _record_lines(self, what: str, lines: Iterable[bytes]) -> Iterator[Recorded]:
        yield from (self._document(number, line) for number, line in self._filled(what, lines))

    def _filled(self, what: str, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        self._what(what)
        self._cut = False  # A record that is cut off is invalid JSON, so the decoder already reports it.
        for number, line in enumerate(lines):
            self.input.read = number + 1
            if line.strip():
                yield number, line

    def _document(self, number: int, value: bytes) -> Recorded:
        """Return a record with JSON. If the JSON has no time, the record gets the time of the file."""
        timeless = any(error.startswith("missing-timestamp") for error in self._decoded(value).errors)
        # A document without samples and lines (Jolokia's 404) needs no time.
        dated = self._decoded(value, self.now_ms) if timeless else None
        timeless = dated is not None and bool(dated.snapshots or dated.lines)
        return self._record("any", number, value, None if timeless else 0)

    def _has_metrics(self, content: bytes) -> bool:
        decoded = self._decoded(content)
        return bool(decoded.snapshots) or "missing-identity: client_id" in decoded.errors

    def _is_recognised(self, content: bytes) -> bool:
        decoded = self._decoded(content)
        lacks = any(error.startswith(("missing-identity", "missing-timestamp")) for error in decoded.errors)
        return decoded.format not in (None, "plain_text") and bool(decoded.snapshots or decoded.lines or lacks)

    def _decoded(self, content: bytes, ts_ms: int = 0) -> Decoded:
        raw = RawRecord(content, Source(self._stream.file, 0, 0), ts_ms, None, {"instance": b"-"})
        return decode_any(raw, self.settings, self.now_ms)

    def _metrics(self, kind: str, text: Iterable[str]) -> Iterator[Recorded]:
        self._what(f"metrics ({kind})")
        last, names_client = 0, False
        for reading in metrics.timed(metrics.readings(text, self._jvm, self._file_ms), self._time_in_name):
            last, names_client = reading.line, names_client or bool(reading.snapshots)
            self.input.span(reading.ts_ms)
            yield from (self._record("metrics", last, snapshot, reading.ts_ms) for snapshot in reading.snapshots)
        self.input.read = max(self.input.read, last + 1, len(text) if isinstance(text, list) else 0)
        if not names_client:
            self.input.left_out = {"no-metrics": self.input.read}

    def _dumps_of(
        self, lines: list[bytes], parted: list[Stripped], layout: Layout
    ) -> Generator[Recorded, None, set[int]]:
        """Yield the dumps of each pod or program; return the numbers of their lines."""
        writers: dict[bytes, list[tuple[int, bytes]]] = {}
        for number, stripped in enumerate(parted):
            writers.setdefault(stripped.key, []).append((number, stripped.line))
        taken: set[int] = set()
        timed = sum(layout.times.begins(line) for line in lines[:200]) if layout.times.forms else 0
        alone = timed * 5 < len(lines[:200])
        for key, written in writers.items():
            text = utf8(b"\n".join(line for _, line in written)).decode()
            dumps = [_numbered(dump, [number for number, _ in written]) for dump in dumps_in(text, alone)]
            if not dumps:
                continue
            writer = utf8(key).decode() if len(layout.shipped.keys) > 1 else ""
            yield from self._dump_records(dumps, layout.time_before(dict(written)), writer)
            taken.update(at for dump in dumps for at in dump.taken)
            self._local(max((dump.ts_ms or 0 for dump in dumps), default=0))
        if taken:
            # `_dump_records` reports whether a dump in the last line is cut off.
            self._cut = self._cut and len(lines) - 1 not in taken
        return taken

    def _dump_records(
        self, dumps: list[Dump], time_before: Callable[[int], int], writer: str = ""
    ) -> Iterator[Recorded]:
        self._found = True
        self._what(", ".join(sorted({dump.what for dump in dumps})))
        last_ms: int | None = None
        for dump in dumps:
            first = min(dump.taken, default=0)
            last_ms = ts_ms = dump.ts_ms or time_before(first) or last_ms or self._time_in_name()
            self.input.span(ts_ms)
            if dump.complete is False:
                self.input.cannot_read("thread dump(s) that are cut off")
            self.input.read += len(dump.taken)
            # `diagnose` adds 1 to `used` for the dump's record.
            self.input.used += max(0, len(dump.taken) - 1)
            yield self._record("logs", first, LogLine(ts_ms=ts_ms, dumps=[dump]), ts_ms, writer)

    def _local(self, last_ms: int) -> None:
        """Mark the times as local, and guess their zone from the file's time of modification."""
        if last_ms:
            self.input.local = True
            dated = self._undated == "file"
            self.input.zone_ms = zone_between(last_ms, self._file_ms) if dated else None

    def _time_in_name(self) -> int | None:
        if (named := time_in_name(self._stream.file, self._file_ms)) is None:
            return None
        self.input.dated, self.input.named = False, "day" if named.dated else "clock"
        return named.ts_ms

    def _large(self, begin: bytes, text: Iterator[bytes]) -> Iterator[Recorded]:
        """Yield the records of a large text. `text`: all blocks of the text. `begin`: a copy of the first blocks."""
        sample = plain(begin[: begin.find(b"\n", _SAMPLE) + 1]).split(b"\n")[:-1]
        filled = [line for line in sample if line.strip()][:50]

        def all_lines() -> Iterator[bytes]:
            for block in text:
                self._cut = not block.endswith(b"\n")
                yield from plain(block).removesuffix(b"\n").split(b"\n")

        if filled and _is_reading(filled[0]):
            yield from self._readings_of(all_lines())
            return
        if _is_by_line(filled) and any(map(self._has_metrics, filled[:20])):
            yield from self._record_lines("JSON lines", all_lines())
            return
        layout = self._learned(sample)
        kind = metrics.kind_of("\n".join(map(layout.text, sample)))
        if kind in ("Prometheus exposition", "JmxTool (CSV)"):
            yield from self._metrics(kind, map(layout.text, all_lines()))
            return
        yield from self._log(text, layout)

    def _learned(self, lines: list[bytes]) -> Layout:
        layout = Layout.learned(lines, self._file_ms)
        self._beside_kafka = self.input.names_client or any(map(_LIBRARY.search, lines))
        if layout.shipped.names:
            self.input.what = ", ".join(filter(None, (self.input.what, *layout.shipped.names)))
        return layout

    def _log(self, text: Iterable[bytes], layout: Layout) -> Iterator[Recorded]:
        splitter = Splitter(layout)
        self.input.dated = layout.times.dated
        for block in text:
            self._cut = self._cut or not block.endswith(b"\n")
            for entry in splitter.take(block):
                yield from self._entry(entry)
        for entry in splitter.close():
            yield from self._entry(entry)
        if splitter.first_ms is not None and (self._logs or not self._found):
            self.input.span(splitter.first_ms, splitter.last_ms)
            if layout.times.zoned:
                # If the times are in UTC, the machine's zone stays unknown: a machine in any zone may log in UTC.
                self.input.zone_ms = -layout.times.ahead_ms or None
            elif splitter.zone_ms is not None:
                self.input.zone_ms = splitter.zone_ms
            elif layout.times.dated:
                self._local(splitter.last_ms or 0)
        if not self._found and not self.input.what.startswith("metrics"):
            self._what("log")
        if self._logs or not self.input.what.startswith("JSON doc"):
            self.input.read = max(self.input.read, splitter.lines)
        if splitter.glued * 2 > splitter.telling:
            self.input.cannot_read("lines about Kafka, in an unknown layout", splitter.glued)

    def _entry(self, entry: Entry) -> Iterator[Recorded]:
        self._logs = True
        self._narration.difference_update(entry.numbers)
        value, text = entry.value, entry.value.decode("utf-8", "replace")
        if entry.dump and (dumps := dumps_in(text, False)):
            for dump in dumps:
                numbered, ts_ms = _numbered(dump, entry.numbers), dump.ts_ms or entry.ts_ms
                line = LogLine(ts_ms=ts_ms, dumps=[numbered])
                yield self._record("logs", min(numbered.taken), line, ts_ms, entry.key)
            return
        if any(mark in value for mark in METRICS) and (
            in_entry := metrics.in_entry(text, entry.ts_ms or self._file_ms)
        ):
            yield from (self._record("any", entry.line, reading, entry.ts_ms, entry.key) for reading in in_entry)
            return
        document = parsed(value.strip()) if value.lstrip().startswith((b"{", b"[")) else None
        own = line_of(document, ANY_LAYOUT) if isinstance(document, dict) else LogLine()
        # JSON that is no record is read as text, because a value may be a client's log message.
        if own.message or (isinstance(document, dict | list) and self._is_recognised(value)):
            self.input.span(own.ts_ms)
            yield self._record("any", entry.line, value, entry.ts_ms if own.ts_ms is None else own.ts_ms, entry.key)
            return
        if value.startswith(b'{"'):
            self.input.cannot_read("truncated-json")
        begin, end = (entry.stamp.begin, entry.stamp.end) if entry.stamp is not None else (0, 0)
        line = log_lines.entry(text, begin, end).line
        line.numbers = tuple(entry.numbers)
        found, logged = self._context(entry.line), entry.stamp or _LOGGED.search(text)
        owned = line.logger or line.thread or named_client(line.message, None)
        bare = not logged and (not owned or "..." in text or "…" in text)
        line.beside_kafka = self._beside_kafka
        line.narrated = None if logged or owned else self._narrated.get(entry.line)
        line.explained = found == "explained" and not entry.stamp
        if line.explained and any(catalogue().matches(text, None, narrated=line.narrated)):
            self.input.leave_out(EXPLAINED)
        line.quoted = found == "explained" or (found == "quoted" and bare)
        if entry.ts_ms is not None:
            line.ts_ms = entry.ts_ms
        yield self._record("logs", entry.line, line, line.ts_ms, entry.key, entry.repeats)

    def _record(
        self, stream: _Topic, number: int, value: _Value, ts_ms: int | None = 0, writer: str = "", repeats: int = 1
    ) -> Recorded:
        """Return a record. `ts_ms`: the record's time; 0 if `value` contains the time, None if the time is unknown."""
        service, instance = self._stream.process
        if writer:
            service, instance = named(writer)
            self.input.process = None
        timed: Timed = "own"
        if ts_ms is None:
            ts_ms, timed = self._anchors.setdefault((service, instance), self._file_ms), self._undated
            self.input.timed = False
        self.input.topics |= {f"{instance}/{self._stream.file}"}
        data, content = (value, None) if isinstance(value, bytes) else (b"", value)
        return Recorded(stream, service, instance, self._stream.file, number, data, ts_ms, timed, repeats, content)

    def _what(self, what: str) -> None:
        self.input.what = f"{what} ({self.input.what})" if self.input.what else what


def _numbered(dump: Dump, numbers: Sequence[int]) -> Dump:
    """Number a dump's lines as in the file: line i of the dump's text is line `numbers[i]` of the file."""
    for thread in dump.threads:
        thread.line = numbers[thread.line]
    dump.taken = frozenset(numbers[at] for at in dump.taken)
    return dump


def _is_reading(line: bytes) -> bool:
    """Return True if the line is a recording's sample, with metrics named `MBean/attribute`."""
    document = mapping(parsed(line) if b'"metrics"' in line and b'"client_id"' in line else None)
    values = document.get("metrics")
    if not isinstance(document.get("ts"), int) or not isinstance(values, dict):
        return False
    return not values or any("/" in name for name in values)


def _is_by_line(lines: Sequence[bytes]) -> bool:
    """Return True if at least 3/4 of the lines begin like JSON, and at least 1/2 of all lines are valid JSON."""
    begun = [line for line in lines if line.lstrip()[:1] in (b"{", b"[")]
    if not begun or len(lines) < (len(lines) - len(begun)) * 4:
        return False
    return sum(isinstance(parsed(line), dict | list) for line in begun) * 2 >= len(lines)
