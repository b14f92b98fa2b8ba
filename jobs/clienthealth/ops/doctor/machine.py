"""Checks of this machine: Java, jars."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from clienthealth.model.errors import DependencyError
from clienthealth.ops.doctor import Finding
from clienthealth.platform import jars
from clienthealth.platform.java import has_compiler, java, version
from clienthealth.settings import Settings


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
