"""Where things are kept: folders of this machine, or URLs of file systems that Spark reaches."""

from __future__ import annotations

#: Hadoop's client of S3, and of what speaks as S3 does.
S3 = "s3a://"


def is_url(location: str) -> bool:
    """Is it none of this machine's folders."""
    return "://" in location


def on_s3(*locations: str) -> bool:
    """Is any of these on S3."""
    return any(location.startswith(S3) for location in locations)


def inside(location: str, name: str) -> str:
    """The folder of this name in a folder or URL."""
    return f"{location.rstrip('/')}/{name}"
