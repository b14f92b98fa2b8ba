"""The bounds of a burst of log lines, in the order in which they are met: read, kept, held.

1. Of lines that are alike a few are read, each for those around it (`spark/decoding.py`, `to_read`).
2. Of entries that count as one the first is kept, with how many it stands for (`is_new`).
3. Of each process the newest entries are held, of rare signatures all (`of_each_process`, `newest`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from clienthealth.model.readings import LogEvent
from clienthealth.model.values import grouped
from clienthealth.read.logs.dumps import DUMP_LINE
from clienthealth.read.logs.fields import offset

#: Of events of one signature, client, thread and address one in so many milliseconds is kept, with the number of those
#: that it stands for: 100,000 lines a second of one process cost as much state as ten.
SAMPLING_MS = 100
#: A dump of up to SLOTS × SLOT_BYTES is kept whole, also where many of its threads have the same frame. Of a burst of
#: stack traces at most SLOTS copies of each line are kept per half minute.
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000

T = TypeVar("T")


class Entry(Protocol):
    """A log event or a thread dump. Entries with the same `sample` count as one; `repeats`: so many it stands for."""

    repeats: int

    @property
    def process(self) -> tuple[str, str]:
        """Service and host of its process."""

    @property
    def signature(self) -> str:
        """The id of its log pattern, '' of a dump."""

    @property
    def sample(self) -> Hashable:
        """What those have in common that count as one."""


E = TypeVar("E", bound=Entry)


def sample_key(event: LogEvent) -> tuple[str, ...]:
    """What events of one process have in common that count as one. The same in every process and at every start."""
    told = "given up" if event.captures.get("left") == "0" else event.captures.get("address", "")
    subject = (event.signature, event.client_id or "", event.thread or "", told)
    if event.signature != DUMP_LINE:
        return *subject, str(event.ts_ms // SAMPLING_MS)
    # Lines of dumps count as one if they are the same text in the same slot of their file in the same half minute.
    text = blake2b(event.text.encode(errors="replace"), digest_size=8).hexdigest()
    slot = (offset(event.captures.get("offset")) or 0) // SLOT_BYTES % SLOTS
    return *subject, event.captures.get("file", ""), text, str(slot), str(event.ts_ms // LINE_SAMPLING_MS)


def is_new(kept: dict[Hashable, E], entry: E) -> bool:
    """True if no entry that counts as the same is kept yet; else the one that is stands for this one, too."""
    first = kept.setdefault(entry.sample, entry)
    if first is not entry:
        first.repeats += entry.repeats
    return first is entry


def of_each_process(entries: Sequence[E], most: int) -> Sequence[E]:
    """At most `most` entries of each process, see `newest`. `entries`: in order of time."""
    if len(entries) <= most:
        return entries
    by_process = grouped(entries, lambda entry: entry.process)
    return [one for of_process in by_process.values() for one in newest(of_process, most, lambda one: one.signature)]


def newest(items: Sequence[T], most: int, sort: Callable[[T], Hashable]) -> list[T]:
    """At most `most` of the items, which are in order of time: the newest of each sort; of rare sorts all."""
    if len(items) <= most:
        return list(items)
    of_sort = grouped(items, sort)
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
