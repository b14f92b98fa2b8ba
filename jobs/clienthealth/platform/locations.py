"""Work with locations (paths on this machine, and URLs that Spark reaches) and with a checkout of the repository."""

from __future__ import annotations

import importlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from clienthealth.model.errors import DependencyError, HealthError, SettingsError

log = logging.getLogger(__name__)
_T = TypeVar("_T")
S3 = "s3a://"


def is_url(location: str) -> bool:
    """True if the location is a URL, not a folder of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", location) is not None


def absolute(location: str, folder: str = "") -> str:
    """Return a location as a URL or an absolute path, because Delta accepts no relative path.

    A URL stays unchanged. `folder`: the folder (path or URL) that contains a relative location; '' for the current
    folder.
    """
    if is_url(location) or "://" in location:
        return location
    return inside(folder, location) if is_url(folder) else str(Path(folder, location).absolute())


def on_s3(*locations: str) -> bool:
    """True if any of these locations is on S3."""
    return any(location.startswith(S3) for location in locations)


def inside(location: str, name: str) -> str:
    """Return the location of the file or folder `name` in `location` (a folder or URL)."""
    return f"{location.rstrip('/')}/{name}"


def written(file: str) -> str:
    """Return the text of a file that a user wrote. Raises SettingsError if the file cannot be read as UTF-8."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: not UTF-8") from None


class Reread(Generic[_T]):
    """Keep the content of files, and read it again after a file has changed. Thread-safe.

    `read`: reads and returns the content. If `read` fails after a change, the previous content stays in force.
    `former`: content to use if the first call of `read` fails; if `former` is None, the error is raised. `readable`:
    False if the last call of `read` failed. `what`: name of the content in the log.
    """

    def __init__(
        self, what: str, files: Sequence[str | Path], read: Callable[[], _T], former: _T | None = None
    ) -> None:
        self._what, self._files, self._read = what, files, read
        self._lock = threading.Lock()
        self._stamp: object = None if former is not None else self._stamps()
        self._content = former if former is not None else read()
        self.readable = True
        self._unopened = False

    def current(self) -> _T:
        """Return the content. The content is a new object only after one of the files has changed."""
        with self._lock:
            changed = (stamp := self._stamps()) != self._stamp
            if changed or self._unopened:
                self._stamp = stamp
                try:
                    self._content, self.readable, self._unopened = self._read(), True, False
                    log.info("%s were read", self._what)
                except HealthError as error:
                    self.readable, self._unopened = False, isinstance(error.__cause__, OSError)
                    if changed or not self._unopened:
                        log.warning("the previous %s stay in force: %s", self._what, error)
            return self._content

    def _stamps(self) -> list[object]:
        stamps: list[object] = []
        for file in self._files:
            with suppress(OSError):
                known = Path(file).stat()
                stamps.append((file, known.st_ino, known.st_size, known.st_mtime_ns))
        return stamps


def checkout() -> Path:
    """Return the folder of the checkout from which this package runs.

    Raises DependencyError if this package does not run from a checkout.
    """
    folder = Path(__file__).resolve().parents[3]
    if not (folder / "pyproject.toml").is_file():
        raise DependencyError(
            "this command works only in a checkout of the repository: clone the repository and run 'make setup'"
        )
    return folder


def of_checkout(module: str) -> ModuleType:
    """Import a module that only a checkout has (dashboards, alerts, the demo) by its dotted name.

    Raises DependencyError if this package does not run from a checkout.
    """
    folder = str(checkout())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(module)
