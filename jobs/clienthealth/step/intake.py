"""What was decoded enters a bucket, within the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from clienthealth.settings import MonitorSettings
from clienthealth.step import also_seen, ended, limits, process_log, readings, waiting
from clienthealth.step.state import BucketState
from clienthealth.windows.packed import Chunk, LogEntry


@dataclass
class Taken:
    """What is new: log entries; how many readings and events came too late; how many limits left out, by limit."""

    chunks: Sequence[Chunk]
    log_entries: list[LogEntry] = field(default_factory=list)
    late: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def take(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, now_ms: int) -> Taken:
    """Enter readings and log entries into the state. `chunks` of the result: without clients that are left out."""
    left_out = Counter[str]()
    if already := sum(chunk.left_out for chunk in chunks):
        left_out["events-per-process"] = already
    chunks, repeated = ended.without_repeated(state, chunks)
    refused = limits.clients(state, chunks, settings, left_out)
    taken = Taken([limits.without(chunk, refused) for chunk in chunks], left_out=left_out, late=repeated)
    readings.settle(state)
    taken.late += readings.take(state, taken.chunks, settings)
    limits.readings(state, settings, left_out)
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    readings_arrived = any(clients for chunk in chunks for _, clients in chunk.clocks)
    due = waiting.due(state, entries, readings_arrived, now_ms, settings)
    taken.log_entries, late = process_log.take(state, due, settings)
    also_seen.take(state, due)
    taken.late += late
    limits.events(state, settings, left_out)
    if left_out["events-per-process"] or left_out["events"]:
        kept = set(map(id, state.log_entries))
        taken.log_entries = [entry for entry in taken.log_entries if id(entry) in kept]
    return taken
