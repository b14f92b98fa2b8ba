"""Find threads that stay at one place, for example in the same frames, over several thread dumps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.wording import elapsed


@dataclass(frozen=True, slots=True)
class Held:
    """A thread that stays at one place, for example in the same frames.

    `seen`: pairs (dump, thread) of the consecutive dumps that show the thread at this place.
    """

    seen: tuple[tuple[ThreadDump, Thread], ...]

    @property
    def dump(self) -> ThreadDump:
        """The last dump that shows the thread at this place."""
        return self.seen[-1][0]

    @property
    def thread(self) -> Thread:
        """The thread in the last dump that shows it at this place."""
        return self.seen[-1][1]

    @property
    def since_ms(self) -> int:
        """The time (epoch ms) of the first dump that shows the thread at this place."""
        return self.seen[0][0].ts_ms

    @property
    def seconds(self) -> float:
        """The time (s) from the first dump to the last; 0 for a single dump."""
        return (self.dump.ts_ms - self.since_ms) / 1000

    @property
    def cpu_ms(self) -> float | None:
        """The thread's CPU time (ms) from the first dump to the last; None if unknown (JVM 8)."""
        before, after = self.seen[0][1].cpu_ms, self.thread.cpu_ms
        return None if before is None or after is None else after - before

    @property
    def repeated(self) -> str:
        """The number of dumps and their time span, as part of a sentence; '' for one dump."""
        return f" in {len(self.seen)} dumps over {elapsed(self.seconds)}" if self.seen[1:] else ""


def held(
    dumps: Iterable[ThreadDump],
    where: Callable[[ThreadDump, Thread], Hashable | None],
    *,
    threads: Callable[[ThreadDump], Iterable[Thread]] = lambda dump: dump.threads,
    stays: Callable[[Held], bool] = lambda stay: True,
) -> list[Held]:
    """Return a `Held` for each thread in each dump.

    A `Held` contains the dump, and the unbroken run of earlier dumps that show the thread at the same place. `dumps`
    are in order of time.

    `where`    a function that returns where a thread is in a dump; None to leave the thread out
    `threads`  a function that returns the threads to examine in a dump
    `stays`    a function that returns False if the thread's CPU time, or data besides the dumps, shows that the thread
               moved between the dumps
    """
    found: list[Held] = []
    before: dict[tuple[str, Hashable], Held] = {}
    for dump in dumps:
        now: dict[tuple[str, Hashable], Held] = {}
        for thread in threads(dump):
            if (place := where(dump, thread)) is None:
                continue
            sighting, earlier = ((dump, thread),), before.get((thread.name, place))
            stay = Held((*earlier.seen, *sighting) if earlier else sighting)
            now[thread.name, place] = stay if stays(stay) else Held(sighting)
            found.append(now[thread.name, place])
        before = now
    return found
