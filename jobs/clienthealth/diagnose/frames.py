"""Select the few frames of a thread's stack on which a verdict rests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import DumpedThread, Frame
from clienthealth.model.verdicts import Evidence

MOST, MOST_THREADS = 5, 2
_PLATFORM = ("java.", "jdk.", "sun.", "com.sun.", "javax.", "scala.", "kotlin.", "threading.", "selectors.")
_NOISE = ("org.apache.kafka.common.utils.",)
_KAFKA = ("org.apache.kafka.", "kafka.")
#: Parts of the names of compiler-generated methods.
_MADE = ("$anonfun", "$$Lambda")
#: Frames of the agent that took the dump.
_AGENT = ("org.jolokia.",)
Frames = tuple[str, tuple[str, ...]]


def frames_of(fact: Evidence, dumps: Mapping[Source, Sequence[DumpedThread]]) -> tuple[Frames, ...]:
    """Return (names of threads, frames) for the threads that a fact names. Threads with equal frames share an entry."""
    named: dict[tuple[str, ...], list[str]] = {}
    for thread in threads_of(fact, dumps):
        if thread.frames:
            named.setdefault(decisive(thread.frames, fact.text), []).append(thread.name)
    return tuple((", ".join(names), frames) for frames, names in islice(named.items(), MOST_THREADS))


def threads_of(fact: Evidence, dumps: Mapping[Source, Sequence[DumpedThread]]) -> list[DumpedThread]:
    """Return the threads that a fact names, from the dump on which the fact rests."""
    of_dump = dumps.get(fact.source, ()) if fact.source is not None and fact.kind == "thread-dump" else ()
    return [thread for thread in of_dump if thread.name in fact.text]


def is_application(thread: DumpedThread) -> bool:
    """True if a thread runs code of the application, directly or through a library."""
    if any(method.startswith(_AGENT) for method, _ in thread.frames):
        return False
    return any(not method.startswith((*_PLATFORM, *_KAFKA)) for method, _ in thread.frames)


def decisive(frames: Sequence[Frame], fact: str = "") -> tuple[str, ...]:
    """Return at most MOST (five) frames of Kafka and of the application, the innermost first.

    `fact`: the text of the evidence about the thread. If the evidence names a frame, that frame is included.
    """
    own = [f for f in frames if not f[0].startswith((*_PLATFORM, *_NOISE)) and not any(made in f[0] for made in _MADE)]
    own = own or list(frames)
    own = [f for at, f in enumerate(own) if at == 0 or f[0] != own[at - 1][0]]
    shown = own[:MOST]
    named = next((at for at, f in enumerate(own) if _short(f[0]).replace("$", "") in fact), 0)
    if named >= MOST:
        shown = [own[0], *own[named : named + MOST - 1]]
    application = next((f for f in own if not f[0].startswith(_KAFKA)), None)
    if application is not None and application not in shown:
        shown = [*shown[: MOST - 1], application]
    return tuple(f"{_short(method)} ({location})" if location else _short(method) for method, location in shown)


def _short(method: str) -> str:
    return ".".join(method.split(".")[-2:]) if method.startswith(_KAFKA) else method
