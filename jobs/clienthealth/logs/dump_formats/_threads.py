"""One thread of a dump of any shape, and its text as `jstack` would write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clienthealth.logs.fields import DUMP_TITLE
from clienthealth.logs.thread_names import FETCHER_THREAD, NETWORK_THREAD

MAX_FRAMES = 1_024
STATES = ("NEW", "RUNNABLE", "BLOCKED", "WAITING", "TIMED_WAITING", "TERMINATED")
#: By what frame a Kafka thread that has no name is known.
_BY_FRAME = (
    ("clients.producer.internals.Sender.run", NETWORK_THREAD),
    ("kafka.consumer.ConsumerFetcherThread.", FETCHER_THREAD + "unnamed"),
)
#: By what a wait is known to have a time limit, or none, where the dump does not say it.
_LIMITED = (".LockSupport.parkNanos", ".LockSupport.parkUntil", "java.lang.Thread.sleep")
_UNLIMITED = ".LockSupport.park"
_PYTHON_NETWORK = re.compile(r"(?P<client>.{1,250}?)(?:-network-thread)\Z")


class EmbeddedDump(NamedTuple):
    """A dump that was found in a text.

    what      what wrote it
    text      the dump as `jstack` would have written it: one that `logs.dumps.threads` reads
    ts_ms     its time, taken as UTC where it names no zone; None where it says none
    threads   how many threads it shows, and
    kafka     how many of these touch a Kafka client
    taken     the numbers of the text's lines, from 0, that it is made of
    complete  does it end as such a dump ends? False where it was cut, None where its shape has no end
    """

    what: str
    text: str
    ts_ms: int | None
    threads: int
    kafka: int
    taken: frozenset[int]
    complete: bool | None = None


class Frame(NamedTuple):
    """`package.Class.method` and where that is: file and line, as the dump says it."""

    method: str
    location: str


@dataclass
class Block:
    """One thread of a dump. `state`: '' where the dump does not say it."""

    name: str = ""
    state: str = ""
    cpu_ms: float | None = None
    frames: list[Frame] = field(default_factory=list)
    python: bool = False
    key: str = ""

    def add(self, method: str, location: str) -> None:
        """One more frame, the innermost first."""
        if len(self.frames) < MAX_FRAMES:
            self.frames.append(Frame(method, location))

    @property
    def telling(self) -> bool:
        """Does it touch a Kafka client?"""
        return any("kafka" in text.lower() for text in (self.name, *(frame.method for frame in self.frames)))

    def text(self, number: int) -> str:
        """The thread as `jstack` writes it."""
        used = f"cpu={self.cpu_ms:.2f}ms " if self.cpu_ms is not None else ""
        lines = [f'"{self._named(number)}" #{number} prio=5 {used}tid=0x0']
        state = self.state if self.state in STATES else _state_by_frames(self.frames)
        if state:
            lines.append(f"   java.lang.Thread.State: {state}")
        lines += [f"\tat {_plain(frame.method)}({_plain(frame.location)})" for frame in self.frames]
        return "\n".join(lines)

    def _named(self, number: int) -> str:
        name = _plain(self.name)
        if not name:
            methods = [frame.method for frame in self.frames]
            return next((name for part, name in _BY_FRAME if any(part in m for m in methods)), f"thread {number}")
        if self.python and any(_BY_FRAME[0][0] in frame.method for frame in self.frames):
            client = _PYTHON_NETWORK.match(name)
            return f"{NETWORK_THREAD} | {client['client']}" if client else NETWORK_THREAD
        return name


def _state_by_frames(frames: Sequence[Frame]) -> str:
    """The state of a thread whose dump does not say it, where its innermost frames leave no doubt."""
    for frame in frames[:6]:
        if any(limited in frame.method for limited in _LIMITED):
            return "TIMED_WAITING"
        if frame.method.endswith(_UNLIMITED):
            return "WAITING"
    return ""


def _plain(text: str) -> str:
    """Text that cannot end a line or a place."""
    return re.sub(r"[\x00-\x1f()]", " ", text).strip()


def dump_text(blocks: Sequence[Block], what: str, above: str = "") -> str:
    """A dump as `jstack` writes it, of the threads that touch a Kafka client and those that say that the JVM ends."""
    shown = [b for b in blocks if b.telling or b.name == "DestroyJavaVM"]
    parts = [f"{above}\n" if above else "", f"{DUMP_TITLE}({what}):\n\n"]
    return "".join(parts) + "\n\n".join(block.text(n) for n, block in enumerate(shown, 1)) + "\n\nJNI global refs: 0\n"


def stamp(ts_ms: int) -> str:
    """A time as it stands above a dump's title."""
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def rendered(
    what: str, blocks: Sequence[Block], ts_ms: int | None, taken: frozenset[int], complete: bool | None
) -> EmbeddedDump:
    """What was found, rendered."""
    above = stamp(ts_ms) if ts_ms is not None else ""
    text = dump_text(blocks, what, above)
    return EmbeddedDump(what, text, ts_ms, len(blocks), sum(b.telling for b in blocks), taken, complete)
