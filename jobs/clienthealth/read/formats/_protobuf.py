"""Parse the parts of OTLP's protobuf messages that the monitor needs (opentelemetry-proto v1: metrics, logs, common).

Parsing needs the package `protobuf`; recognising a message (`signal`) needs no package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from clienthealth.model.errors import DependencyError
from clienthealth.model.tables import table
from clienthealth.model.telemetry import Stream

REMEMBERED = 65_536
#: Value of OTLP's `aggregation_temporality` for a sum of deltas.
DELTA = 1
#: OTLP's flag for a data point without a recorded value.
NO_VALUE = 1

_SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = table(Path(__file__).with_suffix(".toml"))

_LEN, _FIXED64 = 2, 1
_FIXED = {_FIXED64: 8, 5: 4}
#: First byte of every OTLP request. This byte announces field 1, which contains an embedded message.
_RESOURCES = 0x0A


def message_of(message: str, data: bytes | memoryview) -> Any:
    """Parse bytes as a protobuf message. `message`: name of the message in the schema.

    Raises ValueError if the bytes are not this message, and DependencyError if the package `protobuf` is missing.
    """
    instance = _classes()[message]()
    try:
        instance.ParseFromString(bytes(data))
    except _decode_error() as error:
        raise ValueError(str(error)) from None
    return instance


@lru_cache(maxsize=REMEMBERED)
def attributes(pairs: tuple[bytes, ...]) -> Mapping[str, str]:
    """Return a mapping from an attribute's name to its value as text. `pairs`: encoded `KeyValue` messages.

    Attributes without a value, or with a list or object as value, are left out. If a name occurs twice, the first value
    is used.
    """
    by_name: dict[str, str] = {}
    for name, value in map(_pair, pairs):
        text = _scalar(_message("Value", value))
        if text and name not in by_name:
            by_name[name] = text
    return by_name


def attributes_of_resource(data: bytes) -> Mapping[str, str]:
    """Return the attributes of an encoded `Resource` message by name; {} if the bytes are invalid."""
    return attributes(tuple(_message("Resource", data).attributes))


@lru_cache(maxsize=4096)
def text(data: bytes) -> str:
    """Return bytes as text; invalid UTF-8 becomes the replacement character (U+FFFD)."""
    return data.decode("utf-8", "replace")


def body(data: bytes) -> str | None:
    """Return the body of a log record (an encoded `Value`) as text; None without a body. Maps and lists become JSON."""
    import json

    value = _plain(_message("Value", data)) if data else None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def signal(data: bytes | memoryview) -> Stream | None:
    """Return `metrics` or `logs` if the bytes look like an OTLP request with metrics or logs; else None.

    A metric has its name in field 1. A log record has a time of eight bytes in field 1 or 11.
    """
    if not data or data[0] != _RESOURCES:
        return None
    try:
        for number, wire, *resource in _fields(data, 0, len(data)):
            if (number, wire) != (1, _LEN):
                return None
            for scope in _messages(data, *resource):
                for entry in _messages(data, *scope):
                    return _of_entry(data, *entry)
    except NotAMessageError:
        return None
    return None


def _of_entry(data: bytes | memoryview, at: int, end: int) -> Stream | None:
    for number, wire, _, _ in _fields(data, at, end):
        if wire == _FIXED64 and number in (1, 11):
            return "logs"
        if wire == _LEN and number == 1:
            return "metrics"
    return None


class NotAMessageError(ValueError):
    """The bytes are not a protobuf message."""


def _messages(data: bytes | memoryview, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each message embedded in field 2 of the message data[at:end]."""
    return ((begin, behind) for number, wire, begin, behind in _fields(data, at, end) if (number, wire) == (2, _LEN))


def _fields(data: bytes | memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, start of the value, end of the value) for each field in the message data[at:end]."""
    while at < end:
        tag, begin = varint(data, at, end)
        wire = tag & 7
        if wire == _LEN:
            length, begin = varint(data, begin, end)
            at = begin + length
        else:
            at = varint(data, begin, end)[1] if wire == 0 else begin + _FIXED.get(wire, end + 1)
        if tag < 8 or at > end:
            raise NotAMessageError
        yield tag >> 3, wire, begin, at


def varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return (value of the varint at position `at`, position after the varint).

    Raises NotAMessageError if the varint does not end before `end`, or has more than ten bytes.
    """
    value = shift = 0
    for n in range(at, min(at + 10, end)):
        byte = data[n]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, n + 1
        shift += 7
    raise NotAMessageError


@lru_cache(maxsize=REMEMBERED)
def _pair(data: bytes) -> tuple[str, bytes]:
    pair = _message("KeyValue", data)
    return text(pair.key), pair.value


def _message(name: str, data: bytes) -> Any:
    """Parse an embedded message; invalid bytes give an empty message."""
    try:
        return message_of(name, data)
    except ValueError:
        return _classes()[name]()


def _scalar(value: Any) -> str | None:
    kind = value.WhichOneof("value")
    if kind == "text":
        return text(value.text)
    if kind == "yes":
        return "true" if value.yes else "false"
    if kind == "whole":
        return str(value.whole)
    return repr(value.real) if kind == "real" else None


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "values":
        return [_plain(_message("Value", one)) for one in value.values.values]
    if kind == "pairs":
        return {name: _plain(_message("Value", one)) for name, one in map(_pair, value.pairs.pairs)}
    if kind == "text":
        return text(value.text)
    return getattr(value, kind) if kind else None


@cache
def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError

    return DecodeError


@cache
def _classes() -> Mapping[str, Any]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ModuleNotFoundError:
        raise DependencyError("protobuf needs the extra 'binary': pip install 'kafka-client-health[binary]'") from None
    file = descriptor_pb2.FileDescriptorProto(name="clienthealth/otlp.proto", package="clienthealth.otlp")
    types = descriptor_pb2.FieldDescriptorProto
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "Value":
            message.oneof_decl.add(name="value")
        for spelled, (number, kind) in fields.items():
            repeated = kind.endswith("*")
            kind = kind.rstrip("*")
            field = message.field.add(
                name=spelled, number=number, label=types.LABEL_REPEATED if repeated else types.LABEL_OPTIONAL
            )
            if kind[0].isupper():
                field.type, field.type_name = types.TYPE_MESSAGE, f".clienthealth.otlp.{kind}"
            else:
                field.type = types.Type.Value(f"TYPE_{kind.upper()}")
            if name == "Value":
                field.oneof_index = 0
            if spelled == "as_double":
                # A data point without a value gets the value NaN, which means unknown.
                field.default_value = "nan"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"clienthealth.otlp.{name}"))
        for name in _SCHEMA
    }
