"""Frames of one stack without any line that says whose they are: a paste out of a dump."""

from __future__ import annotations

import re

from clienthealth.model.telemetry import Dump
from clienthealth.read.logs.dump_formats._threads import Block, dump_of
from clienthealth.read.logs.dump_formats.shapes import ASIDE, BARE

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
