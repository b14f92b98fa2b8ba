"""Our own format: one JSON object per client and moment, metrics by the attribute names of the Java client.

`decode.py` reads it on its fast path: one parse into exactly the fields that are needed, without maps. A metric that
is no number (NaN, infinite, negative, text, null, an object) is unknown, and the others of the record still count.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, MapType, StringType, StructField, StructType

from clienthealth.formats import (
    CLIENT,
    METRICS,
    TOPIC_READING,
    Format,
    Record,
)
from clienthealth.formats._expr import interval, let, millis

INTERVAL_MS = 10_000

#: The field that holds the text again where that is not wholly JSON of SCHEMA: a parser gives what it could read.
DOUBTS = "_doubts"

#: Times are read as double, so that 1795208640123.0 is a time too.
SCHEMA = StructType(
    [
        StructField("ts", DoubleType()),
        StructField("client", CLIENT),
        StructField("metrics", METRICS),
        StructField("topics", ArrayType(TOPIC_READING)),
        StructField("config", MapType(StringType(), StringType())),
        StructField("interval_ms", DoubleType()),
        StructField(DOUBTS, StringType()),
    ]
)


def parsed(text: Column) -> Column:
    """The record as a struct of SCHEMA. Of any other JSON, and of what is no JSON, all fields are null."""
    return F.from_json(text, SCHEMA, {"columnNameOfCorruptRecord": DOUBTS})


def is_canonical(parsed: Column) -> Column:
    """Are the two fields there that make a record canonical? (Never null.)"""
    return parsed["client"].isNotNull() & parsed["metrics"].isNotNull()


def snapshot(parsed: Column) -> Column:
    """A struct of SNAPSHOT from a parsed record. What of its metrics is not known, `decode.py` takes out."""
    return F.struct(
        millis(parsed["ts"]).alias("ts_ms"),
        parsed["client"].alias("client"),
        parsed["metrics"].alias("metrics"),
        parsed["topics"].alias("topics"),
        parsed["config"].alias("config"),
        interval(parsed["interval_ms"], F.lit(INTERVAL_MS)).alias("interval_ms"),
        F.lit(False).alias("delta"),
        F.lit(None).cast("string").alias("error"),
    )


def _recognise(record: Record) -> Column:
    keys = F.coalesce(record.json_keys, F.array().cast("array<string>"))
    return F.array_contains(keys, "client") & F.array_contains(keys, "metrics")


def _decode(record: Record) -> Column:
    return let(parsed(record.text), lambda p: F.when(is_canonical(p), F.array(snapshot(p))))


FORMAT = Format(
    name="canonical",
    stream="metrics",
    order=0,
    recognise=_recognise,
    decode=_decode,
    interval_ms=INTERVAL_MS,
    groups=True,
)
