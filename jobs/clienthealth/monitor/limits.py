"""What bounds the memory and the work of a bucket, whatever is sent: clients, readings and events, each by a setting.

Limits on clients and events of all are shared evenly by the buckets. Beyond a limit new clients are left out and known
ones stay; of readings and events the newest are kept, as they tell the present. All that is left out is counted.

A new client costs more than a reading of a known one: a place in the state, a record, a minute, its end. So that known
ones need not wait for a flood of ids, a batch takes in only so many that have reported once; the others when they
report again, which those of a flood do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeVar

import numpy as np

from clienthealth.measure.packed import Chunk, LogEntry, Who
from clienthealth.monitor.readings import EVER_MS, NEVER_MS, SHIFT, keep_readings, kept
from clienthealth.monitor.state import BucketState, Memory, mark
from clienthealth.settings import MonitorSettings

T = TypeVar("T")
Identity = tuple[str, str, str, str]

#: Of so many clients that were left out it is known that they reported once; of more, of the newest.
REPORTED_ONCE = 2_000_000
#: Two readings of a client lie so far apart (ms); some formats tell one in several records.
APART_MS = 1000


def share(limit: int, settings: MonitorSettings) -> int:
    """What a bucket may hold of a limit on all."""
    return -(-limit // settings.buckets)


def clients(
    state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, left_out: Counter[str]
) -> frozenset[Identity]:
    """The identities of new clients, of groups too, for which there is no room."""
    if not any(chunk.whos or chunk.groups for chunk in chunks):
        return frozenset()
    identities = {who.identity for who in state.whos} | {group.who.identity for group in state.groups}
    services = Counter(identity[0] for identity in identities)
    new = dict.fromkeys(
        who.identity
        for chunk in chunks
        for who in (*chunk.whos, *(reading.who for reading in chunk.groups))
        if who.identity not in identities
    )
    room = share(settings.max_clients, settings) - len(identities)
    of_service = share(settings.max_clients_per_service, settings)
    of_new = share(settings.max_new_clients, settings)
    again = _again(state, chunks, new) if len(new) > of_new else new.keys()
    once: list[Identity] = []
    refused = set()
    for identity in sorted(new, key=lambda one: one not in again):
        if identity not in again and of_new <= 0:
            left_out["new-clients"] += 1
            once.append(identity)
        elif room <= 0:
            left_out["clients"] += 1
        elif services[identity[0]] >= of_service:
            left_out["clients-per-service"] += 1
        else:
            room -= 1
            of_new -= identity not in again
            services[identity[0]] += 1
            continue
        refused.add(identity)
    # Where there was room for all that reported once, nobody has to be known for it.
    if not once:
        state.reported_once = Memory()
    for identity in once:
        state.reported_once.remember(mark(identity), None, state.time_ms)
    state.reported_once.evict(state.time_ms, limit=share(REPORTED_ONCE, settings))
    return frozenset(refused)


def _again(state: BucketState, chunks: Iterable[Chunk], new: Iterable[Identity]) -> Set[Identity]:
    """Those of the new clients that reported before, or at two moments of this batch."""
    reported = state.reported_once
    first: dict[Identity, int] = {}
    last: dict[Identity, int] = {}
    for identity, begin_ms, end_ms in heard(chunks):
        first[identity] = min(begin_ms, first.get(identity, begin_ms))
        last[identity] = max(end_ms, last.get(identity, end_ms))
    return {one for one in new if last[one] - first[one] >= APART_MS or (reported and mark(one) in reported)}


def heard(chunks: Iterable[Chunk]) -> Iterator[tuple[Identity, int, int]]:
    """The clients of each chunk, with the first and the last time (epoch ms) that it has of them."""
    for chunk in chunks:
        readings = chunk.readings
        first, last = np.full(len(chunk.whos), EVER_MS), np.full(len(chunk.whos), NEVER_MS)
        np.minimum.at(first, readings.who, readings.ts)
        np.maximum.at(last, readings.who, readings.ts)
        yield from zip((who.identity for who in chunk.whos), first.tolist(), last.tolist(), strict=True)
        yield from ((group.who.identity, group.ts_ms, group.ts_ms) for group in chunk.groups)


def without(chunk: Chunk, refused: frozenset[Identity]) -> Chunk:
    """A chunk without these clients."""
    return only(chunk, lambda who: who.identity not in refused) if refused else chunk


def only(chunk: Chunk, stays_in: Callable[[Who], bool]) -> Chunk:
    """A chunk with only some of its clients and groups. Log entries stay as they are."""
    keep = np.array([stays_in(who) for who in chunk.whos], bool)
    groups = [reading for reading in chunk.groups if stays_in(reading.who)]
    if keep.all():
        return chunk if len(groups) == len(chunk.groups) else _with(chunk, groups=groups)
    rows, parts = kept(chunk.readings, chunk.topic_parts, keep[chunk.readings.who])
    rows.who = (np.cumsum(keep) - 1)[rows.who]
    return _with(
        chunk,
        whos=[who for who, stay in zip(chunk.whos, keep.tolist(), strict=True) if stay],
        heard=[heard for heard, stay in zip(chunk.heard, keep.tolist(), strict=True) if stay],
        rows=rows.data(),
        parts=parts.data(),
        groups=groups,
    )


def _with(chunk: Chunk, **changes: object) -> Chunk:
    fields = {name: getattr(chunk, name) for name in chunk.__struct_fields__}
    return Chunk(**{**fields, **changes})


def readings(state: BucketState, settings: MonitorSettings, left_out: Counter[str]) -> None:
    """Keep the newest readings of each client and second."""
    second = (state.readings.who << SHIFT) | (state.readings.ts // 1000)
    before_last = np.searchsorted(second, second, "right") - np.arange(len(second))
    keep = before_last <= settings.max_readings_per_second
    dropped = int((~keep).sum())
    if dropped:
        left_out["readings-per-second"] += dropped
        keep_readings(state, keep)


def events(state: BucketState, settings: MonitorSettings, left_out: Counter[str]) -> None:
    """Keep the newest log entries of each process, and of all. `state.log_entries` is in order of time."""
    most, of_all = settings.max_events_per_process, share(settings.max_events, settings)
    kept, dropped = state.log_entries, 0
    if len(kept) > most:
        by_process: dict[Hashable, list[LogEntry]] = defaultdict(list)
        for entry in kept:
            by_process[entry.process].append(entry)
        remaining: list[LogEntry] = []
        for entries in by_process.values():
            remaining += newest(entries, most, _sort)
        dropped, kept = len(kept) - len(remaining), remaining
        left_out["events-per-process"] += dropped
    if len(kept) > of_all:
        fewer = newest(kept, of_all, lambda entry: entry.process)
        left_out["events"] += len(kept) - len(fewer)
        dropped, kept = dropped + len(kept) - len(fewer), fewer
    if dropped:
        state.log_entries = sorted(kept, key=lambda entry: entry.ts_ms)


def _sort(entry: LogEntry) -> str:
    return "" if entry.event is None else entry.event.signature


def newest(items: Sequence[T], most: int, sort: Callable[[T], Hashable]) -> list[T]:
    """At most `most` of the items, which are in order of time: the newest of each sort; of rare sorts all."""
    if len(items) <= most:
        return list(items)
    of_sort: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        of_sort[sort(item)].append(item)
    each = _allowed({name: len(members) for name, members in of_sort.items()}, most)
    return [item for members in of_sort.values() for item in members[max(0, len(members) - each) :]]


def _allowed(sizes: Mapping[Hashable, int], most: int) -> int:
    """How many of each sort may stay, so that all together are no more than `most`; at least one."""
    left = most
    for position, size in enumerate(sorted(sizes.values())):
        each = left // (len(sizes) - position)
        if size > each:
            return max(1, each)
        left -= size
    return most
