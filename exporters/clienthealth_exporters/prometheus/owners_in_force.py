"""The owners of services, read again when their files change, without a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from clienthealth.configuration.owners import Owners, read_owners
from clienthealth.model.errors import HealthError

log = logging.getLogger(__name__)
#: So often it is looked whether they have changed.
LOOK_SECONDS = 5.0


class OwnersInForce:
    """Thread-safe. A change that cannot be read is logged, and what was read before stays in force.

    Raises SettingsError or DependencyError where the files cannot be read at the beginning.
    """

    def __init__(self, files: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = self._stamps()
        self._looked = clock() if files else inf
        self._owners = read_owners(files)
        self.readable = True

    @property
    def files(self) -> Sequence[str]:
        """Where they stand."""
        return self._files

    def current(self) -> Owners:
        """The owners; the same object as long as no file has changed."""
        with self._lock:
            if self._clock() >= self._looked + LOOK_SECONDS:
                self._looked = self._clock()
                stamp = self._stamps()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._read()
            return self._owners

    def _read(self) -> None:
        try:
            self._owners = read_owners(self._files)
        except HealthError as error:
            self.readable = False
            log.warning("owners stay as they were: %s", error)
        else:
            self.readable = True
            log.info("owners were read again: %d rows", len(self._owners.rows))

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp(Path(file)) for file in self._files)


def _stamp(path: Path) -> object:
    """What changes with a file; one that is not there is a change, too."""
    try:
        known = path.stat()
    except OSError:
        return None
    return known.st_ino, known.st_size, known.st_mtime_ns
