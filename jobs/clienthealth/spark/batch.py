"""A finished batch → the topics and the history. Writes are idempotent: a batch may be repeated after a crash.

Records on topics are keyed; the history looks whether it has already taken in a batch that may come again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
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
from clienthealth.spark.opened import Opened
from clienthealth.spark.poison import REASON, Guard
from clienthealth.spark.restored import Restored
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
from clienthealth.spark.together import Together
from clienthealth.spark.topics import write

if TYPE_CHECKING:
    from clienthealth.platform.self_monitoring import SelfMetrics

#: Where nothing arrives only time passes: so often is enough for who has fallen silent.
IDLE_SECONDS = 15.0
_HEADERS = "array<struct<key:string,value:binary>>"


class Batch:
    """What is done with each batch of the query.

    `opened`: see `Opened`; `restored`: see `Restored`. `pending`: the batch that is repeated, if one was planned and
    not committed. `before` is called before anything of it is read. `paced`: after a batch of few records is waited
    for the next until `trigger_seconds` are over, or until `stop`; after one of none for IDLE_SECONDS, unless `waiting`
    says that there is something to read.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: SelfMetrics,
        guard: Guard,
        stop: threading.Event,
        opened: Opened,
        restored: Restored,
        pending: Pending | None,
        before: Callable[[], None],
        waiting: Callable[[], bool],
        paced: bool = True,
    ) -> None:
        self._settings, self._metrics, self._guard, self._stop = settings, metrics, guard, stop
        self._opened, self._pending, self._before, self._paced = opened, pending, before, paced
        self._waiting, self._restored = waiting, restored
        self._together = Together()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        self._opened.committed()
        self._before()
        self._guard.reads(batch_id)
        records = self._work(batch, batch_id)
        pause = self._settings.monitor.trigger_seconds - (time.monotonic() - begun)
        # A batch costs half a second of CPU, however small: what is little waits for more. A backlog does not.
        self._metrics.pause = 0.0
        if self._paced and pause > 0 and records < self._settings.monitor.max_offsets_per_trigger // 2:
            self._metrics.pause = pause
            self._stop.wait(pause)
        until = begun + IDLE_SECONDS
        while not records and time.monotonic() < until and not self._stop.wait(1) and not self._waiting():
            self._metrics.pause = time.monotonic() - begun

    def _work(self, batch: DataFrame, batch_id: int) -> int:
        """Write the results; how many records were read."""
        rows = batch.persist()
        try:
            spark, root = batch.sparkSession, self._settings.monitor.history
            by_kind: dict[str, list[bytes]] = {kind: [] for kind in DRIVER}
            for row in rows.filter(F.col("kind").isin(*DRIVER)).select("kind", "value").collect():
                by_kind[row["kind"]].append(bytes(row["value"]))
            summaries = [summary_of(value) for value in by_kind[SUMMARY]]
            here = Counter[str]()
            for summary in summaries:
                here.update(summary.rows)
            counts = [count for value in by_kind[COUNT] for count in counts_of(value)]
            quality = [row for value in by_kind[QUALITY] for row in quality_of(value)]
            # All is computed, and nothing is written.
            if not self._guard.owns():
                raise StateError(ANOTHER.format(self._settings.monitor.checkpoint))
            skipped = self._guard.writes(batch_id)
            if skipped is not None:
                counts.append(self._skipped(spark, skipped))
                quality.append(Quality(counts[-1].minute_ms, skipped.topic, records=1, rejected=1))
            now = time.time()
            again, unread = self._restored.again, self._restored.not_counted(quality)
            origin = self._origin(spark, batch_id)
            writes: list[Callable[[], None]] = []
            if here[HEALTH] or here[REJECT]:
                writes.append(lambda: write(self._published(rows), self._settings))
            if here[MINUTE]:
                minutes = history.minutes(rows.filter(F.col("kind") == MINUTE))
                writes.append(lambda: history.append(minutes, root, "minutes", origin, again))
            if here[CHANGE]:
                changes = history.verdicts(rows.filter(F.col("kind") == CHANGE), int(now * 1000))
                writes.append(lambda: history.append(changes, root, "verdicts", origin, again))
            writes.append(lambda: history.append_quality(spark, root, unread, origin, again))
            self._together(spark, writes)
            if unread:
                self._restored.written(batch_id)
            self._metrics.counted(counts)
            self._metrics.stepped(summaries, now)
            self._opened.stepped(summary.bucket for summary in summaries)
            return sum(count.records for count in counts)
        finally:
            rows.unpersist()

    def _origin(self, spark: SparkSession, batch_id: int) -> history.Origin:
        repeated = self._pending if self._pending is not None and self._pending.batch == batch_id else None
        return history.Origin(query_id(spark), batch_id, repeated.planned_ms if repeated else None)

    def _skipped(self, spark: SparkSession, record: Source) -> Count:
        """Tell of the record that is left out because reading it ended the monitor."""
        text = f"{REASON}: the monitor ended whenever it read this record"
        rejects = [(self._settings.topics.rejects, None, None, headers_of(text, record))]
        rows = spark.createDataFrame(rejects, "topic string, key binary, value binary, headers string")
        write(rows.withColumn("headers", F.from_json("headers", _HEADERS)), self._settings)
        self._metrics.skipped(time.time())
        return Count(int(time.time()) // 60 * 60_000, record.topic, REASON, 1, 0, 0, 0)

    def _published(self, rows: DataFrame) -> DataFrame:
        topics = self._settings.topics
        topic = F.when(F.col("kind") == HEALTH, topics.health).otherwise(topics.rejects)
        return rows.filter(F.col("kind").isin(HEALTH, REJECT)).select(
            topic.alias("topic"), "key", "value", F.from_json("headers", _HEADERS).alias("headers")
        )


def query_id(spark: SparkSession) -> str:
    """The id of the running query: one per checkpoint, the same after a restart."""
    query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query is None:
        raise RuntimeError("not called from a streaming query's foreachBatch")
    return query
