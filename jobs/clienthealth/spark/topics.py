"""Read and write Kafka topics with Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.platform.logins import java_options
from clienthealth.settings import Settings
from clienthealth.spark.stepping import GZIP_LEVEL, SENT_BYTES


def connection(settings: Settings) -> Mapping[str, str]:
    """Return Spark's options for the connection to the brokers: the Java client's options with the prefix `kafka.`.

    The monitor's own clients push no metrics, so that the monitor does not judge itself. Raises SettingsError if the
    options are wrong.
    """
    options = {f"kafka.{name}": value for name, value in java_options(settings.kafka.options).items()}
    ours = {"kafka.client.id": "kafka-health-monitor", "kafka.enable.metrics.push": "false"}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **ours, **options}


def stream(spark: SparkSession, settings: Settings, topics: Sequence[str], limit: int = 0) -> DataFrame:
    """Return a stream of the topics' records. Without a checkpoint, the stream begins `start_seconds_back` before now.

    A missing topic is read as soon as it exists. Deleted records are skipped. A batch reads at most
    `max_offsets_per_trigger` records of the stream, and at most `limit` records if `limit` is not 0.
    """
    start_ms = int((time.time() - settings.monitor.start_seconds_back) * 1000)
    most = settings.monitor.max_offsets_per_trigger
    # Limit the records of a poll, too. A larger poll could read beyond the last record of the batch, and could fail on
    # a damaged record there. The module `poison` looks for damaged records only in the batch.
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
    """Return a stream with one row a second, so that batches run even without input.

    Rows older than TICKS_SECONDS are left out.
    """
    rows = spark.readStream.format("rate").option("rowsPerSecond", "1").option("numPartitions", "1").load()
    return rows.filter(F.unix_millis("timestamp") > F.expr(f"{_CLOCK} - {1000 * TICKS_SECONDS}"))


#: TICKS_SECONDS: maximum age (s) of ticks. Without a maximum age, the first batch after hours of downtime would read
#: thousands of ticks.
TICKS_SECONDS = 30
#: With `current_timestamp()`, Spark would compile the code of each batch anew.
_CLOCK = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"
NO_TOPIC = "(?!)"

#: POLLED: maximum number of records per poll. Spark seeks before each poll. With a small maximum, many records would
#: therefore be fetched several times.
POLLED = 2000

#: Without compression, the record of a group with 10,000 partitions exceeds Kafka's default limits.
SENDING = {
    "kafka.compression.type": "gzip",
    "kafka.compression.gzip.level": str(GZIP_LEVEL),
    "kafka.max.request.size": str(SENT_BYTES),
}


def write(records: DataFrame, settings: Settings) -> None:
    """Write rows (topic, key, value, headers) to Kafka. Spark may write a record twice."""
    options = {**SENDING, **connection(settings)}
    records.write.format("kafka").options(**options).option("includeHeaders", "true").save()
