"""Text in any layout, the last resort: whatever can be printed and is not the beginning of a JSON object.

A line of text says at most when, at what level, in which thread and by which logger; who the process is, only headers
or key can tell. Records with control characters are not text but something binary that happens to be valid UTF-8.
"""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format, Record

_VISIBLE = re.compile(r"\S", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def is_text(record: Record) -> bool:
    """Can the value be read as lines of text?"""
    text = record.text
    if text.lstrip(" ").startswith("{") or not _VISIBLE.search(text):
        return False
    return text.isprintable() or not _CONTROL.search(text)


FORMAT = Format("plain_text", "logs", 100, is_text, lambda record: [LogLine(message=record.text)])
