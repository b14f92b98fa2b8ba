"""Decide whether `diagnose` rules a failure mode out, and whether a thread dump is worth taking.

`diagnose` gets no further data, so it needs evidence that the client is healthy. One thread dump without a fault is
not enough. Two dumps without a fault, ten seconds apart, are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import Reading, ThreadDump
from clienthealth.model.wording import elapsed
from clienthealth.modes._evidence import APART_MS, used_bytes
from clienthealth.modes._io_thread import at_work, in_callback, network_threads
from clienthealth.modes._polls import longest_between, seconds_since

NOTHING = "there are no metrics and no thread dump"
UNMEASURED = "no thread dump or log line rules this failure out, and the metrics are too few or end too early"
#: A dump proves a client healthy only if it is at most this time (ms) older than the newest data of the process.
FRESH_MS = 60_000


@dataclass(frozen=True, slots=True)
class Look:
    """All data of a client in a post-mortem.

    `window`    the client's samples and log events, and the dumps of its process
    `measured`  True if enough samples exist, and they continue until close() or until the end of all data
    `untimed`   True if the time between the dumps is unknown
    `vanished`  True if the process still served metrics, but no longer the metrics of this client
    `until_ms`  the newest time in any data of the process
    """

    window: ClientWindow
    measured: bool
    untimed: bool
    vanished: bool = False
    until_ms: int = 0

    def twice(self, dumps: Sequence[ThreadDump], what: str) -> str:
        """Return why the dumps do not prove that the client is healthy; '' if they prove it.

        Two dumps must be at least APART_MS (9 s) apart. The later dump must be at most FRESH_MS (a minute) older than
        the newest data. `what`: a clause on what the dumps show, or why there is no dump.
        """
        if not dumps:
            return what
        if len(dumps) > 1 and self.untimed:
            return f"{what} in {len(dumps)} dumps, but the time between these dumps is unknown"
        if dumps[-1].ts_ms - dumps[0].ts_ms < APART_MS:
            return f"{what}, but there is no second dump ten seconds later"
        if self.until_ms - dumps[-1].ts_ms > FRESH_MS:
            return f"{what}, but there is no dump of the last {elapsed((self.until_ms - dumps[-1].ts_ms) / 1000)}"
        return ""


def unmeasured(look: Look) -> str:
    """Return why metrics do not rule out a mode; '' if metrics rule it out."""
    return unpolled(look) if look.measured else UNMEASURED


def unpolled(look: Look) -> str:
    """Return why a consumer may have stopped polling before its last sample; '' if metrics do not suggest this."""
    window = look.window
    if window.client.kind != "consumer" or not window.readings:
        return ""
    away = float(seconds_since(window.table)[0])
    if not away >= max(APART_MS / 1000, longest_between(window.readings)):
        return ""
    return f"the last known poll() was {elapsed(away)} before the consumer's metrics end"


def io_thread(window: ClientWindow) -> tuple[list[ThreadDump], str]:
    """Return (the dumps that show the client's I/O thread at work, a clause on what they show).

    If a dump shows the thread inside a callback, only the last dump is returned.
    """
    sightings = list(network_threads(window))
    if any(in_callback(thread) for _, thread in sightings):
        return [window.dumps[-1]], "the I/O thread is inside a callback"
    healthy = [dump for dump in window.dumps if any(seen is dump and at_work(thread) for seen, thread in sightings)]
    if healthy:
        return healthy, "the I/O thread looks healthy"
    if sightings:
        return [], "the dump shows only a part of the I/O thread's stack"
    return [], "no dump shows the producer's I/O thread" if window.dumps else NOTHING


@dataclass(frozen=True, slots=True)
class TwoReadings:
    """Two successive samples of a client, and the client's options. `before` is None if `now` is the first sample."""

    before: Reading | None
    now: Reading
    config: Mapping[str, str]

    def risen(self, name: str) -> float | None:
        """Return by how much a counter rose from the previous sample to the newest; None if unknown."""
        first, last = None if self.before is None else self.before.get(name), self.now.get(name)
        return None if first is None or last is None else last - first

    @property
    def used_bytes(self) -> float:
        """The used bytes of the producer's buffer, 0 if unknown."""
        return used_bytes(self.now) or 0.0
