"""Runs the streaming queries until it is told to stop, or until one of them fails.

A query that fails ends the monitor with the reason: whoever supervises it starts it again, and it goes on where its
checkpoint stands. A monitor that runs on with a query missing would be blind in one eye and look healthy.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clienthealth import pipeline
from clienthealth.batches import Book, ClientsBatch, DeparturesBatch, LagBatch, RejectsBatch
from clienthealth.errors import ServiceError
from clienthealth.incidents import Incidents
from clienthealth.listener import Listener
from clienthealth.minutes import minutes
from clienthealth.selfmetrics import SelfMetrics
from clienthealth.settings import Settings
from clienthealth.sinks import history
from clienthealth.sources.kafka import stream

log = logging.getLogger(__name__)
STOP_SECONDS = 60


def start(spark: SparkSession, settings: Settings, metrics: SelfMetrics) -> list[StreamingQuery]:
    """Start all queries; each has its own checkpoint and goes on where that stands."""
    # The log topic may be silent for hours: it must not hold back the time of the metrics.
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    root = settings.monitor.history
    history.create(spark, root)
    book = Book(settings, Incidents(history.open_incidents(spark, root)), metrics)
    trigger = settings.monitor.trigger_seconds
    inputs = pipeline.topics(spark, settings)
    groups = pipeline.group_records(stream(spark, settings, settings.topics.metrics), settings)

    def query(name: str, rows: DataFrame, mode: str, seconds: int) -> DataStreamWriter:
        return (
            rows.writeStream.queryName(name)
            .outputMode(mode)
            .option("checkpointLocation", f"{settings.monitor.checkpoint}/{name}")
            .trigger(processingTime=f"{seconds} seconds")
        )

    published = minutes(stream(spark, settings, [settings.topics.health]), settings.monitor.window_seconds)
    return [
        query("clients", pipeline.clients(inputs, settings), "update", trigger)
        .foreachBatch(ClientsBatch(book))
        .start(),
        query("departures", pipeline.absences(inputs, settings), "append", trigger)
        .foreachBatch(DeparturesBatch(book))
        .start(),
        query("lag", pipeline.group_readings(groups, settings), "update", settings.lag.trigger_seconds)
        .foreachBatch(LagBatch(settings))
        .start(),
        query("rejects", pipeline.arrivals(inputs), "append", 4 * trigger)
        .foreachBatch(RejectsBatch(settings, metrics))
        .start(),
        query("minutes", published, "append", 60).format("delta").start(history.path(root, "minutes")),
    ]


def run(spark: SparkSession, settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. Raises ServiceError when a query fails."""
    metrics = SelfMetrics()
    if settings.monitor.metrics_port:
        metrics.serve(settings.monitor.metrics_host, settings.monitor.metrics_port)
    spark.streams.addListener(Listener(metrics))
    with _stop_signal() as stop:
        queries = start(spark, settings, metrics)
        log.info("monitor runs: %s", ", ".join(q.name or "" for q in queries))
        try:
            while not stop.is_set():
                # A failed query raises here.
                if spark.streams.awaitAnyTermination(1):
                    raise ServiceError("a streaming query ended without being told to")
        except StreamingQueryException as error:
            failed = next((q.name for q in queries if not q.isActive), "a streaming query")
            raise ServiceError(f"query '{failed}' failed: {error}") from error
        finally:
            _stop(queries)


def _stop(queries: list[StreamingQuery]) -> None:
    """Stop each query between two batches where that comes soon, so that little is done twice after a restart."""
    deadline = time.monotonic() + STOP_SECONDS
    for query in queries:
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()
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
