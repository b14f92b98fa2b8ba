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
#: Options that do not depend on the settings, by where they apply.
OPTIONS: Mapping[str, Mapping[str, str]] = table(Path(__file__).with_name("spark.toml"))
#: A small heap that returns unused memory: most large data is in Python workers. A JVM without memory ends at once and
#: is restarted, instead of lingering. Spark searches the message of a failed foreachBatch with an expression that
#: recurses for each character, hence the stack. Its classes take 190 MB; whenever they exceed the JVM's estimate, the
#: whole heap is collected. The thorough compiler takes code that runs ten times as often as usual: by default it costs
#: half of a start and most of an idle monitor's CPU; without it a backlog takes a tenth longer. (The quick compiler
#: alone gets a cache of 48 MB, which Spark overflows, and then compiles nothing more.)
_JVM = (
    "-XX:+UseSerialGC -Xms64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=25 -XX:+ExitOnOutOfMemoryError -Xss16m "
    "-XX:MetaspaceSize=192m "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000 -XX:ReservedCodeCacheSize=240m"
)
#: Memory outside the heap: threads, code and RocksDB of a JVM, and Python beside it. The request to a cluster must
#: include it, or the cluster kills the process.
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
            # A failed start is repeated by the next caller, which then gets the error.
            with suppress(PySparkRuntimeError):
                SparkContext._ensure_initialized(conf=conf)

        # In a thread: Ctrl-C during the JVM's start would delete the file that the JVM is to write, and the JVM would
        # stay.
        starting = threading.Thread(target=start, name="start of the JVM", daemon=True)
        starting.start()
        starting.join()
    spark = builder.config(map=dict[str, Any](options)).getOrCreate()
    # Cached: Java classes that PySpark looks up with each column, and twenty times with each exception, which ends
    # each iteration over a Java object. Py4J asks the JVM for a name each time, which searches all packages that
    # PySpark imports, in every jar: an eighth of all the JVM's work.
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
        # An executor starts before our files are there: Log4j's own default, with warnings.
        "spark.executor.extraJavaOptions": f"-Dlog4j2.level=WARN {_jvm(settings)}",
    }
    return {**options, "spark.files": str(_LOG4J)} if cluster else options


def missing_driver_options(spark: SparkSession, settings: Settings) -> list[str]:
    """Return those of `driver_options` without which the JVM of a submitted program was started."""
    in_force = {key: spark.conf.get(key, "") or "" for key in driver_options(settings)}
    lacks = {
        # The path of the logging file differs between machines.
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
        # Kept, because each thread has a connection to the JVM, which outlives it.
        self._threads = ThreadPoolExecutor(thread_name_prefix="job")

    def __call__(self, spark: SparkSession, jobs: Sequence[Callable[[], None]]) -> None:
        """Run them, and return once all have ended. Raises the first error."""
        # They belong to the query, and end with it. Each thread changes these properties for itself, so it gets a
        # copy.
        running = [self._threads.submit(inheritable_thread_target(spark)(job)) for job in jobs]
        wait(running)
        for ended in running:
            ended.result()
