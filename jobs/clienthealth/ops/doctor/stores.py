"""Checks of where state and reviews are kept: tried by Spark as the monitor does it, with these options and rights."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clienthealth.model.errors import DependencyError, StateError
from clienthealth.model.wording import listing
from clienthealth.ops.doctor import Finding
from clienthealth.platform.locations import is_url
from clienthealth.settings import Settings

#: A monitor that cannot write its checkpoint stops.
MIN_FREE_BYTES = 1_000_000_000
CHECKPOINT, HISTORY = "monitor.checkpoint", "monitor.history"


def places_work(settings: Settings) -> Iterator[Finding]:
    """Can checkpoint, history and reviews be kept where the settings say: files written, tables opened."""
    places = {
        CHECKPOINT: settings.monitor.checkpoint,
        HISTORY: settings.monitor.history,
        "review.out": settings.review.out,
    }
    left = dict(places)
    for about, place in places.items():
        if not is_url(place) and (why := _unfit(place)):
            yield Finding(about, "failed", why)
            del left[about]
    if importlib.util.find_spec("pyspark") is None:
        for about, place in left.items():
            yield Finding(about, "skipped", f"PySpark is not installed here, so nobody tried to write {place}.")
    elif left:
        yield from _tried(settings, left)


def _there(place: str) -> Path:
    """The folder of this machine, or the nearest above it that is there."""
    return next(folder for folder in (Path(place), *Path(place).parents) if folder.exists())


def _unfit(place: str) -> str | None:
    """Why a folder of this machine cannot be used; None where it seems that it can."""
    folder = _there(place)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return f"{place} cannot be written: {folder} belongs to another user or is a file."
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        return f"The disk of {place} has {free / 1e6:.0f} MB left; at least 1 GB is needed."
    return None


def _tried(settings: Settings, places: Mapping[str, str]) -> Iterator[Finding]:
    from clienthealth.spark.files import probe
    from clienthealth.spark.history import probe as probe_tables
    from clienthealth.spark.session import session

    try:
        spark = session("kafka-client-health-doctor", settings, batch=True)
    except DependencyError as error:
        for about in places:
            yield Finding(about, "failed", f"{error}.")
        return
    try:
        for about, place in places.items():
            with _left_as_it_was(place):
                why = probe(spark, place) or (probe_tables(spark, place) if about == HISTORY else None)
            what = "tables are made and read there" if about == HISTORY else "files are written and read there"
            if why is None and (apart := _apart(spark, settings, about)):
                yield Finding(about, "warning", f"{apart}.")
            elif why is None:
                free = "" if is_url(place) else f", {shutil.disk_usage(_there(place)).free / 1e9:.0f} GB are free"
                yield Finding(about, "ok", f"{place}: {what}{free}.")
            elif is_url(place):
                yield Finding(
                    about,
                    "failed",
                    f"{place} cannot be used: {why}. Look at the bucket, [spark] options (spark.hadoop.fs.s3a.…) "
                    "and at the credentials: deploy/README.md, object stores.",
                )
            else:
                yield Finding(about, "failed", f"{place} cannot be used: {why}.")
    finally:
        spark.stop()


def _apart(spark: Any, settings: Settings, about: str) -> str | None:
    """Why checkpoint, history and topics do not fit together, as after a restore; None where they do."""
    from clienthealth.platform.self_monitoring import SelfMetrics
    from clienthealth.spark.checkpoint import Checkpoint
    from clienthealth.spark.losses import Losses
    from clienthealth.spark.query import checkpoint_of
    from clienthealth.spark.restored import compared, sentence

    checkpoint = Checkpoint(spark, checkpoint_of(settings))
    try:
        if about == HISTORY and checkpoint.begun:
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
    return gone and f"{gone} were deleted by Kafka before the monitor read them: that time is a gap in reviews"


@contextmanager
def _left_as_it_was(place: str) -> Iterator[None]:
    """Folders that were made are deleted again: the doctor may be another user than the monitor."""
    folders = () if is_url(place) else (Path(place), *Path(place).parents)
    made = [folder for folder in folders if not folder.exists()]
    yield
    for folder in made:
        with suppress(OSError):  # others have begun to use it
            folder.rmdir()
