"""A finished batch → the topics and the history. Writes are idempotent: a batch may be repeated after a crash.

Records on topics are keyed; the history skips a batch that it has already taken in.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.settings import Settings
from clienthealth.streaming import history
from clienthealth.streaming.kafka import write
from clienthealth.streaming.stepping import (
    CHANGE,
    COUNT,
    DRIVER,
    HEALTH,
    MINUTE,
    QUALITY,
    REJECT,
    SUMMARY,
    Summary,
    change_of,
    counts_of,
    quality_of,
    summary_of,
)

if TYPE_CHECKING:
    from clienthealth.selfmetrics import SelfMetrics

#: A row of kind MINUTE.
_MINUTE = """minute bigint, service string, host string, instance string, client_id string, kind string,
`group` string, library string, version string, samples int, status string,
modes array<struct<mode:string,status:string>>,
buffer_used_ratio_max double, callback_seconds_avg double, callback_source string, queue_used_ratio_max double,
queue_topic string, lag_records double, lag_seconds double, lag_topic string, lag_state string"""
_HEADERS = "array<struct<key:string,value:binary>>"


class Batch:
    """What is done with each batch of the query."""

    def __init__(self, settings: Settings, metrics: SelfMetrics) -> None:
        self._settings = settings
        self._metrics = metrics

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.persist()
        try:
            spark, root = batch.sparkSession, self._settings.monitor.history
            mine: dict[str, list[bytes]] = {kind: [] for kind in DRIVER}
            for row in rows.filter(F.col("kind").isin(*DRIVER)).select("kind", "value").collect():
                mine[row["kind"]].append(bytes(row["value"]))
            summaries = [summary_of(value) for value in mine[SUMMARY]]
            here = Counter[str]()
            for summary in summaries:
                here.update(summary.rows)
            if here[HEALTH] or here[REJECT]:
                write(self._published(rows), self._settings)
            query = query_id(spark)
            if here[MINUTE]:
                history.append(_minutes(rows), root, "minutes", query, batch_id)
            changes = [change_of(value) for value in mine[CHANGE]]
            history.append_verdicts(spark, root, changes, query, batch_id)
            quality = [row for value in mine[QUALITY] for row in quality_of(value)]
            history.append_quality(spark, root, quality, query, batch_id)
            for change in changes:
                self._metrics.changed(change, time.time())
            self._metrics.counted(count for value in mine[COUNT] for count in counts_of(value))
            self._summed(summaries)
        finally:
            rows.unpersist()

    def _published(self, rows: DataFrame) -> DataFrame:
        topics = self._settings.topics
        topic = F.when(F.col("kind") == HEALTH, topics.health).otherwise(topics.rejects)
        return rows.filter(F.col("kind").isin(HEALTH, REJECT)).select(
            topic.alias("topic"), "key", "value", F.from_json("headers", _HEADERS).alias("headers")
        )

    def _summed(self, summaries: list[Summary]) -> None:
        self._metrics.stepped(sum(s.clients for s in summaries), sum(s.late for s in summaries))


def _minutes(rows: DataFrame) -> DataFrame:
    found = rows.filter(F.col("kind") == MINUTE).select(F.from_json(F.col("value").cast("string"), _MINUTE).alias("m"))
    minute: Column = F.timestamp_millis("m.minute")
    return (
        found.select(
            F.lit(history.SCHEMA_VERSION).alias("schema_version"),
            F.to_date(minute).alias("day"),
            minute.alias("time"),
            "m.*",
        )
        .drop("minute")
        .withColumnRenamed("time", "minute")
    )


def query_id(spark: SparkSession) -> str:
    """The id of the running query: one per checkpoint, the same after a restart."""
    found = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if found is None:
        raise RuntimeError("not called from a streaming query's foreachBatch")
    return found
