"""Remove a payload's compression, the frame of a schema registry, and the envelope of Kafka Connect or Debezium.

The frame is Confluent's wire format: a zero byte, then the schema's number in four bytes.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from functools import cache
from typing import Any, get_args

import msgspec

from clienthealth.model.telemetry import Stream
from clienthealth.platform.schema_registry import UnknownSchemaError, schema
from clienthealth.read.formats import Record, formats
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.formats._protobuf import NotAMessageError, signal, varint
from clienthealth.settings import Settings

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_FRAME = 5
BLANKS = " \t\r\n\ufeff"
_CONNECT = frozenset({"schema", "payload"})
_DEBEZIUM = frozenset({"before", "after", "op", "source"})


class PayloadError(ValueError):
    """A payload cannot be unpacked or read. The message is the reject reason."""


def fill(record: Record, value: bytes | memoryview, settings: Settings) -> None:
    """Unpack `value` into the fields `text`, `document`, `data` and `signal` of `record`.

    Raises PayloadError if `value` cannot be unpacked. A value that needs a schema can also raise ServiceError (the
    registry does not answer or rejects the login), DependencyError (fastavro is not installed) and SettingsError
    (unreadable file).
    """
    data = unpacked(value, settings.monitor.max_record_bytes)
    if frame := framed(data):
        _fill_from_frame(record, *frame, settings)
    else:
        _fill(record, data)


@cache
def _binary_formats() -> frozenset[str]:
    return frozenset(fmt.name for stream in get_args(Stream) for fmt in formats(stream) if fmt.binary)


def _fill(record: Record, data: bytes | memoryview) -> None:
    record.signal = signal(data)
    if record.signal or record.headers.get("format") in _binary_formats():
        record.data = data
        return
    try:
        record.text = str(data, "utf-8").lstrip(BLANKS)
    except UnicodeDecodeError:
        raise PayloadError("binary") from None
    if not record.text:
        raise PayloadError("empty")
    if record.text[0] in "{[":
        record.document = parsed(record.text)
    _unwrap(record)


def _fill_from_frame(record: Record, number: int, data: memoryview, settings: Settings) -> None:
    """Decode `data` as JSON if possible, else with schema `number` of the schema registry."""
    if data[0] in b"{[":
        with suppress(PayloadError):
            _fill(record, data)
            if record.document is not None:
                return
    if not settings.registry.url:
        raise PayloadError(f"binary: needs schema {number}, but [registry] url is not set")
    try:
        by = schema(settings.registry, number)
        document = by.read(data) if by.kind == "AVRO" else None
    except UnknownSchemaError:
        raise PayloadError(f"unknown-schema: {number}") from None
    except ValueError as error:
        raise PayloadError(f"binary: does not fit schema {number}: {error}") from None
    if by.kind == "AVRO":
        _fill_decoded(record, document)
    else:
        _fill(record, without_message_path(data) if by.kind == "PROTOBUF" else data)


def _fill_decoded(record: Record, document: Any) -> None:
    try:
        record.text = document if isinstance(document, str) else msgspec.json.encode(document).decode()
    except (TypeError, ValueError) as error:
        raise PayloadError(f"binary: {error}") from None
    if not record.text:
        raise PayloadError("empty")
    record.document = None if isinstance(document, str) else document
    _unwrap(record)


def _unwrap(record: Record) -> None:
    document = record.document
    if type(document) is not dict:
        return
    if document.keys() == _CONNECT:
        inner = document["payload"]
    elif document.keys() >= _DEBEZIUM:
        inner = document["after"]
    else:
        return
    if inner is None:
        raise PayloadError("empty")
    if isinstance(inner, str):
        record.document = None
        _fill(record, inner.encode("utf-8", "replace"))
    else:
        _fill_decoded(record, inner)


def unpacked(data: bytes | memoryview, most: int) -> bytes | memoryview:
    """Return `data` decompressed; return it unchanged if it is not compressed with gzip or zstd.

    Raises PayloadError if the compressed data is broken, or if its decompressed size exceeds `most` bytes. Zstd data
    also raises PayloadError if the package `zstandard` is not installed.
    """
    head = bytes(data[:4])
    broken: type[Exception]
    if head.startswith(GZIP):
        kind, reader, broken = "gzip", zlib.decompressobj(wbits=31), zlib.error
    elif head == ZSTD:
        kind, reader, broken = "zstd", *_zstd()
    else:
        return data
    plain = bytearray()
    try:
        # Decompress in pieces, to check the size limit before much memory is used.
        for at in range(0, len(data), 4096):
            plain += reader.decompress(bytes(data[at : at + 4096]))
            if len(plain) > most:
                raise PayloadError("oversized")
    except broken:
        raise PayloadError(f"binary: broken {kind}") from None
    if not reader.eof:
        raise PayloadError(f"binary: truncated {kind}")
    return bytes(plain)


def _zstd() -> tuple[Any, type[Exception]]:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise PayloadError("binary: zstd needs another package: pip install 'kafka-client-health[binary]'") from None
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(), zstandard.ZstdError


def framed(data: bytes | memoryview) -> tuple[int, memoryview] | None:
    """Return (schema's number, data after the frame); None for a payload without a schema registry's frame."""
    if len(data) <= _FRAME or data[0] != 0:
        return None
    view = memoryview(data)
    return int.from_bytes(view[1:_FRAME], "big"), view[_FRAME:]


def without_message_path(data: memoryview) -> memoryview:
    """Return the data after the path that locates a protobuf message in its schema.

    The path (Confluent: message indexes) is a list of zigzag varints. The first varint is the count of the varints that
    follow. Raises PayloadError if the data do not begin with a path.
    """
    try:
        count, at = varint(data, 0, len(data))
        for _ in range(count >> 1 ^ -(count & 1)):
            _, at = varint(data, at, len(data))
    except NotAMessageError:
        raise PayloadError(
            "binary: the frame names a protobuf schema, but the message indexes are missing or truncated"
        ) from None
    return data[at:]
