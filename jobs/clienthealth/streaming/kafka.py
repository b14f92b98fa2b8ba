"""Topics as Spark reads and writes them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from clienthealth.settings import Settings


def connection(settings: Settings) -> Mapping[str, str]:
    """Spark options that reach the brokers: addresses and security, as the Java client names them."""
    options = {f"kafka.{name}": value for name, value in settings.kafka.options.items()}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **options}


def stream(spark: SparkSession, settings: Settings, topics: Sequence[str]) -> DataFrame:
    """The topics as a stream, from `start_seconds_back` on where the checkpoint does not say where to go on.

    Records that retention deleted before they were read are passed over and show in the input lag: a monitor that
    stops at a gap is blind.
    """
    start_ms = int((time.time() - settings.monitor.start_seconds_back) * 1000)
    return (
        spark.readStream.format("kafka")
        .options(**connection(settings))
        .option("subscribe", ",".join(topics))
        .option("startingTimestamp", str(max(start_ms, 0)))
        .option("startingOffsetsByTimestampStrategy", "latest")
        # A backlog is worked off without a pause; what is little waits for more, but not for long.
        .option("maxOffsetsPerTrigger", str(settings.monitor.max_offsets_per_trigger))
        .option("minOffsetsPerTrigger", str(max(1, settings.monitor.max_offsets_per_trigger // 2)))
        .option("maxTriggerDelay", f"{settings.monitor.trigger_seconds}s")
        .option("failOnDataLoss", "false")
        .option("includeHeaders", "true")
        .load()
    )


def write(records: DataFrame, settings: Settings) -> None:
    """Write rows of topic, key, value and headers. At least once: a repeated record has the same key."""
    records.write.format("kafka").options(**connection(settings)).option("includeHeaders", "true").save()
