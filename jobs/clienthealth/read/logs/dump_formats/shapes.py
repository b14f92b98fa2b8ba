"""The shapes of dumps that are read line by line: what begins a thread, what is a frame, what else belongs to it.

They stand in `shapes.toml`; the frames that they name, in `threads.py`.
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
    hints     texts of which one is in every dump of the shape
    header    the line that begins a thread: groups `name` and, where it says them, `key`, `state`, `cpu`
    frames    names of FRAMES: which lines are a frame
    state     a line that says the thread's state, or its CPU time: groups `state`, `cpu`
    other     other lines of a dump
    above     lines above the first thread; time: the one of them that says when (group 1, ms in group 2)
    title     the line that begins a dump; end: the one that ends it, where the shape has one
    python    are the frames Python's?
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


def _compiled(_: type, text: str) -> Pattern:
    for name, part in TABLES["parts"].items():
        text = text.replace(f"%{name}%", part)
    return pattern(text.replace("\n", ""))


_BY_NAME = converted(TABLES["shape"], dict[str, Shape], "dump_formats/shapes.toml", _compiled)
SHAPES = tuple(_BY_NAME.values())
HOTSPOT, _TO_FILE = _BY_NAME["hotspot"], _BY_NAME["to-file"]
#: Texts of which one is in every dump of one of the shapes. That of `dump_to_file` says nothing: its time line does.
HINTS = (*dict.fromkeys(hint for shape in SHAPES if shape is not _TO_FILE for hint in shape.hints), "\n#")
#: What tools call a state → what the JVM calls it; what is not here says nothing.
STATES: Mapping[str, str] = TABLES["states"]
