"""Wait for conditions instead of fixed times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.05
WAIT_SECONDS = 300.0


def patient(seconds: float) -> float:
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def eventually(done: Callable[[], T | None], what: str = "it", seconds: float = WAIT_SECONDS) -> T:
    """Return the first true result of `done()`.

    After `seconds` s, raise TimeoutError with a message that quotes `what`.
    """
    deadline = time.monotonic() + seconds
    while True:
        if result := done():
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(PAUSE_SECONDS)
