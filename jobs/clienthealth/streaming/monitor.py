"""Runs the streaming query until it is told to stop, or until it fails.

A query that fails ends the monitor with the reason: whoever supervises it starts it again, and it goes on where its
checkpoint stands.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clienthealth.errors import ServiceError
from clienthealth.selfmetrics import SelfMetrics
from clienthealth.settings import Settings
from clienthealth.streaming import query
from clienthealth.streaming.listener import Listener

log = logging.getLogger(__name__)
STOP_SECONDS = 60


def run(spark: SparkSession, settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. Raises ServiceError when a query fails."""
    metrics = SelfMetrics()
    if settings.monitor.metrics_port:
        metrics.serve(settings.monitor.metrics_host, settings.monitor.metrics_port)
    listener = Listener(metrics)
    spark.streams.addListener(listener)
    with _stop_signal() as stop:
        running = query.start(spark, settings, metrics)
        log.info("the monitor runs")
        try:
            while not stop.is_set():
                # A failed query raises here.
                if running.awaitTermination(1):
                    raise ServiceError("the streaming query ended without being told to")
        except StreamingQueryException as error:
            raise ServiceError(f"the streaming query failed: {error}") from error
        finally:
            _stop(running)
            # Else Spark goes on to call a process that has ended, and says so at length.
            spark.streams.removeListener(listener)


def _stop(running: StreamingQuery) -> None:
    """Stop between two batches where that comes soon, so that little is done twice after a restart."""
    deadline = time.monotonic() + STOP_SECONDS
    while running.isActive and running.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.1)
    running.stop()
    log.info("monitor stopped")


@contextmanager
def _stop_signal() -> Iterator[threading.Event]:
    stop = threading.Event()
    previous = {s: signal.signal(s, lambda *_: stop.set()) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
