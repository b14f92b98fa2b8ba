"""Parse thread dumps in all formats that tools write, as text or as JSON.

`scan.py` reads text. Each format of text is a `Shape` in `shapes.py`: the JVM's own dump with or without title,
`Thread.dump_to_file`, JConsole, `jstack -F`, OpenJ9's javacore, `Thread.getAllStackTraces`, Python's `faulthandler`,
`py-spy`. `scan.py` also reads the frames of a single stack without a thread's header above them. `threads.py` reads
the JSON of `Thread.dump_to_file` and `py-spy`, and lists of ThreadInfo from Spring Boot or Jolokia.

What a dump does not contain stays unknown: its time (`Dump.ts_ms` is None, so only the order of dumps in the text is
known), a thread's state or name. No function of this package raises an error, whatever the text.
"""

from __future__ import annotations

from clienthealth.model.telemetry import Dump
from clienthealth.read.formats._json_layouts import parsed
from clienthealth.read.logs.dump_formats.scan import DEADLOCK as DEADLOCK
from clienthealth.read.logs.dump_formats.scan import HOLDER as HOLDER
from clienthealth.read.logs.dump_formats.scan import bare_stacks, scan
from clienthealth.read.logs.dump_formats.shapes import HINTS
from clienthealth.read.logs.dump_formats.threads import TABLES
from clienthealth.read.logs.dump_formats.threads import dumps_of_document as dumps_of_document
from clienthealth.read.logs.dump_formats.threads import is_dump_document as is_dump_document

#: Every dump inside a log, in whatever format, contains at least one of these texts. Text with none of them is skipped.
LITERALS: tuple[str, ...] = tuple(TABLES["literals"]["amid_a_log"])
#: Every dump in whatever format contains at least one of these texts, even if the dump is a string within JSON.
SHIPPED: tuple[str, ...] = (*(text.removesuffix('"') for text in LITERALS), *TABLES["literals"]["shipped"])


def may_begin_dump(text: str) -> bool:
    """True if the text may be a dump: it has several lines and a text that is typical of dumps (LITERALS)."""
    return "\n" in text and any(literal in text for literal in LITERALS)


def dumps_in(text: str, alone: bool = True) -> list[Dump]:
    """Return all thread dumps in a text, in the order of the text.

    `alone`: True for a file or a pasted text, False for text from a log. In a file or pasted text, frames without a
    thread's header above them count as a dump of one thread; in a log they are the stack trace of an exception.
    """
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "[") and is_dump_document(text):
        dumps = dumps_of_document(parsed(text.lstrip("\ufeff")), text.count("\n") + 1)
        if dumps:
            return dumps
    # Scan only text with a hint of a dump (HINTS): most log lines have none.
    dumps = scan(text) if (alone or "\n" in text) and any(hint in text for hint in HINTS) else []
    return dumps or (bare_stacks(text) if alone else [])
