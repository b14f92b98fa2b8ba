"""Write a finished batch to the topics and the history. A repeated batch does not change the result."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.model.errors import StateError
from clienthealth.model.readings import Source
from clienthealth.settings import Settings
from clienthealth.spark import history
from clienthealth.spark.checkpoint import Pending
from clienthealth.spark.decoding import Count
from clienthealth.spark.failures import ANOTHER
from clienthealth.spark.poison import REASON, Guard
from clienthealth.spark.restored import Opened, Restored
from clienthealth.spark.session import Together
from clienthealth.spark.stepping import (
    CHANGE,
    COUNT,
    DRIVER,
    HEALTH,
    MINUTE,
    QUALITY,
    REJECT,
    SUMMARY,
    Quality,
    counts_of,
    headers_of,
    quality_of,
    summary_of,
)
from clienthealth.spark.topics import write

if TYPE_CHECKING:
    from clienthealth.spark.self_monitoring import SelfMetrics

#: IDLE_SECONDS: interval (s) between batches while there is no input. Batches without input find clients that have
#: stopped sending data.
IDLE_SECONDS = 15.0
#: A single task writes a batch of at most SMALL rows. Several tasks write a larger batch.
SMALL = 10_000
_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(eq=False)
class Batch:
    """Write the results of each batch of the query, and pause after a small batch.

    `pending`  the batch that a previous process planned but did not commit; Spark repeats it. None for no such batch
    `before`   the function to call before a batch is read
    `waiting`  the function that returns True if the topics have unread records

    A batch is small if it has less than half of `max_offsets_per_trigger` records. The pause after a small batch
    lasts until `trigger_seconds` have passed since the small batch began. After an empty batch, the pause lasts for
    IDLE_SECONDS, or until `waiting` returns True.
    """

    settings: Settings
    metrics: SelfMetrics
    guard: Guard
    stop: threading.Event
    opened: Opened
    restored: Restored
    pending: Pending | None
    before: Callable[[], None]
    waiting: Callable[[], bool]
    together: Together = field(default_factory=Together)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        self.opened.committed()
        self.before()
        self.guard.reads(batch_id)
        records = self._work(batch, batch_id)
        pause = self.settings.monitor.trigger_seconds - (time.monotonic() - begun)
        # Even a small batch costs half a second of CPU, so pause after it.
        self.metrics.pause = 0.0
        if not self.guard.limit and pause > 0 and records < self.settings.monitor.max_offsets_per_trigger // 2:
            self.metrics.pause = pause
            self.stop.wait(pause)
        until = begun + IDLE_SECONDS
        while not records and time.monotonic() < until and not self.stop.wait(1) and not self.waiting():
            self.metrics.pause = time.monotonic() - begun

    def _work(self, batch: DataFrame, batch_id: int) -> int:
        rows = kept = batch.persist()
        try:
            spark = batch.sparkSession
            by_kind: dict[str, list[bytes]] = {kind: [] for kind in DRIVER}
            for row in rows.where(f"kind IN {DRIVER}").collect():
                by_kind[row["kind"]].append(bytes(row["value"]))
            summaries = [summary_of(value) for value in by_kind[SUMMARY]]
            counts = [count for value in by_kind[COUNT] for count in counts_of(value)]
            quality = [row for value in by_kind[QUALITY] for row in quality_of(value)]
            if not self.guard.owns():
                raise StateError(ANOTHER.format(checkpoint=self.settings.monitor.checkpoint))
            if (skipped := self.guard.writes(batch_id)) is not None:
                counts.append(self._skipped(spark, skipped))
                quality.append(Quality(counts[-1].minute_ms, skipped.topic, records=1, rejected=1))
            here, now = sum((Counter(summary.rows) for summary in summaries), Counter[str]()), time.time()
            if here.total() <= SMALL:
                rows = rows.coalesce(1)
            unread, root = self.restored.not_counted(quality), self.settings.monitor.history
            repeated = self.pending if self.pending is not None and self.pending.batch == batch_id else None
            origin = history.Origin(query_id(spark), batch_id, repeated.planned_ms if repeated else None)
            again = self.restored.again
            writes: list[Callable[[], None]] = []
            if here[HEALTH] or here[REJECT]:
                writes.append(lambda: write(self._published(rows), self.settings))
            if here[MINUTE]:
                minutes = history.minutes(rows.where(f"kind = '{MINUTE}'"))
                writes.append(lambda: history.append(minutes, root, "minutes", origin, again))
            if here[CHANGE]:
                changes = history.verdicts(rows.where(f"kind = '{CHANGE}'"))
                writes.append(lambda: history.append(changes, root, "verdicts", origin, again))
            writes.append(lambda: history.append_quality(spark, root, unread, origin, again))
            self.together(spark, writes)
            if unread:
                self.restored.written(batch_id)
            self.metrics.counted(counts)
            self.metrics.stepped(summaries, now)
            self.opened.stepped(summary.bucket for summary in summaries)
            return sum(count.records for count in counts)
        finally:
            kept.unpersist()

    def _skipped(self, spark: SparkSession, record: Source) -> Count:
        text = f"{REASON}: the monitor ended whenever it read this record"
        rejects = [(self.settings.topics.rejects, None, None, headers_of(text, record))]
        rows = spark.createDataFrame(rejects, "topic string, key binary, value binary, headers string")
        write(rows.withColumn("headers", F.from_json("headers", _HEADERS)), self.settings)
        self.metrics.gauges["record_skipped_timestamp_seconds"].set(time.time())
        return Count(int(time.time()) // 60 * 60_000, record.topic, REASON, 1, 0, 0, 0)

    def _published(self, rows: DataFrame) -> DataFrame:
        topics = self.settings.topics
        topic = f"if(kind = '{HEALTH}', '{topics.health}', '{topics.rejects}') AS topic"
        headers = f"from_json(headers, '{_HEADERS}') AS headers"
        return rows.where(f"kind IN {(HEALTH, REJECT)}").selectExpr(topic, "key", "value", headers)


def query_id(spark: SparkSession) -> str:
    """Return the id of the running query. A restart does not change the id.

    Raises RuntimeError outside of `foreachBatch`.
    """
    query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        raise RuntimeError("query_id() was not called within a streaming query's foreachBatch")
    return query
