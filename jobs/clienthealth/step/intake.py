"""What was decoded enters a bucket: within the limits, and where something of it is faulty, all the rest of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.readings import Source
from clienthealth.settings import MonitorSettings
from clienthealth.step import also_seen, ended, limits, process_log, readings, waiting
from clienthealth.step.faults import Faults
from clienthealth.step.ownership import ProcessKey
from clienthealth.step.state import BucketState
from clienthealth.windows.packed import Chunk, LogEntry


@dataclass
class Taken:
    """What is new: log entries; how many readings and events came too late; how many limits left out, by limit."""

    chunks: Sequence[Chunk]
    log_entries: list[LogEntry] = field(default_factory=list)
    late: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def take(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, faults: Faults, now_ms: int) -> Taken:
    """Enter readings and log entries into the state. `chunks` of the result: without clients that are left out."""
    left_out = Counter[str]()
    if already := sum(chunk.left_out for chunk in chunks):
        left_out["events-per-process"] = already
    chunks, repeated = ended.without_repeated(state, chunks)
    refused = limits.clients(state, chunks, settings, left_out)
    taken = Taken([limits.without(chunk, refused) for chunk in chunks], left_out=left_out, late=repeated)
    readings.settle(state)
    taken.late += _readings(state, taken.chunks, settings, faults)
    limits.readings(state, settings, left_out)
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    readings_arrived = any(clients for chunk in chunks for _, clients in chunk.clocks)
    due = waiting.due(state, entries, readings_arrived, now_ms, settings)
    taken.log_entries, late = _log_entries(state, due, settings, faults)
    also_seen.take(state, due)
    taken.late += late
    limits.events(state, settings, left_out)
    if left_out["events-per-process"] or left_out["events"]:
        kept = set(map(id, state.log_entries))
        taken.log_entries = [entry for entry in taken.log_entries if id(entry) in kept]
    return taken


def _readings(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, faults: Faults) -> int:
    """Enter the readings; where that fails, those of each half of the clients, down to those at fault."""
    before = list(state.whos), deepcopy(state.clients), list(state.names), list(state.configs)
    try:
        return readings.take(state, chunks, settings)
    except Exception as mistake:  # noqa: BLE001 - whatever it is, it costs the client and not the bucket
        state.whos, state.clients, state.names, state.configs = before
        clients = list(dict.fromkeys(who.identity for chunk in chunks for who in chunk.whos))
        if len(clients) <= 1:
            faults.other(*_blamed(chunks, mistake))
            return 0
        late = 0
        for half in clients[: len(clients) // 2], clients[len(clients) // 2 :]:
            of_half = [limits.within(chunk, frozenset(half)) for chunk in chunks]
            late += _readings(state, of_half, settings, faults)
        return late


def _blamed(chunks: Sequence[Chunk], mistake: Exception) -> tuple[Client, Exception, Source | None]:
    """The one client of these chunks, and its newest record."""
    chunk = next((chunk for chunk in chunks if chunk.whos), None)
    if chunk is None:
        return Client("", "", "", "", None), mistake, None
    who, rows = chunk.whos[0], chunk.readings
    source = None
    if len(rows) and 0 <= rows.topic[-1] < len(chunk.names):
        source = Source(chunk.names[rows.topic[-1]], int(rows.partition[-1]), int(rows.offset[-1]))
    kind = who.kind if who.kind in CLIENT_METRICS else None
    return Client(who.service, who.host, who.instance, who.client_id, kind), mistake, source  # type: ignore[arg-type]


def _log_entries(
    state: BucketState, entries: Sequence[LogEntry], settings: MonitorSettings, faults: Faults
) -> tuple[list[LogEntry], int]:
    """Enter log entries; where that fails, process by process."""
    before, lifecycle = list(state.log_entries), {key: list(lines) for key, lines in state.lifecycle.items()}
    try:
        return process_log.take(state, entries, settings)
    except Exception as mistake:  # noqa: BLE001 - as above
        state.log_entries, state.lifecycle = before, lifecycle
        by_process: dict[ProcessKey, list[LogEntry]] = defaultdict(list)
        for entry in entries:
            by_process[entry.process].append(entry)
        if len(by_process) == 1:
            faults.of_process(entries, mistake)
            return [], 0
        new: list[LogEntry] = []
        late = 0
        for entries_of_process in by_process.values():
            entered, missed = _log_entries(state, entries_of_process, settings, faults)
            new, late = new + entered, late + missed
        return new, late
