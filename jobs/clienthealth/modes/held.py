"""A thread that stands at one place over several dumps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.wording import elapsed


@dataclass(frozen=True, slots=True)
class Held:
    """A thread at one place. `seen`: the dumps in a row that find it there, each with the thread as it shows it."""

    seen: tuple[tuple[ThreadDump, Thread], ...]

    @property
    def dump(self) -> ThreadDump:
        """The last one."""
        return self.seen[-1][0]

    @property
    def thread(self) -> Thread:
        """As the last dump shows it."""
        return self.seen[-1][1]

    @property
    def since_ms(self) -> int:
        """The time of the first dump."""
        return self.seen[0][0].ts_ms

    @property
    def seconds(self) -> float:
        """From the first dump to the last."""
        return (self.dump.ts_ms - self.since_ms) / 1000

    @property
    def cpu_ms(self) -> float | None:
        """The CPU that it used meanwhile; None where dumps do not tell it (JVM 8)."""
        before, after = self.seen[0][1].cpu_ms, self.thread.cpu_ms
        return None if before is None or after is None else after - before

    @property
    def repeated(self) -> str:
        """In how many dumps, and over what time, as a sentence goes on; '' of one dump."""
        return f" in {len(self.seen)} dumps over {elapsed(self.seconds)}" if self.seen[1:] else ""


def held(
    dumps: Iterable[ThreadDump],
    where: Callable[[ThreadDump, Thread], Hashable | None],
    *,
    threads: Callable[[ThreadDump], Iterable[Thread]] = lambda dump: dump.threads,
    stays: Callable[[Held], bool] = lambda stay: True,
) -> list[Held]:
    """What each dump in turn finds of each thread at a place: so the last of a thread's stay is all of it.

    A dump that finds the thread elsewhere, or not at all, ends its stay.

    where    the place where a dump shows a thread; None where that is none that counts
    threads  those of a dump that are looked at
    stays    True if other data allows that the thread was there all the time; else its stay begins with the last dump
    """
    found: list[Held] = []
    before: dict[tuple[str, Hashable], Held] = {}
    for dump in dumps:
        now: dict[tuple[str, Hashable], Held] = {}
        for thread in threads(dump):
            place = where(dump, thread)
            if place is None:
                continue
            sighting, earlier = ((dump, thread),), before.get((thread.name, place))
            stay = Held((*earlier.seen, *sighting) if earlier else sighting)
            now[thread.name, place] = stay if stays(stay) else Held(sighting)
            found.append(now[thread.name, place])
        before = now
    return found
