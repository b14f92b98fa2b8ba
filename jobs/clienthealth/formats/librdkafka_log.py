"""librdkafka's own lines on standard error: `%severity|seconds|facility|handle| [thrd:name]: text`."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import Format, Record
from clienthealth.logs.fields import log


def _recognise(record: Record) -> Column:
    return F.coalesce(
        record.text.startswith("%") & record.text.rlike(r"^%\d\|\d{1,12}\.\d{1,9}\|\w{1,40}\|"), F.lit(False)
    )


def _decode(record: Record) -> Column:
    return F.array(log(message=record.text))


FORMAT = Format("librdkafka_log", "logs", 3, _recognise, _decode)
