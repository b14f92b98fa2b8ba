"""Thread dumps of any shape in which they are written, shipped or attached → their threads.

A shape whose lines tell threads from frames is a `Shape` in `shapes.py` (the JVM's own with or without title,
`Thread.dump_to_file`, JConsole, `jstack -F`, OpenJ9's javacore, `Thread.getAllStackTraces`, Python's `faulthandler`,
`py-spy`). JSON (`Thread.dump_to_file`, lists of ThreadInfo of Spring Boot or Jolokia, py-spy) and frames of a single
stack without a thread above them are read here.

What a dump does not say stays unknown: its time (`Dump.ts_ms` None; the order is that of the text), a thread's
state, its name. Nothing here raises, whatever the text holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clienthealth.model.telemetry import Dump
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs.dump_formats.scan import DEADLOCK as DEADLOCK
from clienthealth.read.logs.dump_formats.scan import HOLDER as HOLDER
from clienthealth.read.logs.dump_formats.scan import scan
from clienthealth.read.logs.dump_formats.shapes import ASIDE, BARE, HINTS
from clienthealth.read.logs.dump_formats.threads import Block, add_function, dump_of
from clienthealth.read.logs.times import time_ms

MAX_DEPTH = 8


def is_dump_document(text: str) -> bool:
    """May this JSON be a thread dump? By the names of its fields, without parsing it."""
    return (
        '"threadContainers"' in text
        or ('"stackTrace"' in text and '"threadState"' in text)
        or ('"short_filename"' in text and '"thread_name"' in text)
    )


def dumps_of_document(document: object, lines: int = 1) -> list[Dump]:
    """The dump in a JSON document, if there is one that can be read. `lines`: of how many lines of text it is."""
    blocks = list(_blocks(document, 0))
    if not blocks:
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
            add_function(block, str(file), frame["name"], frame.get("line"))
    return block


def _thread(document: dict[str, Any]) -> Block:
    name = str(document.get("name") or "") or f"virtual thread #{document['tid']}"
    block = Block(name=name, state=str(document.get("state") or ""))
    for frame in document["stack"]:
        match = BARE.match(frame) if isinstance(frame, str) else None
        if match:
            block.add(match["method"], match["location"].rpartition("/")[2])
    return block


MIN_FRAMES = 3
#: The line that heads the stack trace of an exception, which is no thread's present place.
_THROWN = re.compile(
    r".{0,200}?(?:\b[\w.$]{0,200}(?:Exception|Error|Throwable|Failure)\b|Caused by: |Suppressed: )", re.ASCII
)
_KAFKA_NAME = re.compile(
    r"[ \t\"'*`#]*(?:Name: |Thread )?(?P<name>(?:kafka-|ConsumerFetcherThread-)[^\"\n]{0,300}?)"
    r"[\"'*`: \t]*(?:<--- [^\n]{0,80}|\[\d{1,9}\] \([A-Z_]{3,20}\))?[ \t]*\Z",
    re.ASCII,
)
_LOCK = re.compile(r"[ \t]*- ", re.ASCII)
WHAT = "stack of one thread"


def bare_stacks(text: str) -> list[Dump]:
    """The stacks in a text that are no exception's; each is a dump of one thread."""
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


#: One of these stands in every dump of a shape that can be in the middle of a long log.
LITERALS = (
    "Full thread dump ",
    "java.lang.Thread.State: ",
    "3XMTHREADINFO",
    "(most recent call first):",
    ' (active): "',
    ' (idle): "',
    "Total blocked: ",
)
#: One of these stands in every dump of any shape, also where that is text within JSON.
SHIPPED = (
    *(literal.removesuffix('"') for literal in LITERALS),
    " (active)",
    '" Id=',
    "Thread[",
    ": (state = ",
    '#1 "main"',
    '#1 \\"main\\"',
    " java.base",
    "threadContainers",
    "stackTrace",
    "short_filename",
)


def may_begin_dump(text: str) -> bool:
    """Does the text look like a dump and nothing else? Cheap."""
    return "\n" in text and any(literal in text for literal in LITERALS)


def may_hold_dumps(text: str) -> bool:
    """Is it worth looking for dumps in the text? Cheap: a few searches for literals."""
    if "\n" in text and any(hint in text for hint in HINTS):
        return True
    return text[:1] in ("{", "[") and is_dump_document(text)


def dumps_in(text: str, alone: bool = True) -> list[Dump]:
    """All thread dumps in a text, in its order.

    `alone`: the text is all there is (a file, a paste); then frames without a thread above them count as a stack, too.
    In a log they are the stack trace of an exception.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "[") and is_dump_document(text):
        dumps = dumps_of_document(parsed(text.lstrip("\ufeff")), text.count("\n") + 1)
        if dumps:
            return dumps
    dumps = scan(text) if any(hint in text for hint in HINTS) else []
    return dumps or (bare_stacks(text) if alone else [])
