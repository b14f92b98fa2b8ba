"""Spark spreads buckets evenly over its partitions. A restart keeps the buckets' numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.settings import MonitorSettings
from clienthealth.spark.checkpoint import Checkpoint, numbers, numbers_of


@pytest.mark.parametrize(("buckets", "partitions"), [(32, 2), (32, 8), (512, 64), (7, 3), (3, 8)])
def test_no_partition_has_two_buckets_more_than_another(spark: SparkSession, buckets: int, partitions: int) -> None:
    rows = spark.createDataFrame([(number,) for number in numbers(buckets, partitions)], "number int")
    shuffled = rows.repartition(partitions, "number").select(F.spark_partition_id().alias("at"), "number")
    counts = Counter(row["at"] for row in shuffled.collect())
    assert sum(counts.values()) == len({*numbers(buckets, partitions)}) == buckets
    assert {*counts.values()} <= {buckets // partitions, -(-buckets // partitions)}


def test_the_numbers_are_those_that_a_checkpoint_began_with(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(spark, str(tmp_path / "new"))
    begun = numbers_of(checkpoint, MonitorSettings(shuffle_partitions=4))
    assert begun == numbers(32, 4) == numbers_of(checkpoint, MonitorSettings(shuffle_partitions=8))
