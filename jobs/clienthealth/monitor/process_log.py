"""What a bucket remembers of its processes: log events, thread dumps, and the lifetimes of their clients."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from clienthealth.measure.packed import LogEntry
from clienthealth.model.readings import LogEvent
from clienthealth.model.values import grouped
from clienthealth.modes import catalogue
from clienthealth.modes._polls import reports_in_poll
from clienthealth.monitor.state import BucketState, Life, ProcessKey, mark
from clienthealth.read.logs.bursts import is_new
from clienthealth.read.logs.dumps import DUMP_LINE, rejoin
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED
from clienthealth.read.logs.wordings import Life as LifeEvent
from clienthealth.settings import MonitorSettings

#: Log lines about a client's start and end are dropped LIFECYCLE_MS after the newest of these lines, unless the process
#: still reports or logs.
LIFECYCLE_MS = 900_000
EARLIER_DUMPS = 4
#: For each client id and log pattern, the oldest line and the LAST_KEPT newest lines are kept. Several newest lines are
#: needed, because several clients may share an id.
LAST_KEPT = 16
#: A client's sample is overdue after OVERDUE reporting intervals. If the client's process logs although the sample is
#: overdue, the process still runs.
OVERDUE = 1.5
#: Maximum time (ms) between the lines that a client logs at its start.
START_MS = 5_000
EVER = float("inf")
time_of = attrgetter("ts_ms")


class Start(NamedTuple):
    """A client's start in its process's log. `instance`: the instance that the line names, or ""."""

    ts_ms: int
    instance: str
    client_id: str


@cache
def telling(*lives: LifeEvent) -> frozenset[str]:
    """Return the ids of log patterns that show one of the events in `lives`, such as "begins" or "closed".

    Without arguments, return the ids of the patterns that show any event in a client's life.
    """
    patterns = catalogue().by_id.items()
    return frozenset(name for name, meaning in patterns if meaning.life and (not lives or meaning.life in lives))


def is_start(event: LogEvent) -> bool:
    return event.signature in telling("begins") | CONFIG_LOGGED


def starts(state: BucketState) -> Mapping[ProcessKey, Sequence[Start]]:
    """Return the logged starts of clients, by process."""
    by_process: dict[ProcessKey, list[Start]] = defaultdict(list)
    for (service, host, client_id), lines in state.lifecycle.items():
        begun = ((instance, event) for instance, event in lines if is_start(event))
        by_process[service, host] += [Start(event.ts_ms, instance, client_id) for instance, event in begun]
    return by_process


def lives(state: BucketState, numbers: Mapping[ProcessKey, Sequence[int]]) -> Mapping[ProcessKey, Sequence[Life]]:
    """Return the lifetimes of clients, including those that recently stopped, by process.

    `numbers`: the indices of reporting clients in the state, by process.
    """
    by_process: dict[ProcessKey, list[Life]] = defaultdict(list)
    for process, of_process in numbers.items():
        by_process[process] += (Life(state.all_clients[at], int(state.clients.first[at]), EVER) for at in of_process)
    for _, life in state.gone.items():
        by_process[life.client.process].append(life)
    return by_process


def remember_gone(state: BucketState, numbers: Sequence[int]) -> None:
    """Keep the lifetimes of clients that leave the state, until their process neither reports nor logs.

    `numbers`: the indices of the leaving clients in the state.
    """
    clients = state.clients
    for number in numbers:
        client, until_ms = state.all_clients[number], float(clients.last[number] + OVERDUE * clients.every[number])
        life = Life(client, float(clients.first[number]), until_ms)
        state.gone.remember((*client.names, until_ms), life, state.time_ms)
    if state.gone:
        leaving = set(numbers)
        logging = {entry.process for entry in state.log_entries} | {key[:2] for key in state.lifecycle}
        stay = {client.process for number, client in enumerate(state.all_clients) if number not in leaving}
        state.gone.only(logging | stay)


def take(state: BucketState, entries: Sequence[LogEntry], settings: MonitorSettings) -> tuple[list[LogEntry], int]:
    """Add log entries to the state. Return the new entries, and the number of late ones.

    An entry is late if all windows that contain it are closed (see `horizons`).
    """
    if not entries:
        return [], 0
    closed = horizons(state, {entry.process for entry in entries}, settings)
    window, slide = 1000 * settings.window_seconds, 1000 * settings.slide_seconds
    kept: dict[Hashable, LogEntry] = {entry.sample: entry for entry in state.log_entries if entry.process in closed}
    new, late = [], 0
    for entry in entries:
        if entry.ts_ms // slide * slide + window <= closed[entry.process]:
            late += 1
        elif is_new(kept, entry):
            new.append(entry)
    state.log_entries = sorted([*state.log_entries, *new], key=lambda entry: entry.ts_ms)
    if any(entry.dump is not None for entry in new):
        in_poll = {client.process for client in state.all_clients if reports_in_poll(client.library)}
        _keep_pollers(state.log_entries, {id(entry) for entry in new}, in_poll)
    for entry in new:
        state.has_log_data.remember(entry.process, None, entry.ts_ms)
        _remember(state, entry)
    return new, late


def _keep_pollers(entries: Iterable[LogEntry], new: Set[int], in_poll: Set[ProcessKey]) -> None:
    """Drop the threads of new dumps, except threads of Kafka clients and threads that earlier dumps showed in poll().

    If the process is in `in_poll` (it reports only inside poll()), the dropped threads move to the dump's field
    `others`.
    """
    pollers: dict[tuple[ProcessKey, str | None], set[str]] = defaultdict(set)
    for entry in entries:
        if entry.dump is not None:
            known, threads = pollers[entry.process, entry.instance], entry.dump.threads
            if id(entry) in new:
                threads = tuple(thread for thread in threads if thread.of_kafka or thread.name in known)
                others = (*entry.dump.threads, *entry.dump.others) if entry.process in in_poll else ()
                others = tuple(thread for thread in others if thread not in threads)
                entry.dump = replace(entry.dump, threads=threads, others=others)
            known.update(thread.name for thread in threads if thread.polls or not thread.of_kafka)


def _remember(state: BucketState, entry: LogEntry) -> None:
    """Keep a log line about a client's start or end. If the line names no client, its key has the client id ''."""
    event = entry.event
    if event is None or event.signature not in CONFIG_LOGGED | telling():
        return
    client_id = event.client_id or event.captures.get("client", "")
    key = (*entry.process, client_id)
    kept = state.lifecycle.get(key) or []
    same = [position for position, (_, other) in enumerate(kept) if other.signature == event.signature]
    instance = entry.instance or ""
    for at in same if event.signature in CONFIG_LOGGED else ():
        if kept[at][0] == instance:
            # The newest start of an instance logs all options. So drop what an earlier start logged about options with
            # a dot in their names.
            few = {name: text for name, text in kept[at][1].captures.items() if "." not in name}
            kept[at] = instance, replace(kept[at][1], captures=few)
    if len(same) > LAST_KEPT:
        del kept[same[1]]
    kept.append((instance, event))
    state.lifecycle.remember(key, kept, event.ts_ms)


def horizons(
    state: BucketState, processes: Iterable[ProcessKey], settings: MonitorSettings
) -> Mapping[ProcessKey, float]:
    """Return for each process the time (epoch ms, by its log's clock) up to which its windows are closed.

    A closed window gets no new entries. The result for an unknown process is -inf.
    """
    # Entries are in order of time, so the last entry of each process is used.
    last = {entry.process: entry.ts_ms for entry in state.log_entries}

    def closed(process: ProcessKey) -> float:
        if newest := last.get(process):
            return min(newest, state.time_ms or newest) - 1000.0 * settings.watermark_seconds
        ended_ms = state.ended.get(mark(process))
        return float("-inf") if ended_ms is None else ended_ms + 1000.0 * settings.window_seconds

    return {process: closed(process) for process in processes}


def evict(state: BucketState, settings: MonitorSettings, length_ms: int, living: set[ProcessKey]) -> None:
    """Drop log entries that no window needs, except each process's last EARLIER_DUMPS dumps.

    `length_ms`: length of the longest window. `living`: the processes with reporting clients. This function adds to
    `living` the processes that still log.
    """
    kept: list[LogEntry] = []
    for process, entries in grouped(state.log_entries, lambda entry: entry.process).items():
        # Without new log entries, the watermark serves as the process's clock.
        last = entries[-1].ts_ms
        silent = state.time_ms - last - 1000 * settings.watermark_seconds
        clock = state.time_ms if silent > 0 else min(last, state.time_ms or last)
        closed = clock - 1000.0 * settings.watermark_seconds
        begin = bisect_right(entries, closed - length_ms, key=time_of)
        kept += entries[begin:]
        if begin < len(entries):
            living.add(process)
        else:
            state.end(process, last)
        if begin and (process in living or state.time_ms - last <= LIFECYCLE_MS):
            kept += [entry for entry in with_whole_dumps(entries[:begin]) if entry.dump is not None][-EARLIER_DUMPS:]
    state.log_entries = sorted(kept, key=time_of)


def with_whole_dumps(entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """Return a process's log entries in order of time. Dumps that were logged line by line are joined."""
    lines = [entry for entry in entries if entry.event is not None and entry.event.signature == DUMP_LINE]
    if not lines:
        return entries
    joined = rejoin(entry.event for entry in lines if entry.event is not None)
    whole = [LogEntry(*lines[0].process, lines[0].instance, dump=dump) for dump in joined]
    others = [entry for entry in entries if entry.event is None or entry.event.signature != DUMP_LINE]
    return sorted([*others, *whole], key=lambda entry: entry.ts_ms)
