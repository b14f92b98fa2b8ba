"""What one record says once its format is understood: snapshots of clients, and log lines.

Still as the record tells it: who it is of may be incomplete, and nothing is checked against anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from clienthealth.model.readings import Source

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
