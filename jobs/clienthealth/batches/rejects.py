"""Decoded records → the topic of rejects, and the counts of what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clienthealth.batches.book import query_id
from clienthealth.settings import Settings
from clienthealth.sinks import history
from clienthealth.sinks.kafka import rejects, write

if TYPE_CHECKING:
    from clienthealth.selfmetrics import SelfMetrics


class RejectsBatch:
    """Decoded records → the topic of rejects, and how many records of each topic and minute were good and bad."""

    def __init__(self, settings: Settings, metrics: SelfMetrics) -> None:
        self._settings = settings
        self._metrics = metrics

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        settings = self._settings
        batch = batch.persist()
        try:
            bad = batch.filter("error is not null")
            write(rejects(bad), settings, settings.topics.rejects)
            reason = F.split_part(F.col("error"), F.lit(":"), F.lit(1))
            delay = F.unix_millis("arrived") - F.unix_millis("ts")
            late = F.count_if(delay > 1000 * settings.monitor.watermark_seconds)
            counts = (
                batch.groupBy(F.date_trunc("minute", "arrived").alias("minute"), "source_topic", reason.alias("reason"))
                .agg(F.count("*").alias("records"), late.alias("late"), F.max("ts").alias("newest"))
                .collect()
            )
            self._metrics.counted(counts)
            history.append_quality(
                batch.sparkSession, settings.monitor.history, counts, query_id(batch.sparkSession), batch_id
            )
        finally:
            batch.unpersist()
