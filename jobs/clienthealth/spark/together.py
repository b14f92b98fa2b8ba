"""Jobs of a batch that run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target


class Together:
    """Jobs of the query in whose batch it is called: while the driver commits one, executors work on another."""

    def __init__(self) -> None:
        # Kept: each thread has a connection to the JVM, which outlives it.
        self._threads = ThreadPoolExecutor(thread_name_prefix="job")

    def __call__(self, spark: SparkSession, jobs: Sequence[Callable[[], None]]) -> None:
        """Run them, and return once all have ended. Raises what the first of those that failed raised."""
        # They are the query's, and end with it. What says so each thread changes for itself: it gets a copy.
        running = [self._threads.submit(inheritable_thread_target(spark)(job)) for job in jobs]
        wait(running)
        for ended in running:
            ended.result()
