"""Printable text in any layout, unless the text begins with `{`. This format is tried last.

This format has no field for the process, so the record's headers or key must name the process.
"""

from __future__ import annotations

import re

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format, Record

_VISIBLE = re.compile(r"\S", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def is_text(record: Record) -> bool:
    """True if the value is visible text without control characters, and does not begin with `{`."""
    text = record.text
    if text.lstrip(" ").startswith("{") or not _VISIBLE.search(text):
        return False
    return text.isprintable() or not _CONTROL.search(text)


FORMAT = Format("plain_text", "logs", 100, is_text, lambda record: [LogLine(message=record.text)])
