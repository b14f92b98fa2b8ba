"""Decode an input record into client snapshots or log lines, and give reject reasons for unusable parts.

Only errors about the schema registry are raised: ServiceError, DependencyError (fastavro is not installed) and
SettingsError.

Reject reasons (`Decoded.errors`), sometimes followed by ": detail":

`empty`              no value (a tombstone), or blanks only
`oversized`          a record larger than `monitor.max_record_bytes`, or a name longer than `values.MAX_NAME`
`binary`             no text and no known binary format; broken compression; an unreadable frame of a schema registry
`unknown-schema`     a value framed with a schema that the registry does not have
`truncated-json`     JSON that ends before it is closed
`malformed-json`     JSON with an error in it, or nested too deeply
`unknown-format`     text or JSON in no known format
`impossible-value`   an impossible value of a metric or option, or a topic's data with a name that is too long; only
                     this part of the record is not used
`wrong-types`        a known format, but its essential parts have the wrong type
`no-metrics`         a known format without metrics of a Kafka client
`missing-identity`   metrics without client id or kind; a log line that names no process or client
`foreign-service`    a service that this topic may not carry (`[topics] services`)
`missing-timestamp`  no time, or a time before Kafka existed (`values.EARLIEST_MS`)
`fatal`              reading the record ends the monitor's process; only topic and offset are known
`future-timestamp`   a time more than `monitor.future_seconds` ahead of the monitor's clock
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

import msgspec

from clienthealth.model.clients import key_parts
from clienthealth.model.errors import DependencyError
from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, MOST
from clienthealth.model.telemetry import Identity, LogLine, RawRecord, Snapshot, Stream
from clienthealth.model.values import EARLIEST_MS, MAX_NAME, interval, option, present
from clienthealth.model.wording import listing
from clienthealth.read.formats import Format, Record, _pushed, formats
from clienthealth.read.formats._log_lines import named, opened
from clienthealth.read.formats._payload import PayloadError, fill
from clienthealth.read.formats._typed import fast as fast
from clienthealth.read.logs.times import zone_between
from clienthealth.settings import Settings, TopicSettings

HEADERS = ("format", "service", "host", "instance", "client_id", "kind", "version", "library")
_READ = (*HEADERS, *_pushed.HEADERS)

#: All data of OpenTelemetry's Java agent contains this text (`telemetry.distro.name`).
_OTEL_AGENT = b"opentelemetry-java-instrumentation"
_SWITCH = (
    "OpenTelemetry's Java agent 3 and newer reports Kafka clients only with "
    "-Dotel.instrumentation.kafka-clients-metrics.enabled=true"
)

STREAMS: tuple[Stream, ...] = ("metrics", "logs")

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_QUOTED = re.compile(r'"[^"]*"')
_STATED = ("service", "host", "instance", "client_id", "library", "version")
_IN_KEY = ("service", "instance", "client_id")


class Decoded(msgspec.Struct):
    """The result of decoding one record.

    `format`     name of the format; None if no format recognised the record
    `snapshots`  the usable snapshots, with client id, kind, time and interval; an unknown service or instance is ''
    `lines`      the usable log lines, parsed into fields; each has a time
    `errors`     the reject reasons, one per unusable part of the record
    """

    format: str | None = None
    snapshots: list[Snapshot] = []
    lines: list[LogLine] = []
    errors: list[str] = []


class _Parsed(msgspec.Struct):
    result: Decoded
    record: Record = Record(text="")
    content: list[Any] = []


def decode_metrics(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Decode a record of a metrics topic into snapshots. `now_ms`: the monitor's clock (epoch ms)."""
    parsed = _parsed(record, ("metrics",), settings)
    return _snapshots(parsed, record.source.topic, settings, now_ms)


def decode_logs(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Decode a record of a log topic into log lines. A line without a time gets the time of its Kafka record."""
    parsed = _opened(_parsed(record, ("logs",), settings))
    return _lines(parsed, record.source.topic, settings, now_ms)


def decode_any(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Decode a record of any topic into log lines or snapshots, depending on the record's format."""
    parsed = _parsed(record, STREAMS, settings)
    if any(isinstance(one, LogLine) for one in parsed.content):
        return _lines(_opened(parsed), record.source.topic, settings, now_ms)
    return _snapshots(parsed, record.source.topic, settings, now_ms)


def decode_parsed(content: LogLine | Snapshot, record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Complete and check a snapshot or line from a file, as if it came from Kafka.

    `record`: a record with a key and headers that name the process.
    """
    headers = _header_values(record.headers)
    parsed = _Parsed(Decoded(), Record(text="", key=_key_text(record.key), headers=headers, ts_ms=record.ts_ms))
    if isinstance(content, Snapshot):
        parsed.result.format, parsed.content = "canonical", [content]
        return _snapshots(parsed, record.source.topic, settings, now_ms)
    parsed.result.format, parsed.content = "thread_dump" if content.dumps else "plain_text", [named(content)]
    return _lines(parsed, record.source.topic, settings, now_ms)


def _parsed(raw: RawRecord, streams: tuple[Stream, ...], settings: Settings) -> _Parsed:
    parsed = _Parsed(Decoded())
    try:
        parsed.record = _readable(raw, settings)
        fmt = _format(parsed.record, streams)
        parsed.result.format = fmt.name if fmt else None
        parsed.content = _content(parsed.record, fmt)
    except PayloadError as error:
        if str(error) in ("empty", "no-metrics") and _pushed.INSTANCE in raw.headers:
            parsed.result.format = _text_of(raw.headers.get("format", b""))
        else:
            parsed.result.errors.append(str(error))
    return parsed


@lru_cache(maxsize=65_536)
def may_carry(topics: TopicSettings, topic: str, service: str) -> bool:
    """True if the topic may carry data of this service's clients (`[topics] services`)."""
    globs = [glob for name, _, glob in (rule.partition("=") for rule in topics.services) if name == topic]
    return not globs or any(fnmatchcase(service, glob) for glob in globs)


def latest_ms(settings: Settings, now_ms: int) -> int:
    """Return the latest time (epoch ms) that is not rejected as `future-timestamp`. `now_ms`: the monitor's clock."""
    return now_ms + settings.monitor.future_seconds * 1000


def _readable(raw: RawRecord, settings: Settings) -> Record:
    value = raw.value
    if value is None or len(value) == 0:
        raise PayloadError("empty")
    if len(value) > settings.monitor.max_record_bytes:
        raise PayloadError("oversized")
    headers = _header_values(raw.headers) if raw.headers else {}
    record = Record(
        text="",
        key=_key_text(raw.key),
        headers=headers | _pushed.identity_headers(headers, settings.identity),
        ts_ms=raw.ts_ms,
        identity=settings.identity,
    )
    fill(record, value, settings)
    return record


def _key_text(key: bytes | None) -> str | None:
    return _text_of_key(key) if key is not None and len(key) <= 3 * MAX_NAME else None


def _text_of(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_text_of_key = lru_cache(maxsize=4096)(_text_of)


def _header_values(headers: Mapping[str, bytes]) -> dict[str, str]:
    return {name: text for name in _READ if name in headers and (text := present(_text_of(headers[name])))}


@cache
def _by_name(streams: tuple[Stream, ...]) -> Mapping[str, Format]:
    return {fmt.name: fmt for stream in streams for fmt in formats(stream)}


def _format(record: Record, streams: tuple[Stream, ...]) -> Format | None:
    by_name = _by_name(streams)
    named = by_name.get(record.headers.get("format", ""))
    if named is not None and _could_be(record, named):
        return named
    for fmt in by_name.values():
        try:
            if _could_be(record, fmt) and fmt.recognise(record):
                return fmt
        except Exception:  # noqa: BLE001 - a format that raises an error does not recognise the record
            continue
    return None


def _could_be(record: Record, fmt: Format) -> bool:
    if fmt.binary or record.data is not None:
        return fmt.binary and record.data is not None
    return record.document is not None or fmt.text or fmt.stream == "logs"


def _content(record: Record, fmt: Format | None) -> list[Any]:
    try:
        content = fmt.decode(record) if fmt else None
    except DependencyError as needed_package:
        raise PayloadError(f"binary: {needed_package}") from None
    except Exception as mistake:  # noqa: BLE001 - a defect in a format costs one record, not the whole job
        raise PayloadError(_wrong(mistake)) from None
    if fmt is None or content is None:
        raise PayloadError(_unreadable(record) or ("wrong-types" if fmt else "unknown-format"))
    if not content:
        value = record.text.encode() if record.data is None else bytes(record.data)
        hint = f": {_SWITCH}" if _OTEL_AGENT in value else ""
        raise PayloadError(f"no-metrics{hint}" if fmt.stream == "metrics" else "empty")
    return content


def _wrong(mistake: Exception) -> str:
    return f"wrong-types: {type(mistake).__name__}: {mistake}"


def _unreadable(record: Record) -> str | None:
    """Return the reject reason for a damaged text; None if it is not damaged."""
    text = record.text
    if _CONTROL.search(text):
        return "binary"
    if not text or record.document is not None or text[0] not in "{[":
        return None
    outside = _QUOTED.sub("", _ESCAPED.sub("", text))
    unclosed = outside.count("{") + outside.count("[") > outside.count("}") + outside.count("]")
    return "truncated-json" if '"' in outside or unclosed else "malformed-json"


def _snapshots(parsed: _Parsed, topic: str, settings: Settings, now_ms: int) -> Decoded:
    result = parsed.result
    for snapshot in parsed.content:
        error = snapshot.error or _complete_snapshot(snapshot, parsed.record, latest_ms(settings, now_ms))
        if error := error or _foreign(snapshot.client, topic, settings):
            result.errors.append(error)
            continue
        snapshot.interval_ms = interval(snapshot.interval_ms, _by_name(STREAMS)[result.format or ""].interval_ms)
        if impossible := _drop_impossible(snapshot):
            result.errors.append(f"impossible-value: {listing(impossible)}")
        result.snapshots.append(snapshot)
    return result


def _drop_impossible(snapshot: Snapshot) -> list[str]:
    long = [topic for topic in snapshot.topics if topic.is_too_long]
    if long:
        snapshot.topics = [topic for topic in snapshot.topics if not topic.is_too_long]
    dropped = ["topics"] * len(long)
    for values in (snapshot.metrics, *(topic.metrics for topic in snapshot.topics)):
        wrong = [name for name, value in values.items() if not 0 <= value <= MOST[name]]
        for name in wrong:
            del values[name]
        dropped += wrong
    wrong = [name for name in CONFIG_OPTIONS if name in snapshot.config and option(snapshot.config[name]) is None]
    if wrong:
        snapshot.config = {name: text for name, text in snapshot.config.items() if name not in wrong}
    return dropped + wrong


def _opened(parsed: _Parsed) -> _Parsed:
    lines: list[LogLine] = []
    for line in parsed.content:
        try:
            lines.append(opened(line))
        except Exception as mistake:  # noqa: BLE001 - a defect in the parser costs one line, not the whole job
            parsed.result.errors.append(_wrong(mistake))
    parsed.content = lines
    return parsed


def _lines(parsed: _Parsed, topic: str, settings: Settings, now_ms: int) -> Decoded:
    result = parsed.result
    for line in parsed.content:
        error = _complete_line(line, parsed.record, latest_ms(settings, now_ms))
        if error := error or _foreign(line.client, topic, settings):
            result.errors.append(error)
        else:
            result.lines.append(line)
    return result


def _foreign(client: Identity, topic: str, settings: Settings) -> str | None:
    if settings.topics.services and not may_carry(settings.topics, topic, client.service or ""):
        return f"foreign-service: {client.service or ''!r} on {topic}"
    return None


def _complete_snapshot(snapshot: Snapshot, record: Record, latest: int) -> str | None:
    """Fill in missing fields; return the reject reason, or None if the snapshot is usable."""
    client = _identified(snapshot.client, record)
    if not client.service or not client.instance:
        instance = client.instance or client.host or ""
        client = msgspec.structs.replace(client, service=client.service or "", instance=instance)
    snapshot.client = client
    _pushed.complete(snapshot, record.headers)
    if client.is_too_long:
        return "oversized: a name"
    if client.client_id is None:
        return "missing-identity: client_id"
    return "missing-identity: kind" if client.kind is None else _time_error(snapshot.ts_ms, latest)


def _complete_line(line: LogLine, record: Record, latest: int) -> str | None:
    line.client = client = _identified(line.client, record)
    if line.ts_ms is None:
        line.ts_ms = record.ts_ms
    elif record.ts_ms and (line.dumps or line.ts_ms > record.ts_ms):
        # A dump's time has no zone. A line from the future has a local time. Infer the zone from the record's time.
        line.ts_ms += zone_between(line.ts_ms, record.ts_ms) or 0
    if line.error is not None or client.is_too_long:
        return line.error or "oversized: a name"
    stated = client.service or client.host or client.instance or client.client_id
    if not stated and "clientId=" not in (line.message or "") and " | " not in (line.thread or ""):
        return "missing-identity"
    return _time_error(line.ts_ms, latest)


def _identified(client: Identity, record: Record) -> Identity:
    header = record.headers.get
    if header(_pushed.INSTANCE):
        # Trust only the broker's headers, because a client may write any identity into its payload.
        client = Identity(client_id=header("client_id") or client.client_id, kind=client.kind, group=client.group)
    fields = {name: present(getattr(client, name)) or header(name) for name in _STATED}
    if record.key and not all(map(fields.get, _IN_KEY)) and (parts := key_parts(record.key)):
        for name, part in zip(_IN_KEY, parts, strict=True):
            fields[name] = fields[name] or part.strip() or None
    if not fields["instance"] and client.handle:
        # Replicas of a service may have the same handle (rdkafka#producer-1), so the instance begins with the host.
        fields["instance"] = f"{fields['host']}:{client.handle}" if fields["host"] else client.handle
    kind = client.kind if client.kind in CLIENT_METRICS else (present(client.kind) or header("kind") or "").lower()
    return Identity(**fields, kind=kind if kind in CLIENT_METRICS else None, group=present(client.group))


def _time_error(ts_ms: int | None, latest: int) -> str | None:
    if ts_ms is None or ts_ms < EARLIEST_MS:
        return "missing-timestamp"
    return "future-timestamp" if ts_ms > latest else None
