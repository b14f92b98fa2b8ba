"""Keeps the history small and quick: deletes days past retention, joins small files, removes files no longer in use.

Each step does nothing where nothing is to be done, so it may run as often as one likes and be repeated after a
crash. Appends of a running monitor do not conflict with it, but on S3: there one program alone may write a table, as
long as Delta is not told of a log store that coordinates several (`LOG_STORE`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.model.errors import SettingsError
from clienthealth.platform.locations import on_s3
from clienthealth.spark import history
from clienthealth.spark.session import configured

#: The option of Spark that names the log store for S3; Delta's own choice knows of the writers in one program only.
LOG_STORE = "spark.delta.logStore.s3a.impl"


@dataclass(frozen=True)
class Maintained:
    """What was done to a table. `days`: deleted; `removed` small files became `added` ones; then `files`, `bytes`."""

    table: str
    days: int
    removed: int
    added: int
    files: int
    bytes: int


def maintain(
    spark: SparkSession, root: str, retention_days: int, today: date, alone: bool = False
) -> Iterator[Maintained]:
    """Maintain the tables one after the other. `alone`: no monitor writes them. Raises InputError where there is none.

    A deleted or replaced file stays on disk for a day (`history.KEPT`), so that a review which runs at the same time
    can still read it.
    """
    if on_s3(root) and not alone and spark.conf.get(LOG_STORE, None) is None:
        raise SettingsError(
            f"{root}: on S3 one program alone may write the history: stop the monitor and say --alone, or name a log "
            f"store for several writers in [spark] options, {LOG_STORE} (deploy/README.md, object stores)"
        )
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
