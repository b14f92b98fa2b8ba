"""Define what must hold for every input of the fuzzer."""

from __future__ import annotations

import atexit
import bz2
import dataclasses
import gzip
import io
import json
import lzma
import math
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import zstandard

from clienthealth.diagnose import examine as examining
from clienthealth.model import canonical
from clienthealth.model.clients import Client, ClientProcess, key_parts
from clienthealth.model.errors import DependencyError, InputError
from clienthealth.model.metrics import CLIENT_METRICS, MOST, TOPIC_METRICS
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import Dump, Identity, LogLine, RawRecord, Snapshot, Stream
from clienthealth.modes import catalogue
from clienthealth.read import decode, mbeans
from clienthealth.read.decode import Decoded, decode_any, decode_logs, decode_metrics, latest_ms
from clienthealth.read.formats import Format, formats
from clienthealth.read.formats._log_lines import opened
from clienthealth.read.logs.bursts import sample_key
from clienthealth.read.logs.dump_formats import dumps_in
from clienthealth.read.logs.dumps import DUMP_LINE, MAX_DUMPS, rejoin
from clienthealth.read.logs.events import MAX_TEXT, events_and_dumps, literals
from clienthealth.settings import Settings
from tests.support import hostile
from tests.support.fake_registry import AVRO, Registry, framed, serving
from tests.support.golden_metrics import GOLDEN
from tests.support.metrics_cases import CASES, record
from tests.support.raw_records import ARRIVED_MS, SAMPLES, Raw, sample

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = Settings()
REASONS = {
    "binary",
    "empty",
    "foreign-service",
    "future-timestamp",
    "impossible-value",
    "malformed-json",
    "missing-identity",
    "missing-timestamp",
    "no-metrics",
    "oversized",
    "truncated-json",
    "unknown-format",
    "unknown-schema",
    "wrong-types",
}
EARLIEST_MS = 1_262_304_000_000
IDENTITY = ("service", "host", "instance", "client_id", "kind", "library", "version", "group")


class MistakeError(BaseException):
    """An exception in the code of a format. The decoder turns an Exception into a reject, but not a BaseException."""


def check(decoded: Decoded) -> None:
    assert decoded.snapshots or decoded.lines or decoded.errors, "a record was skipped without a reason"
    assert all(error.split(":")[0] in REASONS for error in decoded.errors), decoded.errors
    # If a format raises an exception, `decode.py` rejects the record and writes the exception's name into the reject.
    # Such a name shows a bug in the format.
    assert not any("Error: " in error for error in decoded.errors if not error.startswith("binary: does not fit")), (
        decoded.errors
    )
    for snapshot in decoded.snapshots:
        check_snapshot(snapshot)
    for line in decoded.lines:
        check_line(line)


def check_snapshot(snapshot: Snapshot) -> None:
    client = snapshot.client
    assert (
        client.client_id
        and client.kind in CLIENT_METRICS
        and client.service is not None
        and client.instance is not None
    )
    check_identity(client)
    assert snapshot.error is None
    assert snapshot.ts_ms is not None and EARLIEST_MS <= snapshot.ts_ms <= latest_ms(SETTINGS, ARRIVED_MS)
    assert snapshot.interval_ms is not None and 1_000 <= snapshot.interval_ms <= 3_600_000
    assert snapshot.metrics.keys() <= {name for names in CLIENT_METRICS.values() for name in names}
    assert all(type(topic.topic) is str and topic.metrics.keys() <= TOPIC_METRICS.keys() for topic in snapshot.topics)
    values = [*snapshot.metrics.items(), *(item for topic in snapshot.topics for item in topic.metrics.items())]
    assert all(type(value) is float and 0 <= value <= MOST[name] for name, value in values)
    named = [topic.member for topic in snapshot.topics if topic.member]
    texts = [getattr(member, name) for member in named for name in member.__struct_fields__]
    check_texts([*texts, *(text for option in snapshot.config.items() for text in option)])


def check_line(line: LogLine) -> None:
    assert line.error is None
    assert line.ts_ms is not None and EARLIEST_MS <= line.ts_ms <= latest_ms(SETTINGS, ARRIVED_MS)
    assert line.message is not None or line.stack is not None or line.dumps
    check_identity(line.client)
    check_texts([line.level, line.logger, line.thread, line.message, line.stack, line.file])
    for dump in line.dumps:
        check_dump(dump)


def check_identity(client: Identity) -> None:
    ref = client.service or "", client.instance or "", client.client_id or ""
    assert key_parts(Client(ref[0], client.host or "", ref[1], ref[2]).key) == ref
    check_texts([getattr(client, name) for name in client.__struct_fields__])


def check_dump(dump: Dump) -> None:
    assert dump.ts_ms is None or dump.ts_ms >= EARLIEST_MS, dump.ts_ms
    for thread in dump.threads:
        assert thread.cpu_ms is None or 0 <= thread.cpu_ms < math.inf
        check_texts([thread.name, thread.state, *(part for frame in thread.frames for part in frame)])


def check_texts(texts: Sequence[str | None]) -> None:
    assert all(text is None or text.encode() is not None for text in texts)


#: The registry knows schema 7 (Avro) and schema 8 (protobuf), but not 9.
AROUND: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    gzip.compress,
    zstandard.ZstdCompressor().compress,
    lambda value: b"\0\0\0\0\x07" + value,
    lambda value: b"\0\0\0\0\x08\0" + value,
    lambda value: b"\0\0\0\0\x08\2\0" + value,
    lambda value: b"\0\0\0\0\x09" + value,
    lambda value: json.dumps({"schema": None, "payload": value.decode("latin-1")}).encode(),
    lambda value: b'{"before":null,"op":"c","source":{},"after":' + value + b"}",
)
HEADERS: tuple[Mapping[str, str], ...] = (
    {},
    {"client_id": "c", "kind": "producer", "service": "s", "instance": "i|\\"},
    {"format": "otlp_metrics"},
    {"format": "plain_text"},
    *({"format": fmt.name} for stream in ("metrics", "logs") for fmt in formats(stream) if fmt.binary),
)
KEYS = (b"s|i|c", None, b"a\\|b|i\\\\|c|d", b"\xff")


def records(data: bytes) -> None:
    around, how = AROUND[data[0] % len(AROUND)], data[1]
    headers, key = HEADERS[how % len(HEADERS)], KEYS[how // len(HEADERS) % len(KEYS)]
    raw = Raw("x", around(data[2:]), 0, key, headers).record
    settings = registry().settings
    as_metrics = decode_metrics(raw, settings, ARRIVED_MS)
    decoded = decode_any(raw, settings, ARRIVED_MS)
    as_logs = decode_logs(raw, settings, ARRIVED_MS)
    for one in (as_metrics, decoded, as_logs):
        check(one)
    assert decoded == (as_metrics if decoded.snapshots else as_logs if decoded.lines else decoded)
    quick = decode.fast(raw.value, bool(headers), latest_ms(settings, ARRIVED_MS))
    # The fast path skips some fields, and so accepts invalid UTF-8 in them.
    assert quick is None or [quick.snapshot()] == as_metrics.snapshots or as_metrics.errors == ["binary"]


@cache
def registry() -> Registry:
    known = Registry()
    served = serving(known)
    known.schemas["/schemas/ids/7"] = {"schema": json.dumps(AVRO)}
    known.schemas["/schemas/ids/8"] = {"schemaType": "PROTOBUF", "schema": ""}
    served.__enter__()
    atexit.register(served.__exit__, None, None, None)
    return known


def _of_records() -> Iterator[bytes]:
    metrics = [(raw.value or b"", 0) for name in GOLDEN for raw in sample(name)]
    metrics += [(record(name, value).value or b"", 0) for name, (value, _) in CASES.items()]
    files = [*SAMPLES.iterdir(), *(ROOT / "captures").rglob("*.proto"), *(ROOT / "captures").rglob("*.gzip")]
    others = [(raw.value or b"", 0) for file in files if file.suffix != ".gzip" for raw in sample(str(file))]
    packed = [(gzip.decompress(file.read_bytes()), 1) for file in files if file.suffix == ".gzip"]
    client = dict.fromkeys(IDENTITY, "producer")
    avro = {"ts": ARRIVED_MS, "client": client, "metrics": {"select-total": 1.0}, "config": {}}
    for value, around in [*metrics, *others, *packed, (framed(7, avro)[5:], 3), (b"{}", 7), (b'{"ts":1}', 8)]:
        for headers in (0, 1):
            yield bytes([around, headers]) + value


def texts(data: bytes) -> None:
    text = data[2:].decode("utf-8", "replace")
    raw = Raw("x", text.encode(), 0, b"s|i|").record
    decoded = decode_logs(raw, SETTINGS, ARRIVED_MS)
    check(decoded)
    assert decoded == decode_logs(raw, SETTINGS, ARRIVED_MS)
    source = Source("x", 0, 0)
    for line in decoded.lines:
        events, dumps = events_and_dumps(line, source, catalogue())
        check_events(events)
        check_judged(dumps)
        # The monitor skips a plain text that contains no literal of a log pattern.
        found = (
            not (events or dumps) or decoded.format != "plain_text" or any(one in text for one in literals(catalogue()))
        )
        assert found, "the stream would skip this line unread"
    for alone in (True, False):
        found_dumps = dumps_in(text, alone)
        _check_places(found_dumps, text.count("\n") + 1)
        assert found_dumps == dumps_in(text, alone)
    _line_by_line(text, source)
    _names(text)


def _check_places(dumps: Sequence[Dump], lines: int) -> None:
    taken: set[int] = set()
    for dump in dumps:
        check_dump(dump)
        assert dump.taken and dump.taken <= set(range(lines)) and taken.isdisjoint(dump.taken)
        assert all(thread.line in dump.taken for thread in dump.threads)
        taken |= dump.taken


def check_events(events: Sequence[LogEvent]) -> None:
    for event in events:
        assert event.signature in catalogue().by_id or event.signature == DUMP_LINE
        assert len(event.text) <= MAX_TEXT
        assert all(value for value in event.captures.values())
        check_texts([event.text, event.client_id, *event.captures.values()])


def check_judged(dumps: Sequence[ThreadDump]) -> None:
    assert len(dumps) <= MAX_DUMPS
    assert all(thread.cpu_ms is None or 0 <= thread.cpu_ms < math.inf for dump in dumps for thread in dump.threads)


def _line_by_line(text: str, source: Source) -> None:
    parts, at = [], 0
    for written in text.split("\n"):
        line = LogLine(ts_ms=ARRIVED_MS, message=written, file="app.log", file_offset=at)
        events, _ = events_and_dumps(line, source, catalogue())
        check_events(events)
        parts += [event for event in events if event.signature == DUMP_LINE]
        at += len(written.encode()) + 1
    if parts:
        joined = rejoin(parts)
        check_judged(joined)
        assert joined == rejoin(parts[::-1]), "the order in which lines arrive changes what is read"
        assert all(sample_key(part) == sample_key(part) for part in parts)


def _names(text: str) -> None:
    bean = mbeans.parts(text)
    assert bean.subject.kind is None or bean.subject.kind in CLIENT_METRICS
    assert bean.names.keys() <= {name for names in mbeans.NAMES.values() for name in names}
    quoted = "".join({"\n": "\\n", "\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?"}.get(c, c) for c in text)
    subject = mbeans.parts(f'kafka.producer:type=producer-metrics,client-id="{quoted}"').subject
    assert subject.client_id == text and subject.kind == "producer"
    parts = (text[0::3], text[1::3], text[2::3])
    assert key_parts(Client(parts[0], "", parts[1], parts[2]).key) == parts
    try:
        document = msgspec.json.decode(text)
    except ValueError:
        return
    jvm_mbeans = {
        f"kafka.producer:type=producer-metrics,client-id={name}": values if isinstance(values, dict) else {name: values}
        for name, values in (document if isinstance(document, dict) else {"c": document}).items()
    }
    for snapshot in mbeans.snapshots(jvm_mbeans, ClientProcess("s", "h", "h:1"), ARRIVED_MS):
        value = msgspec.json.encode(canonical.written(snapshot))
        read = decode_metrics(RawRecord(value, Source("x", 0, 0), ARRIVED_MS), SETTINGS, ARRIVED_MS)
        check(read)
        blank = not (snapshot.client.client_id or "").strip()
        assert blank or (len(read.snapshots) == 1 and not read.errors), "what the exporter writes is rejected"


def _of_texts() -> Iterator[bytes]:
    for file in sorted((ROOT / "dump_shapes").iterdir()):
        yield b"\0\0" + file.read_bytes()
    for name in ("filebeat_plain_multiline.json", "log4j2_JsonLayout.json", "jolokia_bulk_response.json"):
        yield b"\0\0" + (SAMPLES / name).read_bytes()
    for wording in catalogue().wordings:
        yield b"\0\0" + f"2026-11-20 18:40:30,123 WARN [main] {wording.literals[0]} clientId=c, x".encode()


FILES = (
    "app.log",
    "dump.txt",
    "metrics.jsonl",
    "mail.eml",
    "ticket.html",
    "export.csv",
    "jolokia.json",
    "jstack-2026-11-20T18-40-30.txt",
    "metrics.prom",
)


def _zipped(value: bytes, name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(f"case/logs/{name}"), value)
        archive.writestr(zipfile.ZipInfo("case/../../etc/metrics.jsonl"), b"{}\n")
    return out.getvalue()


def _tarred(value: bytes, name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        about = tarfile.TarInfo(f"web-1/{name}")
        about.size, about.mtime = len(value), ARRIVED_MS // 1000
        archive.addfile(about, io.BytesIO(value))
    return out.getvalue()


PACKED: tuple[Callable[[bytes, str], bytes], ...] = (
    lambda value, _: value,
    lambda value, _: value,
    _zipped,
    _tarred,
    lambda value, name: gzip.compress(_tarred(value, name), mtime=0),
    lambda value, _: gzip.compress(value, mtime=0),
    lambda value, _: bz2.compress(value),
    lambda value, _: lzma.compress(value),
    lambda value, _: zstandard.ZstdCompressor().compress(value),
    lambda value, name: _zipped(_zipped(value, name), "inner.zip"),
    lambda value, name: _zipped(value, name)[:-30],
)


class _Clock:
    @staticmethod
    def time() -> float:
        return ARRIVED_MS / 1000


def attachments(data: bytes) -> None:
    name = FILES[data[0] % len(FILES)]
    content = PACKED[data[1] % len(PACKED)](data[2:], name)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory()) as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        os.utime(file, (ARRIVED_MS / 1000, ARRIVED_MS / 1000))
        with patch.object(examining, "time", _Clock):
            found = examining.examine([file], SETTINGS)
            again = examining.examine([file], SETTINGS)
    assert found == again, "the same file is judged differently the second time"
    assert "step-failed" not in found.rejected, found.rejected
    assert found.rejected.keys() <= REASONS
    for one in found.inputs:
        assert one.what or one.unread, one
        assert one.used or one.left_out or one.unread or not one.read or not one.names_client, one
        assert (one.start_ms is None) == (one.end_ms is None) and (one.start_ms or 0) <= (one.end_ms or 0), one
    unread = any(one.unread for one in found.inputs)
    for client, verdicts in found.clients:
        check_texts(list(msgspec.structs.astuple(client)))
        for verdict in verdicts:
            assert not (unread and verdict.status == "ok"), verdict
            assert verdict.evidence or not verdict.unhealthy, verdict
            check_texts([verdict.reason, *(fact.text for fact in verdict.evidence)])


@cache
def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _of_attachments() -> Iterator[bytes]:
    for file in sorted((ROOT / "dump_shapes").iterdir()):
        yield b"\1\0" + file.read_bytes()
        yield b"\7\2" + file.read_bytes()
    for file in sorted([*SAMPLES.iterdir(), *(ROOT / "captures/telegraf").iterdir()]):
        yield b"\6\0" + file.read_bytes()
    for recording in ("send-blocked-topic-4.1", "deadlock-4.1", "shutdown-loop-a"):
        for packed in sorted((ROOT / "recordings" / recording).glob("*.gz")):
            value = gzip.decompress(packed.read_bytes())[:6_000]
            yield b"\0\0" + value
            yield b"\3\4" + b"> " + value.replace(b"\n", b"\n> ")


def lives(data: bytes) -> None:
    monitor = hostile.repeated(data[2:], bool(data[0] & 1))
    assert "step-failed" not in monitor.reasons
    assert monitor.published("good") == _undisturbed()


@cache
def _undisturbed() -> list[list[bytes]]:
    return hostile.repeated(b"").published("good")


def _of_lives() -> Iterator[bytes]:
    for value in (*hostile.METRICS, *hostile.LOGS):
        yield bytes([value in hostile.LOGS, 0]) + value
    for seed in range(40):
        yield b"\0\0" + (hostile.Hostile(seed).snapshot(hostile.BEGIN).value or b"")


@dataclasses.dataclass(frozen=True)
class Target:
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    longest: int


TARGETS: Mapping[str, Target] = {
    "records": Target(records, _of_records, 8_000),
    "texts": Target(texts, _of_texts, 8_000),
    "attachments": Target(attachments, _of_attachments, 8_000),
    "lives": Target(lives, _of_lives, 8_000),
}


def holds(target: Target, data: bytes) -> None:
    if len(data) > 2:
        try:
            target.run(data)
        except InputError as refused:
            assert "\n" not in str(refused), refused


def warm() -> None:
    for stream in decode.STREAMS:
        formats(stream)


@contextmanager
def nothing_hidden() -> Iterator[None]:
    """Turn exceptions in the code of a format into MistakeError."""
    seen = {stream: {fmt.name: _seen(fmt) for fmt in formats(stream)} for stream in decode.STREAMS}

    def stream_formats(streams: tuple[Stream, ...]) -> Mapping[str, Format]:
        return {name: fmt for stream in streams for name, fmt in seen[stream].items()}

    with patch.object(decode, "_by_name", stream_formats), patch.object(decode, "opened", _seeing(opened)):
        yield


def _seen(fmt: Format) -> Format:
    return dataclasses.replace(fmt, recognise=_seeing(fmt.recognise), decode=_seeing(fmt.decode))


def _seeing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def seen(given: Any) -> Any:
        try:
            return function(given)
        except DependencyError:
            raise
        except Exception as mistake:
            raise MistakeError(f"{type(mistake).__name__}: {mistake}") from mistake

    return seen
