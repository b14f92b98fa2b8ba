"""Convert an input record to client snapshots or log lines.

A format of JSON logs is a table in `_json_layouts.toml`. Any other wire format is a file with a `FORMAT`.
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

#: All records share these defaults, because making new ones takes longer than decoding a record.
_IDENTITY = IdentitySettings()


@dataclass(slots=True)
class Record:
    """A Kafka record: its value is text, or bytes of a binary format.

    `text`      the value without leading blanks and byte order mark; '' for a binary value
    `data`      the value if it is binary, else None
    `signal`    `metrics` or `logs` if the value is OTLP in protobuf, else None
    `document`  the value if it is JSON or was decoded with a schema; else None
    `key`       the Kafka key as text; None if it is missing, too long or not text
    `headers`   maps a header's name to its value as text; only headers that the decoder reads
    `ts_ms`     the Kafka record's own time, epoch milliseconds
    `identity`  the settings [identity], which list the attributes that name a client
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

    `name`         the format's name; a record header `format` with this name selects the format
    `stream`       `metrics` or `logs`
    `order`        formats are tried in ascending order; the first that recognises a record decodes it
    `recognise`    returns True if the record has this format; never raises an exception
    `decode`       returns a record's snapshots or log lines, depending on `stream`. Returns None if essential parts
                   have the wrong type, and [] if the record has no client or line. Raises DependencyError if a package
                   is missing
    `interval_ms`  the reporting interval (ms) if a record does not contain it
    `groups`       True if records in this format may describe consumer groups
    `binary`       True if the format reads binary values (`Record.data`), and only these
    `text`         True for a format of metrics that reads text other than JSON
    `about`        a description in one line, for a format without its own module
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


def having(*keys: str) -> Callable[[Record], bool]:
    """Return a function that is True for JSON objects with all these fields."""
    return lambda record: type(record.document) is dict and all(map(record.document.__contains__, keys))


@cache
def formats(stream: Stream) -> tuple[Format, ...]:
    """Return the formats of a stream (metrics or logs) in the order in which they are tried."""
    of_stream: list[Format] = []
    for module in pkgutil.iter_modules(__path__):
        declared = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found = declared.get("FORMATS", (declared.get("FORMAT"),))
        of_stream += [fmt for fmt in found if fmt is not None and fmt.stream == stream]
    return tuple(sorted(of_stream, key=lambda fmt: (fmt.order, fmt.name)))
