"""Text in any layout, the last resort: whatever can be printed and is not the beginning of a JSON object.

A line of text says at most when, at what level, in which thread and by which logger; who the process is, only headers
or key can tell. Records with control characters are not text but something binary that happens to be valid UTF-8.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Format, Record
from clienthealth.logs.fields import log


def is_text(record: Record) -> Column:
    """Can the value be read as lines of text?"""
    text = record.text
    return F.coalesce(
        ~F.ltrim(text).startswith("{") & text.rlike(r"\S") & ~text.rlike(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]"), F.lit(False)
    )


def _decode(record: Record) -> Column:
    return F.array(log(message=record.text))


FORMAT = Format("plain_text", "logs", 100, is_text, _decode)
