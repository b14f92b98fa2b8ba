"""From the text of an input record to snapshots of clients and to log lines: one file per wire format.

The files of this folder are found by themselves: a new format is one new file with a `FORMAT`, or for logs as JSON a
table of `_json_layouts.toml`. Recognition is explicit (a format says whether a record is its own), because nearly every
JSON object could be read as nearly every format.
Everything is plain Python on one record; `decode.py` goes from the bytes of a record to what is made here, and fills
in what a record does not say of itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from clienthealth.model.telemetry import LogLine, Snapshot, Stream
from clienthealth.settings import IdentitySettings

#: Where nobody says otherwise; to check settings takes longer than to make a record.
_IDENTITY = IdentitySettings()


@dataclass(slots=True)
class Record:
    """A record whose value is text, or the bytes of a binary format.

    text      the value, without blanks and byte order mark before it; empty for a binary one
    data      the value where it is binary, else None
    signal    what binary data look like that have no schema around them, see `_protobuf.signal`
    document  the value where it is JSON (NaN and Infinity allowed), or was decoded by a schema; else None
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
    identity: IdentitySettings = _IDENTITY
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
    about        what it is, in a line, where its file does not say it
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
    about: str = ""


def has(record: Record, *keys: str) -> bool:
    """Is the record a JSON object with all these fields?"""
    document = record.document
    return type(document) is dict and all(key in document for key in keys)


@cache
def formats(stream: Stream) -> tuple[Format, ...]:
    """All formats of a stream in the order in which they are asked."""
    of_stream: list[Format] = []
    for module in pkgutil.iter_modules(__path__):
        declared = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found = declared.get("FORMATS", (declared.get("FORMAT"),))
        of_stream += [fmt for fmt in found if fmt is not None and fmt.stream == stream]
    return tuple(sorted(of_stream, key=lambda fmt: (fmt.order, fmt.name)))
