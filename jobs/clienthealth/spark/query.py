"""The one streaming query: topics → decode → shuffle by bucket → step → sinks; and topics as Spark reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from clienthealth.measure.packed import Chunk, encode
from clienthealth.modes import catalogue
from clienthealth.platform.kafka import java_options
from clienthealth.platform.self_monitoring import QUERY
from clienthealth.read.logs.events import literals
from clienthealth.settings import Settings
from clienthealth.spark.decoding import COUNTS, DECODED, RAW, compressed, decoder
from clienthealth.spark.stepping import NO_COUNTS, ROWS, STATE, stepper


def raw(spark: SparkSession, settings: Settings, limit: int = 0) -> DataFrame:
    """All input topics as rows of RAW. A record that is too large loses its value here, before it reaches Python.

    Metrics and logs are sources of their own, each with its own bound of a batch: however many log lines wait, a batch
    reads the metrics that wait. `limit`: a lower bound than the settings say.
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
    """The rows to publish, as a stream. `opened`: open incidents by bucket, see `stepper`; `numbers`: `numbers_of`."""
    decoded = raw(spark, settings, limit).mapInArrow(decoder(settings, literals(catalogue()), numbers), DECODED)
    # Time passes in every bucket, also where nothing arrives.
    buckets = [*(numbers or range(settings.monitor.buckets)), COUNTS]
    nothing = F.when(F.col("bucket") == COUNTS, F.lit(bytearray(NO_COUNTS))).otherwise(
        F.lit(bytearray(compressed(encode(Chunk()))))
    )
    passing = ticks(spark).select(F.explode(F.array(*map(F.lit, buckets))).alias("bucket")).withColumn("data", nothing)
    return (
        decoded.unionByName(passing)
        .groupBy("bucket")
        .applyInPandasWithState(
            stepper(settings, opened, numbers),
            ROWS,
            STATE,
            "update",
            GroupStateTimeout.NoTimeout,
        )
    )


def checkpoint_of(settings: Settings) -> str:
    """Folder or URL of the query's checkpoint."""
    return f"{settings.monitor.checkpoint}/{QUERY}"


def start(
    spark: SparkSession,
    settings: Settings,
    batch: Callable[[DataFrame, int], None],
    opened: Mapping[int, bytes],
    numbers: Sequence[int],
    limit: int = 0,
) -> StreamingQuery:
    """Start the query; it goes on where its checkpoint stands. `limit`: so many records of each kind in a batch."""
    return (
        rows(spark, settings, opened, numbers, limit)
        .writeStream.queryName(QUERY)
        .outputMode("update")
        .option("checkpointLocation", checkpoint_of(settings))
        # How often is looked for records once a batch is done; a batch of few records takes its time (`Batch`).
        .trigger(processingTime="1 second")
        .foreachBatch(batch)
        .start()
    )


def connection(settings: Settings) -> Mapping[str, str]:
    """Spark options that reach the brokers: addresses and security, as the Java client names them.

    Raises SettingsError.
    """
    options = {f"kafka.{name}": value for name, value in java_options(settings.kafka.options).items()}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **options}


def stream(spark: SparkSession, settings: Settings, topics: Sequence[str], limit: int = 0) -> DataFrame:
    """The topics as a stream, from `start_seconds_back` on where the checkpoint does not say where to go on.

    A topic that does not exist yet is waited for while the others are read. Records that retention deleted before they
    were read are passed over, and `losses` counts them: a monitor that stops at a gap is blind. `limit`: records in a
    batch, where that is less than the settings say.
    """
    start_ms = int((time.time() - settings.monitor.start_seconds_back) * 1000)
    most = settings.monitor.max_offsets_per_trigger
    # The client unpacks records beyond the end of a batch too: who looks for one that is deadly wants no more than it.
    fetching = {"kafka.max.poll.records": str(min(limit or POLLED, POLLED))}
    return (
        spark.readStream.format("kafka")
        .options(**{**fetching, **connection(settings)})
        .option("subscribePattern", "|".join(rf"\Q{topic}\E" for topic in topics) or NO_TOPIC)
        .option("startingTimestamp", str(max(start_ms, 0)))
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("maxOffsetsPerTrigger", str(min(limit or most, most)))
        .option("failOnDataLoss", "false")
        .option("includeHeaders", "true")
        .load()
    )


def ticks(spark: SparkSession) -> DataFrame:
    """A row a second, of no topic: it makes a batch where nothing arrives. Old ones are left out."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", "1").option("numPartitions", "1").load()
    return rows.filter(F.col("timestamp") > F.current_timestamp() - F.expr(f"INTERVAL {TICKS_SECONDS} SECONDS"))


#: After a night without the monitor there are thousands.
TICKS_SECONDS = 30
NO_TOPIC = "(?!)"

#: Records that the client hands over at once. Spark seeks before each poll, so that what a fetch of 1 MB holds beyond
#: is fetched and unpacked again: 50 cost half of a backlog's time. They are all in memory: where records are so large
#: that the heap ends, fewer are read at a time (`poison`).
POLLED = 2000
