"""Where things are kept: folders of this machine, or URLs of file systems that Spark reaches."""

from __future__ import annotations

import re
from pathlib import Path

from clienthealth.model.errors import SettingsError

#: Hadoop's client of S3, and of what speaks as S3 does.
S3 = "s3a://"


def is_url(location: str) -> bool:
    """Is it none of this machine's folders."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", location) is not None


def absolute(location: str, folder: str = "") -> str:
    """The location, in this folder (the current one) where it is relative. Delta takes nothing else.

    What holds a URL stays as it is: a folder's name would lose a slash of it, and with it what hides its password.
    """
    if is_url(location) or "://" in location:
        return location
    return inside(folder, location) if is_url(folder) else str(Path(folder, location).absolute())


def on_s3(*locations: str) -> bool:
    """Is any of these on S3."""
    return any(location.startswith(S3) for location in locations)


def inside(location: str, name: str) -> str:
    """The folder of this name in a folder or URL."""
    return f"{location.rstrip('/')}/{name}"


def written(file: str) -> str:
    """What people have written in a file. Raises SettingsError."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: not UTF-8") from None
