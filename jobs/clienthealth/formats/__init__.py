"""From the text of an input record to snapshots of clients and to log lines: one file per wire format.

The files of this folder are found by themselves: a new format is one new file with a `FORMAT`. Recognition is explicit
(a format says whether a record is its own), because nearly every JSON object could be read as nearly every format.
Everything is plain Python on one record; `decode.py` goes from the bytes of a record to what is made here, and fills
in what a record does not say of itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec

from clienthealth.records import Source
from clienthealth.settings import IdentitySettings

Stream = Literal["metrics", "logs"]


class Identity(msgspec.Struct, gc=False):
    """Who a record says that it is of; None (never an empty text) where it does not say it.

    `kind` is as the record spells it until `decode.py` has checked it.
    """

    service: str | None = None
    host: str | None = None
    instance: str | None = None
    client_id: str | None = None
    kind: str | None = None
    library: str | None = None
    version: str | None = None
    group: str | None = None


class Member(msgspec.Struct, gc=False):
    """Who of a consumer group owns a partition."""

    client_id: str | None = None
    consumer_id: str | None = None
    host: str | None = None


class TopicMetrics(msgspec.Struct):
    """What a client says of one topic, or of one partition or thread of it. `metrics`: names of TOPIC_METRICS.

    `member`: in snapshots of kind group only.
    """

    topic: str
    partition: int | None = None
    thread: str | None = None
    member: Member | None = None
    metrics: dict[str, float] = {}


class Snapshot(msgspec.Struct):
    """What one client reports at one moment.

    ts_ms        epoch milliseconds; None where the record does not tell it
    metrics      by names of CLIENT_METRICS, known values only: finite and ≥ 0
    config       options of the client
    interval_ms  how often it reports, where the record tells
    delta        totals count since the previous snapshot instead of since the client's start
    error        why this client's part of the record cannot be used; the other fields may then be empty
    """

    ts_ms: int | None = None
    client: Identity = msgspec.field(default_factory=Identity)
    metrics: dict[str, float] = {}
    topics: list[TopicMetrics] = []
    config: dict[str, str] = {}
    interval_ms: int | None = None
    delta: bool = False
    error: str | None = None


class LogLine(msgspec.Struct):
    """One log entry.

    message            the line without the decoration of its layout
    stack              the exception below it, lines joined by newline
    file, file_offset  where the line stood, to re-join what was split over records
    dump               the text of a whole thread dump (then `message` is None)
    error              why it cannot be used
    """

    ts_ms: int | None = None
    client: Identity = msgspec.field(default_factory=Identity)
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    message: str | None = None
    stack: str | None = None
    file: str | None = None
    file_offset: int | None = None
    dump: str | None = None
    error: str | None = None


class RawRecord(msgspec.Struct):
    """A record as it stands on a topic (or as a line of a file). `ts_ms`: the Kafka record's own time, epoch ms."""

    value: bytes | memoryview | None
    source: Source
    ts_ms: int
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}


@dataclass(slots=True)
class Record:
    """A record whose value is text, or the bytes of a binary format.

    text      the value, without blanks and byte order mark before it; empty for a binary one
    data      the value where it is binary, else None
    signal    what binary data look like that have no schema around them, see `_protobuf.signal`
    document  the value where it is JSON (NaN and Infinity allowed), or was told by a schema; else None
    key       the Kafka key as text, None where it has none or is no text
    headers   those that `decode.HEADERS` lists, as text
    ts_ms     the Kafka record's own time, epoch milliseconds
    identity  which attributes name a client, where that can be configured
    """

    text: str
    document: Any = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ts_ms: int = 0
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    data: bytes | memoryview | None = None
    signal: Stream | None = None


@dataclass(frozen=True)
class Format:
    """One wire format.

    order        formats are asked in rising order and the first that recognises a record decodes it
    recognise    is the record of this format? Never raises.
    decode       its snapshots (stream metrics) or log lines (stream logs). None where the record's essential parts
                 have the wrong type, an empty list where it speaks of no client (or line). Identity that the record
                 does not carry stays None: `decode.py` fills it from headers and key. Never raises.
    interval_ms  how often such a client reports where the record does not say it
    groups       can it speak of consumer groups?
    binary       is it of bytes? Then only records with `data` are shown to it, else only those without.
    text         is a format of metrics of text? All others of metrics are JSON and are not shown what is none.
    """

    name: str
    stream: Stream
    order: int
    recognise: Callable[[Record], bool]
    decode: Callable[[Record], list[Snapshot] | list[LogLine] | None]
    interval_ms: int = 10_000
    groups: bool = False
    binary: bool = False
    text: bool = False


@cache
def formats(stream: Stream) -> tuple[Format, ...]:
    """All formats of a stream in the order in which they are asked."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        fmt = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if fmt is not None and fmt.stream == stream:
            found.append(fmt)
    return tuple(sorted(found, key=lambda fmt: (fmt.order, fmt.name)))
