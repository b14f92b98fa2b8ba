"""Spark jobs that run at the same time have the same results as when they run alone."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from clienthealth.spark.session import Together
from tests.support.waiting import WAIT_SECONDS

PROPERTY = "test.together"


def test_each_is_of_the_query_that_it_was_called_in_and_changes_nothing_for_the_others(spark: SparkSession) -> None:
    context, meet = spark.sparkContext, threading.Barrier(2)
    before: list[str | None] = []
    after: list[str | None] = []

    def job(name: str) -> None:
        before.append(context.getLocalProperty(PROPERTY))
        context.setLocalProperty(PROPERTY, name)
        meet.wait(WAIT_SECONDS)
        assert spark.range(10).count() == 10
        after.append(context.getLocalProperty(PROPERTY))

    together = Together()
    for query in ("first", "second"):
        before.clear()
        after.clear()
        context.setLocalProperty(PROPERTY, query)
        together(spark, [lambda: job("a"), lambda: job("b")])
        assert before == [query, query]
        assert sorted(name or "" for name in after) == ["a", "b"]
        assert context.getLocalProperty(PROPERTY) == query


def test_a_failed_job_is_reported_when_all_have_ended(spark: SparkSession) -> None:
    failed = threading.Event()
    counts: list[int] = []

    def fail() -> None:
        try:
            spark.sql("SELECT raise_error('no room')").collect()
        finally:
            failed.set()

    def count() -> None:
        assert failed.wait(WAIT_SECONDS)
        counts.append(spark.range(10).count())

    with pytest.raises(Exception, match="no room"):
        Together()(spark, [fail, count])
    assert counts == [10]
