"""OTLP's protobuf messages, as far as we read them (opentelemetry-proto v1: metrics, logs, common).

Attributes, names and bodies stay bytes until somebody asks: the same few come again and again, so that what they mean
is read once and then known by these bytes. That takes a schema of our own, which has the numbers and wire types of the
original, `bytes` where that has an embedded message, and leaves out what we do not read.

The package `protobuf` is needed to read, not to recognise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from clienthealth.errors import DependencyError
from clienthealth.formats import Stream

#: As many sets of attributes are kept by their bytes.
REMEMBERED = 65_536
#: `aggregation_temporality` of a sum that counts since the point before.
DELTA = 1

#: Message → field → its number and type; `*` repeated; a type that begins with a capital is a message of this table.
_SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Metrics": {"resources": (1, "ResourceMetrics*")},
    "ResourceMetrics": {"resource": (1, "Resource"), "scopes": (2, "ScopeMetrics*")},
    "Resource": {"attributes": (1, "bytes*")},
    "ScopeMetrics": {"metrics": (2, "Metric*")},
    "Metric": {"name": (1, "bytes"), "gauge": (5, "bytes"), "sum": (7, "bytes")},
    "Numbers": {"points": (1, "bytes*"), "temporality": (2, "int32")},
    "Point": {
        "start": (2, "fixed64"),
        "time": (3, "fixed64"),
        "as_double": (4, "double"),
        "as_int": (6, "sfixed64"),
        "attributes": (7, "bytes*"),
        "flags": (8, "uint32"),
    },
    "Logs": {"resources": (1, "ResourceLogs*")},
    "ResourceLogs": {"resource": (1, "Resource"), "scopes": (2, "ScopeLogs*")},
    "ScopeLogs": {"scope": (1, "Scope"), "records": (2, "LogRecord*")},
    "Scope": {"name": (1, "bytes")},
    "LogRecord": {
        "time": (1, "fixed64"),
        "severity": (2, "int32"),
        "level": (3, "bytes"),
        "body": (5, "bytes"),
        "attributes": (6, "bytes*"),
        "observed": (11, "fixed64"),
    },
    "KeyValue": {"key": (1, "bytes"), "value": (2, "bytes")},
    "Value": {
        "text": (1, "bytes"),
        "yes": (2, "bool"),
        "whole": (3, "int64"),
        "real": (4, "double"),
        "values": (5, "Values"),
        "pairs": (6, "KeyValues"),
    },
    "Values": {"values": (1, "bytes*")},
    "KeyValues": {"pairs": (1, "bytes*")},
}

_LEN, _FIXED64 = 2, 1
#: Wire type → length of a value.
_FIXED = {_FIXED64: 8, 5: 4}
#: Tags of a data point's fields: times, its value as double or as integer, an attribute.
_START, _TIME, _VALUES, _ATTRIBUTE = 0x11, 0x19, (0x21, 0x31), 0x3A
_ORDERED, _TIMED, _WHOLE = struct.Struct("<BQBQBd"), struct.Struct("<BQBd"), struct.Struct("<q")
#: What stands behind the points of a gauge, or a sum with its temporality, monotonic or not: are they deltas?
_KINDS = {
    b"": False,
    b"\x10\x01": True,
    b"\x10\x01\x18\x01": True,
    b"\x10\x02": False,
    b"\x10\x02\x18\x01": False,
}
#: The flag of a point without a value.
_NO_VALUE = 1
#: The tag of field 1 with a message in it, with which every request begins.
_RESOURCES = 0x0A


def parsed(message: Literal["Metrics", "Logs"], data: bytes | memoryview) -> Any:
    """The message. Raises ValueError where the bytes are none, DependencyError where `protobuf` is not installed."""
    found = _classes()[message]()
    try:
        found.ParseFromString(bytes(data))
    except _decode_error() as error:
        raise ValueError(str(error)) from None
    return found


@lru_cache(maxsize=REMEMBERED)
def attributes(pairs: tuple[bytes, ...]) -> Mapping[str, str]:
    """Attributes by name, values as text; those without a value, or with a list or object, are left out."""
    found: dict[str, str] = {}
    for name, value in map(_pair, pairs):
        said = _scalar(_message("Value", value))
        if said and name not in found:
            found[name] = said
    return found


class Point(NamedTuple):
    """A data point. `start` and `end` in nanoseconds, 0 where not told; `value`: NaN where it is not known.

    `attributes`: the same bytes for the same attributes, to be read by `attributes_of`.
    """

    start: int
    end: int
    value: float
    attributes: bytes


def points(numbers: bytes) -> tuple[Iterable[bytes], bool]:
    """The data points of a gauge or sum, for `point`, and whether they are deltas.

    Nearly always it is one point and then how it is to be read, which is found without reading a message.
    """
    if numbers[:1] == b"\x0a":
        size, at = numbers[1], 2
        if size > 0x7F:
            size, at = size & 0x7F | numbers[2] << 7, 3
        how = _KINDS.get(numbers[at + size :])
        if how is not None and (at == 2 or numbers[2] < 0x80):
            return (numbers[at : at + size],), how
    found = _message("Numbers", numbers)
    return found.points, found.temporality == DELTA


def point(data: bytes) -> Point:
    """A data point of numbers. Its times and its value have fixed places where it was written in order of the fields,
    as all do; otherwise it is read as any message.
    """
    if len(data) >= _ORDERED.size:
        first, start, second, end, third, value = _ORDERED.unpack_from(data)
        if first == _TIME:
            # There is no start.
            start, end, third, at = 0, start, second, _TIMED.size
            value = _TIMED.unpack_from(data)[3]
        elif first == _START and second == _TIME:
            at = _ORDERED.size
        else:
            return _slow_point(data)
    elif len(data) == _TIMED.size:
        start, at = 0, _TIMED.size
        first, end, third, value = _TIMED.unpack(data)
        if first != _TIME:
            return _slow_point(data)
    else:
        return _slow_point(data)
    rest = data[at:]
    if third not in _VALUES or (rest and rest[0] != _ATTRIBUTE):
        return _slow_point(data)
    return Point(start, end, value if third == _VALUES[0] else float(_WHOLE.unpack_from(data, at - 8)[0]), rest)


def _slow_point(data: bytes) -> Point:
    found = _message("Point", data)
    value = float(found.as_int) if found.HasField("as_int") else found.as_double
    if found.flags & _NO_VALUE:
        value = float("nan")
    pairs = b"".join(bytes((_ATTRIBUTE,)) + _length(len(pair)) + pair for pair in found.attributes)
    return Point(found.start, found.time, value, pairs)


def attributes_of(data: bytes) -> Mapping[str, str]:
    """The attributes of a `Point`."""
    found = _message("Point", data)
    return attributes(tuple(found.attributes))


def _length(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


@lru_cache(maxsize=4096)
def text(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")


def body(data: bytes) -> str | None:
    """The body of a log record as text: a map or a list as JSON, None where it has none."""
    import json

    value = _plain(_message("Value", data)) if data else None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def signal(data: bytes | memoryview) -> Stream | None:
    """What the bytes look like: OTLP metrics, OTLP logs, or neither (also where they hold no data point or record).

    A request is nothing but field 1 (resources), each a message with scopes in field 2, and these with metrics or
    log records in field 2. A metric begins with its name; a log record has times of eight bytes. The first
    of them is looked at.
    """
    if not data or data[0] != _RESOURCES:
        return None
    try:
        for number, wire, resource in _fields(memoryview(data)):
            if (number, wire) != (1, _LEN):
                return None
            for scope in _entries(resource):
                for entry in _entries(scope):
                    return _of_entry(entry)
    except _NotAMessageError:
        return None
    return None


def _of_entry(entry: memoryview) -> Stream | None:
    for number, wire, _ in _fields(entry):
        if wire == _FIXED64 and number in (1, 11):
            return "logs"
        if wire == _LEN and number == 1:
            return "metrics"
    return None


class _NotAMessageError(ValueError):
    pass


def _entries(message: memoryview) -> Iterator[memoryview]:
    """The messages in field 2."""
    return (part for number, wire, part in _fields(message) if number == 2 and wire == _LEN)


def _fields(view: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Number, wire type and bytes of each field of a message, as far as somebody asks. Raises _NotAMessageError."""
    at, end = 0, len(view)
    while at < end:
        tag, at = _varint(view, at)
        wire = tag & 7
        if wire == _LEN:
            length, at = _varint(view, at)
        elif wire == 0:
            length = _varint(view, at)[1] - at
        else:
            length = _FIXED.get(wire, end)
        if tag < 8 or at + length > end:
            raise _NotAMessageError
        yield tag >> 3, wire, view[at : at + length]
        at += length


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length at a position, and the position behind it."""
    value = shift = 0
    for n in range(at, min(at + 10, len(view))):
        value |= (view[n] & 0x7F) << shift
        if view[n] < 0x80:
            return value, n + 1
        shift += 7
    raise _NotAMessageError


@lru_cache(maxsize=REMEMBERED)
def _pair(data: bytes) -> tuple[str, bytes]:
    pair = _message("KeyValue", data)
    return text(pair.key), pair.value


def _message(name: str, data: bytes) -> Any:
    """A part of a message, empty where its bytes are none: it then says nothing, and the rest stays."""
    found = _classes()[name]()
    try:
        found.ParseFromString(data)
    except _decode_error():
        return _classes()[name]()
    return found


def _scalar(value: Any) -> str | None:
    """A value that is one text, number or truth, as text."""
    kind = value.WhichOneof("value")
    if kind == "text":
        return text(value.text)
    if kind == "yes":
        return "true" if value.yes else "false"
    if kind == "whole":
        return str(value.whole)
    return repr(value.real) if kind == "real" else None


def _plain(value: Any) -> Any:
    """A value as Python's own."""
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
    """The classes of the messages of the schema."""
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
                # Told from a value by being none: quicker than asking which field is there.
                field.default_value = "nan"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"clienthealth.otlp.{name}"))
        for name in _SCHEMA
    }
