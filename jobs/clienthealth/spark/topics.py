"""Read and write topics with Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.platform.logins import java_options
from clienthealth.settings import Settings
from clienthealth.spark.stepping import GZIP_LEVEL, SENT_BYTES


def connection(settings: Settings) -> Mapping[str, str]:
    """Return Spark's options for reaching the brokers: addresses and security, by the Java client's names.

    Our clients have one name in the brokers' logs and quotas, and push no metrics: the monitor would judge itself.
    Raises SettingsError.
    """
    options = {f"kafka.{name}": value for name, value in java_options(settings.kafka.options).items()}
    ours = {"kafka.client.id": "kafka-health-monitor", "kafka.enable.metrics.push": "false"}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **ours, **options}


def stream(spark: SparkSession, settings: Settings, topics: Sequence[str], limit: int = 0) -> DataFrame:
    """Return the topics as a stream, from the checkpoint on, else from `start_seconds_back`.

    A missing topic is awaited while the others are read. Records that retention deleted unread are passed over, and
    `losses` counts them: a monitor that stops at a gap is blind. `limit`: a lower number of records per batch than the
    settings'.
    """
    start_ms = int((time.time() - settings.monitor.start_seconds_back) * 1000)
    most = settings.monitor.max_offsets_per_trigger
    # The client also unpacks records beyond the end of a batch, so a search for a deadly record needs this limit.
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
    """Return a row a second, of no topic: it makes a batch without any input. Old ones are left out."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", "1").option("numPartitions", "1").load()
    return rows.filter(F.unix_millis("timestamp") > F.expr(f"{_CLOCK} - {1000 * TICKS_SECONDS}"))


#: After a night without the monitor there are thousands.
TICKS_SECONDS = 30
#: Now, in ms. Spark writes `current_timestamp()` as a number into the code of each batch, and compiles that anew.
_CLOCK = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"
NO_TOPIC = "(?!)"

#: Number of records that the client returns per poll. Spark seeks before each poll, so the rest of a fetch of 1 MB is
#: fetched and unpacked again: 50 records cost half of a backlog's time. All are in memory: if large records exhaust the
#: heap, fewer are read at a time (`poison`).
POLLED = 2000

#: The client limits the uncompressed size, the brokers the compressed one: the state of a group of 10,000 partitions
#: exceeds both defaults. Every reader can unpack gzip.
SENDING = {
    "kafka.compression.type": "gzip",
    "kafka.compression.gzip.level": str(GZIP_LEVEL),
    "kafka.max.request.size": str(SENT_BYTES),
}


def write(records: DataFrame, settings: Settings) -> None:
    """Write rows of topic, key, value and headers. At least once: a repeated record has the same key."""
    options = {**SENDING, **connection(settings)}
    records.write.format("kafka").options(**options).option("includeHeaders", "true").save()
