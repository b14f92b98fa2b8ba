"""Find out from a consumer's metrics when its application called poll().

- Java clients from 2.4 on report the time of the last poll.
- Java clients from 1.0 on have metrics of the network selector, in which the application waits during poll().
  Outside poll(), only the heartbeat thread uses the selector: ten times a second, without waiting.
- Only poll() sends fetches, so a fetch shows a poll, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Column, Floats
from clienthealth.measure.packed import GroupReading
from clienthealth.measure.view import Windows, per_rows
from clienthealth.model.readings import Reading, Sign
from clienthealth.model.wording import count_of, elapsed, listing
from clienthealth.modes._evidence import Fact, increases, reported, version

CLOSES = "terminating"
#: Java clients before this version may never push metrics again after their connection broke during a push
#: (KAFKA-19747; measured with 3.9.2).
PUSHES_ON_SINCE = (4, 1, 2)
#: Without a poll() between two samples, the client spends less than WAITING_SHARE of the time in the selector, and
#: calls select() at most MOST_SELECTS times per second. In measurements without a poll(), clients spent at most 0.02 %
#: of the time in the selector, and called select() at most 11 times per second. With polls, clients spent 36 to 100 %
#: of the time in the selector.
WAITING_SHARE, MOST_SELECTS = 0.02, 20.0
#: Maximum time (s) between heartbeats of a client that knows its coordinator; 3 to 5 s are usual.
HEARTBEAT_SECONDS = 8.0
#: A partition with at least `BEHIND` unread records is behind. A partition with at most `LEVEL` has caught up.
BEHIND, LEVEL = 1_000, 10
APART = f"at least {BEHIND:,} unread records per partition, but other partitions of the topic have almost none"


def seconds_away(w: Windows) -> Floats:
    """Return, for each window, the longest time (s) that the application was outside poll(); NaN if unknown."""
    reported = np.fmax(w.max("last-poll-seconds-ago"), w.max("time-between-poll-max") / 1000)
    return _or_by_selector(w, reported, lambda windows, seconds: windows.reduced(np.fmax, seconds))


def seconds_since(w: Windows) -> Floats:
    """Return, for each window, the seconds from the last call of poll() to the last sample; NaN if unknown."""
    reported = np.where(
        w.reported("last-poll-seconds-ago"), w.last("last-poll-seconds-ago"), w.max("time-between-poll-max")
    )
    since = _or_by_selector(w, reported, lambda windows, seconds: seconds[np.cumsum(windows.samples) - 1])
    return np.where(w.reported("last-poll-seconds-ago"), reported, np.where(np.isnan(reported), since, np.nan))


def _or_by_selector(w: Windows, reported: Floats, how: Callable[[Windows, Floats], Floats]) -> Floats:
    """Return `reported` (one value per window), with missing values computed by `how`."""
    some = np.flatnonzero(np.isnan(reported) & w.reported("io-wait-time-ns-total"))
    if not len(some):
        return reported
    windows = w.at(some)
    # `_without_waiting` may reach back into rows of another client.
    inside = (windows.ts[windows.rows] - windows.ts[windows.lo][windows.window_of_row]) / 1000
    reported = reported.copy()
    reported[some] = how(windows, np.minimum(_without_waiting(w).values[windows.rows], inside))
    return reported


@per_rows
def _without_waiting(w: Windows) -> Column:
    """Return, per sample, the seconds since the client last sent a fetch or waited in the selector; NaN if unknown."""
    names = ("io-wait-time-ns-total", "select-total", "fetch-total")
    waited, selected, fetched = (np.diff(w.col(name), prepend=np.nan) for name in names)
    passed = np.diff(w.ts, prepend=w.ts[:1]) / 1000
    away = (passed > 0) & (waited >= 0) & (waited < WAITING_SHARE * 1e9 * passed) & (fetched == 0)
    away &= (selected > 0) & (selected <= MOST_SELECTS * passed)
    since = np.maximum.accumulate(np.where(away, 0, np.arange(len(w.ts))))
    known = ~np.isnan(w.col("io-wait-time-ns-total")) & ~np.isnan(w.col("fetch-total"))
    # In Java clients 1.0 and 1.1, select-total has a wrong value: the nanoseconds of waits.
    known &= w.col("select-total") != w.col("io-wait-time-ns-total")
    return Column(np.where(known, (w.ts - w.ts[since]) / 1000, np.nan))


def polled_ms(reading: Reading) -> int | None:
    """Return the time of the last poll() in epoch ms; None if the client does not report this time.

    The result is up to 1 s too late, because `last-poll-seconds-ago` has whole seconds.
    """
    ago = reading.get("last-poll-seconds-ago")
    return None if ago is None else round(reading.ts_ms - 1000 * ago)


def longest_between(readings: Sequence[Reading]) -> float:
    """Return the longest known time (s) between two polls, without the time since the last poll; 0 if unknown."""
    last = (polled_ms(readings[-1]) if readings else None) or 0
    gaps = [gap / 1000 for _, gap in reported(readings, "time-between-poll-max")]
    gaps += [ago for ts_ms, ago in reported(readings, "last-poll-seconds-ago") if ts_ms < last]
    return max(gaps, default=0.0)


def has_polled(window: ClientWindow, since_ms: int) -> bool:
    """Return True if samples show that the application polled this consumer after `since_ms` (epoch ms)."""
    after = [reading for reading in window.readings if reading.ts_ms > since_ms]
    # `last-poll-seconds-ago` has whole seconds.
    if any((at := polled_ms(reading)) is not None and at - 1000 > since_ms for reading in after):
        return True
    # Only poll() sends fetches.
    fetches = () if any(map(polled_ms, after)) else ("fetch-total",)
    of_names = (reported(after, name) for name in ("records-consumed-total", *fetches))
    return any(bool(totals) and totals[-1][1] > totals[0][1] for totals in of_names)


class Spell(NamedTuple):
    """How long an application has been outside poll(), and two limits for comparison; all in seconds.

    `seconds`: the time since the last poll. `longest`: the longest earlier time between two polls. `needed`: twice the
    time in which the application, at its average pace, consumes the records of the last poll.
    """

    seconds: float
    longest: float
    needed: float


def outside(window: ClientWindow) -> Spell | None:
    """Return how long the application has been outside poll(); None if it may be inside poll(), or if data is missing.

    The application is outside if the client has sent no fetch for at least half of the time since the last poll(), but
    still sends heartbeats. Without heartbeats, a silent broker may be the reason for the missing fetches.
    """
    w, readings = window.table, window.known_readings
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
    """Return True if the library delivers its statistics only inside poll()."""
    return "rdkafka" in (library or "").lower()


def reports_only_in_poll(window: ClientWindow) -> bool:
    """Return True if the client sends samples only while it polls.

    librdkafka's KIP-714 pushes do not depend on poll().
    """
    return reports_in_poll(window.client.library) and not pushes(window)


def pushes(window: ClientWindow) -> bool:
    """Return True if the client itself pushes its metrics (KIP-714)."""
    return bool(window.readings) and window.readings[-1].get(CLOSES) is not None


def pushes_on(window: ClientWindow) -> bool:
    """Return True if this version of the Java client pushes metrics again after its connection broke during a push."""
    return (version(window) or (0,)) >= PUSHES_ON_SINCE


def lived(window: ClientWindow) -> Sign | None:
    """Return the newest sign that the process still ran after the client's data had ended; None without a sign."""
    return max(window.alive, key=lambda sign: sign.ts_ms, default=None)


def statistics_ended(window: ClientWindow) -> Fact | None:
    """Return the fact that the process outlived the client's last statistics, or None."""
    sign, ended_ms = lived(window), window.departed_ms
    if sign is None or ended_ms is None:
        return None
    away = elapsed((sign.ts_ms - ended_ms) / 1000)
    text = f"the client's statistics, delivered in poll(), ended {away} before {sign.text}"
    return Fact.of("absence", sign, text, since=ended_ms)


ENDED = (
    "the client's statistics, which librdkafka delivers only in poll(), have ended: either the client's process has "
    "ended, or its application does not call poll()"
)
CLOSED = "the client was closed, or its application does not call poll()"
SILENT = (
    "the client stopped pushing metrics without the final push that close() sends: either its process has ended, or "
    "its application does not call poll(); the consumer group or a thread dump shows which"
)
UNREPORTED = (
    "the application's threads are in the same frames as during earlier polls, so perhaps only the client's statistics "
    "have stopped"
)


def listed(readings: Sequence[GroupReading]) -> tuple[list[Fact], str]:
    """Return facts on partitions that their owners do not consume, and a text to show if there are no facts.

    `readings`: samples of one group, in order of time. A fact is about a partition with an owner and with the same
    committed offset in the first and the last sample. One of these conditions must also be met:
    - New records arrived, and the partition had unread records already at the first sample.
    - The partition is behind: it has at least `BEHIND` unread records. At least as many partitions of the topic have
      caught up (at most `LEVEL` unread records) as are behind. If more partitions are behind, the reason may be that
      the whole group is slow.
    """
    last, first = readings[-1], {(p.topic, p.partition): p for p in readings[0].partitions}
    unread = [(p, p.end - p.committed) for p in last.partitions if p.end is not None and p.committed is not None]
    owned = [(p, lag, first.get((p.topic, p.partition), p)) for p, lag in unread if p.member is not None]
    stays = [(p, lag, (p.end or 0) - (before.end or 0)) for p, lag, before in owned if before.committed == p.committed]
    behind = Counter(p.topic for p, lag, _ in stays if lag >= BEHIND)
    level = Counter(p.topic for p, lag in unread if p.committed and lag <= LEVEL)
    stand = [p for p, lag, came in stays if 0 < came < lag]
    apart = [p for p, lag, _ in stays if lag >= BEHIND and behind[p.topic] <= level[p.topic]]
    shown = {"new records arrived, but the committed offset did not change": stand, APART: apart}
    texts = [f"{listing(f'{p.topic}-{p.partition}' for p in some)}: {text}" for text, some in shown.items() if some]
    facts = [Fact("metric", readings[0].ts_ms, last.ts_ms, text, source=last.source) for text in texts]
    most = f"partitions have up to {count_of(max((lag for _, lag in unread), default=0), 'unread record')}, but "
    return facts, most + ("samples do not show that consumption has stopped" if owned else "no member owns a partition")
