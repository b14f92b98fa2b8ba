"""Find the dumps of all formats (`shapes.py`) in a text, line by line.

Nearly all threads run only code of the JVM. The scan skips such threads.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from clienthealth.model.telemetry import Dump
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs.dump_formats.shapes import HINTS, HOTSPOT, SHAPES, STATES, Shape
from clienthealth.read.logs.dump_formats.threads import (
    ASIDE,
    BARE,
    EXITING,
    FRAMES,
    TABLES,
    Block,
    dump_of,
    dumps_of_document,
    is_dump_document,
    pattern,
)
from clienthealth.read.logs.fields import DUMP_TITLE, FETCHER_THREAD, NETWORK_THREAD
from clienthealth.read.logs.times import time_ms

LITERALS: tuple[str, ...] = tuple(TABLES["literals"]["amid_a_log"])
#: Every dump contains one of these texts, even a dump that is a string in JSON.
SHIPPED: tuple[str, ...] = (*(text.removesuffix('"') for text in LITERALS), *TABLES["literals"]["shipped"])
#: Maximum number of lines above a dump's first thread.
MAX_ABOVE = 20_000
MAX_DUMPS = 256
_QUOTED_NAME = re.compile(r"[ \t]*\"(?P<name>[^\"]{1,300})\"[^\"{}]{0,200}\Z", re.ASCII)
_STATE_OR_FRAME = re.compile(r"[ \t]*(?:java\.lang\.Thread\.State: |at [\w$./@-]+\.[\w$<>]+\()", re.ASCII)
#: Matches a log line or an exception. Frames below the match do not belong to the thread above the match.
_ENTRY = pattern(TABLES["lines"]["entry"])


_FOREIGN = re.compile(r"[ \t]*at (?!java\.|javax\.|jdk\.|sun\.)", re.ASCII)
#: `jstack -F` and OpenJ9 report deadlocks above the threads; other JVMs report deadlocks below the threads.
DEADLOCK, HOLDER = "Found one Java-level deadlock", "which is held by "
_REPORT_FIRST = "Deadlock Detection:"
_SUMMARY = re.compile(rf"{DEADLOCK}|Found \d{{1,6}} deadlock", re.ASCII)
_DEADLOCKED = re.compile(rf"(?:[ \t]*{HOLDER}|2LKDEADLOCKTHR +Thread )\"(?P<name>.{{1,1000}}?)\"", re.ASCII)
_IN_SUMMARY = re.compile(r"[ \t\"=]|Found |Java stack information", re.ASCII)


@dataclass
class _Open:
    """The dump that is being read; `taken`: the numbers of the dump's lines in the text, from 0."""

    shape: Shape
    ts_ms: int | None
    titled: bool
    taken: set[int]
    blocks: list[Block] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    ended: bool = False
    summed_up: bool = False  # True within the report of deadlocks, which repeats threads.
    deadlocked: list[str] = field(default_factory=list)


def scan(text: str) -> list[Dump]:
    """Return the first MAX_DUMPS (256) dumps in a text, in the order of the text."""
    return _Scan(text).dumps()


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines = [line.rstrip("\r") for line in text.split("\n")]
        self.shapes = [shape for shape in SHAPES if any(hint in text for hint in shape.hints)]
        self.closed: list[_Open] = []
        self.dump: _Open | None = None
        self.block: Block | None = None
        #: True after a line that is not part of a dump; the next blank line then ends the current thread.
        self.foreign = False
        #: Names of deadlocked threads, from a report above the dump's threads.
        self.announced: list[str] = []
        self.telling = [number for number, line in enumerate(text.lower().split("\n")) if "kafka" in line]

    def dumps(self) -> list[Dump]:
        number, count = 0, len(self.lines)
        while number < count and len(self.closed) < MAX_DUMPS:
            line = self.lines[number]
            if line and not line.isspace():
                self._line(number, line)
                number = self._passed_by(number)
            elif self.foreign:
                self.block, self.foreign = None, False
            number += 1
        self._close()
        return [self._made(dump) for dump in self.closed]

    def _passed_by(self, number: int) -> int:
        """If a thread that runs only JVM code begins at line `number`, return the thread's last line; else `number`."""
        dump, block = self.dump, self.block
        if dump is None or dump.shape is not HOTSPOT or block is None or block.line != number or block.name == EXITING:
            return number
        end = number + 1
        while end < len(self.lines) and self.lines[end][:1] in ("\t", " "):
            end += 1
        at = bisect_left(self.telling, number)
        if (at < len(self.telling) and self.telling[at] < end) or any(
            map(_FOREIGN.match, self.lines[number + 1 : end])
        ):
            return number
        dump.taken.update(range(number, end))
        return end - 1

    def _line(self, number: int, line: str) -> None:
        for shape in self.shapes:
            if match := shape.header.match(line):
                self._thread(number, shape, match.groupdict())
                return
        if line.startswith(_REPORT_FIRST):
            self._close()
        dump, block = self.dump, self.block
        hotspot = dump if dump is not None and dump.shape is HOTSPOT else None
        if hotspot is not None and _SUMMARY.match(line):
            hotspot.ended = hotspot.summed_up = True
            self.block = None
        if deadlocked := _DEADLOCKED.match(line):
            (hotspot.deadlocked if hotspot is not None else self.announced).append(deadlocked["name"])
        if dump is not None and dump.summed_up and _IN_SUMMARY.match(line):
            dump.taken.add(number)
            return
        if self._nameless(number, line) or dump is None:
            return
        if block is not None:
            for pattern, add in (FRAMES[name] for name in dump.shape.frames):
                if match := pattern.match(line):
                    add(block, match)
                    dump.taken.add(number)
                    return
            if match := dump.shape.state.match(line):
                self._set_state(block, match.groupdict())
                dump.taken.add(number)
                return
        if dump.shape.end and dump.shape.end in line:
            dump.ended, self.block = True, None
            dump.taken.add(number)
        elif dump.shape.other.match(line) and not dump.ended:
            dump.taken.add(number)
        elif _ENTRY.match(line):
            self.block = None
        elif line.lstrip().startswith((NETWORK_THREAD, FETCHER_THREAD)):
            self._thread(number, dump.shape, {"name": line.strip()})
        else:
            self.foreign = True

    def _thread(self, number: int, shape: Shape, fields: dict[str, str | None]) -> None:
        name, key = fields.get("name") or "", fields.get("key")
        if fields.get("virtual"):
            name = name or (fields["virtual"] or "").strip()
            name = f"virtual thread {key}" if name == "virtual" else name
        key = f"{key} {name}"
        above = self._above(number, shape)
        starts = any(shape.title in self.lines[at] or shape.time.match(self.lines[at]) for at in above)
        dump = self.dump
        if dump is None or dump.shape is not shape or starts or key in dump.keys or dump.ended:
            dump = self._open(number, shape, above)
        dump.keys.add(key)
        self._begin(number, dump, Block(name=name, python=shape.python, key=key), fields)

    def _nameless(self, number: int, line: str) -> bool:
        """Add a thread with no header, or with only a quoted name. Return True if such a thread begins here."""
        if HOTSPOT not in self.shapes:
            return False
        after = next((below for below in self.lines[number + 1 : number + 4] if below.strip()), "")
        if (named := _QUOTED_NAME.match(line)) and _STATE_OR_FRAME.match(after):
            self._thread(number, HOTSPOT, named.groupdict())
            return True
        state = HOTSPOT.state.match(line)
        if state is None or (self.block is not None and not self.block.state and not self.block.frames):
            return False
        dump = self.dump if self.dump is not None and self.dump.shape is HOTSPOT else self._open(number, HOTSPOT, [])
        self._begin(number, dump, Block(), state.groupdict())
        return True

    def _begin(self, number: int, dump: _Open, block: Block, fields: dict[str, str | None]) -> None:
        self._set_state(block, fields)
        block.line = number
        dump.blocks.append(block)
        dump.taken.add(number)
        self.block, self.foreign = block, False

    def _set_state(self, block: Block, fields: dict[str, str | None]) -> None:
        state, cpu = fields.get("state"), fields.get("cpu")
        if state:
            block.state = STATES.get(state, state)
        if cpu:
            seconds = self.dump is not None and self.dump.shape is not HOTSPOT
            block.cpu_ms = float(cpu) * (1000 if seconds else 1)

    def _above(self, number: int, shape: Shape) -> list[int]:
        """Return the numbers of the lines above line `number` that introduce a dump, from the last to the first."""
        above = []
        for at in range(number - 1, max(-1, number - 1 - MAX_ABOVE), -1):
            line = self.lines[at]
            if line and not line.isspace():
                if not shape.above.match(line) or (self.dump is not None and at in self.dump.taken):
                    break
                above.append(at)
        return above

    def _open(self, number: int, shape: Shape, above: Sequence[int]) -> _Open:
        self._close()
        times = (shape.time.match(self.lines[at]) for at in above)
        stamped = next((match for match in times if match), None)
        titled = any(DUMP_TITLE in self.lines[at] for at in above)
        # A javacore writes a time as `2026/11/25 at 10:00:00`.
        written = stamped and stamped[1].replace(" at ", " ") + (f".{stamped[2]}" if stamped[2] else "")
        self.dump = _Open(shape, time_ms(written), titled, set(above))
        self.dump.deadlocked, self.announced = self.announced, []
        return self.dump

    def _close(self) -> None:
        # Drop a dump with only the names of threads, because it does not show what the threads do.
        dump = self.dump
        if dump is not None and (
            dump.titled or len(dump.taken) > len(dump.blocks) or any(b.state for b in dump.blocks)
        ):
            self.closed.append(dump)
        self.dump = self.block = None

    def _made(self, dump: _Open) -> Dump:
        complete = dump.ended if dump.titled or (dump.shape.end and dump.shape is not HOTSPOT) else None
        made = dump_of(dump.shape.what, dump.blocks, dump.ts_ms, frozenset(dump.taken), complete)
        made.deadlocked = tuple(dict.fromkeys(dump.deadlocked))
        return made


MIN_FRAMES = 3
#: Frames below an exception do not show where a thread is now.
_THROWN = pattern(TABLES["lines"]["thrown"])
_KAFKA_NAME = pattern(TABLES["lines"]["named"])
_LOCK = re.compile(r"[ \t]*- ", re.ASCII)
WHAT = "stack of one thread"


def bare_stacks(text: str) -> list[Dump]:
    """For each stack with "kafka" in a frame, return a dump of one thread.

    Stacks with fewer than MIN_FRAMES (three) frames, and stack traces of exceptions, are left out.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    stacks: list[Dump] = []
    block, taken, above = Block(), set[int](), ""
    for number, line in enumerate([*lines, ""]):
        frame = BARE.match(line) or ASIDE.match(line)
        if frame:
            if not block.frames:
                block.line = number
            block.add(frame["method"], frame["location"].rpartition("/")[2])
            taken.add(number)
        elif _LOCK.match(line) and block.frames:
            taken.add(number)
        elif line.strip() or number == len(lines):
            if len(block.frames) >= MIN_FRAMES and block.telling and not _THROWN.match(above):
                named = _KAFKA_NAME.match(above)
                block.name = named["name"].strip() if named else ""
                stacks.append(dump_of(WHAT, [block], None, frozenset(taken), None))
            block, taken, above = Block(), set(), line
    return stacks


def may_begin_dump(text: str) -> bool:
    """True if the text has several lines and contains one of `LITERALS`, the texts that mark a dump."""
    return "\n" in text and any(literal in text for literal in LITERALS)


def dumps_in(text: str, alone: bool = True) -> list[Dump]:
    """Return all thread dumps in a text, in the order of the text.

    `alone`: True for a file or a pasted text, False for text from a log. In a log, frames without a thread's header
    come from an exception.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "[") and is_dump_document(text):
        dumps = dumps_of_document(parsed(text.lstrip("\ufeff")), text.count("\n") + 1)
        if dumps:
            return dumps
    # Most log lines contain none of `HINTS`, so the slow `scan` is skipped.
    dumps = scan(text) if (alone or "\n" in text) and any(hint in text for hint in HINTS) else []
    return dumps or (bare_stacks(text) if alone else [])
