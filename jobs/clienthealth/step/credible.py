"""Which lines a client's own metrics refute: they are of another time, or of another client of its name.

A shipper that reads a file anew gives old lines the time at which it read them; processes of one client id beside each
other, whose lines name no instance, are taken for one another. A line that would have moved a counter, or stopped one,
is not of a client whose counter says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np

from clienthealth.logs.wordings import Meaning
from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.model.readings import LogEvent
from clienthealth.model.values import number as number_of
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import Mode, catalogue
from clienthealth.step.bucket import Bucket, client_of
from clienthealth.step.readings import USUAL_INTERVAL_MS
from clienthealth.windows.columns import Floats, Ints

#: Layouts write seconds, and a count follows what it counts: readings so close (ms) to a line tell nothing of it.
CLOSE_MS = 1000
#: An application may log later (ms) what it was told.
LOGGED_MS = 30_000
#: Greatest values are of the last minute, the newest half of it at least (ms).
AROUND_MS = 35_000
#: No max.poll.interval.ms is shorter than twice this (seconds), where nobody tells it.
AWAY_SECONDS = 5.0
#: Other libraries count otherwise, or say it of what they do not count.
COUNTS = "java"
#: No line waits longer (ms) for the readings after it.
LONGEST_MS = 30_000


def refuted(bucket: Bucket, number: int, events: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    """Those of the lines about a client that its readings before and after them refute."""
    if bucket.state.whos[number].library != COUNTS:
        return ()
    by_id = catalogue().by_id
    return tuple(e for e in events if _refuted(bucket, number, e.ts_ms, by_id.get(e.signature)))


def doubted(verdict: Verdict, mode: Mode, signatures: Set[str]) -> Verdict:
    """A verdict; no `ok` beside lines of the mode that were refuted.

    They may tell of what the client does not count, as a `partitionsFor` that waits for metadata.
    """
    if verdict.status != "ok" or not any(meaning.ids & signatures for meaning in mode.lines):
        return verdict
    return Verdict(mode.id, "unknown", reason=REFUTED)


REFUTED = "lines say so that its own metrics refute: of another time, of another client, or of what it does not count"


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
    seconds = (number_of(bucket.config(number).get("max.poll.interval.ms")) or 0) / 1000
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


def heard_out(bucket: Bucket, number: int, verdict: Verdict) -> Verdict:
    """A verdict; what would open an incident on lines alone waits for the readings that can refute them.

    They come soon of a client that reports as usual; of one that does not, nothing is waited for.
    """
    clients, state = bucket.state.clients, bucket.state
    every, last = int(clients.every[number]), int(clients.last[number])
    if not verdict.unhealthy or verdict.mode in state.incidents.of_client(client_of(state.whos[number]).key):
        return verdict
    if every > USUAL_INTERVAL_MS or any(fact.kind != "log" for fact in verdict.evidence):
        return verdict
    first = min(fact.ts_ms for fact in verdict.evidence)
    heard = int(clients.heard[number])
    if first + every + CLOSE_MS < last or state.time_ms - heard + last - first > LONGEST_MS:
        return verdict
    return Verdict(verdict.mode, "unknown", reason=UNHEARD, evidence=verdict.evidence)


UNHEARD = "lines of its log say so, and it has not told yet whether its metrics do"
