"""Waiting for a condition, not for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.05
#: Only a test that fails waits for so long; a busy machine is no failure.
WAIT_SECONDS = 300.0


def eventually(done: Callable[[], T | None], what: str = "it", seconds: float = WAIT_SECONDS) -> T:
    """What `done` gives once that is true. Raises TimeoutError: `what` did not come to pass."""
    deadline = time.monotonic() + seconds
    while True:
        if result := done():
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(PAUSE_SECONDS)
