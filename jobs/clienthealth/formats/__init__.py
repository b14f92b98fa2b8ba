"""From the bytes of an input record to snapshots of clients and to log records.

One file per wire format, each with a `FORMAT`. The files of this folder are found by themselves: a new format is one
new file. Recognition is explicit (a format says whether a record is its own), because a lenient JSON parser accepts
any JSON as any format. Everything is native column expressions: no Python runs per record.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from pyspark.sql import Column
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from clienthealth.records import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.settings import IdentitySettings

#: All client metrics that any kind of client can have, in a fixed order.
METRIC_NAMES: tuple[str, ...] = tuple(dict.fromkeys(name for names in CLIENT_METRICS.values() for name in names))
TOPIC_METRIC_NAMES: tuple[str, ...] = tuple(TOPIC_METRICS)


def _struct(*fields: tuple[str, object]) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields])  # type: ignore[arg-type]


METRICS = _struct(*((name, DoubleType()) for name in METRIC_NAMES))
#: `member`: who of a consumer group owns the partition (snapshots of kind group only, else null).
TOPIC_READING = _struct(
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("thread", StringType()),
    ("member", _struct(("client_id", StringType()), ("consumer_id", StringType()), ("host", StringType()))),
    ("metrics", _struct(*((name, DoubleType()) for name in TOPIC_METRIC_NAMES))),
)
CLIENT = _struct(
    ("service", StringType()),
    ("host", StringType()),
    ("instance", StringType()),
    ("client_id", StringType()),
    ("kind", StringType()),
    ("library", StringType()),
    ("version", StringType()),
    ("group", StringType()),
)

#: What a metrics format decodes a record to: an array of these, one per client (or one with only `error`).
#: `delta`: totals count since the previous snapshot instead of since the client's start.
#: `error`: why this client's part of the record cannot be used; the other fields may then be null.
SNAPSHOT = _struct(
    ("ts_ms", LongType()),
    ("client", CLIENT),
    ("metrics", METRICS),
    ("topics", ArrayType(TOPIC_READING)),
    ("config", MapType(StringType(), StringType())),
    ("interval_ms", LongType()),
    ("delta", BooleanType()),
    ("error", StringType()),
)

#: What a log format decodes a record to: an array of these.
#: `message`: the line without the decoration of its layout; `stack`: the exception text, lines joined by newline.
#: `file`, `file_offset`: where the line stood, to re-join what was split over records.
#: `dump`: the text of a whole thread dump (then `message` is null).
LOG = _struct(
    ("ts_ms", LongType()),
    ("client", CLIENT),
    ("level", StringType()),
    ("logger", StringType()),
    ("thread", StringType()),
    ("message", StringType()),
    ("stack", StringType()),
    ("file", StringType()),
    ("file_offset", LongType()),
    ("dump", StringType()),
    ("error", StringType()),
)


Stream = Literal["metrics", "logs"]


@dataclass(frozen=True)
class Record:
    """The columns of an input record, for recognition and decoding.

    `text`: the value as UTF-8 text (null where it is not). `key`: the Kafka key as text. `headers`: map of string to
    string, with the keys that `decode.HEADERS` lists. `ts_ms`: the record's Kafka timestamp in epoch milliseconds.
    `json_keys`: the names of the top-level fields where the value is a JSON object, else null. `identity`: which
    attributes name a client, where that can be configured.
    """

    text: Column
    key: Column
    headers: Column
    ts_ms: Column
    json_keys: Column
    identity: IdentitySettings = field(default_factory=IdentitySettings)


@dataclass(frozen=True)
class Format:
    """One wire format.

    `order`: formats are asked in rising order and the first that recognises a record decodes it.
    `interval_ms`: how often such a client reports where the record does not say it.
    `recognise`: true, false, never null. `decode`: an array of SNAPSHOT (stream metrics) or LOG (stream logs).
    Identity that the record does not carry stays null: `decode.py` fills it from headers and key. `decode` gives null
    where the record's essential parts have the wrong type, an empty array where it speaks of no client (or line).
    `groups`: can it speak of consumer groups?
    `bundles`: the first half of `decode`, where the second is what all formats of samples share (`_samples.py`).
    """

    name: str
    stream: Stream
    order: int
    recognise: Callable[[Record], Column]
    decode: Callable[[Record], Column]
    interval_ms: int = 10_000
    groups: bool = False
    bundles: Callable[[Record], Column] | None = None


@cache
def formats(stream: Stream) -> tuple[Format, ...]:
    """All formats of a stream in the order in which they are asked."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        fmt = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if fmt is not None and fmt.stream == stream:
            found.append(fmt)
    return tuple(sorted(found, key=lambda fmt: (fmt.order, fmt.name)))
