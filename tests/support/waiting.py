"""Waiting for a condition, not for a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.05
#: Only a test that fails waits for so long; a busy machine is no failure.
WAIT_SECONDS = 300.0


def patient(seconds: float) -> float:
    """A limit for a machine that does nothing else, on one that does: longer by what waits for each of its cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def eventually(done: Callable[[], T | None], what: str = "it", seconds: float = WAIT_SECONDS) -> T:
    """What `done` gives once that is true. Raises TimeoutError: `what` did not come to pass."""
    deadline = time.monotonic() + seconds
    while True:
        if result := done():
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(PAUSE_SECONDS)
