"""Limit bursts of log lines in three steps.

`to_read` in `spark/decoding.py` skips similar lines. `is_new` merges equal entries. `of_each_process` limits the number
of entries per process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from clienthealth.model.readings import LogEvent
from clienthealth.model.values import grouped, integer
from clienthealth.read.logs.dumps import DUMP_LINE

#: One event per SAMPLING_MS (ms) is kept for each combination of log pattern, client, thread, address and goroutine.
SAMPLING_MS = 100
#: A log file consists of blocks of SLOT_BYTES bytes, numbered modulo SLOTS. Equal lines of thread dumps are merged if
#: their blocks have equal numbers and their times are in the same interval of LINE_SAMPLING_MS (ms). So a dump of up to
#: 256 KiB (SLOTS blocks) loses hardly any line. A line that repeats endlessly is kept at most SLOTS times per interval.
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000

T = TypeVar("T")


class Entry(Protocol):
    """A log event or a thread dump. `repeats`: number of equal entries that were merged into this one, plus 1."""

    repeats: int

    @property
    def process(self) -> tuple[str, str]:
        """(service, host) of the process that logged the entry."""

    @property
    def signature(self) -> str:
        """The id of the log pattern that the event matches; '' for a thread dump."""

    @property
    def sample(self) -> Hashable:
        """The key of an entry; entries with equal keys are merged into one."""


E = TypeVar("E", bound=Entry)


def sample_key(event: LogEvent) -> tuple[str, ...]:
    """Return the key by which events are merged: events of one process with equal keys become one event.

    Events that report `0 attempts left` are merged even if their addresses differ. A restart of the monitor does not
    change the key.
    """
    named = (event.captures.get(name, "") for name in ("address", "goroutine", "minutes"))
    detail = "given up" if event.captures.get("left") == "0" else "".join(named)
    subject = (event.signature, event.client_id or "", event.thread or "", detail)
    if event.signature != DUMP_LINE:
        return *subject, str(event.ts_ms // SAMPLING_MS)
    text = blake2b(event.text.encode(errors="replace"), digest_size=8).hexdigest()
    slot = (integer(event.captures.get("offset"), 64) or 0) // SLOT_BYTES % SLOTS
    return *subject, event.captures.get("file", ""), text, str(slot), str(event.ts_ms // LINE_SAMPLING_MS)


def is_new(kept: dict[Hashable, E], entry: E) -> bool:
    """Add an entry to `kept` and return True, unless `kept` has an entry with an equal `sample`.

    If there is one, add the new entry's `repeats` to the `repeats` of that entry, and return False.
    """
    first = kept.setdefault(entry.sample, entry)
    if first is not entry:
        first.repeats += entry.repeats
    return first is entry


def of_each_process(entries: Sequence[E], most: int) -> Sequence[E]:
    """Return at most `most` entries per process, but at least one per process and log pattern.

    `entries` are in order of time. If there are more than `most` entries in all, the result is grouped by process.
    """
    if len(entries) <= most:
        return entries
    by_process = grouped(entries, lambda entry: entry.process)
    return [one for of_process in by_process.values() for one in newest(of_process, most, lambda one: one.signature)]


def newest(items: Sequence[T], most: int, sort: Callable[[T], Hashable]) -> list[T]:
    """Return at most `most` items: keys with many items keep only their newest items, other keys keep all items.

    `items` are in order of time. `sort` returns the key of an item. At least one item per key is kept, even if the
    result then has more than `most` items. If items are left out, the result is grouped by key.
    """
    if len(items) <= most:
        return list(items)
    of_sort = grouped(items, sort)
    each = _allowed({name: len(members) for name, members in of_sort.items()}, most)
    return [item for members in of_sort.values() for item in members[max(0, len(members) - each) :]]


def _allowed(sizes: Mapping[Hashable, int], most: int) -> int:
    """Return how many items per key to keep (at least 1), so that at most `most` items are kept in all."""
    left = most
    for position, size in enumerate(sorted(sizes.values())):
        each = left // (len(sizes) - position)
        if size > each:
            return max(1, each)
        left -= size
    return most
