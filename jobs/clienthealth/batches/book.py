"""The open incidents of one monitor, and the id under which a query writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from clienthealth.incidents import Incidents, Transition
from clienthealth.settings import Settings
from clienthealth.sinks import history

if TYPE_CHECKING:
    from clienthealth.selfmetrics import SelfMetrics


@dataclass
class Book:
    """The open incidents, shared by the queries of one monitor, and how their changes are kept."""

    settings: Settings
    incidents: Incidents
    metrics: SelfMetrics
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, batch: DataFrame, batch_id: int, changes: Iterable[Transition]) -> None:
        """Append changes to the history, once per batch, and count them."""
        rows = list(changes)
        for change in rows:
            self.metrics.changed(change, time.time())
        history.append_verdicts(
            batch.sparkSession, self.settings.monitor.history, rows, query_id(batch.sparkSession), batch_id
        )


def query_id(spark: SparkSession) -> str:
    """The id of the running query: one per checkpoint, the same after a restart."""
    found = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if found is None:
        raise RuntimeError("not called from a streaming query's foreachBatch")
    return found
