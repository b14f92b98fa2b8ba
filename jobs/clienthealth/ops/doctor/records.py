"""Read and survey the newest records of a topic: their formats and the clocks of their clients.

Kafka's timestamp of a record does not show a client's clock: the record's producer, often a collector, sets it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafka.errors import KafkaError

from clienthealth.model.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord, Stream
from clienthealth.model.wording import listing
from clienthealth.modes import catalogue
from clienthealth.ops.doctor import Finding, State
from clienthealth.platform.kafka import admin, consumer, extents
from clienthealth.read.decode import Decoded, decode_any, decode_logs, decode_metrics
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.settings import Settings
from clienthealth.settings.fields import LARGEST

READ_SECONDS = 5.0
TIMEOUT_MS = 10_000
CLIENT = {"client_id": "kafka-health-doctor", "bootstrap_timeout_ms": TIMEOUT_MS, "request_timeout_ms": TIMEOUT_MS}
_DECODERS: dict[Stream | None, Callable[[RawRecord, Settings, int], Decoded]] = {
    "metrics": decode_metrics,
    "logs": decode_logs,
    None: decode_any,
}
_EMPTY: Mapping[Stream, tuple[State, str]] = {
    "metrics": ("warning", "The topic has no records yet, so no client can be judged."),
    "logs": ("skipped", "The topic has no records yet, so failures that are visible only in logs are not found."),
}
CLOCK = "clock"
#: A sample more than SKEW_WARNING_SECONDS ahead of our clock may be assigned to a wrong minute.
SKEW_WARNING_SECONDS = 5.0
DELAY_WARNING_SECONDS = 30.0


class Newest(NamedTuple):
    """The newest records of a topic. `trouble`: the partitions that could not be read, and why; '' if all were read."""

    records: list[RawRecord]
    trouble: str


def newest(settings: Settings, topic: str, count: int) -> Newest:
    """Return about `count` of the newest records of a topic, equally many from each partition.

    Raises ServiceError if the topic does not exist or cannot be read.
    """
    try:
        with closing(admin(settings, **CLIENT)) as client:
            there = extents(client, [topic])
        if not (there.known or there.unread):
            raise ServiceError(f"{topic} does not exist, or this user may not see it")
        with closing(consumer(settings, group_id=None, allow_auto_create_topics=False, **CLIENT)) as reader:
            filled = {partition: extent for partition, extent in there.known.items() if extent.end > extent.begin}
            reader.assign(sorted(filled))
            for partition, (begin, end) in filled.items():
                reader.seek(partition, max(begin, end - -(-count // len(there.known))))
            records, deadline = [], time.monotonic() + READ_SECONDS
            while time.monotonic() < deadline and any(
                (reader.position(of, 500) or 0) < end for of, (_, end) in filled.items()
            ):
                for record in (record for polled in reader.poll(timeout_ms=500).values() for record in polled):
                    headers = {name: value for name, value in record.headers if value is not None}
                    source = Source(record.topic, record.partition, record.offset)
                    records.append(RawRecord(record.value, source, record.timestamp, record.key, headers))
    except KafkaError as error:
        raise ServiceError(f"{topic} could not be read: {type(error).__name__}: {error}") from error
    if there.trouble and not records:
        raise ServiceError(f"{topic} could not be read: {there.trouble}")
    return Newest(records, there.trouble)


@dataclass
class FormatCounts:
    """Counts of the records of one format.

    `records`   number of records that could be read completely
    `readings`  number of samples of clients and groups
    `lines`     number of log lines, including lines that are not about Kafka
    `events`    number of log events of Kafka clients in these lines
    `dumps`     number of thread dumps in these lines
    `clients`   (service, instance, client id, kind) of each client with a sample
    """

    records: int = 0
    readings: int = 0
    lines: int = 0
    events: int = 0
    dumps: int = 0
    clients: set[tuple[str | None, ...]] = field(default_factory=set)


@dataclass
class Reject:
    """Records that are rejected for one reason.

    `reason`     what is wrong with the records, without `detail`
    `detail`     details of the first record that has details; '' if no record has details
    `records`    number of records that are rejected for `reason`
    `partition`  the partition of the first record; None for a file
    `offset`     the offset of the first record
    """

    reason: str
    detail: str
    records: int
    partition: int | None
    offset: int


@dataclass
class Survey:
    """The records of one topic or file: counts by format (`formats`), and rejected records by reason (`rejects`)."""

    records: int = 0
    formats: dict[str, FormatCounts] = field(default_factory=dict)
    rejects: dict[str, Reject] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """Return the number of records that are unusable as a whole or in part."""
        return sum(reject.records for reject in self.rejects.values())


def survey(records: Iterable[RawRecord], stream: Stream | None, settings: Settings, now_ms: int) -> Survey:
    """Count records by format and by reason of rejection. `stream`: metrics or logs; None if the records may be either.

    Raises ServiceError if a schema registry that the records need is unreachable.
    """
    result = Survey()
    for record in records:
        result.records += 1
        decoded = _DECODERS[stream](record, settings, now_ms)
        if decoded.errors:
            reason, _, detail = decoded.errors[0].partition(":")
            source = record.source
            partition = source.partition if source.partition >= 0 else None
            reject = result.rejects.setdefault(reason, Reject(reason, "", 0, partition, source.offset))
            reject.records += 1
            reject.detail = reject.detail or detail.strip()
            continue
        counts = result.formats.setdefault(decoded.format or "", FormatCounts())
        counts.records += 1
        counts.readings += len(decoded.snapshots)
        counts.lines += len(decoded.lines)
        clients = (snapshot.client for snapshot in decoded.snapshots)
        counts.clients.update((client.service, client.instance, client.client_id, client.kind) for client in clients)
        for line in decoded.lines:
            events, dumps = events_and_dumps(line, record.source, catalogue())
            counts.events += len(events)
            counts.dumps += len(dumps)
    return result


def records_readable(settings: Settings, topic: str, stream: Stream, records: Sequence[RawRecord]) -> Iterator[Finding]:
    """Report the formats of a topic's records, and why records are rejected.

    Raises ServiceError if a schema registry that the records need is unreachable.
    """
    result = survey(records, stream, settings, int(time.time() * 1000))
    about = f"topic {topic}"
    if not result.records:
        yield Finding(about, *_EMPTY[stream])
    if result.formats:
        formats = ", ".join(f"{counts.records:,} {name}" for name, counts in result.formats.items())
        yield Finding(about, "ok", f"Of the newest {result.records:,} records, these can be read: {formats}.")
    for reject in result.rejects.values():
        why = f"{reject.reason}: {reject.detail}" if reject.detail else reject.reason
        first = f"the first: partition {reject.partition}, offset {reject.offset}"
        text = f"{reject.records:,} of the newest {result.records:,} records are rejected as {why} ({first})"
        state: State = "warning" if result.formats else "failed"
        yield Finding(about, state, f"{text}. For details, run: kafka-health formats --topic {topic}")


def clocks_agree(settings: Settings, topic: str, records: Sequence[RawRecord]) -> Iterator[Finding]:
    """Report clients with a sample in the future, and clients with a delay of more than 30 s in every sample.

    The delay of a sample is the time of its record minus the time of the sample.
    """
    now = time.time()
    anytime = replace(settings, monitor=replace(settings.monitor, future_seconds=LARGEST))
    # `ahead`: for each client, the greatest time (s) by which a sample is ahead of our clock.
    # `behind`: for each client, the smallest delay (s) of a sample.
    ahead: dict[str, float] = {}
    behind: dict[str, float] = {}
    for record in records:
        for snapshot in decode_metrics(record, anytime, int(now * 1000)).snapshots:
            if snapshot.ts_ms is not None:
                ref = snapshot.client
                client = "/".join(part for part in (ref.service, ref.instance, ref.client_id) if part)
                ahead[client] = max(snapshot.ts_ms / 1000 - now, ahead.get(client, -math.inf))
                behind[client] = min((record.ts_ms - snapshot.ts_ms) / 1000, behind.get(client, math.inf))
    if not ahead:
        text = f"None of the newest {len(records)} records of {topic} contains the time of a sample."
        if not records:
            text = f"{topic} has no records yet, so clocks cannot be compared."
        yield Finding(CLOCK, "skipped", text)
        return
    future_seconds = settings.monitor.future_seconds
    rejected = {client: by for client, by in ahead.items() if by > future_seconds}
    early = {client: by for client, by in ahead.items() if SKEW_WARNING_SECONDS < by <= future_seconds}
    late = {client: by for client, by in behind.items() if by > DELAY_WARNING_SECONDS}
    mend = "Correct the clocks of these clients or of this machine."
    slow = "The clocks of these clients are behind, or a collector delays their samples."
    judged: tuple[tuple[Mapping[str, float], State, str, str], ...] = (
        (rejected, "failed", "are rejected, because their time is in the future", mend),
        (early, "warning", "have a time in the future", "Compare the clocks."),
        (late, "warning", "are older than their records", slow),
    )
    for clients, state, what, remedy in judged:
        if clients:
            worst_first = sorted(clients.items(), key=lambda item: -item[1])
            worst = listing(f"{client} by {by:.0f} s" for client, by in worst_first)
            yield Finding(CLOCK, state, f"Samples on {topic} {what}: {worst}. {remedy}")
    if not (rejected or early or late):
        text = f"The newest sample on {topic} is {max(0.0, -max(ahead.values())):.0f} s old by our clock"
        yield Finding(CLOCK, "ok", f"{text}; no sample is in the future.")


def pushing_clients(topic: str, records: Iterable[RawRecord]) -> Iterator[Finding]:
    """Report how many clients pushed the newest records of a topic, and the versions of their libraries.

    Yields nothing if no client pushed any of the records.
    """
    by_instance: dict[bytes, str] = {}
    for record in records:
        if instance := record.headers.get("client_instance_id"):
            software = (record.headers.get(f"client_software_{part}", b"") for part in ("name", "version"))
            by_instance[bytes(instance)] = " ".join(bytes(part).decode("utf-8", "replace") for part in software).strip()
    if by_instance:
        versions = Counter(version or "of unknown version" for version in by_instance.values())
        shown = ", ".join(f"{count} {version}" for version, count in versions.most_common())
        text = f"The newest records were pushed by {len(by_instance)} client(s): {shown}."
        yield Finding(f"topic {topic}", "ok", text)
