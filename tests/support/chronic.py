"""Extend recorded failures to any length by repeating the last part of each recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import msgspec

from clienthealth.diagnose.diagnosis import raw_record
from clienthealth.measure.packed import LogEntry, process_of
from clienthealth.model.readings import LogEvent, ThreadDump
from clienthealth.model.telemetry import Snapshot
from clienthealth.modes import catalogue
from clienthealth.read.decode import decode_any, decode_logs, decode_metrics
from clienthealth.read.logs import events
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS
from tests.support.stepped import START

_DECODERS = {"any": decode_any, "metrics": decode_metrics, "logs": decode_logs}
_SETTINGS = Settings()
#: Metrics that count the seconds since an event.
_AGES = ("metadata-age", "last-poll-seconds-ago", "last-heartbeat-seconds-ago")
FAR_MS = 10**13


@dataclass(frozen=True)
class Failure:
    """A recorded failure. The part that begins `settled` seconds after the onset is repeated."""

    recording: str
    mode: str
    client_id: str
    settled: float
    log_settled: float | None = None

    def snapshots(self, begin: float, seconds: float, every: float = 10.0) -> Iterator[Snapshot]:
        recording = _read(self.recording)
        onset_ms = recording.onset_ms or min(s.ts_ms for s in recording.snapshots if s.ts_ms)
        until = START + 1000 * (begin + seconds)
        for number, client_id in enumerate(sorted({s.client.client_id or "" for s in recording.snapshots})):
            mine = [s for s in recording.snapshots if s.client.client_id == client_id]
            last = float("-inf")
            for offset_ms, moved in self._continued(mine, onset_ms):
                ts_ms = round(START + 1000 * begin + offset_ms)
                if ts_ms >= until:
                    break
                if offset_ms - last >= 1000 * every - 500:
                    last = offset_ms
                    yield msgspec.structs.replace(moved(), ts_ms=ts_ms + number, interval_ms=round(1000 * every))

    def _continued(self, mine: Sequence[Snapshot], onset_ms: int) -> Iterator[tuple[float, Callable[[], Snapshot]]]:
        for snapshot in mine:
            yield (snapshot.ts_ms or 0) - onset_ms, partial(_same, snapshot)
        stretch = [s for s in mine if (s.ts_ms or 0) - onset_ms >= 1000 * self.settled]
        if len(stretch) < 2:  # the client removed its MBeans, so no samples can be repeated
            return
        first, end = stretch[0], stretch[-1]
        length = (end.ts_ms or 0) - (first.ts_ms or 0)
        round_ = 0
        while True:
            round_ += 1
            for snapshot in stretch[1:]:
                offset = (snapshot.ts_ms or 0) - onset_ms + round_ * length
                yield offset, partial(_after_rounds, snapshot, first, end, round_)

    def log_entries(
        self, begin: float, seconds: float, lines_a_second: int | None = 20, each: int = 1
    ) -> Iterator[LogEntry]:
        recording = _read(self.recording)
        lines = [s for s in recording.log_entries if s.event is not None and _fails(s.event)]
        yield from _repeated(
            _rate_limited(lines, lines_a_second, each) if lines_a_second else lines,
            recording.onset_ms,
            self.settled if self.log_settled is None else self.log_settled,
            begin,
            seconds,
        )

    def dumps(self, begin: float, seconds: float) -> Iterator[LogEntry]:
        recording = _read(self.recording)
        yield from _repeated(
            [s for s in recording.log_entries if s.dump is not None],
            recording.onset_ms,
            min(self.settled, 25.0),
            begin,
            seconds,
        )


#: All failures except producer-not-closed, which has no duration.
FAILURES = (
    Failure("deadlock-3.9", "producer-callback-deadlock", "order-publisher", 40),
    Failure("send-blocked-topic-3.9", "send-blocked-on-metadata", "checkout-events", 45),
    Failure("cross-topic-a", "cross-topic-blocking", "ga", 15),
    Failure("shutdown-loop-a", "consumer-shutdown-loop", "la", 20, log_settled=1),
    Failure("delivery-stalled-3.9", "delivery-stalled", "order-publisher", 70),
    Failure("consumer-stalled-4.1", "consumer-stalled", "order-billing", 40),
)
NOT_CLOSED = Failure("not-closed-3.9", "producer-not-closed", "order-publisher", 0)


@dataclass(frozen=True)
class _Recording:
    snapshots: Sequence[Snapshot]
    log_entries: Sequence[LogEntry]
    onset_ms: int


@cache
def _read(recording: str) -> _Recording:
    folder = RECORDINGS / recording
    onset_ms = json.loads((folder / "truth.json").read_text(encoding="utf-8"))["onset_ms"]
    snapshots: list[Snapshot] = []
    log_entries: list[LogEntry] = []
    for record in read([folder]):
        raw = raw_record(record)
        decoded = _DECODERS[record.stream](raw, _SETTINGS, FAR_MS)
        snapshots += decoded.snapshots
        for line in decoded.lines:
            of = process_of(line.client)
            lines, dumps = events.events_and_dumps(line, raw.source, catalogue())
            log_entries += [LogEntry(*of, event=event) for event in lines]
            log_entries += [LogEntry(*of, dump=dump) for dump in dumps]
    snapshots.sort(key=lambda s: s.ts_ms or 0)
    log_entries.sort(key=lambda s: s.ts_ms)
    return _Recording(snapshots, log_entries, onset_ms)


def _same(snapshot: Snapshot) -> Snapshot:
    return snapshot


def _after_rounds(snapshot: Snapshot, first: Snapshot, end: Snapshot, rounds: int) -> Snapshot:
    grown = {n: v - first.metrics[n] for n, v in end.metrics.items() if n in first.metrics and _counts(n)}
    metrics = {n: v + rounds * max(0.0, grown.get(n, 0.0)) for n, v in snapshot.metrics.items()}
    topics = [
        msgspec.structs.replace(
            part,
            metrics={n: v + rounds * max(0.0, _part_grown(first, end, at, n)) for n, v in part.metrics.items()},
        )
        for at, part in enumerate(snapshot.topics)
    ]
    return msgspec.structs.replace(snapshot, metrics=metrics, topics=topics)


def _counts(name: str) -> bool:
    return name.endswith("-total") or name in _AGES


def _part_grown(first: Snapshot, last: Snapshot, at: int, name: str) -> float:
    before, after = (s.topics[at].metrics.get(name) if at < len(s.topics) else None for s in (first, last))
    counts = _counts(name) or name.endswith("-offset") or name == "records-lag"
    return 0.0 if before is None or after is None or not counts else after - before


def _fails(event: LogEvent) -> bool:
    """Return False only for a line about the producer's close."""
    return event.signature not in ("producer-closing", "producer-unregistered", "producer-closed")


def _rate_limited(lines: Sequence[LogEntry], limit: int, each: int) -> list[LogEntry]:
    kept: list[LogEntry] = []
    stretch, count = -1, 0
    for line in lines:
        if line.ts_ms // (1000 * each) != stretch:
            stretch, count = line.ts_ms // (1000 * each), 0
        count += 1
        if count <= limit:
            kept.append(line)
    return kept


def _repeated(
    entries: Sequence[LogEntry], onset_ms: int, settled: float, begin: float, seconds: float
) -> Iterator[LogEntry]:
    stretch = [s for s in entries if s.ts_ms - onset_ms >= 1000 * settled]
    shift = round(START + 1000 * begin) - onset_ms
    until = START + 1000 * (begin + seconds)
    for entry in entries:
        if entry.ts_ms + shift < until:
            yield _moved(entry, shift, 0, {})
    if len(stretch) < 2:
        return
    length = -(-(stretch[-1].ts_ms - stretch[0].ts_ms + 1) // 1000) * 1000
    used = _cpu(stretch)
    round_ = 0
    while True:
        round_ += 1
        for entry in stretch:
            if entry.ts_ms + shift + round_ * length >= until:
                return
            yield _moved(entry, shift + round_ * length, round_, used)


def _cpu(stretch: Sequence[LogEntry]) -> dict[str, float]:
    dumps = [s.dump for s in stretch if s.dump is not None]
    if len(dumps) < 2:
        return {}
    before = {t.name: t.cpu_ms for t in dumps[0].threads}
    after = {t.name: t.cpu_ms for t in dumps[-1].threads}
    return {n: cpu - (before.get(n) or cpu) for n, cpu in after.items() if cpu is not None}


def _moved(entry: LogEntry, shift: int, round_: int, used: dict[str, float]) -> LogEntry:
    if (event := entry.event) is not None:
        # Call the constructor, because `replace` would take five times as long.
        moved = LogEvent(
            event.ts_ms + shift,
            event.signature,
            event.text,
            event.client_id,
            event.logger,
            event.level,
            event.thread,
            event.captures,
            event.source,
            event.repeats,
        )
        return LogEntry(entry.service, entry.host, entry.instance, moved)
    assert entry.dump is not None
    threads = tuple(
        replace(t, cpu_ms=None if t.cpu_ms is None else t.cpu_ms + round_ * used.get(t.name, 0.0))
        for t in entry.dump.threads
    )
    source = None if entry.dump.source is None else replace(entry.dump.source, offset=round_)
    return LogEntry(
        entry.service, entry.host, entry.instance, None, ThreadDump(entry.dump.ts_ms + shift, threads, source)
    )
