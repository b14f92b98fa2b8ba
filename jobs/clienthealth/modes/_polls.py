"""When an application called poll(), as its consumer reports it, or as its selector shows.

Java clients tell it from 2.4 on. Of those from 1.0 on the selector shows it: an application waits there in poll(), with
or without records; the thread of the heartbeats looks ten times a second and does not wait. Nobody fetches meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Column, Floats
from clienthealth.measure.view import Windows
from clienthealth.model.readings import Reading, Sign
from clienthealth.modes._evidence import increases, reported, version

#: Known of clients that push their metrics; true of the last push of one that closes.
CLOSES = "terminating"
#: Older ones push no more for good when the connection breaks during a push (KAFKA-19747; 3.9.2 and 4.1.2 measured).
PUSHES_ON_SINCE = (4, 1, 2)
#: Of the time between two readings so much is spent waiting where nobody polls (polled: 36 to 100 %, else 0.02 % at
#: most), and the selector is asked so often in a second (10 to 11 times; more by an application that does not wait).
WAITING_SHARE, MOST_SELECTS = 0.02, 20.0
#: A client with a coordinator has sent a heartbeat within so long: one is due every 3 to 5 s.
HEARTBEAT_SECONDS = 8.0


def seconds_away(w: Windows) -> Floats:
    """How long the application stayed away from poll() at the longest, in seconds; NaN where that cannot be told."""
    told = np.fmax(w.max("last-poll-seconds-ago"), w.max("time-between-poll-max") / 1000)
    return _or_by_selector(w, told, lambda windows, seconds: windows.reduced(np.fmax, seconds))


def seconds_since(w: Windows) -> Floats:
    """How long ago the application called poll() last, at the last reading, in seconds; NaN where it cannot be told."""
    told = np.where(
        w.reported("last-poll-seconds-ago"), w.last("last-poll-seconds-ago"), w.max("time-between-poll-max")
    )
    since = _or_by_selector(w, told, lambda windows, seconds: seconds[np.cumsum(windows.samples) - 1])
    return np.where(w.reported("last-poll-seconds-ago"), told, np.where(np.isnan(told), since, np.nan))


def _or_by_selector(w: Windows, told: Floats, how: Callable[[Windows, Floats], Floats]) -> Floats:
    """What windows are told, else what `how` makes of the seconds by the selector at each of their rows."""
    some = np.flatnonzero(np.isnan(told) & w.reported("io-wait-time-ns-total"))
    if not len(some):
        return told
    windows = w.at(some)
    # What was before a window is not known to be of its client.
    inside = (windows.ts[windows.rows] - windows.ts[windows.lo][windows.window_of_row]) / 1000
    told = told.copy()
    told[some] = how(windows, np.minimum(_without_waiting(w).values[windows.rows], inside))
    return told


def _without_waiting(w: Windows) -> Column:
    """Over all rows: for how many seconds nobody has waited in the selector, nor fetched; NaN where it is not known."""

    def made() -> Column:
        names = ("io-wait-time-ns-total", "select-total", "fetch-total")
        waited, selected, fetched = (np.diff(w.col(name), prepend=np.nan) for name in names)
        passed = np.diff(w.ts, prepend=w.ts[:1]) / 1000
        away = (passed > 0) & (waited >= 0) & (waited < WAITING_SHARE * 1e9 * passed) & (fetched == 0)
        away &= (selected > 0) & (selected <= MOST_SELECTS * passed)
        since = np.maximum.accumulate(np.where(away, 0, np.arange(len(w.ts))))
        known = ~np.isnan(w.col("io-wait-time-ns-total")) & ~np.isnan(w.col("fetch-total"))
        # The Java clients 1.0 and 1.1 count the nanoseconds of their waits there, too.
        known &= w.col("select-total") != w.col("io-wait-time-ns-total")
        return Column(np.where(known, (w.ts - w.ts[since]) / 1000, np.nan) if len(w.ts) else np.zeros(0))

    return w.once_for_rows("polls: without waiting", made)


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
    # Of a client that does not tell it: fetches are sent in poll() alone.
    names = (
        ("records-consumed-total",) if any(polled_ms(r) for r in after) else ("records-consumed-total", "fetch-total")
    )
    of_names = (reported(after, name) for name in names)
    return any(bool(totals) and totals[-1][1] > totals[0][1] for totals in of_names)


class Spell(NamedTuple):
    """Time outside poll() that lasts, in seconds.

    longest  the longest time between two polls before
    needed   what the records of the last poll need at the pace before, twice: they may be harder than most
    """

    seconds: float
    longest: float
    needed: float


def outside(window: ClientWindow) -> Spell | None:
    """For how long the application has been outside poll(); None where it may be inside, or where its pace is unknown.

    Fetches are sent in poll() alone: it is outside where none was sent for half of the time. Heartbeats go on: a client
    sends none once its broker has not answered for request.timeout.ms. A first batch has no pace to be held against.
    """
    w, readings = window.table, (*window.earlier_readings, *window.readings)
    polled = polled_ms(readings[-1]) if window.readings else None
    if polled is None or not w.last("last-heartbeat-seconds-ago")[0] < HEARTBEAT_SECONDS:
        return None
    fetched = [window.readings[0].ts_ms, *(ts_ms for ts_ms, _ in increases(window, "fetch-total"))]
    now = readings[-1].ts_ms
    if not w.reported("fetch-total")[0] or now - fetched[-1] < (now - polled) / 2:
        return None
    gaps = [gap for _, gap in reported(readings, "time-between-poll-max")]
    totals = reported(readings, "records-consumed-total")
    before = [(ts_ms, total) for ts_ms, total in totals if ts_ms <= polled]
    if not gaps or not before or before[-1][1] <= before[0][1]:
        return None
    pace = (before[-1][1] - before[0][1]) / (before[-1][0] - before[0][0])
    needed = 2 * (totals[-1][1] - before[-1][1]) / pace
    return Spell((now - polled) / 1000, max(gaps) / 1000, needed / 1000)


def reports_in_poll(library: str | None) -> bool:
    """Does a library hand out its statistics (and, in Python, its log) in poll(), so that both stop with it?"""
    return "rdkafka" in (library or "").lower()


def told_in_poll(window: ClientWindow) -> bool:
    """Do the readings of a client stop where nobody calls poll()? What librdkafka pushes comes from its own thread."""
    return reports_in_poll(window.client.library) and not pushes(window)


def pushes(window: ClientWindow) -> bool:
    """Are a client's readings what it pushes by itself (KIP-714)?"""
    return bool(window.readings) and window.readings[-1].get(CLOSES) is not None


def pushes_on(window: ClientWindow) -> bool:
    """Does a Java client push whatever happens to its connections? Before 4.1.2 KAFKA-19747 ends it for good."""
    return (version(window) or (0,)) >= PUSHES_ON_SINCE


def lived(window: ClientWindow) -> Sign | None:
    """The newest sign that the process of a client goes on which reports no more; None where nothing shows it."""
    return max(window.alive, key=lambda sign: sign.ts_ms, default=None)


ENDED = (
    "its statistics, which come in poll(), have ended, and nothing shows whether its process lives: it may have ended, "
    "or not call poll()"
)
CLOSED = "it was closed, or its application does not call poll()"
SILENT = (
    "it pushes no more, and its last push did not say that it closes: its process has ended, or nobody calls poll(), "
    "where a consumer of the classic protocol pushes; its group or a thread dump tells which"
)
UNREPORTED = "its threads are where they were while it polled, so it may be what collects its statistics that stopped"
