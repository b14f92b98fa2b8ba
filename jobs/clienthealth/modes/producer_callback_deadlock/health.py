"""What speaks for its absence where a client is looked at once, and when a thread dump is worth taking."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.modes._evidence import events
from clienthealth.modes._once import Look, io_thread
from clienthealth.modes._two_readings import TwoReadings
from clienthealth.modes.producer_callback_deadlock.lines import EXHAUSTED
from clienthealth.modes.producer_callback_deadlock.rules import Thresholds

#: A buffer this full is worth a look; without select-total (before 1.0) half of it must do.
FULL_RATIO, HALF_FULL_RATIO = 0.8, 0.5


#: What an on-call engineer attaches most: the exception of a send().
FULL = "send() found no room in the buffer; whether its thread is stuck or brokers are slow, no metrics or dumps tell"


def doubt(look: Look) -> str:
    """Metrics, or two dumps that find the I/O thread at work."""
    if look.measured:
        return ""
    dumps, what = io_thread(look.window)
    return look.twice(dumps, FULL if not dumps and events(look.window, EXHAUSTED) else what)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """The selector stands with work waiting, or the buffer fills."""
    metrics, used = readings.now.metrics, readings.used_bytes
    waiting = metrics.get("waiting-threads", 0.0)
    if (used > 0 or waiting > 0) and readings.risen("select-total") == 0:
        yield f"select-total stands at {metrics['select-total']:.0f} with {used:.0f} bytes in the buffer"
    if waiting > 0:
        yield f"{waiting:.0f} threads wait for buffer memory"
    ratio = used / metrics["buffer-total-bytes"] if used else 0.0
    if ratio >= (FULL_RATIO if "select-total" in metrics else HALF_FULL_RATIO):
        yield f"the buffer is {ratio:.0%} full"
