"""Start and configure the Spark session, on this machine or under spark-submit. Only this module configures Spark."""

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
OPTIONS: Mapping[str, Mapping[str, str]] = table(Path(__file__).with_name("spark.toml"))
_JVM = OPTIONS["jvm"]
#: Memory in addition to the heap. Without this memory, the cluster manager would kill the process.
_BESIDE_HEAP = {"driver": "640m", "executor": "1g"}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(name: str, settings: Settings) -> SparkSession:
    """Return the Spark session of this process, and start it if necessary. `name`: the program's name in Spark.

    Raises DependencyError if Java is missing, or if jars are missing and cannot be fetched.
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
        options = {**options, **_on_this_machine(settings)}
        conf = SparkConf().setAll([("spark.app.name", name), *options.items()])

        def start() -> None:
            # Ignore an error here, because `getOrCreate` below raises it again.
            with suppress(PySparkRuntimeError):
                SparkContext._ensure_initialized(conf=conf)

        # Start the JVM in another thread: if Ctrl-C interrupted the start, the JVM would go on running.
        starting = threading.Thread(target=start, name="start of the JVM", daemon=True)
        starting.start()
        starting.join()
    spark = builder.config(map=dict[str, Any](options)).getOrCreate()
    # Keep these Java classes. Otherwise PySpark would search all jars for these classes whenever it creates a column.
    jvm = cast(Any, spark._jvm)
    jvm.py4j = SimpleNamespace(reflection=SimpleNamespace(TypeUtil=jvm.py4j.reflection.TypeUtil))
    for kept in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        setattr(jvm, kept, getattr(jvm, kept))
    return spark


def archive_classes(spark: SparkSession, draft: Path) -> None:
    """Archive the JVM's loaded classes (AppCDS), so that later JVMs start faster.

    `draft`: temporary path of the archive.
    """
    cast(Any, spark._jvm).org.codehaus.janino.ScriptEvaluator(_JVM["archive"] % draft).evaluate(None)
    jars.keep_archive(draft, spark.conf.get("spark.driver.extraClassPath", "") or "")


@contextmanager
def configured(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Set options of the running session for the duration of the block. Each option must already have a value."""
    before = {name: str(spark.conf.get(name)) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def submitted() -> bool:
    """True if spark-submit started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _jvm(settings: Settings) -> str:
    return " ".join(_JVM["flags"].split()) + jvm_flags(settings.kafka.options)


def driver_options(settings: Settings) -> Mapping[str, str]:
    """Return the Spark options that must be set before the driver's JVM starts.

    If spark-submit starts the program, give these options to spark-submit.
    """
    return {
        "spark.driver.memory": f"{settings.monitor.heap_mb}m",
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {_jvm(settings)}",
    }


def submit_options(settings: Settings, cluster: bool) -> Mapping[str, str]:
    """Return options for spark-submit, which give each JVM the heap and the flags that a JVM has without spark-submit.

    `cluster`: True if the driver runs on another machine than spark-submit.
    """
    log4j = f"-Dlog4j2.configurationFile={_LOG4J.name if cluster else _LOG4J.as_uri()}"
    options = {
        **{f"spark.{part}.memoryOverhead": size for part, size in _BESIDE_HEAP.items()},
        **settings.spark.options,
        **{f"spark.{part}.memory": f"{settings.monitor.heap_mb}m" for part in _BESIDE_HEAP},
        _JAVA_OPTIONS: f"{log4j} {_jvm(settings)}",
        # An executor starts before our logging configuration arrives.
        "spark.executor.extraJavaOptions": f"-Dlog4j2.level=WARN {_jvm(settings)}",
    }
    return {**options, "spark.files": str(_LOG4J)} if cluster else options


def missing_driver_options(spark: SparkSession, settings: Settings) -> list[str]:
    """Return the flags in `driver_options` that the running JVM lacks: one text `OPTION: FLAGS` per option."""
    in_force = {key: spark.conf.get(key, "") or "" for key in driver_options(settings)}
    lacks = {
        # Do not compare the path of the logging configuration: it differs between machines.
        key: [flag for flag in value.split() if flag.partition("file:")[0] not in in_force[key]]
        for key, value in driver_options(settings).items()
    }
    return [f"{key}: {' '.join(flags)}" for key, flags in lacks.items() if flags]


def class_path(settings: Settings) -> str:
    """Return the class path of our own jars.

    Raises DependencyError if a jar cannot be downloaded.
    """
    jar_paths: list[Path | None] = [*jars.classpath("spark")]
    if on_s3(settings.monitor.checkpoint, settings.monitor.history, settings.review.out):
        jar_paths += jars.classpath("s3")
    if settings.kafka.options.get("sasl.mechanism") == "AWS_MSK_IAM":
        jar_paths += jars.classpath("msk")
    return os.pathsep.join(map(str, filter(None, [*jar_paths, jars.local_files()])))


def _on_this_machine(settings: Settings) -> Mapping[str, str]:
    paths, in_force = class_path(settings), driver_options(settings)
    archive = jars.class_archive(paths) if settings.monitor.class_archive else None
    flags = f" -Xlog:cds*=off -XX:SharedArchiveFile={archive}" if archive else ""
    return {
        **OPTIONS["here"],
        **(OPTIONS["local files"] if jars.local_files() else {}),
        **in_force,
        _JAVA_OPTIONS: in_force[_JAVA_OPTIONS] + flags,
        "spark.driver.extraClassPath": paths,
        "spark.sql.warehouse.dir": str(jars.cache() / "warehouse"),
    }


class Together:
    """Run several Spark jobs at the same time: executors work on one job while the driver commits another."""

    def __init__(self) -> None:
        # Reuse threads, because each new thread leaves a connection to the JVM open.
        self._threads = ThreadPoolExecutor(thread_name_prefix="job")

    def __call__(self, spark: SparkSession, jobs: Sequence[Callable[[], None]]) -> None:
        """Run the jobs until all have ended. Then raise the error of the first job in `jobs` that failed."""
        # Without `inheritable_thread_target`, stopping the query would not stop the job.
        running = [self._threads.submit(inheritable_thread_target(spark)(job)) for job in jobs]
        wait(running)
        for ended in running:
            ended.result()
