"""Build a dump's threads from lines or JSON, and recognise their frames.

If a function of kafka-python was ported from a Java method (`[ported]` in shapes.toml), the function's frames get the
Java method's name, because failure modes know only Java methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from clienthealth.model.tables import table
from clienthealth.model.telemetry import Dump, DumpedThread, Frame
from clienthealth.read.logs.fields import FETCHER_THREAD, JVM_FRAMES, NETWORK_THREAD
from clienthealth.read.logs.times import time_ms

TABLES = table(Path(__file__).with_name("shapes.toml"))
_MODULE = re.compile(r"(?:.*[/\\])?((?:kafka|confluent_kafka|aiokafka)[/\\][\w/\\]+)\.py\Z", re.ASCII)


def _add_python(block: Block, match: re.Match[str]) -> None:
    _add_function(block, match["file"], match["method"].strip(), match["line"])


def _add_function(block: Block, file: str, function: str, line: object) -> None:
    """Add a frame of a Python function. In py-spy's dumps, `function` may begin with a class name."""
    if of_client := _MODULE.match(file):
        module = re.sub(r"[/\\]", ".", of_client[1])
        ported = TABLES["ported"].get(module, {}).get(function.rpartition(".")[2])
        method = f"org.apache.kafka.{ported}" if ported else f"{module}.{function}"
    else:
        name = re.split(r"[/\\]", file)[-1]
        method = f"{name.removesuffix('.py')}.{function}"
    where = f"{_short(file)}:{line}" if line else _short(file)
    block.add(method, f"{where} {function}")


def _short(file: str) -> str:
    return re.split(r"(?:site|dist)-packages[/\\]", file)[-1]


MAX_FRAMES = 1_024
#: Only methods in relocated (shaded) packages of the Java client contain this text.
KAFKA = ".org.apache.kafka."
MAX_THREADS = 256
STATES = ("NEW", "RUNNABLE", "BLOCKED", "WAITING", "TIMED_WAITING", "TERMINATED")
#: Name of a thread that exists only after `main` has returned.
EXITING = "DestroyJavaVM"
#: Names for nameless threads: (part of a frame that only a Kafka thread has, name).
_BY_FRAME = (
    ("clients.producer.internals.Sender.run", NETWORK_THREAD),
    ("kafka.consumer.ConsumerFetcherThread.", FETCHER_THREAD + "unnamed"),
)
_LIMITED = (".LockSupport.parkNanos", ".LockSupport.parkUntil", "java.lang.Thread.sleep")
_UNLIMITED = ".LockSupport.park"
_PYTHON_NETWORK = re.compile(r"(?P<client>.{1,250}?)(?:-network-thread)\Z")


@dataclass
class Block:
    """A thread of a dump, as far as the parser has read the thread's lines. `frames`: innermost first.

    `line`    number of the thread's first line in the text, from 0
    `state`   the thread's state as the tool or the JVM writes it; '' if unknown
    `cpu_ms`  CPU time; None if unknown
    `python`  True if the frames are Python functions
    `key`     distinguishes threads with the same name
    """

    line: int = 0
    name: str = ""
    state: str = ""
    cpu_ms: float | None = None
    frames: list[Frame] = field(default_factory=list)
    python: bool = False
    key: str = ""

    def add(self, method: str, place: str) -> None:
        """Add a frame. Frames are added from callee to caller, and at most 1,024 frames are kept.

        `method`: `package.Class.method`; the prefix of a relocated (shaded) package is removed. `place`: file and line,
        or ''.
        """
        if len(self.frames) < MAX_FRAMES:
            self.frames.append(Frame(method[method.find(KAFKA) + 1 :] if KAFKA in method else method, place))

    @property
    def telling(self) -> bool:
        """True if the thread's name or the method of a frame contains "kafka"."""
        return any("kafka" in text.lower() for text in (self.name, *(frame.method for frame in self.frames)))

    @property
    def foreign(self) -> bool:
        """True if any frame is outside the JVM's own code."""
        return any(not frame.method.startswith(JVM_FRAMES) for frame in self.frames)

    def thread(self, number: int) -> DumpedThread:
        """Return the finished thread. A nameless thread is named after a frame (_BY_FRAME), or `thread NUMBER`."""
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
    for frame in frames[:6]:
        if any(limited in frame.method for limited in _LIMITED):
            return "TIMED_WAITING"
        if frame.method.endswith(_UNLIMITED):
            return "WAITING"
    return ""


def dump_of(
    what: str, blocks: Iterable[Block], ts_ms: int | None, taken: frozenset[int], complete: bool | None
) -> Dump:
    """Make a dump of at most MAX_THREADS (256) threads; threads of Kafka clients come first.

    `what`, `ts_ms`, `taken` and `complete` are fields of `Dump`.
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


Pattern = re.Pattern[str]


def pattern(text: str) -> Pattern:
    """Compile a regular expression, in which `%name%` stands for the entry `name` of `[parts]` in `shapes.toml`."""
    for name, part in TABLES["parts"].items():
        text = text.replace(f"%{name}%", part)
    return re.compile(text.replace("\n", ""), re.ASCII)


Add = Callable[[Block, re.Match[str]], None]


def _add_java(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], match["location"].rpartition("/")[2])


def _add_forced(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], f"line {match['line']}" if match["line"] else "")


def _add_j9(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"].replace("/", "."), match["location"].partition("(")[0].rpartition("/")[2])


_ADD: Mapping[str, Add] = {"java": _add_java, "forced": _add_forced, "j9": _add_j9, "python": _add_python}
FRAMES: Mapping[str, tuple[Pattern, Add]] = {
    name: (pattern(frame["pattern"]), _ADD[frame["added_as"]]) for name, frame in TABLES["frame"].items()
}
BARE, ASIDE = FRAMES["bare"][0], FRAMES["aside"][0]

MAX_DEPTH = 8


def is_dump_document(text: str) -> bool:
    """True if this JSON text has the field names of a thread dump."""
    return (
        '"threadContainers"' in text
        or ('"stackTrace"' in text and '"threadState"' in text)
        or ('"short_filename"' in text and '"thread_name"' in text)
    )


def dumps_of_document(document: object, lines: int = 1) -> list[Dump]:
    """Return a list with the one dump in a JSON document; [] if the document has no threads.

    `lines`: number of lines of the document's text; all of them belong to the dump.
    """
    if not (blocks := list(_blocks(document, 0))):
        return []
    dump = document.get("threadDump") if isinstance(document, dict) else None
    what = "Thread.dump_to_file (JSON)" if isinstance(dump, dict) else "thread dump (JSON)"
    what = "py-spy dump (JSON)" if any(block.python for block in blocks) else what
    time = dump.get("time") if isinstance(dump, dict) else None
    return [dump_of(what, blocks, time_ms(time), frozenset(range(lines)), True)]


def _blocks(value: Any, depth: int) -> Iterator[Block]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _blocks(item, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("stackTrace"), list) and "threadName" in value:
            yield _thread_info(value)
        elif isinstance(value.get("frames"), list) and "thread_name" in value:
            yield _python_thread(value)
        elif isinstance(value.get("stack"), list) and "tid" in value:
            yield _thread(value)
        else:
            for item in value.values():
                yield from _blocks(item, depth + 1)


def _thread_info(document: dict[str, Any]) -> Block:
    block = Block(name=str(document["threadName"]), state=str(document.get("threadState") or ""))
    for frame in document["stackTrace"]:
        if isinstance(frame, dict):
            file, line = frame.get("fileName"), frame.get("lineNumber")
            native = frame.get("nativeMethod") is True
            location = "Native Method" if native else f"{file or 'Unknown Source'}"
            if file and isinstance(line, int) and line > 0 and not native:
                location += f":{line}"
            block.add(f"{frame.get('className')}.{frame.get('methodName')}", location)
    return block


def _python_thread(document: dict[str, Any]) -> Block:
    active = document.get("active") is True
    block = Block(name=str(document["thread_name"] or ""), state="RUNNABLE" if active else "", python=True)
    for frame in document["frames"]:
        if isinstance(frame, dict) and isinstance(frame.get("name"), str):
            file = frame.get("short_filename") or frame.get("filename") or "?"
            _add_function(block, str(file), frame["name"], frame.get("line"))
    return block


def _thread(document: dict[str, Any]) -> Block:
    name = str(document.get("name") or "") or f"virtual thread #{document['tid']}"
    block = Block(name=name, state=str(document.get("state") or ""))
    for frame in document["stack"]:
        match = BARE.match(frame) if isinstance(frame, str) else None
        if match:
            _add_java(block, match)
    return block
