"""What speaks for its absence where a client is looked at once, and when a thread dump is worth taking."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.logs.self_descriptions import CONNECTOR_CONFIG
from clienthealth.model.readings import ThreadDump
from clienthealth.modes._evidence import events, has_frame
from clienthealth.modes._once import NOTHING, Look
from clienthealth.modes._two_readings import TwoReadings
from clienthealth.modes.consumer_shutdown_loop.lines import BEGUN, COMPLETED, FAILED, LOOKUPS
from clienthealth.modes.consumer_shutdown_loop.rules import LOOKUP_FRAME, Thresholds
from clienthealth.windows.client_window import ClientWindow


def doubt(look: Look) -> str:
    """A shutdown that completed; else metrics, or two dumps in which no thread looks for its offset manager.

    None of these where a shutdown, or a search, has begun whose end nobody saw.
    """
    marks = events(look.window, CONNECTOR_CONFIG, LOOKUPS, BEGUN, COMPLETED, FAILED)
    if marks and marks[-1] in BEGUN:
        return "the connector began to shut down, and the records end before it has"
    if look.measured:
        return ""
    if marks and marks[-1] in LOOKUPS:
        return "a search for the offset manager failed, and the records do not show how it ended"
    return "" if events(look.window, COMPLETED) else look.twice(*_looping(look.window))


def _looping(window: ClientWindow) -> tuple[list[ThreadDump], str]:
    looking = [t.name for dump in window.dumps for t in dump.threads if has_frame(t, LOOKUP_FRAME)]
    if looking:
        return [window.dumps[-1]], f"thread '{looking[0]}' looks for its offset manager"
    return list(window.dumps), "no thread loops" if window.dumps else NOTHING


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """Nobody has polled for so long that the consumer may be being closed."""
    away = readings.now.metrics.get("last-poll-seconds-ago", 0.0)
    if away >= thresholds.silent_poll_seconds:
        yield f"the last poll() was {away:.0f} s ago"
