"""Define each text format (shape) of thread dumps by patterns of the lines that a tool writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clienthealth.model.tables import converted
from clienthealth.read.logs.dump_formats.threads import TABLES, Pattern, pattern

_NEVER = pattern(r"(?!)")


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format of a tool's dumps, as patterns of lines.

    `what`    the tool's name, as users see it
    `hints`   texts; every dump of the shape contains at least one of them
    `header`  matches the first line of a thread, with the group `name` and perhaps `key`, `virtual`, `state` and `cpu`
    `frames`  names of the patterns in `threads.FRAMES` that match the tool's frames
    `state`   matches a line with the thread's state or CPU time (groups `state` and `cpu`)
    `other`   matches the remaining lines of a dump
    `above`   matches the lines before the first thread
    `time`    matches the line with the dump's time above the first thread (group 1: time; group 2: milliseconds)
    `title`   text in the first line of a dump
    `end`     text in the last line of a dump; '' if the tool writes no such line
    `python`  True if the frames are Python's
    """

    what: str
    hints: tuple[str, ...]
    header: Pattern
    frames: tuple[str, ...]
    other: Pattern
    state: Pattern = _NEVER
    above: Pattern = _NEVER
    time: Pattern = _NEVER
    title: str = "\0"
    end: str = ""
    python: bool = False


_BY_NAME = converted(
    TABLES["shape"], dict[str, Shape], "dump_formats/shapes.toml", lambda _, expression: pattern(expression)
)
SHAPES = tuple(_BY_NAME.values())
HOTSPOT, _TO_FILE = _BY_NAME["hotspot"], _BY_NAME["to-file"]
#: Every dump contains one of these texts; dumps by `Thread.dump_to_file` contain "\n#".
HINTS = (*dict.fromkeys(hint for shape in SHAPES if shape is not _TO_FILE for hint in shape.hints), "\n#")
STATES: Mapping[str, str] = TABLES["states"]
