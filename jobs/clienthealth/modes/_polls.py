"""When an application called poll(), as its consumer reports it."""

from __future__ import annotations

import numpy as np

from clienthealth.model.readings import ClientWindow, Reading, Sign
from clienthealth.windows.columns import Floats
from clienthealth.windows.view import Windows


def seconds_away(w: Windows) -> Floats:
    """How long the application stayed away from poll() at the longest, in seconds; NaN where it is not reported."""
    return np.fmax(w.max("last-poll-seconds-ago"), w.max("time-between-poll-max") / 1000)


def polled_ms(reading: Reading) -> int | None:
    """When the application called poll() last, at the latest; None where the client does not say it."""
    ago = reading.get("last-poll-seconds-ago")
    return None if ago is None else round(reading.ts_ms - 1000 * ago)


def has_polled(window: ClientWindow, since_ms: int) -> bool:
    """Is it known that the application called poll() after this time? What a dump then shows is of another consumer."""
    after = [reading for reading in window.readings if reading.ts_ms > since_ms]
    # The metric counts whole seconds.
    if any((at := polled_ms(reading)) is not None and at - 1000 > since_ms for reading in after):
        return True
    consumed = [total for reading in after if (total := reading.get("records-consumed-total")) is not None]
    return bool(consumed) and consumed[-1] > consumed[0]


def reports_in_poll(library: str | None) -> bool:
    """Does a library hand out its statistics (and, in Python, its log) in poll(), so that both stop with it?"""
    return "rdkafka" in (library or "").lower()


def lived(window: ClientWindow) -> Sign | None:
    """The newest sign that the process of a client goes on which reports no more; None where nothing shows it."""
    return max(window.alive, key=lambda sign: sign.ts_ms, default=None)


ENDED = (
    "its statistics, which come in poll(), have ended, and nothing shows whether its process lives: it may have ended, "
    "or not call poll()"
)
CLOSED = "it was closed, or its application does not call poll()"
