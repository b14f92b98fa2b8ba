"""The Spark session: the only place with Spark's configuration.

Under spark-submit (or a platform that submits) the given master and jars win; otherwise Spark runs in this process on
all cores, with jars from our own cache. Settings on which a query's state depends are the same everywhere.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

from clienthealth.model.tables import table
from clienthealth.platform import jars
from clienthealth.platform.jars import java
from clienthealth.platform.locations import on_s3
from clienthealth.platform.logins import jvm_flags
from clienthealth.platform.secrecy import SECRET
from clienthealth.settings import Settings

_LOG4J = Path(__file__).with_name("spark-log4j2.properties")
#: Options that do not depend on the settings, by where they hold.
OPTIONS: Mapping[str, Mapping[str, str]] = table(Path(__file__).with_name("spark.toml"))
#: A small heap that gives back what it does not need: most of what is large lies in Python workers. A JVM without
#: memory ends at once, and is started again, instead of lingering. Spark searches the message of a failed foreachBatch
#: with an expression that recurses for each character: hence the stack. Its classes take 190 MB; each time that they
#: outgrow what the JVM expects, all of the heap is looked through. The thorough compiler takes what runs ten times
#: as often as is usual: by itself it costs half of a start and most of what an idle monitor uses; without it a backlog
#: takes a tenth longer. (The quick one alone gets a cache of 48 MB, which Spark overflows: nothing more is compiled.)
_JVM = (
    "-XX:+UseSerialGC -Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25 -XX:+ExitOnOutOfMemoryError -Xss16m "
    "-XX:MetaspaceSize=192m "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000 -XX:ReservedCodeCacheSize=240m"
)
#: What is not heap: threads, code and RocksDB of a JVM, and Python beside it. A cluster that kills what takes more than
#: was asked for must have been asked for all.
_BESIDE_HEAP = {"driver": "640m", "executor": "1g"}


def session(name: str, settings: Settings, batch: bool = False) -> SparkSession:
    """Return the session of this process, starting it if necessary. `batch`: True for one computation, without queries.

    Raises DependencyError if Java or the jars are missing and cannot be fetched.
    """
    builder = SparkSession.builder.appName(name)
    options = {
        **settings.spark.options,
        **(OPTIONS["objects"] if on_s3(settings.monitor.checkpoint) else {}),
        **OPTIONS["everywhere"],
        "spark.sql.shuffle.partitions": str(settings.monitor.shuffle_partitions),
        "spark.sql.redaction.options.regex": f"{SECRET}|url",
        "spark.redaction.regex": SECRET,
    }
    if not submitted():
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["JAVA_HOME"] = str(Path(java()).resolve().parent.parent)
        options = {**options, **driver_options(settings), **_on_this_machine(settings, batch)}
        conf = SparkConf().setAll([("spark.app.name", name), *options.items()])

        def start() -> None:
            # If it cannot be started, whoever needs it tries again, and gets the error.
            with suppress(PySparkRuntimeError):
                SparkContext._ensure_initialized(conf=conf)

        # In a thread: Ctrl-C amid the JVM's start would delete the file that it is to write, and it would stay.
        starting = threading.Thread(target=start, name="start of the JVM", daemon=True)
        starting.start()
        starting.join()
    spark = builder.config(map=dict[str, Any](options)).getOrCreate()
    # Kept: Java classes that PySpark names with each column, and twenty times with each exception, with which each
    # iteration over anything of Java ends. Py4J asks the JVM for a name each time, which looks for it in all packages
    # that PySpark imports, in every jar: an eighth of all the JVM's work.
    jvm = cast(Any, spark._jvm)
    jvm.py4j = SimpleNamespace(reflection=SimpleNamespace(TypeUtil=jvm.py4j.reflection.TypeUtil))
    for kept in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        setattr(jvm, kept, getattr(jvm, kept))
    return spark


@contextmanager
def configured(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Set options of the running session until the end of the block; each must have a value before."""
    before = {name: str(spark.conf.get(name)) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def submitted() -> bool:
    """True if spark-submit started this program, so that a JVM and its configuration exist already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _jvm(settings: Settings) -> str:
    return _JVM + jvm_flags(settings.kafka.options)


def driver_options(settings: Settings) -> Mapping[str, str]:
    """Return the options that a JVM needs at its start; under spark-submit they must be given to spark-submit."""
    return {
        "spark.driver.memory": f"{settings.monitor.heap_mb}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {_jvm(settings)}",
    }


def submit_options(settings: Settings, cluster: bool) -> Mapping[str, str]:
    """Return options with which spark-submit's JVMs run as ours do. `cluster`: the driver is on another machine."""
    log4j = f"-Dlog4j2.configurationFile={_LOG4J.name if cluster else _LOG4J.as_uri()}"
    options = {
        **{f"spark.{part}.memoryOverhead": size for part, size in _BESIDE_HEAP.items()},
        **settings.spark.options,
        **{f"spark.{part}.memory": f"{settings.monitor.heap_mb}m" for part in _BESIDE_HEAP},
        "spark.driver.extraJavaOptions": f"{log4j} {_jvm(settings)}",
        # An executor starts where our files are not yet: Log4j's own default, but warnings too.
        "spark.executor.extraJavaOptions": f"-Dlog4j2.level=WARN {_jvm(settings)}",
    }
    return {**options, "spark.files": str(_LOG4J)} if cluster else options


def missing_driver_options(spark: SparkSession, settings: Settings) -> list[str]:
    """Return those of `driver_options` without which the JVM of a submitted program was started."""
    in_force = {key: spark.conf.get(key, "") or "" for key in driver_options(settings)}
    lacks = {
        # Where the file of the logging is, each machine has its own name for.
        key: [flag for flag in value.split() if flag.partition("file:")[0] not in in_force[key]]
        for key, value in driver_options(settings).items()
    }
    return [f"{key}: {' '.join(flags)}" for key, flags in lacks.items() if flags]


def _on_this_machine(settings: Settings, batch: bool) -> Mapping[str, str]:
    jar_paths = jars.classpath("spark")
    if on_s3(settings.monitor.checkpoint, settings.monitor.history, settings.review.out):
        jar_paths = [*jar_paths, *jars.classpath("s3")]
    if settings.kafka.options.get("sasl.mechanism") == "AWS_MSK_IAM":
        jar_paths = [*jar_paths, *jars.classpath("msk")]
    return {
        **OPTIONS["here"],
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jar_paths)),
        "spark.sql.warehouse.dir": str(jars.cache() / "warehouse"),
        **({"spark.sql.adaptive.enabled": "false"} if batch else {}),
    }


class Together:
    """Runs jobs of the query in whose batch it is called: while the driver commits one, executors work on another."""

    def __init__(self) -> None:
        # Kept: each thread has a connection to the JVM, which outlives it.
        self._threads = ThreadPoolExecutor(thread_name_prefix="job")

    def __call__(self, spark: SparkSession, jobs: Sequence[Callable[[], None]]) -> None:
        """Run them, and return once all have ended. Raises the first error."""
        # They are the query's, and end with it. What says so each thread changes for itself: it gets a copy.
        running = [self._threads.submit(inheritable_thread_target(spark)(job)) for job in jobs]
        wait(running)
        for ended in running:
            ended.result()
