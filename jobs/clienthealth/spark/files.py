"""Access files of a folder or URL through Hadoop's file systems (disks, HDFS, object stores), as Spark does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from clienthealth.platform.locations import is_url


class Files:
    """The files under `root`, a folder or URL."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._path, self._root = jvm.org.apache.hadoop.fs.Path, root.rstrip("/")
        self._scanner = jvm.java.util.Scanner
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._path(self._root).getFileSystem(configuration)
        manager = getattr(jvm, "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$")
        self._manager = getattr(manager, "MODULE$").create(self._path(self._root), configuration)

    def exists(self, name: str) -> bool:
        """True if there is a file or folder of this name."""
        return bool(self._files.exists(self._path(f"{self._root}/{name}")))

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if the file does not exist."""
        if not self.exists(name):
            return None
        stream = self._files.open(self._path(f"{self._root}/{name}"))
        try:
            scanner = self._scanner(stream, "UTF-8").useDelimiter("\\A")
            return str(scanner.next()) if scanner.hasNext() else ""
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, either completely or not at all."""
        path = self._path(f"{self._root}/{name}")
        self._manager.mkdirs(path.getParent())
        stream = self._manager.createAtomic(path, True)
        try:
            stream.write(text.encode())
        except Py4JJavaError:
            stream.cancel()
            raise
        stream.close()

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with its content."""
        self._files.delete(self._path(f"{self._root}/{name}"), True)


def fetched(spark: SparkSession, location: str, scratch: Path, *names: str) -> Path:
    """Return a local folder with the files `names`: `location` itself, or `scratch` if `location` is a URL.

    If the URL's folder lacks a file, the file is copied from the parent folder.
    """
    if not is_url(location):
        return Path(location)
    for name in names:
        content = Files(spark, location).read(name)
        text = Files(spark, location.rstrip("/").rpartition("/")[0]).read(name) if content is None else content
        if text is not None:
            (scratch / name).write_text(text, encoding="utf-8")
    return scratch


def put(spark: SparkSession, files: Sequence[Path], location: str) -> None:
    """Copy files to `location` if it is a URL."""
    if is_url(location):
        folder = Files(spark, location)
        for file in files:
            folder.write(file.name, file.read_text(encoding="utf-8"))


def probe(spark: SparkSession, location: str) -> str | None:
    """Write and read a test file in `location`. Return the reason if a step fails; None if both steps succeed."""
    name, text = f".kafka-health-{uuid4()}", "kafka-health doctor"
    try:
        files = Files(spark, location)
        files.write(name, text)
        content = files.read(name)
        files.delete(name)
    except Py4JJavaError as error:
        return first_line(error)
    return None if content == text else "the test file that was read differs from the one that was written"


def first_line(error: Py4JJavaError | PySparkException) -> str:
    """Return the first line of a Java error, without the stack trace."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return text.splitlines()[0].rstrip(".")
