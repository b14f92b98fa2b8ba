"""The shapes of dumps that are read line by line: the header of a thread, its frames, and its other lines.

`shapes.toml` lists the shapes; `threads.py` defines the frames that they name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clienthealth.model.tables import converted
from clienthealth.read.logs.dump_formats.threads import TABLES, Pattern, pattern

_NEVER = pattern(r"(?!)")


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a tool writes dumps.

    what      the tool, for people
    hints     every dump of the shape contains at least one of these texts
    header    the first line of a thread: groups `name` and, if present, `key`, `state`, `cpu`
    frames    names of FRAMES: the lines that are frames
    state     a line with the thread's state, or its CPU time: groups `state`, `cpu`
    other     other lines of a dump
    above     lines above the first thread
    time      the line above the first thread that has the dump's time (group 1, ms in group 2)
    title     the first line of a dump
    end       the last line of a dump; '' if the shape has no such line
    python    True if the frames are Python's
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
#: Every dump of any of the shapes contains one of these texts. `Thread.dump_to_file` has no typical text, so its line
#: with the time is used.
HINTS = (*dict.fromkeys(hint for shape in SHAPES if shape is not _TO_FILE for hint in shape.hints), "\n#")
#: Maps a tool's name of a thread state to the JVM's name. Other states are ignored.
STATES: Mapping[str, str] = TABLES["states"]
