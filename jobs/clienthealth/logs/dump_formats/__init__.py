"""Thread dumps in any shape in which people attach them → the shape of `jstack`, which `logs.dumps` reads.

For whole texts (a file, a paste), not for the stream: there dumps come as `jstack` writes them. A shape whose lines
tell threads from frames is a `Shape` in `shapes.py` (the JVM's own with or without title, `Thread.dump_to_file`,
JConsole, `jstack -F`, OpenJ9's javacore, `Thread.getAllStackTraces`, Python's `faulthandler`, `py-spy`); frames of a
single stack without a thread above them are `bare.py`; JSON is `documents.py`.

What a dump does not say stays unknown: its time (`EmbeddedDump.ts_ms` None; the order is that of the text), a thread's
state, its name. Nothing here raises, whatever the text holds.
"""

from __future__ import annotations

from clienthealth.logs.dump_formats._threads import EmbeddedDump
from clienthealth.logs.dump_formats.bare import bare_stacks
from clienthealth.logs.dump_formats.documents import dumps_of_document, is_dump_document
from clienthealth.logs.dump_formats.scan import scan
from clienthealth.logs.dump_formats.shapes import HINTS

__all__ = ["LITERALS", "EmbeddedDump", "dumps_in", "is_dump_document", "may_hold_dumps"]

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


def may_hold_dumps(text: str) -> bool:
    """Is it worth looking for dumps in the text? Cheap: a few searches for literals."""
    return any(hint in text for hint in HINTS)


def dumps_in(text: str, alone: bool = True) -> list[EmbeddedDump]:
    """All thread dumps in a text, in its order.

    `alone`: the text is all there is (a file, a paste); then frames without a thread above them count as a stack, too.
    In a log they are the stack trace of an exception.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "[") and is_dump_document(text):
        dumps = dumps_of_document(text)
        if dumps:
            return dumps
    dumps = scan(text) if may_hold_dumps(text) else []
    return dumps or (bare_stacks(text) if alone else [])
