"""One thread of a dump while it is read, line by line.

The judges know the Java client's names: kafka-python's frames get those of the methods that they were ported from. What
is shown to people is the place (file, line and the function's own name), which every frame keeps. confluent-kafka is C:
of it a dump shows only who calls it, unless `py-spy --native` took it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from clienthealth.model.tables import table
from clienthealth.model.telemetry import Dump, DumpedThread, Frame
from clienthealth.read.logs.fields import FETCHER_THREAD, JVM_FRAMES, NETWORK_THREAD

#: What `shapes.toml` says of dumps.
TABLES = table(Path(__file__).with_name("shapes.toml"))
_MODULE = re.compile(r"(?:.*[/\\])?((?:kafka|confluent_kafka|aiokafka)[/\\][\w/\\]+)\.py\Z", re.ASCII)


def add_python(block: Block, match: re.Match[str]) -> None:
    """Add a frame (groups `file`, `line`, `method`) to its thread."""
    add_function(block, match["file"], match["method"].strip(), match["line"])


def add_function(block: Block, file: str, function: str, line: object) -> None:
    """Add a function's frame. Its name may begin with its class's, as py-spy writes it."""
    of_client = _MODULE.match(file)
    if of_client:
        module = re.sub(r"[/\\]", ".", of_client[1])
        ported = TABLES["ported"].get(module, {}).get(function.rpartition(".")[2])
        method = f"org.apache.kafka.{ported}" if ported else f"{module}.{function}"
    else:
        name = re.split(r"[/\\]", file)[-1]
        method = f"{name.removesuffix('.py')}.{function}"
    where = f"{_short(file)}:{line}" if line else _short(file)
    block.add(method, f"{where} {function}")


def _short(file: str) -> str:
    """The path without what every file of an installation has in common."""
    return re.split(r"(?:site|dist)-packages[/\\]", file)[-1]


MAX_FRAMES = 1_024
MAX_THREADS = 256
STATES = ("NEW", "RUNNABLE", "BLOCKED", "WAITING", "TIMED_WAITING", "TERMINATED")
#: The thread that says that `main` has returned.
EXITING = "DestroyJavaVM"
#: By what frame a Kafka thread that has no name is known.
_BY_FRAME = (
    ("clients.producer.internals.Sender.run", NETWORK_THREAD),
    ("kafka.consumer.ConsumerFetcherThread.", FETCHER_THREAD + "unnamed"),
)
#: By what a wait is known to have a time limit, or none, where the dump does not say it.
_LIMITED = (".LockSupport.parkNanos", ".LockSupport.parkUntil", "java.lang.Thread.sleep")
_UNLIMITED = ".LockSupport.park"
_PYTHON_NETWORK = re.compile(r"(?P<client>.{1,250}?)(?:-network-thread)\Z")


@dataclass
class Block:
    """A thread. `state`: '' where the dump does not say it; `line`: the number of its first line in the text."""

    line: int = 0
    name: str = ""
    state: str = ""
    cpu_ms: float | None = None
    frames: list[Frame] = field(default_factory=list)
    python: bool = False
    key: str = ""

    def add(self, method: str, place: str) -> None:
        """One more frame, the innermost first."""
        if len(self.frames) < MAX_FRAMES:
            self.frames.append(Frame(method, place))

    @property
    def telling(self) -> bool:
        """Does it touch a Kafka client?"""
        return any("kafka" in text.lower() for text in (self.name, *(frame.method for frame in self.frames)))

    @property
    def foreign(self) -> bool:
        """Is it in code that is not the JVM's: may it be what an application does between two polls?"""
        return any(not frame.method.startswith(JVM_FRAMES) for frame in self.frames)

    def thread(self, number: int) -> DumpedThread:
        """What was read. `number`: what it is called where nothing else names it."""
        state = self.state if self.state in STATES else _state_by_frames(self.frames)
        return DumpedThread(self._named(number), state, self.frames, self.cpu_ms, self.line)

    def _named(self, number: int) -> str:
        if not self.name:
            methods = [frame.method for frame in self.frames]
            return next((name for part, name in _BY_FRAME if any(part in m for m in methods)), f"thread {number}")
        if self.python and any(_BY_FRAME[0][0] in frame.method for frame in self.frames):
            client = _PYTHON_NETWORK.match(self.name)
            return f"{NETWORK_THREAD} | {client['client']}" if client else NETWORK_THREAD
        return self.name


def _state_by_frames(frames: Sequence[Frame]) -> str:
    """The state of a thread whose dump does not say it, where its innermost frames leave no doubt."""
    for frame in frames[:6]:
        if any(limited in frame.method for limited in _LIMITED):
            return "TIMED_WAITING"
        if frame.method.endswith(_UNLIMITED):
            return "WAITING"
    return ""


def dump_of(
    what: str, blocks: Iterable[Block], ts_ms: int | None, taken: frozenset[int], complete: bool | None
) -> Dump:
    """A dump, of its threads those that touch a Kafka client or say that the JVM ends, then those in foreign code.

    MAX_THREADS at most.
    """
    of_kafka, others = [], []
    for block in blocks:
        if block.telling or block.name == EXITING:
            of_kafka.append(block)
        elif block.name and block.foreign:
            others.append(block)
    if len(of_kafka) > MAX_THREADS:
        of_kafka.sort(key=lambda block: not block.name.startswith(NETWORK_THREAD))
    kept = islice((*of_kafka, *others), MAX_THREADS)
    return Dump(what, [block.thread(number) for number, block in enumerate(kept, 1)], ts_ms, taken, complete)
