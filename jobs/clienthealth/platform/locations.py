"""Where things are kept: folders of this machine, or URLs of file systems that Spark reaches; a checkout's parts."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from clienthealth.model.errors import DependencyError, SettingsError

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


def checkout() -> Path:
    """The checkout that this package is used from. Raises DependencyError where it is installed without one."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / "pyproject.toml").is_file():
        raise DependencyError(
            "this command works in a checkout of the repository only: git clone it and run 'make setup'"
        )
    return folder


def of_checkout(module: str) -> ModuleType:
    """Import a module that is not installed (dashboards, alerts, the demo) by its dotted name from the checkout."""
    folder = str(checkout())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(module)
