"""Limit bursts of log lines: merge equal entries, and limit the number of entries per process."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from clienthealth.model.readings import LogEvent
from clienthealth.model.values import grouped, integer
from clienthealth.read.logs.dumps import DUMP_LINE

#: Length (ms) of the intervals in which events with the same pattern, client, thread and address are merged.
SAMPLING_MS = 100
#: Equal lines of thread dumps are merged if they are in the same block (SLOT_BYTES) of a file and have times in the
#: same interval (LINE_SAMPLING_MS). Blocks are numbered modulo `SLOTS`, so the numbers repeat only after 256 KiB. In
#: a dump of up to 256 KiB, only lines in the same block can be merged, so the dump keeps nearly all lines.
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000

T = TypeVar("T")


class Entry(Protocol):
    """A log event or a thread dump. `repeats`: number of equal entries merged into this entry, including itself."""

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
    """Return the key by which equal events of one process are merged.

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

    If `kept` has such an entry, increase the `repeats` of that entry, and return False.
    """
    first = kept.setdefault(entry.sample, entry)
    if first is not entry:
        first.repeats += entry.repeats
    return first is entry


def of_each_process(entries: Sequence[E], most: int) -> Sequence[E]:
    """Limit the entries of each process to `most`, but keep at least one entry per process and log pattern.

    `entries`: in order of time. If the number of all entries exceeds `most`, the result is grouped by process.
    """
    if len(entries) <= most:
        return entries
    by_process = grouped(entries, lambda entry: entry.process)
    return [one for of_process in by_process.values() for one in newest(of_process, most, lambda one: one.signature)]


def newest(items: Sequence[T], most: int, key: Callable[[T], Hashable]) -> list[T]:
    """Return the newest items, and always the newest item of each key.

    `items`: in order of time. `most`: limit for the number of returned items; exceeded only if there are more keys than
    `most`. `key`: the function that returns an item's key. If items are left out, the result is grouped by key.
    """
    if len(items) <= most:
        return list(items)
    by_key = grouped(items, key)
    each = _allowed({name: len(members) for name, members in by_key.items()}, most)
    return [item for members in by_key.values() for item in members[max(0, len(members) - each) :]]


def _allowed(sizes: Mapping[Hashable, int], most: int) -> int:
    """Return how many items of each key to keep, at least one.

    `most`: limit for the items of all keys together; exceeded only if there are more keys than `most`.
    """
    left = most
    for position, size in enumerate(sorted(sizes.values())):
        each = left // (len(sizes) - position)
        if size > each:
            return max(1, each)
        left -= size
    return most
