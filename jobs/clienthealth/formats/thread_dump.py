"""A whole thread dump as one record: `jstack`, `jcmd Thread.print`, or what a JVM writes on SIGQUIT.

Its time is in the line above its title, without a zone: it is taken as UTC.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Format, Record
from clienthealth.formats.plain_text import is_text
from clienthealth.logs.fields import is_dump, log


def _recognise(record: Record) -> Column:
    return is_dump(record.text) & is_text(record)


FORMAT = Format("thread_dump", "logs", 2, _recognise, lambda record: F.array(log(message=record.text)))
