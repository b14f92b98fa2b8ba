"""Keeps the history small and quick: deletes days past retention, joins small files, removes files no longer in use.

Each step does nothing where nothing is to be done, so it may run as often as one likes and be repeated after a
crash. Appends of a running monitor do not conflict with it; on an object store Delta needs its multi-writer log
store for that, as for any two writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.streaming import history
from clienthealth.streaming.session import configured


@dataclass(frozen=True)
class Maintained:
    """What was done to a table. `days`: deleted; `removed` small files became `added` ones; then `files`, `bytes`."""

    table: str
    days: int
    removed: int
    added: int
    files: int
    bytes: int


def maintain(spark: SparkSession, root: str, retention_days: int, today: date) -> Iterator[Maintained]:
    """Maintain the tables one after the other. Raises InputError where there is no history.

    A deleted or replaced file stays on disk for Delta's seven days, so that a review which runs at the same time can
    still read it.
    """
    for name in history.TABLES:
        history.read(spark, root, name)
        table = DeltaTable.forPath(spark, history.path(root, name))
        past = F.col("day") < F.lit(today - timedelta(days=retention_days))
        days = table.toDF().filter(past).select("day").distinct().count()
        if days:
            table.delete(past)
        joined = table.optimize().executeCompaction().select("metrics.*").first()
        # Vacuum lists folders in as many tasks as this says, by default 10,000, however few folders there are.
        tasks = str(4 * spark.sparkContext.defaultParallelism)
        with configured(spark, {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}):
            table.vacuum()
        left = table.detail().select("numFiles", "sizeInBytes").first()
        assert joined is not None and left is not None
        yield Maintained(
            name, days, joined["numFilesRemoved"], joined["numFilesAdded"], left["numFiles"], left["sizeInBytes"]
        )
