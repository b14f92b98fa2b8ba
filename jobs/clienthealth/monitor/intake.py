"""What was decoded enters a bucket, within the limits, at its time.

Lines of a process are judged only up to the time that its metrics have reached. After a standstill both topics are
worked off, and neither need be as far as the other. A line that is read minutes before the readings of its time would
be judged by those of another time, or taken for a client that reports nothing.

A collector that is started again can send what it had sent before. Of clients that report, and processes that log, it
comes too late; those that have ended are remembered (`BucketState.ended`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from clienthealth.measure.packed import Chunk, LogEntry
from clienthealth.monitor import also_seen, limits, process_log, readings
from clienthealth.monitor.limits import share
from clienthealth.monitor.ownership import ProcessKey
from clienthealth.monitor.state import BucketState, mark
from clienthealth.settings import MonitorSettings

#: So far (ms) may a process's newest line be ahead of metrics that are read without delay.
AHEAD_MS = 60_000
#: No line waits longer than this while the monitor runs, by this machine's clock.
LONGEST_MS = 600_000


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
    chunks, repeated = without_repeated(state, chunks)
    refused = limits.clients(state, chunks, settings, left_out)
    taken = Taken([limits.without(chunk, refused) for chunk in chunks], left_out=left_out, late=repeated)
    readings.settle(state)
    taken.late += readings.take(state, taken.chunks, settings)
    limits.readings(state, settings, left_out)
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    readings_arrived = any(clients for chunk in chunks for _, clients in chunk.clocks)
    judged = due(state, entries, readings_arrived, now_ms, settings)
    taken.log_entries, late = process_log.take(state, judged, settings)
    also_seen.take(state, judged)
    taken.late += late
    limits.events(state, settings, left_out)
    if left_out["events-per-process"] or left_out["events"]:
        kept = set(map(id, state.log_entries))
        taken.log_entries = [entry for entry in taken.log_entries if id(entry) in kept]
    return taken


def without_repeated(state: BucketState, chunks: Sequence[Chunk]) -> tuple[list[Chunk], int]:
    """Chunks without clients that have ended and of which they hold nothing new; how many readings that were."""
    if not state.ended:
        return list(chunks), 0
    reporting = {who.identity for who in state.whos}
    if all(who.identity in reporting for chunk in chunks for who in chunk.whos):
        return list(chunks), 0
    newest: dict[limits.Identity, int] = {}
    for identity, _, last_ms in limits.heard(chunks):
        if identity not in reporting:
            newest[identity] = max(last_ms, newest.get(identity, last_ms))
    repeated = frozenset(
        identity for identity, ts_ms in newest.items() if ts_ms <= (state.ended.get(mark(identity)) or 0)
    )
    if not repeated:
        return list(chunks), 0
    kept = [limits.without(chunk, repeated) for chunk in chunks]
    return kept, sum(len(chunk.readings) for chunk in chunks) - sum(len(chunk.readings) for chunk in kept)


def due(
    state: BucketState, entries: Sequence[LogEntry], readings_arrived: bool, now_ms: int, settings: MonitorSettings
) -> list[LogEntry]:
    """What of the new entries, and of those that wait, is judged now; the others wait in the state.

    `readings_arrived`: from anybody. A batch without any has caught up with the metrics: nothing waits any more. What
    is ahead of this machine's clock waits for nothing, nor does the log of a process that is known to report nothing.
    """
    every = [*state.waiting, *entries]
    state.waiting = []
    waited_ms, state.waited_ms = state.waited_ms, 0
    all_near = all(entry.ts_ms <= state.time_ms + AHEAD_MS for entry in every)
    if all_near or not readings_arrived or waited_ms >= LONGEST_MS:
        return every
    by_process: dict[ProcessKey, list[LogEntry]] = defaultdict(list)
    for entry in every:
        by_process[entry.process].append(entry)
    reached = _reached(state)
    now: list[LogEntry] = []
    for process, of_process in by_process.items():
        until = max(state.time_ms, reached.get(process, 0))
        lags = any(until + AHEAD_MS < entry.ts_ms <= now_ms for entry in of_process)
        if not lags or (process in state.told and process not in reached):
            now += of_process
        else:
            now += [entry for entry in of_process if not until < entry.ts_ms <= now_ms]
            state.waiting += [entry for entry in of_process if until < entry.ts_ms <= now_ms]
    if len(state.waiting) > share(settings.max_events, settings):
        now, state.waiting = every, []
    state.waited_ms = waited_ms if state.waiting else 0
    return now


def _reached(state: BucketState) -> dict[ProcessKey, int]:
    """The newest reading of each process, by its own clock."""
    newest = np.zeros(len(state.whos), np.int64)
    np.maximum.at(newest, state.readings.who, state.readings.ts)
    reached: dict[ProcessKey, int] = {}
    for who, ts_ms in zip(state.whos, newest.tolist(), strict=True):
        reached[who.process] = max(ts_ms, reached.get(who.process, 0))
    return reached
