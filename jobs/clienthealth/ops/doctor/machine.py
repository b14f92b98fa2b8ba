"""Check this machine's Java, jars and compression codecs, and the folders of checkpoint, history and reviews.

The exporters read with kafka-python, which needs a library for each codec except gzip.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka import codec

from clienthealth.model.errors import DependencyError, StateError
from clienthealth.model.wording import listing
from clienthealth.ops.doctor import Finding
from clienthealth.platform import jars
from clienthealth.platform.jars import has_compiler, java, version
from clienthealth.platform.locations import is_url
from clienthealth.settings import Settings

READABLE: Mapping[str, Callable[[], bool]] = {
    name: getattr(codec, f"has_{name}") for name in ("gzip", "snappy", "lz4", "zstd")
}
MIN_FREE_BYTES = 1_000_000_000
CHECKPOINT, HISTORY = "monitor.checkpoint", "monitor.history"
REMEDY = "pip install 'kafka-client-health[exporters]'"


def java_works(_: Settings) -> Iterator[Finding]:
    """Check that there is a Java on which Spark runs."""
    try:
        path = java()
        kit = "a JDK, which the demo needs" if has_compiler(path) else "a JRE; the demo needs a JDK"
        yield Finding("java", "ok", f"Java {version(path)} at {path} is {kit}.")
    except DependencyError as error:
        yield Finding("java", "failed", f"{error}.")


def jars_present(_: Settings) -> Iterator[Finding]:
    """Check that the jars of Spark's connectors are present; download missing jars."""
    if importlib.util.find_spec("pyspark") is None:
        yield Finding("jars", "skipped", "PySpark is not installed here, so this machine can run only the exporters.")
        return
    try:
        paths = jars.classpath("spark")
        yield Finding("jars", "ok", f"The {len(paths)} jars of Spark's connectors are in {jars.cache()}.")
    except DependencyError as error:
        yield Finding("jars", "failed", f"{error}.")


def missing() -> list[str]:
    """Return the compression codecs for which kafka-python has no library on this machine."""
    return [name for name, has in READABLE.items() if not has()]


def codecs_present(_: Settings) -> Iterator[Finding]:
    """Check that the exporters have a decompression library for each codec."""
    if lacking := missing():
        text = f"Exporters stop at records that are compressed with {', '.join(lacking)}. Remedy: {REMEDY}"
        yield Finding("codecs", "warning", text)
    else:
        yield Finding("codecs", "ok", f"Python reads topics compressed with {', '.join(READABLE)}.")


def of_topic(about: str, compression: str) -> Finding:
    """Report whether the exporters on this machine can decompress the records of a topic.

    `about`: the finding's name. `compression`: the topic's `compression.type`: a codec, `uncompressed` or `producer`.
    """
    lacking = missing()
    if compression in lacking:
        return Finding(
            about,
            "failed",
            f"The topic is compressed with {compression}, which the exporters here cannot read. Remedy: {REMEDY}",
        )
    if compression == "producer" and lacking:
        text = f"Producers choose the codec (compression.type). Exporters cannot read {', '.join(lacking)} here."
        return Finding(about, "warning", f"{text} Remedy: {REMEDY}")
    if compression == "uncompressed":
        return Finding(about, "ok", "The topic is not compressed.")
    chosen = "with the codecs of its producers" if compression == "producer" else f"with {compression}"
    return Finding(about, "ok", f"The topic is compressed {chosen}, which the exporters here can read.")


def places_work(settings: Settings) -> Iterator[Finding]:
    """Check that this user may write to the folders of checkpoint, history and reviews, and that disk space is free.

    If PySpark is installed, the check also writes a test file to each folder, and test tables to the history. The check
    then compares the checkpoint with the history, and with the topics.
    """
    places = {
        CHECKPOINT: settings.monitor.checkpoint,
        HISTORY: settings.monitor.history,
        "review.out": settings.review.out,
    }
    left = dict(places)
    for about, place in places.items():
        if is_url(place):
            continue
        folder = _there(place)
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            why = f"{place} cannot be written: {folder} belongs to another user or is a file."
        elif (free := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
            why = f"The disk of {place} has {free / 1e6:.0f} MB left; at least 1 GB is needed."
        else:
            continue
        yield Finding(about, "failed", why)
        del left[about]
    if importlib.util.find_spec("pyspark") is None:
        for about, place in left.items():
            yield Finding(
                about, "skipped", f"PySpark is not installed here, so this check did not try to write to {place}."
            )
    elif left:
        yield from _tried(settings, left)


def _there(place: str) -> Path:
    return next(folder for folder in (Path(place), *Path(place).parents) if folder.exists())


def _tried(settings: Settings, places: Mapping[str, str]) -> Iterator[Finding]:
    from clienthealth.spark.files import probe
    from clienthealth.spark.history import probe as probe_tables
    from clienthealth.spark.session import session

    try:
        spark = session("kafka-client-health-doctor", settings)
    except DependencyError as error:
        for about in places:
            yield Finding(about, "failed", f"{error}.")
        return
    try:
        for about, place in places.items():
            with _left_as_it_was(place):
                why = probe(spark, place) or (probe_tables(spark, place) if about == HISTORY else None)
            what = f"test {'tables' if about == HISTORY else 'files'} were written and read"
            if why is None and (apart := _apart(spark, settings, about)):
                yield Finding(about, "warning", f"{apart}.")
            elif why is None:
                free = "" if is_url(place) else f", and {shutil.disk_usage(_there(place)).free / 1e9:.0f} GB are free"
                yield Finding(about, "ok", f"{place}: {what}{free}.")
            else:
                look = " Check the bucket, [spark] options (spark.hadoop.fs.s3a.…) and the credentials; see "
                remedy = f"{look}deploy/cluster.md, object stores." if is_url(place) else ""
                yield Finding(about, "failed", f"{place} cannot be used: {why}.{remedy}")
    finally:
        spark.stop()


def _apart(spark: Any, settings: Settings, about: str) -> str | None:
    """Return why checkpoint, history and topics do not match; None or '' if they match."""
    from clienthealth.spark.checkpoint import Checkpoint
    from clienthealth.spark.losses import Losses
    from clienthealth.spark.query import checkpoint_of
    from clienthealth.spark.restored import compared, sentence
    from clienthealth.spark.self_monitoring import SelfMetrics

    checkpoint = Checkpoint(spark, checkpoint_of(settings))
    try:
        if about == HISTORY and checkpoint.newest is not None:
            return sentence(compared(spark, settings.monitor.history, checkpoint), settings, datetime.now(UTC))
        positions = checkpoint.positions() if about == CHECKPOINT else {}
    except StateError as error:
        return str(error)
    if not positions:
        return None
    losses = Losses(spark, settings, SelfMetrics())
    try:
        deleted = losses.deleted(positions)
    finally:
        losses.close()
    gone = listing(f"{count} records of {topic}" for topic, count in deleted.items())
    return gone and f"Kafka deleted {gone} before the monitor read these records, so reviews have a gap"


@contextmanager
def _left_as_it_was(place: str) -> Iterator[None]:
    """Delete the folders that the `with` block created.

    The folders belong to this user. A monitor that runs as another user could not write to the folders.
    """
    folders = () if is_url(place) else (Path(place), *Path(place).parents)
    made = [folder for folder in folders if not folder.exists()]
    yield
    for folder in made:
        with suppress(OSError):  # The folder is not empty: another program uses it.
            folder.rmdir()
