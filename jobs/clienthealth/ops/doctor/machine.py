"""Checks of this machine: Java, jars, and the codecs that a topic may be compressed with.

The monitor reads by Kafka's Java client, which brings all codecs along; the exporters read by kafka-python, which needs
a library for each but gzip.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping

from kafka import codec

from clienthealth.model.errors import DependencyError
from clienthealth.ops.doctor import Finding
from clienthealth.platform import jars
from clienthealth.platform.java import has_compiler, java, version
from clienthealth.settings import Settings

#: What Kafka may compress with → whether kafka-python has what it needs for it.
READABLE: Mapping[str, Callable[[], bool]] = {
    "gzip": codec.has_gzip,
    "snappy": codec.has_snappy,
    "lz4": codec.has_lz4,
    "zstd": codec.has_zstd,
}
REMEDY = "pip install 'kafka-client-health[exporters]'"


def java_works(_: Settings) -> Iterator[Finding]:
    """Is there a Java that Spark runs on."""
    try:
        path = java()
        number = version(path)
    except DependencyError as error:
        yield Finding("java", "failed", f"{error}.")
        return
    kit = "a development kit, which the demo needs" if has_compiler(path) else "a runtime; the demo needs a JDK"
    yield Finding("java", "ok", f"Java {number} at {path} is {kit}.")


def jars_present(_: Settings) -> Iterator[Finding]:
    """Are Spark's connectors there; fetches them if they are not."""
    if importlib.util.find_spec("pyspark") is None:
        yield Finding("jars", "skipped", "PySpark is not installed here, so this machine runs exporters only.")
        return
    try:
        paths = jars.classpath("spark")
    except DependencyError as error:
        yield Finding("jars", "failed", f"{error}.")
        return
    yield Finding("jars", "ok", f"The {len(paths)} jars of Spark's connectors are in {jars.cache()}.")


def missing() -> list[str]:
    """The codecs that nothing here can unpack."""
    return [name for name, has in READABLE.items() if not has()]


def codecs_present(_: Settings) -> Iterator[Finding]:
    """Are the libraries there that the exporters unpack with."""
    if lacking := missing():
        text = f"No library here unpacks {', '.join(lacking)}; an exporter stops at the first such record: {REMEDY}"
        yield Finding("codecs", "warning", text)
    else:
        yield Finding("codecs", "ok", f"Python reads topics compressed with {', '.join(READABLE)}.")


def of_topic(about: str, compression: str) -> Finding:
    """What a topic's compression.type means here: a codec, `uncompressed`, or `producer` for what producers choose."""
    lacking = missing()
    if compression in lacking:
        return Finding(about, "failed", f"It is compressed with {compression}, which nothing here unpacks: {REMEDY}")
    if compression == "producer" and lacking:
        text = f"Its producers choose the compression (compression.type=producer); {', '.join(lacking)} cannot be read."
        return Finding(about, "warning", f"{text} To mend it: {REMEDY}")
    chosen = "as its producers choose" if compression == "producer" else f"with {compression}"
    return Finding(about, "ok", f"It is compressed {chosen}, which can be read here.")
