"""Checks of what is kept elsewhere than on this machine: can Spark write there, with these options and credentials."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from clienthealth.doctor import Finding
from clienthealth.errors import DependencyError
from clienthealth.platform.locations import is_url
from clienthealth.settings import Settings


def stores_writable(settings: Settings) -> Iterator[Finding]:
    """Can checkpoint, history and reviews be written where they are URLs. Starts Spark only then."""
    locations = {
        "monitor.checkpoint": settings.monitor.checkpoint,
        "monitor.history": settings.monitor.history,
        "review.out": settings.review.out,
    }
    urls = {about: location for about, location in locations.items() if is_url(location)}
    if urls and importlib.util.find_spec("pyspark") is None:
        for about, location in urls.items():
            yield Finding(about, "skipped", f"PySpark is not installed here, so nobody tried to write {location}.")
    elif urls:
        yield from _tried(settings, urls)


def _tried(settings: Settings, urls: dict[str, str]) -> Iterator[Finding]:
    from clienthealth.streaming.files import probe
    from clienthealth.streaming.session import session

    try:
        spark = session("kafka-client-health-doctor", settings, batch=True)
    except DependencyError as error:
        for about in urls:
            yield Finding(about, "failed", f"{error}.")
        return
    try:
        for about, location in urls.items():
            why = probe(spark, location)
            if why is None:
                yield Finding(about, "ok", f"{location} can be written, read and cleared.")
            else:
                yield Finding(
                    about,
                    "failed",
                    f"{location} cannot be written: {why}. Look at the bucket, [spark] options (spark.hadoop.fs.s3a.…) "
                    "and at the credentials: deploy/README.md, object stores.",
                )
    finally:
        spark.stop()
