"""What records hold, by format: how many of each, what is in them, and why the others are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord, Stream
from clienthealth.modes import catalogue
from clienthealth.read.decode import Decoded, decode_any, decode_logs, decode_metrics
from clienthealth.read.logs.events import events_and_dumps
from clienthealth.settings import Settings

_DECODERS: dict[Stream | None, Callable[[RawRecord, Settings, int], Decoded]] = {
    "metrics": decode_metrics,
    "logs": decode_logs,
    None: decode_any,
}


@dataclass
class FormatCounts:
    """What the records of one format hold.

    records  that could be read to the end
    lines    of logs, whether they say something of Kafka or not; `events`: what they report of Kafka clients
    """

    records: int = 0
    readings: int = 0
    lines: int = 0
    events: int = 0
    dumps: int = 0
    clients: set[tuple[str | None, ...]] = field(default_factory=set)


@dataclass
class Reject:
    """Records that are rejected for one reason. `first`: the first of them; `detail`: its reason in full."""

    detail: str
    first: Source
    records: int = 0


@dataclass
class Survey:
    """What the records of one topic or file are. A record counts once: by its format, or by its first reject."""

    records: int = 0
    formats: dict[str, FormatCounts] = field(default_factory=dict)
    rejects: dict[str, Reject] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """Records of which a part or all cannot be used."""
        return sum(reject.records for reject in self.rejects.values())


def survey(records: Iterable[RawRecord], stream: Stream | None, settings: Settings, now_ms: int) -> Survey:
    """Look at records of metrics, of logs, or (None) of either.

    Raises ServiceError where a schema registry that they need is away.
    """
    result = Survey()
    decode = _DECODERS[stream]
    for record in records:
        result.records += 1
        _count(result, record, decode(record, settings, now_ms))
    return result


def _count(result: Survey, record: RawRecord, decoded: Decoded) -> None:
    if decoded.errors:
        reason, _, detail = decoded.errors[0].partition(":")
        reject = result.rejects.setdefault(reason, Reject(detail.strip(), record.source))
        reject.records += 1
        return
    counts = result.formats.setdefault(decoded.format or "", FormatCounts())
    counts.records += 1
    counts.readings += len(decoded.snapshots)
    counts.lines += len(decoded.lines)
    for snapshot in decoded.snapshots:
        who = snapshot.client
        counts.clients.add((who.service, who.instance, who.client_id, who.kind))
    for line in decoded.lines:
        events, dumps = events_and_dumps(line, record.source, catalogue())
        counts.events += len(events)
        counts.dumps += len(dumps)
