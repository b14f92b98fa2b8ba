"""The shapes of dumps that are read line by line: what begins a thread, what is a frame, what else belongs to it.

They stand in `shapes.toml`; here are the frames that they have, and how each is added to its thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from clienthealth.model.tables import converted
from clienthealth.read.logs.dump_formats.threads import TABLES, Block, add_python

Add = Callable[[Block, re.Match[str]], None]


def _add_java(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], match["location"].rpartition("/")[2])


def _add_forced(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], f"line {match['line']}" if match["line"] else "")


def _add_j9(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"].replace("/", "."), match["location"].partition("(")[0].rpartition("/")[2])


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


Pattern = re.Pattern[str]
_NEVER = _pattern(r"(?!)")


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


_LOADER = r"(?:[^\s(/]{0,200}/(?!0x)){0,2}"
_AT = _pattern(rf"[ \t]*at {_LOADER}(?P<method>[^\s(][^(]{{0,999}})\((?P<location>[^()]{{0,300}})")
_LOCATION = (
    r"(?:[\w.]{1,80}(?:@[\w.+-]{1,40})?/)?"
    r"(?:Native Method|Unknown Source|Redefined|[^\s()]{1,200}\.\w{1,10}(?::-?\d{1,7})?)"
)
#: A frame without `at`: only what can be nothing else.
BARE = _pattern(
    rf"[ \t]*(?:at )?{_LOADER}(?P<method>[\w$][\w$.<>/+-]{{2,999}})\((?P<location>{_LOCATION})\)[ \t~\[\]\w.?!:+-]*\Z"
)
#: The same where a profiler shows it: the place stands behind the arguments.
ASIDE = _pattern(
    r"[ \t]*(?:at )?(?P<method>[\w$][\w$.<>/+-]{2,999})\([^()]{0,300}\)[ \t]+"
    r"(?P<location>(?:line:? ?\d{1,7}|[\w$]{1,200}\.(?:java|scala|kt|groovy|clj)(?::\d{1,7})?))[ \t]*\Z"
)
_FORCED = _pattern(r"[ \t]*- (?P<method>[\w$.<>/]{3,999})\([^()]{0,999}\) @bci=-?\d{1,7}(?:, line=(?P<line>\d{1,7}))?")
_FILE_LINE = _pattern(r"[ \t]+File \"(?P<file>[^\"]{1,1000})\", line (?P<line>\d{1,7}) in (?P<method>.{1,300})\Z")
_FUNCTION_FILE = _pattern(r" {4}(?P<method>[^\s(][^(]{0,299}) \((?P<file>[^()]{1,1000}?)(?::(?P<line>\d{1,7}))?\)\Z")
_J9 = _pattern(r"4XESTACKTRACE +at (?P<method>[^\s(]{1,1000})\((?P<location>[^)]{0,300})")
FRAMES: Mapping[str, tuple[Pattern, Add]] = {
    **{
        "at": (_AT, _add_java),
        "bare": (BARE, _add_java),
        "aside": (ASIDE, _add_java),
        "forced": (_FORCED, _add_forced),
    },
    **{"j9": (_J9, _add_j9), "file-line": (_FILE_LINE, add_python), "function-file": (_FUNCTION_FILE, add_python)},
}


def _compiled(_: type, text: str) -> Pattern:
    for name, part in TABLES["parts"].items():
        text = text.replace(f"%{name}%", part)
    return _pattern(text.replace("\n", ""))


_BY_NAME = converted(TABLES["shape"], dict[str, Shape], "dump_formats/shapes.toml", _compiled)
SHAPES = tuple(_BY_NAME.values())
HOTSPOT, _TO_FILE = _BY_NAME["hotspot"], _BY_NAME["to-file"]
#: Texts of which one is in every dump of one of the shapes. That of `dump_to_file` says nothing: its time line does.
HINTS = (*dict.fromkeys(hint for shape in SHAPES if shape is not _TO_FILE for hint in shape.hints), "\n#")
#: What tools call a state → what the JVM calls it; what is not here says nothing.
STATES: Mapping[str, str] = TABLES["states"]
