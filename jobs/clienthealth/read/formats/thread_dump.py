"""A thread dump as one record: text in any known format, or a JSON document.

A dump without a time gets the record's time.
"""

from __future__ import annotations

from clienthealth.model.telemetry import LogLine
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats.plain_text import is_text
from clienthealth.read.logs.dump_formats import dumps_of_document, is_dump_document, may_begin_dump


def _recognise(record: Record) -> bool:
    if record.document is not None:
        return is_dump_document(record.text)
    return may_begin_dump(record.text) and is_text(record)


def _decode(record: Record) -> list[LogLine]:
    if record.document is None:
        return [LogLine(message=record.text)]
    return [LogLine(ts_ms=dump.ts_ms, dumps=[dump]) for dump in dumps_of_document(record.document)]


FORMAT = Format("thread_dump", "logs", 2, _recognise, _decode)
