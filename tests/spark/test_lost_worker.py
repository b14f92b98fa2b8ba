"""Spark retries a task after the kernel has killed its Python worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


def test_a_lost_python_worker_costs_a_second_try_of_its_task(spark: SparkSession) -> None:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.range(0, 1000, numPartitions=2).mapInArrow(read, "id long").collect()
    assert sorted(row["id"] for row in rows) == list(range(1000))
