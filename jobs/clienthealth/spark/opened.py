"""Incidents that the history shows as open, for a new checkpoint: it goes on where the history stands.

They go along with every task until all of them are in the state of their buckets. A batch later that is noted beside
the checkpoint. From then on they are no longer read at a start, nor sent to tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from clienthealth.settings import Settings
from clienthealth.spark import history
from clienthealth.spark.checkpoint import Checkpoint
from clienthealth.spark.stepping import by_bucket

NOTE = "opened"


class Opened:
    """`by_bucket`: the open incidents that may be in no state yet, packed."""

    def __init__(self, spark: SparkSession, settings: Settings, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._noted = checkpoint.read(NOTE) is not None
        self.by_bucket: Mapping[int, bytes] = {}
        if not self._noted:
            incidents = history.open_incidents(spark, settings.monitor.history)
            self.by_bucket = by_bucket(incidents, settings.monitor.buckets)
        self._missing = set(self.by_bucket)

    def stepped(self, buckets: Iterable[int | None]) -> None:
        """A batch stepped these buckets, and keeps the state of each that had none."""
        self._missing.difference_update(bucket for bucket in buckets if bucket is not None)

    def committed(self) -> None:
        """All batches before are committed."""
        if not self._missing and not self._noted:
            self._checkpoint.write(NOTE, "in the state")
            self._noted = True
