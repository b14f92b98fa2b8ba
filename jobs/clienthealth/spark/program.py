"""Runs the streaming query until it is to stop, or until it fails.

A query that fails ends the monitor with the reason: whoever supervises it (`kafka-health monitor` does) starts it
again, and it goes on where its checkpoint stands.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clienthealth.configuration.installation import fixed_labels
from clienthealth.model.errors import HeapError, ServiceError
from clienthealth.monitor.state import VERSION
from clienthealth.platform.self_monitoring import SelfMetrics
from clienthealth.platform.stopping import set_by_signal
from clienthealth.settings import Settings
from clienthealth.spark import history, query
from clienthealth.spark.batch import Batch
from clienthealth.spark.checkpoint import Checkpoint
from clienthealth.spark.failures import explained
from clienthealth.spark.listener import Listener
from clienthealth.spark.losses import Losses
from clienthealth.spark.opened import Opened
from clienthealth.spark.poison import Guard
from clienthealth.spark.restored import Restored
from clienthealth.spark.session import missing_driver_options, submitted
from clienthealth.spark.spread import numbers_of

log = logging.getLogger(__name__)
STOP_SECONDS = 60
#: How long a JVM that answers no more may take to end; what it ends with for want of memory (ExitOnOutOfMemoryError).
JVM_SECONDS, OUT_OF_MEMORY = 10, 3
#: So often is compared what was read with what Kafka still has, where no batch does it.
LOOK_SECONDS = 10
FIXED = (
    "the checkpoint spreads its state over %s partitions and goes on so: [monitor] shuffle_partitions = %s counts with "
    "a new folder in [monitor] checkpoint"
)


def run(spark: SparkSession, settings: Settings, heap_ran_out: bool = False) -> None:
    """Run until SIGTERM or SIGINT. `heap_ran_out`: that is what ended the process before.

    Raises ServiceError when the query fails (HeapError for want of memory), StateError where a new start is no help.
    """
    for lacking in missing_driver_options(spark, settings) if submitted() else ():
        log.warning(
            "spark-submit was not told %s; `kafka-health check-config --spark-submit client` prints it", lacking
        )
    metrics = SelfMetrics()
    if settings.monitor.metrics_port:
        metrics.serve(settings.monitor.metrics_host, settings.monitor.metrics_port, fixed_labels(settings))
    listener = Listener(metrics)
    with _stop_signal() as stop:
        try:
            spark.streams.addListener(listener)
            checkpoint = Checkpoint(spark, query.checkpoint_of(settings))
            # What is of a later release is refused before anything is changed.
            checkpoint.claim(VERSION)
            losses = Losses(spark, settings, metrics)

            def look(after: float) -> None:
                # Those of a new checkpoint are known once its first batch is planned.
                listener.positions |= {} if listener.positions else checkpoint.positions()
                losses.look(listener.positions, after)

            look(0)
            history.create(spark, settings.monitor.history)
            checkpoint.begin_ticks(int(time.time() * 1000))
            spread, wanted = checkpoint.partitions(), settings.monitor.shuffle_partitions
            if spread not in (None, wanted):
                log.warning(FIXED, spread, wanted)
            numbers = numbers_of(checkpoint, settings.monitor)
            guard = Guard(checkpoint)
            guard.begin(heap_ran_out)
            opened = Opened(spark, settings, checkpoint)
            restored = Restored(spark, settings, checkpoint)

            def start() -> StreamingQuery:
                # Of a query that was stopped in the midst of a batch, too.
                pending = checkpoint.pending()
                batch = Batch(
                    settings,
                    metrics,
                    guard,
                    stop,
                    opened,
                    restored,
                    pending,
                    lambda: look(0),
                    lambda: losses.waiting(listener.positions),
                    paced=not guard.limit,
                )
                return query.start(spark, settings, batch, opened.by_bucket, numbers, guard.limit)

            while not stop.is_set():
                _until_more_is_read(start, settings, metrics, guard, stop, look)
            guard.ended(None)
            losses.close()
            # Else Spark goes on to call a process that has ended, and says so at length.
            spark.streams.removeListener(listener)
        except (Py4JJavaError, PySparkException) as error:
            reason = explained(str(error), settings)
            raise reason from error
        except (Py4JError, ConnectionError) as error:
            ended = _ended(spark)
            raise ended from error
    log.info("monitor stopped")


def _until_more_is_read(
    start: Callable[[], StreamingQuery],
    settings: Settings,
    metrics: SelfMetrics,
    guard: Guard,
    stop: threading.Event,
    look: Callable[[float], None],
) -> None:
    """Run the query until it is to stop, or until more may be read at a time than it was started with."""
    if guard.limit >= settings.monitor.max_offsets_per_trigger:
        guard.unlimited()
    running = start()
    log.info("the monitor runs" if not guard.limit else f"the monitor reads {guard.limit} records at a time")
    parent, batches = os.getppid(), metrics.batches
    try:
        while not stop.is_set():
            # A failed query raises here.
            if running.awaitTermination(1):
                raise ServiceError("the streaming query ended without being told to")
            if guard.committed(metrics.batches - batches):
                return _stop(running, metrics)
            batches = metrics.batches
            look(LOOK_SECONDS)
            if os.getppid() != parent:
                log.error("whoever started the monitor has ended")
                stop.set()
    except StreamingQueryException as error:
        guard.ended(str(error))
        reason = explained(str(error), settings)
        raise reason from error
    _stop(running, metrics)


def _ended(spark: SparkSession) -> ServiceError:
    """The JVM is gone: why."""
    process, deadline = getattr(spark.sparkContext._gateway, "proc", None), time.monotonic() + JVM_SECONDS
    while process is not None and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    code = process.poll() if process is not None else None
    if code == OUT_OF_MEMORY:
        return HeapError("the heap of Spark's JVM was exhausted: [monitor] heap_mb says how large it may be")
    return ServiceError(f"the JVM of Spark has ended with code {code}; its last words are above")


def _stop(running: StreamingQuery, metrics: SelfMetrics) -> None:
    """Stop when a batch has ended, where that comes soon, so that little is done twice after a restart.

    The next one follows at once, as time passes too: a moment without any is hardly met.
    """
    deadline, batches = time.monotonic() + STOP_SECONDS, metrics.batches
    while running.isActive and running.status["isTriggerActive"] and metrics.batches == batches:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    running.stop()


@contextmanager
def _stop_signal() -> Iterator[threading.Event]:
    stop = threading.Event()
    previous = {s: signal.signal(s, lambda *_: set_by_signal(stop)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
