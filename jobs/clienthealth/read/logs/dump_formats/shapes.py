"""The shapes of dumps that are read line by line: what begins a thread, what is a frame, what else belongs to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from clienthealth.read.logs.dump_formats.threads import Block, add_python
from clienthealth.read.logs.fields import DUMP_TITLE

Add = Callable[[Block, re.Match[str]], None]


def _add_java(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], match["location"].rpartition("/")[2])


def _add_forced(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"], f"line {match['line']}" if match["line"] else "")


def _add_j9(block: Block, match: re.Match[str]) -> None:
    block.add(match["method"].replace("/", "."), match["location"].partition("(")[0].rpartition("/")[2])


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


_NEVER = _pattern(r"(?!)")


@dataclass(frozen=True)
class Shape:
    """How a tool writes dumps.

    what      the tool, for people
    hints     texts of which one is in every dump of the shape
    header    the line that begins a thread: groups `name` and, where it says them, `key`, `state`, `cpu`
    frames    lines that are a frame, and how each is added
    state     a line that says the thread's state, or its CPU time: groups `state`, `cpu`
    other     other lines of a dump
    above     lines above the first thread; time: the one of them that says when (group 1, ms in group 2)
    title     the line that begins a dump; end: the one that ends it, where the shape has one
    python    are the frames Python's?
    """

    what: str
    hints: tuple[str, ...]
    header: re.Pattern[str]
    frames: tuple[tuple[re.Pattern[str], Add], ...]
    other: re.Pattern[str]
    state: re.Pattern[str] = _NEVER
    above: re.Pattern[str] = _NEVER
    time: re.Pattern[str] = _NEVER
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
_JAVA = ((_AT, _add_java), (_FORCED, _add_forced))
_STATE = _pattern(r"[ \t]*java\.lang\.Thread\.State: (?P<state>\w{1,40})")
_LOCKS = r"[ \t]*- |[ \t]*Locked (?:ownable )?synchronizers|[ \t]*Number of locked "
_STAMP = r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"

HOTSPOT = Shape(
    what="JVM thread dump",
    hints=('" #', "prio=", "tid=0x", "nid=", " - Thread t@", "java.lang.Thread.State: ", "Mounted virtual thread"),
    header=_pattern(
        r"[ \t]*(?:\"(?P<name>.{0,1000})\" (?=#\d|\[|daemon |prio=|os_prio=|cpu=|tid=|nid=|virtual|- Thread t@)"
        r"(?=(?:.*?(?P<key>#\d{1,19}|tid=\w{1,30}|t@\d{1,19}))?)(?=(?:.*? cpu=(?P<cpu>\d{1,15}(?:\.\d{1,6})?)ms)?)"
        r"|Mounted (?P<virtual>virtual thread #\d{1,19}))"
    ),
    frames=(*_JAVA, (BARE, _add_java), (ASIDE, _add_java)),
    state=_STATE,
    other=_pattern(
        rf"{_LOCKS}|[ \t]*Carrying virtual|JNI global|Found |=====|\"|[ \t]+(?:waiting to lock|which is held|in Object)"
        r"|Java stack information|[ \t]*(?:JavaThread state:|Thread: 0x|No compile task)|Threads class SMR"
        r"|_(?:java_thread|to_delete)_list|0x[0-9a-f]|\}|Heap\Z"
        r"|[ \t]+(?:garbage-first|region size|Metaspace|class space|PSYoung|ParOld|eden|from|to |object)"
    ),
    above=_pattern(
        rf"{_STAMP}\Z|\d{{1,10}}:\Z|.{{0,80}}{DUMP_TITLE}|Threads class SMR|_(?:java_thread|to_delete)_list"
        r"|[ \t]*0x[0-9a-f]|\}"
    ),
    time=_pattern(rf"{_STAMP}\Z"),
    title=DUMP_TITLE,
    end="JNI global",
)

THREAD_INFO = Shape(
    what="thread dump (ThreadInfo)",
    hints=(" Id=",),
    header=_pattern(
        r"[ \t]*\"(?P<name>.{0,1000})\" (?:daemon )?(?:prio=\d{1,3} )?(?P<key>Id=\d{1,19}) (?:in )?"
        r"(?P<state>[A-Z_]{3,20})\b"
    ),
    frames=_JAVA,
    other=_pattern(rf"{_LOCKS}|[ \t]*\.\.\.|[ \t]+\[|[ \t]*(?:cpu=|blocked)"),
)

TO_FILE = Shape(
    what="Thread.dump_to_file",
    hints=("\n#", "#"),
    header=_pattern(
        r"(?P<key>#\d{1,19}) \"(?P<name>.{0,1000})\"(?P<virtual> virtual)?(?: (?P<state>[A-Z_]{3,20}))?"
        r"(?: \d{4}-\S{1,40})?\Z"
    ),
    frames=((BARE, _add_java), (_AT, _add_java)),
    other=_pattern(_LOCKS),
    above=_pattern(rf"\d{{1,10}}:?\Z|{_STAMP}Z\Z|\d{{1,3}}(?:[.+-][\w.+-]{{1,60}})?\Z|Created "),
    time=_pattern(rf"{_STAMP}Z\Z"),
)

JCONSOLE = Shape(
    what="thread of JConsole",
    hints=("Stack trace:", "Total blocked:"),
    header=_pattern(r"[ \t]*Name: (?P<name>.{1,1000})\Z"),
    frames=((BARE, _add_java),),
    state=_pattern(r"[ \t]*State: (?P<state>[A-Z_]{3,20})"),
    other=_pattern(rf"{_LOCKS}|[ \t]*Total (?:blocked|waited)|[ \t]*Stack trace:"),
)

ALL_TRACES = Shape(
    what="thread dump (Thread.getAllStackTraces)",
    hints=("Thread[",),
    header=_pattern(
        r"[ \t]*Thread\[(?:(?P<key>#\d{1,19}),)?(?P<name>.{1,1000}),\d{1,3},[^\],]{0,300}\](?:[: ].{0,80})?\Z"
    ),
    frames=((BARE, _add_java),),
    state=_STATE,
    other=_pattern(_LOCKS),
)

FORCED = Shape(
    what="jstack -F",
    hints=("(state = ",),
    header=_pattern(r"[ \t]*Thread (?P<key>\d{1,19}): \(state = \w{1,40}\)(?P<name>)"),
    frames=((_FORCED, _add_forced),),
    other=_pattern(r"[ \t]*- |Deadlock Detection|No deadlocks"),
    above=_pattern(
        r"Attaching to|Debugger attached|Server compiler|JVM version is|Deadlock Detection|No deadlocks|Found |=====|\""
        r"|[ \t]+(?:waiting to lock|which is held)|[ \t]+waiting for"
    ),
)

OPENJ9 = Shape(
    what="OpenJ9 javacore",
    hints=("3XMTHREADINFO",),
    header=_pattern(
        r"3XMTHREADINFO +(?:\"(?P<name>.{0,1000})\"|Anonymous native thread)"
        r"(?=(?:.*?J9VMThread:(?P<key>0x\w{1,20}))?)(?=(?:.*?state:(?P<state>\w{1,3}))?)"
    ),
    frames=((_pattern(r"4XESTACKTRACE +at (?P<method>[^\s(]{1,1000})\((?P<location>[^)]{0,300})"), _add_j9),),
    state=_pattern(r"3XMCPUTIME +CPU usage total: (?P<cpu>\d{1,12}(?:\.\d{1,9})?) secs"),
    other=_pattern(r"\d[A-Z]{2}|NULL|-{3}"),
    above=_pattern(r"\d[A-Z]{2}|NULL|-{3}"),
    time=_pattern(r"1TIDATETIME(?:UTC)? +Date: +(\d{4}/\d\d/\d\d at \d\d:\d\d:\d\d)(?::(\d{1,3}))?"),
    title="0SECTION       TITLE",
    end="END OF DUMP",
)

FAULTHANDLER = Shape(
    what="Python faulthandler",
    hints=("(most recent call first):",),
    header=_pattern(
        r"[ \t]*(?:Current thread|Thread) (?P<key>0x\w{1,20})(?: \[(?P<name>.{0,300})\])? \(most recent call first\):"
    ),
    frames=((_FILE_LINE, add_python),),
    other=_pattern(r"[ \t]+(?:\.\.\.|<no Python frame>)|Extension modules:"),
    above=_pattern(r"Fatal Python error:|Timeout \(|Python runtime state"),
    python=True,
)

PY_SPY = Shape(
    what="py-spy dump",
    hints=("(idle", "(active"),
    header=_pattern(
        r"[ \t]*Thread (?P<key>\w{1,30})(?:/\w{1,30})? \((?P<state>(?:idle|active)(?:\+gil)?)\)"
        r"(?:: \"(?P<name>.{0,300})\")?\Z"
    ),
    frames=((_FUNCTION_FILE, add_python),),
    other=_pattern(r" {8,}"),
    above=_pattern(r"Process \d{1,10}: |Python v\d"),
    title="Process ",
    python=True,
)

SHAPES = (HOTSPOT, THREAD_INFO, TO_FILE, JCONSOLE, ALL_TRACES, FORCED, OPENJ9, FAULTHANDLER, PY_SPY)
#: Texts of which one is in every dump of one of the shapes. That of `dump_to_file` says nothing: its time line does.
HINTS = (*dict.fromkeys(hint for shape in SHAPES if shape is not TO_FILE for hint in shape.hints), "\n#")
#: What tools call a state → what the JVM calls it; what is not here says nothing.
STATES = {"active": "RUNNABLE", "active+gil": "RUNNABLE", "R": "RUNNABLE", "B": "BLOCKED"}
