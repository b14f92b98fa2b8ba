"""The only streaming query: it reads topics, decodes records, and judges clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from clienthealth.measure.packed import Chunk, encode
from clienthealth.modes import catalogue
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings
from clienthealth.spark.decoding import COUNTS, DECODED, RAW, compressed, decoder
from clienthealth.spark.self_monitoring import QUERY
from clienthealth.spark.stepping import NO_COUNTS, ROWS, STATE, stepper
from clienthealth.spark.topics import stream, ticks


def raw(spark: SparkSession, settings: Settings, limit: int = 0) -> DataFrame:
    """Return the records of all input topics, with the columns RAW.

    If a record is too large to decode, its column `value` is null. `limit`: maximum number of records per source and
    batch; 0 means the settings' limit.
    """
    too_large = F.octet_length("value") > settings.monitor.max_record_bytes
    columns = {
        "value": F.when(too_large, None).otherwise(F.col("value")),
        "size": F.when(too_large, F.octet_length("value")),
        "headers": F.when(F.size("headers") > 0, F.to_json("headers")),
        "ts_ms": F.unix_millis("timestamp"),
    }
    metrics = dict.fromkeys(settings.topics.metrics)
    logs = [topic for topic in dict.fromkeys(settings.topics.logs) if topic not in metrics]
    records = stream(spark, settings, list(metrics), limit).unionByName(stream(spark, settings, logs, limit))
    return records.select(*(columns.get(name, F.col(name)).alias(name) for name in RAW))


def rows(
    spark: SparkSession, settings: Settings, opened: Mapping[int, bytes], numbers: Sequence[int], limit: int = 0
) -> DataFrame:
    """Return the output rows of the stateful step, as a stream with the columns ROWS.

    `opened`: the open incidents of each bucket (a set of processes), as `by_bucket` returns them. `numbers`: for each
    bucket, the key of the bucket's state in Spark. `limit`: maximum number of records per source and batch; 0
    means the settings' limit.
    """
    decoded = raw(spark, settings, limit).mapInArrow(decoder(settings, literals(catalogue()), numbers), DECODED)
    # Each tick sends an empty chunk to every bucket, so that silent clients are judged.
    buckets = [*(numbers or range(settings.monitor.buckets)), COUNTS]
    empty = F.lit(bytearray(compressed(encode(Chunk()))))
    nothing = F.when(F.col("bucket") == COUNTS, F.lit(bytearray(NO_COUNTS))).otherwise(empty)
    passing = ticks(spark).select(F.explode(F.array(*map(F.lit, buckets))).alias("bucket")).withColumn("data", nothing)
    return (
        decoded.unionByName(passing)
        .groupBy("bucket")
        .applyInPandasWithState(stepper(settings, opened, numbers), ROWS, STATE, "update", GroupStateTimeout.NoTimeout)
    )


def checkpoint_of(settings: Settings) -> str:
    """Return the folder or URL of the query's checkpoint."""
    return f"{settings.monitor.checkpoint}/{QUERY}"


def start(
    spark: SparkSession,
    settings: Settings,
    batch: Callable[[DataFrame, int], None],
    opened: Mapping[int, bytes],
    numbers: Sequence[int],
    limit: int = 0,
) -> StreamingQuery:
    """Start the query from its checkpoint. `batch` is called with each batch's output rows and number.

    The other parameters are those of `rows`.
    """
    return (
        rows(spark, settings, opened, numbers, limit)
        .writeStream.queryName(QUERY)
        .outputMode("update")
        .option("checkpointLocation", checkpoint_of(settings))
        .trigger(processingTime="1 second")
        .foreachBatch(batch)
        .start()
    )
