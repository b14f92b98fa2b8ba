"""What is at hand outside of the stream's windows: a client that is looked at once, and two readings of one.

Looked at once, after the fact: what speaks for health? That is the question that a post-mortem asks. A stream judges a
client again half a minute later. Here a thread dump that shows nothing wrong is no health: two of them, ten seconds
apart, are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import Reading, ThreadDump
from clienthealth.modes._evidence import used_bytes
from clienthealth.modes._io_thread import at_work, in_callback, network_threads

#: Dumps so far apart show whether a thread goes on; people count to ten by hand.
APART_MS = 9_000
NOTHING = "neither metrics nor a thread dump"
UNMEASURED = "neither a thread dump nor a log shows that it is absent, and there are too few metrics"


@dataclass(frozen=True, slots=True)
class Look:
    """All that there is of a client.

    window    its log events, and the dumps of its process; not its readings
    measured  its metrics were read often enough to be judged
    untimed   nobody says how far its dumps are apart
    """

    window: ClientWindow
    measured: bool
    untimed: bool

    def twice(self, dumps: Sequence[ThreadDump], what: str) -> str:
        """Why dumps that show what is healthy are not enough, '' where they are; `what` where there are none."""
        if not dumps:
            return what
        if len(dumps) > 1 and self.untimed:
            return f"{what} in {len(dumps)} dumps, but nobody says how far they are apart"
        if dumps[-1].ts_ms - dumps[0].ts_ms < APART_MS:
            return f"{what}, but no dump ten seconds later"
        return ""


def unmeasured(look: Look) -> str:
    """Nothing but metrics shows that the mode is absent."""
    return "" if look.measured else UNMEASURED


def io_thread(window: ClientWindow) -> tuple[list[ThreadDump], str]:
    """The dumps that show the client's I/O thread at work, and what they show."""
    sightings = list(network_threads(window))
    if any(in_callback(thread) for _, thread in sightings):
        return [window.dumps[-1]], "the I/O thread is inside a callback"
    healthy = [dump for dump in window.dumps if any(seen is dump and at_work(thread) for seen, thread in sightings)]
    if healthy:
        return healthy, "a healthy I/O thread"
    if sightings:
        return [], "the dump shows the I/O thread, but not all of its stack"
    return [], "no dump shows the producer's I/O thread" if window.dumps else NOTHING


@dataclass(frozen=True, slots=True)
class TwoReadings:
    """All that is at hand where it is decided whether to take a dump: the newest reading of a client, the one before it
    (None at first), and the client's options.
    """

    before: Reading | None
    now: Reading
    config: Mapping[str, str]

    def risen(self, name: str) -> float | None:
        """By how much a counter rose; None where that is not known."""
        first, last = None if self.before is None else self.before.get(name), self.now.get(name)
        return None if first is None or last is None else last - first

    @property
    def used_bytes(self) -> float:
        """Bytes of the buffer that are in use, 0 where that is not known."""
        return used_bytes(self.now) or 0.0
