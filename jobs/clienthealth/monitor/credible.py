"""Which lines a client's own metrics refute: they are of another time, or of another client of its name.

A shipper that reads a file anew gives old lines the time at which it read them; processes of one client id beside each
other, whose lines name no instance, are taken for one another. A line that would have moved a counter, or stopped one,
is not of a client whose counter says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from clienthealth.measure.columns import Floats, Ints
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.readings import LogEvent
from clienthealth.model.values import option
from clienthealth.modes import catalogue
from clienthealth.monitor.adjust import CLOSE_MS, Reporting
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.readings import USUAL_INTERVAL_MS
from clienthealth.read.logs.wordings import Meaning

#: An application may log later (ms) what it was told.
LOGGED_MS = 30_000
#: Greatest values are of the last minute, the newest half of it at least (ms).
AROUND_MS = 35_000
#: No max.poll.interval.ms is shorter than twice this (seconds), where nobody tells it.
AWAY_SECONDS = 5.0
#: Other libraries count otherwise, or say it of what they do not count.
COUNTS = "java"


def refuted(bucket: Bucket, number: int, events: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    """Those of the lines about a client that its readings before and after them refute."""
    if bucket.state.whos[number].library != COUNTS:
        return ()
    by_id = catalogue().by_id
    return tuple(e for e in events if _refuted(bucket, number, e.ts_ms, by_id.get(e.signature)))


def _refuted(bucket: Bucket, number: int, ts_ms: int, meaning: Meaning | None) -> bool:
    if meaning is None or not (meaning.counted or meaning.halted or meaning.away):
        return False
    if meaning.away:
        return _polled(bucket, number, ts_ms)
    times, values = _known(bucket, number, meaning.counted or meaning.halted)
    after = values[np.searchsorted(times, ts_ms + CLOSE_MS, "right") :]
    if meaning.halted:
        return len(after) > 1 and bool(after[-1] > after[0])
    before = values[: np.searchsorted(times, ts_ms - LOGGED_MS, "right")]
    return bool(len(before) and len(after) and after[0] == before[-1])


def _polled(bucket: Bucket, number: int, ts_ms: int) -> bool:
    """Is it known of all the time around a moment that the application came back to poll() soon?"""
    seconds = (option(bucket.config(number).get("max.poll.interval.ms")) or 0) / 1000
    for name, unit in (("last-poll-seconds-ago", 1.0), ("time-between-poll-max", 0.001)):
        times, values = _known(bucket, number, name)
        near = (times > ts_ms - AROUND_MS) & (times < ts_ms + AROUND_MS)
        both_sides = (times[near] <= ts_ms).any() and (times[near] > ts_ms).any()
        if not both_sides or values[near].max() * unit >= max(AWAY_SECONDS, seconds / 2):
            return False
    return True


def _known(bucket: Bucket, number: int, name: str) -> tuple[Ints, Floats]:
    """When a client reported a metric, as far back as its readings are kept, and what it said."""
    readings = bucket.readings
    lo, hi = np.searchsorted(readings.who, [number, number + 1])
    column = readings.values[lo:hi, list(CLIENT_METRICS[bucket.state.whos[number].kind]).index(name)]
    known = ~np.isnan(column)
    return readings.ts[lo:hi][known], column[known]


def reporting(bucket: Bucket, number: int) -> Reporting | None:
    """How a client reports, where a line can be held against its next sample; None if it reports too seldom."""
    clients = bucket.state.clients
    every, last, heard = int(clients.every[number]), int(clients.last[number]), int(clients.heard[number])
    return None if every > USUAL_INTERVAL_MS else Reporting(every, last, bucket.state.time_ms - heard)
