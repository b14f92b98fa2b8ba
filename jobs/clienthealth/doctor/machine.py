"""Checks of this machine: Java, jars, folders."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from clienthealth.doctor import Finding
from clienthealth.errors import DependencyError
from clienthealth.platform import jars
from clienthealth.platform.java import has_compiler, java, version
from clienthealth.platform.locations import is_url
from clienthealth.settings import Settings

#: A monitor that cannot write its checkpoint stops.
MIN_FREE_BYTES = 1_000_000_000


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


def folders_writable(settings: Settings) -> Iterator[Finding]:
    """Can checkpoints and history be written, where they are on this machine."""
    for name in ("checkpoint", "history"):
        location = str(getattr(settings.monitor, name))
        about = f"monitor.{name}"
        if is_url(location):
            continue  # `stores.py` tries
        folder = next(f for f in (Path(location).resolve(), *Path(location).resolve().parents) if f.exists())
        free = shutil.disk_usage(folder).free
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            yield Finding(
                about, "failed", f"{location} cannot be written: {folder} belongs to another user or is a file."
            )
        elif free < MIN_FREE_BYTES:
            yield Finding(
                about, "failed", f"The disk of {location} has {free / 1e6:.0f} MB left; at least 1 GB is needed."
            )
        else:
            yield Finding(about, "ok", f"{location} can be written, and {free / 1e9:.0f} GB are free there.")
