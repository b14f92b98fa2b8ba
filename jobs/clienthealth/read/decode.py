r"""Decode an input record into client snapshots, log lines, and the reasons why parts of it cannot be used.

A record is recognised by its own shape, or by the header `format`, which wins. Identity that it lacks comes from its
headers, then from its Kafka key: `service|instance|client_id`, with `|` and `\` in a part escaped by `\`. For pushes
through our broker plugin the headers identify the client (`formats/_pushed.py`), and the broker's time counts.
Compression (gzip, zstd), the frame of a schema registry, and the envelope of Kafka Connect are removed first. Nothing
here raises for any record, except ServiceError if the schema registry is away. Faultless canonical snapshots, nearly
all traffic, are read by `fast` at a fraction of the cost; `decode_metrics` returns the same for them.

Reasons of rejects (`Decoded.errors`), sometimes followed by ": detail":

empty              no value (a tombstone), or blanks only
oversized          a record larger than `monitor.max_record_bytes`, or a name longer than `values.MAX_NAME`
binary             neither text nor a known binary format; broken compression; an unreadable frame
unknown-schema     framed with a schema that the registry does not have
truncated-json     JSON that ends before it is closed
malformed-json     JSON with an error in it, or nested too deeply
unknown-format     text or JSON of no known format
impossible-value   a metric or option that no client can have (`model.metrics.MOST`); only this value is not used
wrong-types        a known format, but its essential parts have the wrong type
no-metrics         a known format without metrics of a Kafka client
missing-identity   no client can be identified
foreign-service    a service that this topic may not carry (`[topics] services`)
missing-timestamp  no time, or one before Kafka existed
fatal              reading the record ended the monitor (`spark/poison.py`); only the record's place is known
future-timestamp   a time more than `monitor.future_seconds` ahead of ours, so that the real time is unknown
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any, TypeVar

import msgspec

from clienthealth.model.clients import key_parts
from clienthealth.model.errors import DependencyError
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.telemetry import Identity, LogLine, RawRecord, Snapshot, Stream
from clienthealth.model.values import EARLIEST_MS, MAX_NAME, interval, present
from clienthealth.model.wording import listing
from clienthealth.platform.schema_registry import UnknownSchemaError, schema
from clienthealth.read.formats import Format, Record, _pushed, formats
from clienthealth.read.formats._log_lines import named, opened
from clienthealth.read.formats._payload import PayloadError, framed, unpacked, without_message_path
from clienthealth.read.formats._protobuf import signal
from clienthealth.read.formats._typed import fast as fast
from clienthealth.read.logs.times import zone_between
from clienthealth.settings import IdentitySettings, Settings, TopicSettings

#: Record headers that are read.
HEADERS = ("format", "service", "host", "instance", "client_id", "kind", "version", "library")
_READ = (*HEADERS, *_pushed.HEADERS)

#: Marker of OpenTelemetry's Java agent (`telemetry.distro.name`), and the switch that it needs since its change 18828.
_OTEL_AGENT = b"opentelemetry-java-instrumentation"
_SWITCH = (
    "OpenTelemetry's Java agent from 3 on tells of Kafka clients only with "
    "-Dotel.instrumentation.kafka-clients-metrics.enabled=true"
)

#: Characters allowed before a record: white space and a byte order mark.
BLANKS = " \t\r\n\ufeff"

STREAMS: tuple[Stream, ...] = ("metrics", "logs")

Said = TypeVar("Said", Snapshot, LogLine)

_CONNECT = frozenset({"schema", "payload"})
_DEBEZIUM = frozenset({"before", "after", "op", "source"})
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_QUOTED = re.compile(r'"[^"]*"')
#: Escapes in JSON text: surrogate pairs; single surrogates (group 1), which are not characters; any other escape.
_SURROGATES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


class Decoded(msgspec.Struct):
    """The result of decoding one record.

    format     name of the format, None if no format recognised it
    snapshots  usable snapshots: complete identity (service and instance empty if unknown, kind checked), time, interval
    lines      usable log lines: completely read, with a time
    errors     why parts of the record cannot be used, one per part ([] if all is well)
    """

    format: str | None = None
    snapshots: list[Snapshot] = []
    lines: list[LogLine] = []
    errors: list[str] = []


def decode_metrics(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Return the snapshots in a record of metrics. `now_ms`: reference for future timestamps, epoch ms."""
    readable = _readable(record, settings)
    if isinstance(readable, str):
        return Decoded(errors=[readable])
    result = _metrics(readable, _format(readable, "metrics"), latest_ms(settings, now_ms))
    result.snapshots = _own(result.snapshots, record.source.topic, settings.topics, result.errors)
    return result


def decode_logs(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Return the log lines in a record of logs. A line without a time gets the time of its Kafka record."""
    readable = _readable(record, settings)
    if isinstance(readable, str):
        return Decoded(errors=[readable])
    result = _logs(readable, _format(readable, "logs"), latest_ms(settings, now_ms))
    result.lines = _own(result.lines, record.source.topic, settings.topics, result.errors)
    return result


def decode_said(said: LogLine | Snapshot, record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Complete a line or snapshot that the reader of its file already parsed; the record identifies the process."""
    headers = _header_values(record.headers)
    said_in = Record(text="", key=_key_text(record.key), headers=headers, ts_ms=record.ts_ms)
    if isinstance(said, Snapshot):
        canonical = _by_name("metrics")["canonical"]
        result = Decoded(format=canonical.name)
        _take_snapshot(said, said_in, canonical.interval_ms, latest_ms(settings, now_ms), result)
    else:
        result = Decoded(format="thread_dump" if said.dumps else "plain_text")
        _take_line(named(said), said_in, latest_ms(settings, now_ms), result)
    return result


def decode_any(record: RawRecord, settings: Settings, now_ms: int) -> Decoded:
    """Decode as metrics if a format of metrics recognises the record, else as logs."""
    readable = _readable(record, settings)
    if isinstance(readable, str):
        return Decoded(errors=[readable])
    of_logs = readable.headers.get("format") in _by_name("logs")
    of_metrics = None if of_logs else _format(readable, "metrics")
    if of_metrics is not None:
        return _metrics(readable, of_metrics, latest_ms(settings, now_ms))
    return _logs(readable, _format(readable, "logs"), latest_ms(settings, now_ms))


@lru_cache(maxsize=65_536)
def speaks_of(topics: TopicSettings, topic: str, service: str) -> bool:
    """True if the topic may carry data of this service's clients (`[topics] services`)."""
    globs = [glob for name, _, glob in (rule.partition("=") for rule in topics.services) if name == topic]
    return not globs or any(fnmatchcase(service, glob) for glob in globs)


def latest_ms(settings: Settings, now_ms: int) -> int:
    """Return the latest time (epoch ms) that does not count as future."""
    return now_ms + settings.monitor.future_seconds * 1000


def _readable(raw: RawRecord, settings: Settings) -> Record | str:
    """Return the record as text (parsed if it is JSON) or bytes; else the reason why it cannot be read."""
    value = raw.value
    if value is None or len(value) == 0:
        return "empty"
    most = settings.monitor.max_record_bytes
    if len(value) > most:
        return "oversized"
    record = Record(
        text="",
        key=_key_text(raw.key),
        headers=_headers(raw.headers, settings.identity) if raw.headers else {},
        ts_ms=raw.ts_ms,
        identity=settings.identity,
    )
    try:
        data = unpacked(value, most)
        frame = framed(data)
        return _unframed(record, *frame, settings) if frame else _filled(record, data)
    except PayloadError as error:
        return str(error)


def _filled(record: Record, data: bytes | memoryview) -> Record | str:
    """Return the record with this payload, or the reason why it is unusable."""
    named = record.headers.get("format")
    record.signal = signal(data)
    if record.signal or named in _binary_formats():
        record.data = data
        return record
    try:
        record.text = str(data, "utf-8").lstrip(BLANKS)
    except UnicodeDecodeError:
        return "binary"
    if not record.text:
        return "empty"
    if record.text[0] in "{[":
        record.document = _document(record.text)
    return _out_of_envelope(record)


def _unframed(record: Record, number: int, data: memoryview, settings: Settings) -> Record | str:
    """Return the record with a payload framed by this schema's number; JSON needs no schema."""
    if data[0] in b"{[" and not isinstance(filled := _filled(record, data), str) and filled.document is not None:
        return filled
    if not settings.registry.url:
        return f"binary: framed with schema {number}, and no registry is set ([registry] url)"
    try:
        by = schema(settings.registry, number)
    except UnknownSchemaError:
        return f"unknown-schema: {number}"
    if by.kind == "PROTOBUF":
        return _filled(record, without_message_path(data))
    if by.kind != "AVRO":
        return _filled(record, data)
    try:
        document = by.read(data)
    except ValueError as error:
        return f"binary: not of schema {number}: {error}"
    return _decoded_by_schema(record, document)


def _decoded_by_schema(record: Record, document: Any) -> Record | str:
    """Return the record with a value decoded by a schema, in JSON's types."""
    try:
        record.text = document if isinstance(document, str) else msgspec.json.encode(document).decode()
    except (TypeError, ValueError) as error:
        return f"binary: {error}"
    record.document = None if isinstance(document, str) else document
    return _out_of_envelope(record) if record.text else "empty"


def _out_of_envelope(record: Record) -> Record | str:
    """Remove the envelopes that Kafka Connect's JSON converter and Debezium put around a value."""
    document = record.document
    if type(document) is not dict:
        return record
    if document.keys() == _CONNECT:
        inner = document["payload"]
    elif document.keys() >= _DEBEZIUM:
        inner = document["after"]
    else:
        return record
    if inner is None:
        return "empty"
    if isinstance(inner, str):
        record.document = None
        return _filled(record, inner.encode("utf-8", "replace"))
    return _decoded_by_schema(record, inner)


def _document(text: str) -> Any:
    """Return the text as JSON, or None."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return _lenient_document(text)


def _lenient_document(text: str) -> Any:
    """Like `_document`, but accept NaN, Infinity, huge numbers and single surrogates, which some programs write."""
    whole = (
        _SURROGATES.sub(lambda surrogate: "\\ufffd" if surrogate[1] else surrogate[0], text) if "\\u" in text else text
    )
    try:
        return json.loads(whole, parse_int=lambda digits: int(digits) if len(digits) < 1000 else float("inf"))
    except (ValueError, RecursionError):
        return None


def _key_text(key: bytes | None) -> str | None:
    return _text_of(key) if key is not None and len(key) <= 3 * MAX_NAME else None


@lru_cache(maxsize=4096)
def _text_of(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _header_values(headers: Mapping[str, bytes]) -> dict[str, str]:
    """Return the non-empty headers whose names are in `_READ`, as text."""
    values = {}
    for name in _READ:
        value = headers.get(name)
        if value is not None:
            try:
                text = present(str(value, "utf-8"))
            except UnicodeDecodeError:
                continue
            if text:
                values[name] = text
    return values


def _headers(raw: Mapping[str, bytes], identity: IdentitySettings) -> dict[str, str]:
    """Return the headers that the decoder reads, plus the identity that a push's headers give to its client."""
    values = _header_values(raw)
    return values | _pushed.identity_headers(values, identity)


@lru_cache(maxsize=2)
def _by_name(stream: Stream) -> Mapping[str, Format]:
    return {fmt.name: fmt for fmt in formats(stream)}


@cache
def _binary_formats() -> frozenset[str]:
    return frozenset(fmt.name for stream in STREAMS for fmt in formats(stream) if fmt.binary)


def _format(record: Record, stream: Stream) -> Format | None:
    """Return the format in the header, else the first that recognises the record, else None."""
    by_name = _by_name(stream)
    named = by_name.get(record.headers.get("format", ""))
    if named is not None and _could_be(record, named):
        return named
    for fmt in by_name.values():
        try:
            if _could_be(record, fmt) and fmt.recognise(record):
                return fmt
        except Exception:  # noqa: BLE001 - a mistake in a format: it does not recognise the record
            continue
    return None


def _could_be(record: Record, fmt: Format) -> bool:
    if fmt.binary or record.data is not None:
        return fmt.binary and record.data is not None
    return record.document is not None or fmt.text or fmt.stream == "logs"


def _decoded(record: Record, fmt: Format | None) -> tuple[list[Any], list[str]]:
    """Return the content by the record's format, and the reason if there is none."""
    if fmt is None:
        return [], [_unreadable(record) or "unknown-format"]
    try:
        results = fmt.decode(record)
    except DependencyError as missing:
        return [], [f"binary: {missing}"]
    except Exception as mistake:  # noqa: BLE001 - a mistake in a format costs the record, not the job
        return [], [f"wrong-types: {type(mistake).__name__}: {mistake}"]
    if results is None:
        return [], [_unreadable(record) or "wrong-types"]
    return results, [] if results else [_no_metrics(record) if fmt.stream == "metrics" else "empty"]


def _no_metrics(record: Record) -> str:
    """Return the reason `no-metrics`, with the switch that turns metrics on if an agent's are known to be off."""
    value = record.text.encode() if record.data is None else bytes(record.data)
    return f"no-metrics: {_SWITCH}" if _OTEL_AGENT in value else "no-metrics"


def _unreadable(record: Record) -> str | None:
    """Return what is wrong with the text itself, or None."""
    text = record.text
    if _CONTROL.search(text):
        return "binary"
    if not text or record.document is not None or text[0] not in "{[":
        return None
    outside = _QUOTED.sub("", _ESCAPED.sub("", text))
    unclosed = outside.count("{") + outside.count("[") > outside.count("}") + outside.count("]")
    return "truncated-json" if '"' in outside or unclosed else "malformed-json"


def _metrics(record: Record, fmt: Format | None, latest: int) -> Decoded:
    snapshots, errors = _decoded(record, fmt)
    result = Decoded(format=fmt.name if fmt else None, errors=errors)
    for snapshot in snapshots:
        _take_snapshot(snapshot, record, fmt.interval_ms if fmt else 0, latest, result)
    return result


def _take_snapshot(snapshot: Snapshot, record: Record, interval_ms: int, latest: int, result: Decoded) -> None:
    error = snapshot.error
    if error is None:
        client = _identified(snapshot.client, record)
        _pushed.complete(snapshot, record.headers)
        error = _identity_error(client) or _time_error(snapshot.ts_ms, latest)
    if error is not None:
        result.errors.append(error)
        return
    if not client.service or not client.instance:
        instance = client.instance or client.host or ""
        client = msgspec.structs.replace(client, service=client.service or "", instance=instance)
    snapshot.client = client
    snapshot.interval_ms = interval(snapshot.interval_ms, interval_ms)
    if impossible := snapshot.drop_impossible():
        result.errors.append(f"impossible-value: {listing(impossible)}")
    result.snapshots.append(snapshot)


def _logs(record: Record, fmt: Format | None, latest: int) -> Decoded:
    log_lines, errors = _decoded(record, fmt)
    result = Decoded(format=fmt.name if fmt else None, errors=errors)
    for shipped in log_lines:
        try:
            line = opened(shipped)
        except Exception as mistake:  # noqa: BLE001 - as in `_decoded`
            errors.append(f"wrong-types: {type(mistake).__name__}: {mistake}")
            continue
        _take_line(line, record, latest, result)
    return result


def _own(said: list[Said], topic: str, topics: TopicSettings, errors: list[str]) -> list[Said]:
    """Return the items whose service the topic may carry, and add a reason to `errors` for each other item."""
    if not topics.services:
        return said
    own = []
    for one in said:
        service = one.client.service or ""
        if speaks_of(topics, topic, service):
            own.append(one)
        else:
            errors.append(f"foreign-service: {service!r} on {topic}")
    return own


def _take_line(line: LogLine, record: Record, latest: int, result: Decoded) -> None:
    if line.ts_ms is None:
        line.ts_ms = record.ts_ms
    elif line.dumps and record.ts_ms:
        # The time in a dump names no zone, so compare it with the record's time.
        line.ts_ms += zone_between(line.ts_ms, record.ts_ms) or 0
    line.client = _identified(line.client, record)
    too_long = "oversized: a name" if line.client.is_too_long else None
    error = line.error or too_long or _nowhere(line) or _time_error(line.ts_ms, latest)
    if error is None:
        result.lines.append(line)
    else:
        result.errors.append(error)


def _identified(client: Identity, record: Record) -> Identity:
    """Fill missing identity from headers, then from the Kafka key; None where neither has it.

    An unknown kind becomes None.
    """
    header = record.headers.get
    if header(_pushed.INSTANCE):
        # The headers come from the broker, which knows the pushing client; the payload only claims an identity.
        client = Identity(client_id=header("client_id") or client.client_id, kind=client.kind, group=client.group)
    service = present(client.service) or header("service")
    instance = present(client.instance) or header("instance")
    client_id = present(client.client_id) or header("client_id")
    host = present(client.host) or header("host")
    library, version = present(client.library) or header("library"), present(client.version) or header("version")
    kind = client.kind if client.kind in CLIENT_METRICS else (present(client.kind) or header("kind") or "").lower()
    group = present(client.group)
    if record.key and not (service and instance and client_id) and (parts := key_parts(record.key)):
        service = service or parts[0].strip() or None
        instance = instance or parts[1].strip() or None
        client_id = client_id or parts[2].strip() or None
    if not instance and client.handle:
        # A handle such as rdkafka#producer-1 is the same in every replica, so put the host before it.
        instance = f"{host}:{client.handle}" if host else client.handle
    return Identity(
        service=service,
        host=host,
        instance=instance,
        client_id=client_id,
        kind=kind if kind in CLIENT_METRICS else None,
        library=library,
        version=version,
        group=group,
    )


def _identity_error(client: Identity) -> str | None:
    if client.is_too_long:
        return "oversized: a name"
    if client.client_id is None:
        return "missing-identity: client_id"
    return "missing-identity: kind" if client.kind is None else None


def _nowhere(line: LogLine) -> str | None:
    """Return the reason why a line cannot be used if it names no origin, else None."""
    client = line.client
    if client.service or client.host or client.instance or client.client_id:
        return None
    speaks_of_client = "clientId=" in (line.message or "") or " | " in (line.thread or "")
    return None if speaks_of_client else "missing-identity"


def _time_error(ts_ms: int | None, latest: int) -> str | None:
    if ts_ms is None or ts_ms < EARLIEST_MS:
        return "missing-timestamp"
    return "future-timestamp" if ts_ms > latest else None
