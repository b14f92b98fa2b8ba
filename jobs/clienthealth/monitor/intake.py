"""Add decoded data to a bucket's state, up to limits that bound its memory and work.

Beyond a limit, new clients are left out and counted. A client that has reported only once may have a made-up client id,
so a batch adds only a limited number of such clients.

Log lines wait for metrics of the same time, because logs may be read minutes ahead of metrics. Ended clients are
remembered, so that they do not come back if a collector sends their old data a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress

import numpy as np
from msgspec.structs import replace

from clienthealth.measure.packed import Chunk, LogEntry
from clienthealth.measure.packer import SKEW_MS
from clienthealth.model.clients import Client
from clienthealth.model.values import grouped
from clienthealth.monitor import also_seen, process_log, readings
from clienthealth.monitor.readings import EVER_MS, NEVER_MS, SHIFT, Identity, Numbers, keep_readings, kept
from clienthealth.monitor.state import BucketState, Memory, ProcessKey, mark
from clienthealth.read.logs.bursts import newest, of_each_process
from clienthealth.settings import MonitorSettings

#: A log line more than AHEAD_MS later than its process's samples shows a backlog of metrics.
AHEAD_MS = 60_000
#: Maximum time (ms, by this machine's clock) for which a log line waits for metrics.
LONGEST_MS = 600_000

HELD_MS = 900_000
SHARED_MS = 60_000
AWAKE_MS = 20_000


@dataclass
class Taken:
    """The part of a batch that a bucket adds to its state.

    `chunks`       the data without the clients that are left out
    `log_entries`  the new log entries
    `late`         number of late samples and events
    `left_out`     number of clients, samples and events left out, by the name of the limit
    """

    chunks: Sequence[Chunk]
    log_entries: list[LogEntry] = field(default_factory=list)
    late: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def take(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, now_ms: int) -> Taken:
    """Add samples and log entries to `state`, up to the limits in `settings`, and return what was added."""
    left_out = Counter[str]()
    if already := sum(chunk.left_out for chunk in chunks):
        left_out["events-per-process"] = already
    numbers = {client.identity: number for number, client in enumerate(state.all_clients)}
    chunks, repeated = without_repeated(state, chunks, numbers)
    refused = without_room(state, chunks, settings, left_out, numbers)
    taken = Taken([without(chunk, refused) for chunk in chunks], left_out=left_out, late=repeated)
    state.readings.fresh[:] = 0
    taken.late += readings.take(state, taken.chunks, settings, numbers)
    bound_readings(state, settings, left_out)
    entries = [entry for chunk in chunks for entry in chunk.log_entries]
    readings_arrived = any(clock.clients for chunk in chunks for clock in chunk.clocks)
    judged = due(state, entries, readings_arrived, now_ms, settings)
    taken.log_entries, late = process_log.take(state, judged, settings)
    also_seen.take(state, judged)
    taken.late += late
    bound_events(state, settings, left_out)
    if left_out["events-per-process"] or left_out["events"]:
        kept = set(map(id, state.log_entries))
        taken.log_entries = [entry for entry in taken.log_entries if id(entry) in kept]
    return taken


def without_repeated(state: BucketState, chunks: Sequence[Chunk], numbers: Numbers) -> tuple[list[Chunk], int]:
    """Drop data of ended clients that a collector has sent a second time.

    A sample of an ended client counts as sent a second time if the sample is not later than the client's end. Log lines
    count only if no sample of the client is later.

    Returns the remaining chunks, and the number of dropped samples. `numbers`: maps the identity of each reporting
    client to the client's position in `state.all_clients`.
    """
    if not state.ended or all(client.identity in numbers for chunk in chunks for client in chunk.all_clients):
        return list(chunks), 0
    repeated = frozenset(
        identity
        for identity, (_, last_ms) in client_times(chunks).items()
        if identity not in numbers and last_ms <= (state.ended.get(mark(identity)) or 0)
    )
    left = [_after_end(state, without(chunk, repeated), numbers) for chunk in chunks]
    return left, sum(len(chunk.readings) for chunk in chunks) - sum(len(chunk.readings) for chunk in left)


def _after_end(state: BucketState, chunk: Chunk, numbers: Numbers) -> Chunk:
    """Return the chunk without those samples of ended clients that are not later than the client's end."""
    ended = [0 if one.identity in numbers else state.ended.get(mark(one.identity)) or 0 for one in chunk.all_clients]
    if not any(ended):
        return chunk
    rows = chunk.readings
    rows, parts = kept(rows, chunk.topic_parts, rows.ts > np.array(ended, np.int64)[rows.client])
    return replace(chunk, rows=rows.data(), parts=parts.data())


def due(
    state: BucketState, entries: Sequence[LogEntry], readings_arrived: bool, now_ms: int, settings: MonitorSettings
) -> list[LogEntry]:
    """Return the log entries that can be judged now.

    Entries that cannot be judged yet wait in `state.waiting`, at most ten minutes. Metrics of a process have been read
    up to the watermark, or up to the process's newest sample if this sample is later. An entry more than a minute after
    this time shows a backlog of metrics. In a backlog, all entries of the process after this time wait. Entries of a
    process do not wait if the process has logged before and has no reporting clients. Entries later than `now_ms` never
    wait. `readings_arrived`: True if the batch contains metrics; otherwise no entry waits.
    """
    every = [*state.waiting, *entries]
    state.waiting = []
    waited_ms, state.waited_ms = state.waited_ms, 0
    all_near = all(entry.ts_ms <= state.time_ms + AHEAD_MS for entry in every)
    if all_near or not readings_arrived or waited_ms >= LONGEST_MS:
        return every
    newest = np.zeros(len(state.all_clients), np.int64)
    np.maximum.at(newest, state.readings.client, state.readings.ts)
    reached: dict[ProcessKey, int] = {}
    for client, ts_ms in zip(state.all_clients, newest.tolist(), strict=True):
        reached[client.process] = max(ts_ms, reached.get(client.process, 0))
    now: list[LogEntry] = []
    for process, of_process in grouped(every, lambda entry: entry.process).items():
        until = max(state.time_ms, reached.get(process, 0))
        lags = any(until + AHEAD_MS < entry.ts_ms <= now_ms for entry in of_process)
        if not lags or (process in state.has_log_data and process not in reached):
            now += of_process
        else:
            now += [entry for entry in of_process if not until < entry.ts_ms <= now_ms]
            state.waiting += [entry for entry in of_process if until < entry.ts_ms <= now_ms]
    if len(state.waiting) > share(settings.max_events, settings):
        now, state.waiting = every, []
    state.waited_ms = waited_ms if state.waiting else 0
    return now


#: Maximum number of entries in `state.reported_once` of all buckets together.
REPORTED_ONCE = 2_000_000
#: Samples less than APART_MS apart may belong to one report, because some formats split a report.
APART_MS = 1000


def share(limit: int, settings: MonitorSettings) -> int:
    """Return one bucket's share of a limit for all buckets, rounded up."""
    return -(-limit // settings.buckets)


def without_room(
    state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, left_out: Counter[str], numbers: Numbers
) -> frozenset[Identity]:
    """Return the new clients and groups that are left out because of a limit.

    For each limit (`new-clients`, `clients` and `clients-per-service`), `left_out` counts the clients and groups that
    are left out. `numbers`: maps the identity of each known client to the client's position in `state.all_clients`.
    """
    if not any(chunk.all_clients or chunk.groups for chunk in chunks):
        return frozenset()
    groups = {group.client.identity for _, group in state.groups.items()}
    arrived = [client.identity for chunk in chunks for client in chunk.all_clients]
    arrived += [reading.client.identity for chunk in chunks for reading in chunk.groups]
    new = dict.fromkeys(one for one in arrived if one not in numbers and one not in groups)
    if not new:
        state.reported_once = Memory()
        return frozenset()
    services = Counter(identity[0] for identity in (*numbers, *groups))
    room = share(settings.max_clients, settings) - services.total()
    of_service = share(settings.max_clients_per_service, settings)
    of_new = share(settings.max_new_clients, settings)
    reported_twice = {*new}
    if len(new) > of_new:
        times, reported = client_times(chunks), state.reported_once
        reported_twice = {
            one for one in new if times[one][1] - times[one][0] >= APART_MS or (reported and mark(one) in reported)
        }
    refused: dict[Identity, str] = {}
    for identity in sorted(new, key=lambda one: one not in reported_twice):
        if identity not in reported_twice and of_new <= 0:
            refused[identity] = "new-clients"
        elif room <= 0:
            refused[identity] = "clients"
        elif services[identity[0]] >= of_service:
            refused[identity] = "clients-per-service"
        else:
            room -= 1
            of_new -= identity not in reported_twice
            services[identity[0]] += 1
    left_out.update(refused.values())
    once = [identity for identity, limit in refused.items() if limit == "new-clients"]
    if not once:
        state.reported_once = Memory()
    for identity in once:
        state.reported_once.remember(mark(identity), None, state.time_ms)
    return frozenset(refused)


def client_times(chunks: Iterable[Chunk]) -> dict[Identity, tuple[int, int]]:
    """Return the first and the last time (epoch ms) of each client and group in the chunks."""
    times: dict[Identity, tuple[int, int]] = {}
    for chunk in chunks:
        readings = chunk.readings
        first, last = np.full(len(chunk.all_clients), EVER_MS), np.full(len(chunk.all_clients), NEVER_MS)
        np.minimum.at(first, readings.client, readings.ts)
        np.maximum.at(last, readings.client, readings.ts)
        of_clients = zip((client.identity for client in chunk.all_clients), first.tolist(), last.tolist(), strict=True)
        of_groups = ((group.client.identity, group.ts_ms, group.ts_ms) for group in chunk.groups)
        for identity, begin_ms, end_ms in chain(of_clients, of_groups):
            earliest, latest = times.get(identity, (begin_ms, end_ms))
            times[identity] = min(begin_ms, earliest), max(end_ms, latest)
    return times


def without(chunk: Chunk, refused: frozenset[Identity]) -> Chunk:
    """Return a chunk without the clients and groups in `refused`."""
    return only(chunk, lambda client: client.identity not in refused) if refused else chunk


def only(chunk: Chunk, stays_in: Callable[[Client], bool]) -> Chunk:
    """Return a chunk without the clients and groups for which `stays_in` is false. All log entries stay."""
    keep = np.array([stays_in(client) for client in chunk.all_clients], bool)
    groups = [reading for reading in chunk.groups if stays_in(reading.client)]
    if keep.all():
        return chunk if len(groups) == len(chunk.groups) else replace(chunk, groups=groups)
    rows, parts = kept(chunk.readings, chunk.topic_parts, keep[chunk.readings.client])
    rows.client = (np.cumsum(keep) - 1)[rows.client]
    return replace(
        chunk,
        all_clients=list(compress(chunk.all_clients, keep)),
        last_seen=list(compress(chunk.last_seen, keep)),
        rows=rows.data(),
        parts=parts.data(),
        groups=groups,
    )


def bound_readings(state: BucketState, settings: MonitorSettings, left_out: Counter[str]) -> None:
    """Keep at most `max_readings_per_second` samples per client and second, the newest; count the dropped samples."""
    second, most = (state.readings.client << SHIFT) | (state.readings.ts // 1000), settings.max_readings_per_second
    keep = np.ones(len(second), np.bool_)
    keep[:-most] = second[most:] != second[:-most]
    if dropped := int((~keep).sum()):
        left_out["readings-per-second"] += dropped
        keep_readings(state, keep)


def bound_events(state: BucketState, settings: MonitorSettings, left_out: Counter[str]) -> None:
    """Drop the oldest log entries beyond the limits per process and in total, and count them in `left_out`."""
    entries = state.log_entries
    of_process = of_each_process(entries, settings.max_events_per_process)
    of_all = newest(of_process, share(settings.max_events, settings), lambda entry: entry.process)
    if len(of_all) < len(entries):
        left_out["events-per-process"] += len(entries) - len(of_process)
        left_out["events"] += len(of_process) - len(of_all)
        state.log_entries = sorted(of_all, key=lambda entry: entry.ts_ms)


def clock(state: BucketState, chunks: Sequence[Chunk], now_ms: int) -> int:
    """Return the watermark (epoch ms): the time up to which the topics have been read.

    The watermark is the median of the tasks' times, weighted by each task's number of clients, so that one wrong clock
    has no effect. Tasks that read only logs may be far ahead, so the median contains their times only if no task reads
    metrics. A median more than a minute behind `now_ms` shows a backlog. In a backlog, the watermark is the earliest of
    the tasks' times, but at most HELD_MS before the median (less in a short backlog). The watermark never goes back,
    and is never ahead of `now_ms`.
    """
    reported = sorted(clock for chunk in chunks for clock in chunk.clocks)
    clocks = [clock for clock in reported if clock.clients] or reported
    if not clocks:
        return state.time_ms
    weights = np.cumsum([max(1, clock.clients) for clock in clocks])
    middle = min(now_ms, clocks[int(np.searchsorted(weights, weights[-1] / 2))].time_ms)
    waits_ms = min(HELD_MS, max(0, now_ms - middle - SKEW_MS))
    return max(state.time_ms, middle - waits_ms, min(middle, reported[0].time_ms))


def idle(state: BucketState, arrived: bool, now_ms: int) -> None:
    """Update `state.idle_ms`, the time (ms) without input. `arrived`: True if input has arrived.

    A step adds at most AWAKE_MS (20 s) to the time without input. If more time has passed since the previous step, the
    machine was asleep, and time asleep does not count.
    """
    passed = min(max(0, now_ms - state.stepped_ms), AWAKE_MS) if state.stepped_ms else 0
    state.stepped_ms = now_ms
    state.idle_ms = 0 if arrived else state.idle_ms + passed
    state.waited_ms += passed if state.waiting else 0


def discount_outage(state: BucketState, chunks: Sequence[Chunk], before_ms: int) -> None:
    """Record a gap in the data of all clients, so that it does not count as the silence of a single client.

    The gap is longer than SHARED_MS (a minute). It begins at the watermark of the last step with samples of clients. If
    the watermark jumps without such samples, the monitor was paused, and the jump is a gap of its own. A jump is no gap
    if the samples in `chunks` cover it. `before_ms`: the watermark before this step.
    """
    begun = sorted(clock.begin_ms for chunk in chunks for clock in chunk.clocks if clock.clients)
    begin_ms, covered = before_ms, False
    if begun:
        begin_ms, state.reported_ms = state.reported_ms or before_ms, state.time_ms
        covered = begun[len(begun) // 2] <= begin_ms
    gap = state.time_ms - begin_ms
    if begin_ms and gap > SHARED_MS and not covered:
        state.reported_ms += gap if state.reported_ms and not begun else 0
        state.shared.remember((begin_ms, state.time_ms), None, state.time_ms)
        state.incidents.discount_outage(gap)
