"""What speaks for its absence where a client is looked at once, and when a thread dump is worth taking."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.modes._evidence import NEVER_SECONDS
from clienthealth.modes._once import Look, io_thread
from clienthealth.modes._two_readings import TwoReadings
from clienthealth.modes.send_blocked_on_metadata.rules import Thresholds


def doubt(look: Look) -> str:
    """Metrics, or two dumps in which the I/O thread is at work and nobody waits."""
    if look.measured:
        return ""
    dumps, what = io_thread(look.window)
    return look.twice(dumps, "no caller of send() waits for metadata" if dumps else what)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """There never was any metadata, or records fail."""
    before, now = readings.before, readings.now
    if before and min(reading.metrics.get("metadata-age", 0.0) for reading in (before, now)) > NEVER_SECONDS:
        yield "it never had metadata of the cluster"
    if failed := readings.risen("record-error-total"):
        yield f"{failed:.0f} records failed since the last reading"
