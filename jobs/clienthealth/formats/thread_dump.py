"""A whole thread dump as one record: `jstack`, `jcmd Thread.print`, or what a JVM writes on SIGQUIT.

Its time is in the line above its title, without a zone: it is taken as UTC.
"""

from __future__ import annotations

from clienthealth.formats import Format, Record
from clienthealth.formats.plain_text import is_text
from clienthealth.logs.fields import is_dump
from clienthealth.model.telemetry import LogLine


def _recognise(record: Record) -> bool:
    return is_dump(record.text) and is_text(record)


FORMAT = Format("thread_dump", "logs", 2, _recognise, lambda record: [LogLine(message=record.text)])
