"""Run the streaming query until a signal stops the monitor, or until the query fails. A failed query ends the monitor.
A new process then continues from the checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clienthealth.configuration.installation import fixed_labels
from clienthealth.model.errors import HeapError, ServiceError
from clienthealth.monitor.state import VERSION
from clienthealth.platform import jars
from clienthealth.platform.stopping import set_by_signal
from clienthealth.settings import KafkaSettings, MonitorSettings, Settings
from clienthealth.spark import history, query
from clienthealth.spark.batch import Batch
from clienthealth.spark.checkpoint import Checkpoint, numbers_of
from clienthealth.spark.failures import explained
from clienthealth.spark.losses import Listener, Losses
from clienthealth.spark.poison import Guard
from clienthealth.spark.restored import Opened, Restored
from clienthealth.spark.self_monitoring import SelfMetrics
from clienthealth.spark.session import archive_classes, class_path, missing_driver_options, session, submitted
from clienthealth.spark.stepping import Quality

log = logging.getLogger(__name__)
STOP_SECONDS = 60
#: OUT_OF_MEMORY: the JVM's exit code if memory runs out; JVM_SECONDS: maximum time (s) to wait for the JVM's end.
JVM_SECONDS, OUT_OF_MEMORY = 10, 3
#: Interval (s) at which Kafka's offsets are checked while no batch ends.
LOOK_SECONDS = 10
ARCHIVE_AFTER = 10
#: Time (s) after the query's start at which the JVM's classes are archived.
STARTED_SECONDS = 10
FIXED = (
    "the state in the checkpoint has %s partitions, and this number cannot change: [monitor] shuffle_partitions = %s "
    "takes effect only if you set [monitor] checkpoint to a new folder"
)


def run(spark: SparkSession, settings: Settings, heap_ran_out: bool = False) -> None:
    """Run the monitor until SIGTERM or SIGINT. `heap_ran_out`: True if the previous process exhausted its heap.

    Raises ServiceError if the query fails, and HeapError if it fails for lack of memory. Raises StateError or
    DependencyError for faults that a restart does not repair.
    """
    for lacking in missing_driver_options(spark, settings) if submitted() else ():
        log.warning(
            "spark-submit did not get %s; `kafka-health check-config --spark-submit client` prints these options",
            lacking,
        )
    metrics = SelfMetrics()
    if settings.monitor.metrics_port:
        metrics.serve(settings.monitor.metrics_host, settings.monitor.metrics_port, fixed_labels(settings))
    stop = threading.Event()
    previous = {s: signal.signal(s, lambda *_: set_by_signal(stop)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        _Run(spark, settings, metrics, stop, heap_ran_out).until_stopped()
    except (Py4JJavaError, PySparkException) as error:
        reason = explained(str(error), settings)
        raise reason from error
    except (Py4JError, ConnectionError) as error:
        process, deadline = getattr(spark.sparkContext._gateway, "proc", None), time.monotonic() + JVM_SECONDS
        while process is not None and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        code = process.poll() if process is not None else None
        if code == OUT_OF_MEMORY:
            text = "the heap of Spark's JVM is exhausted: raise [monitor] heap_mb"
            raise HeapError(text) from error
        raise ServiceError(f"the JVM of Spark has ended with code {code}; its last messages are above") from error
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    log.info("monitor stopped")


class _Run:
    def __init__(
        self, spark: SparkSession, settings: Settings, metrics: SelfMetrics, stop: threading.Event, heap_ran_out: bool
    ) -> None:
        self._spark, self._settings, self._metrics, self._stop = spark, settings, metrics, stop
        self._listener = Listener(spark, metrics)
        spark.streams.addListener(self._listener)
        self._checkpoint = checkpoint = Checkpoint(spark, query.checkpoint_of(settings))
        # Call `claim` before anything is changed, because `claim` raises an error if it refuses the checkpoint.
        checkpoint.claim(VERSION)
        self._losses = Losses(spark, settings, metrics)
        self._look()
        history.create(spark, settings.monitor.history)
        checkpoint.begin_ticks(int(time.time() * 1000))
        spread, wanted = checkpoint.partitions(), settings.monitor.shuffle_partitions
        if spread not in (None, wanted):
            log.warning(FIXED, spread, wanted)
        self._numbers = numbers_of(checkpoint, settings.monitor)
        self._guard = Guard(checkpoint)
        self._guard.begin(heap_ran_out)
        self._opened = Opened(spark, settings, checkpoint)
        self._restored = Restored(spark, settings, checkpoint)
        self._archiver: object = None if _archivable(settings) else "not needed"

    def until_stopped(self) -> None:
        while not self._stop.is_set():
            self._until_more_is_read()
        self._guard.ended(None)
        self._losses.close()
        # If the listener remained, the JVM would call it after the end of this process, and log errors.
        self._spark.streams.removeListener(self._listener)

    def _look(self, after: float = 0) -> None:
        self._listener.positions |= {} if self._listener.positions else self._checkpoint.positions()
        self._losses.look(self._listener.positions, after)

    def _until_more_is_read(self) -> None:
        guard, metrics = self._guard, self._metrics
        if guard.limit >= self._settings.monitor.max_offsets_per_trigger:
            guard.unlimited()
        batch = Batch(
            self._settings,
            metrics,
            guard,
            self._stop,
            self._opened,
            self._restored,
            pending=self._checkpoint.pending(),
            before=self._look,
            waiting=lambda: self._losses.waiting(self._listener.positions),
        )
        opened = self._opened.by_bucket
        running = query.start(self._spark, self._settings, batch, opened, self._numbers, guard.limit)
        log.info("the monitor runs" if not guard.limit else f"the monitor reads {guard.limit} records at a time")
        parent, batches = os.getppid(), metrics.batches
        try:
            while not self._stop.is_set():
                if running.awaitTermination(1):
                    raise ServiceError("the streaming query ended without an error, although no stop was requested")
                if guard.committed(metrics.batches - batches):
                    break
                if metrics.batches >= ARCHIVE_AFTER and self._archiver is None:
                    self._archiver = jars.start_archiver()
                batches = metrics.batches
                self._look(LOOK_SECONDS)
                if os.getppid() != parent:
                    log.error("the process that started the monitor has ended")
                    self._stop.set()
        except StreamingQueryException as error:
            guard.ended(str(error))
            reason = explained(str(error), self._settings)
            raise reason from error
        _stop(running, metrics)


def _stop(running: StreamingQuery, metrics: SelfMetrics) -> None:
    """Stop the query after the current batch, or after STOP_SECONDS."""
    deadline, batches = time.monotonic() + STOP_SECONDS, metrics.batches
    while running.isActive and running.status["isTriggerActive"] and metrics.batches == batches:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    running.stop()


def _archivable(settings: Settings) -> bool:
    """Return True if this JVM has no class archive, and is allowed to make one."""
    possible = not submitted() and settings.monitor.class_archive and os.access(jars.cache(), os.W_OK)
    return possible and (paths := class_path(settings)) == class_path(Settings()) and jars.class_archive(paths) is None


def main() -> None:
    """Make the class data archive (AppCDS), with which later JVMs start faster.

    A JVM that makes an archive keeps 500 MB more memory, so the archive is made in a separate process.
    """
    os.nice(19)
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+RecordDynamicDumpInfo -Xlog:cds*=off"
    with jars.scratch() as folder:
        monitor = MonitorSettings(checkpoint=f"{folder}/checkpoints", history=f"{folder}/history", class_archive=False)
        # This query needs no broker, so no server has to listen at this address.
        settings = Settings(kafka=KafkaSettings(bootstrap_servers="127.0.0.1:9"), monitor=monitor)
        spark = session("archive of classes", settings)
        history.create(spark, monitor.history)
        history.append_quality(spark, monitor.history, [Quality(0, "none")], history.Origin("archive", 0))
        query.start(spark, settings, lambda *_: None, {}, numbers_of(Checkpoint(spark, folder), monitor))
        time.sleep(STARTED_SECONDS)
        archive_classes(spark, Path(folder, "draft"))
        spark.stop()


if __name__ == "__main__":
    main()
