"""A producer's I/O thread is stuck in a callback of the application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Column, Floats, Ints, or_zero
from clienthealth.measure.producer import used_ratios
from clienthealth.measure.view import Runs, Windows, per_rows, per_windows
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, percent, quoted, size
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, flagged, mode_file
from clienthealth.modes._evidence import (
    Fact,
    conclude,
    events,
    failures,
    number_or_none,
    option,
    run,
    stated,
    used_bytes,
    values,
)
from clienthealth.modes._io_thread import at_work, in_callback, network_threads, on_io_thread
from clienthealth.modes._looks import Look, TwoReadings, io_thread
from clienthealth.modes._polls import (
    CLOSED,
    CLOSES,
    ENDED,
    lived,
    pushes,
    pushes_on,
    reports_in_poll,
    reports_only_in_poll,
    statistics_ended,
)
from clienthealth.modes.producer_callback_deadlock.dumps import deadlocked, died, in_dumps

FILE = mode_file(__file__)
ID = FILE.id
FLUSH_REFUSED, HELD = map(FILE.reads, ("flush-refused", "held"))
EXHAUSTED = tuple(map(FILE.reads, ("exhausted", "queue-full")))
METADATA_WAITED, CLOSING = map(FILE.reads, ("send-blocked-on-metadata.metadata-waited", "producer-not-closed.closing"))
CLOSED_PRODUCER, DIED = map(FILE.reads, ("producer-not-closed.closed", "producer-not-closed.died"))

#: Causes that hold the I/O thread for a limited time, or not at all.
BOUNDED = ("send-in-callback", "flush-refused")

#: A callback still runs if callback-time-max grows by at least this share of the time between two samples.
RUNNING_SHARE = 0.9


class Thresholds(Limits, of=FILE):
    """Limits that decide whether an unchanged select-total is a fault."""

    suspect_frozen_seconds: float
    confirm_frozen_seconds: float
    min_fills: int
    assumed_request_timeout_seconds: float
    timeout_margin: float
    min_overdue_seconds: float
    still_cpu_share: float
    busy_cpu_share: float
    zero_rate_seconds: float
    suspect_inside_seconds: float
    unmoved_seconds: float
    min_refused_lines: int
    silent_queue_ratio: float
    min_reply_growth: int


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    w = window.table
    dumped, doubts = in_dumps(window, thresholds, _overdue_after(window, thresholds))
    refused = _refused(window, thresholds)
    measured = _measured(window, w, thresholds)
    dead, thrown = died(window)
    dumped = [*dead, *deadlocked(window), *dumped]
    facts = [fact for fact, _ in dumped] + measured
    # Back-pressure fills the buffer, too, so lines on a full buffer are evidence only if a metric or a direct fact also
    # shows the failure.
    if any(fact.kind == "metric" or fact.direct for fact in facts):
        facts += _logged(window)
    sent = _sent_inside(window)
    facts += [*refused, *sent, *stated(window, HELD)]
    cause = None
    if dumped:
        cause = dumped[0][1]
    elif sent:
        cause = "send-in-callback"
    elif doubts and measured:
        cause = doubts[-1][1]
    elif inside(w)[0] >= thresholds.suspect_inside_seconds:
        cause = "report-callback-held" if reports_in_poll(window.client.library) else "callback-blocked"
    elif values(window, "reply-queue"):
        cause = "poll-not-called"
    elif refused and not measured:
        cause = "flush-refused"
    held_seconds = _held_for(w, window, thresholds) if measured else None
    detail = {
        "cause": cause,
        "thrown": thrown,
        "bounded": True if cause in BOUNDED or held_seconds is not None else None,
        "blocked_seconds": held_seconds,
        "waiting_threads": max((int(v) for v in values(window, "waiting-threads")), default=None),
        "buffer_used_ratio": number_or_none(w.max(used_ratios(w))[0]),
    }
    reason = GATE.reason(w, thresholds)
    if reason != BLIND_BUFFER and any(at_work(thread) for _, thread in network_threads(window)):
        reason = None
    elif reason is None and not facts and not doubts:
        doubts = [(fact, "") for fact in _stopped(window, w, thresholds)]
    return conclude(ID, facts, detail, reason, doubts=[fact for fact, _ in doubts])


def _overdue_after(window: ClientWindow, limits: Thresholds) -> float:
    """Return the time (s) outside the selector after which an I/O thread counts as stuck."""
    timeout_ms = option(window, "request.timeout.ms")
    timeout = limits.assumed_request_timeout_seconds if timeout_ms is None else timeout_ms / 1000
    return max(limits.min_overdue_seconds, timeout * limits.timeout_margin)


class Frozen(NamedTuple):
    """Stretches in which `select-total` did not change, although the I/O thread should have used its selector.

    `runs`       the samples of each stretch; each other field has one value per stretch
    `filling`    True if the buffer filled during the stretch
    `overdue`    True if records had waited longer than request.timeout.ms at the end of the stretch
    `busy_from`  index of the stretch's first sample with waiting records
    `timeout`    request.timeout.ms in seconds, NaN if unknown
    """

    runs: Runs
    filling: Bools
    overdue: Bools
    busy_from: Ints
    timeout: Floats


@per_windows
def _still(w: Windows) -> Runs:
    return w.still("select-total")


def frozen(w: Windows, limits: Thresholds) -> Frozen:
    """Return stretches without a rise of select-total while the buffer fills or records wait too long."""
    runs = _still(w)
    free, busy, idle = _while_counted(w)
    lo, hi = runs.first, runs.last + 1
    filling = (free.falls(lo, hi) >= limits.min_fills) & (runs.seconds >= limits.suspect_frozen_seconds)
    busy_from = busy.first_row(lo, hi)
    to_the_end = (busy.count(lo, hi) >= MIN_READINGS) & (idle.last_row(lo, hi) < busy_from)
    seconds = np.where(to_the_end, (w.ts[runs.last] - w.ts[busy_from]) / 1000, 0.0)
    long = np.flatnonzero(to_the_end & (seconds >= limits.min_overdue_seconds))
    timeout = np.full(len(runs), np.nan)
    timeout[long] = w.option("request.timeout.ms", runs.window[long]) / 1000
    assumed = np.where(np.isnan(timeout), limits.assumed_request_timeout_seconds, timeout)
    overdue = np.zeros(len(runs), np.bool_)
    overdue[long] = (seconds >= assumed * limits.timeout_margin)[long]
    proven = filling | overdue
    return Frozen(runs.at(proven), filling[proven], overdue[proven], busy_from[proven], timeout[proven])


@per_rows
def _while_counted(w: Windows) -> tuple[Column, Column, Column]:
    counted, works = ~np.isnan(w.col("select-total")), _work_waits(w)
    return (
        Column(np.where(counted, w.col("buffer-available-bytes"), np.nan)),
        Column(np.where(counted & works, 1.0, np.nan)),
        Column(np.where(counted & ~works, 1.0, np.nan)),
    )


@per_rows
def _work_waits(w: Windows) -> Bools:
    return (used_ratios(w).values > 0) | (w.col("waiting-threads") > 0)


def without_rate(w: Windows, limits: Thresholds) -> tuple[Runs, Column]:
    """Return (stretches, times of samples) that suggest a stuck I/O thread of clients without select-total.

    In a stretch, records wait, select-rate is 0, and neither io-ratio nor io-wait-ratio is above 0. The column of times
    (epoch ms) is NaN for samples that do not suggest a stuck I/O thread.
    """
    uncounted = np.flatnonzero(~w.reported("select-total"))
    runs = w.at(uncounted).still("select-rate")
    runs = replace(runs, window=uncounted[runs.window])
    stuck = w.once_for_rows("deadlock: stuck", lambda: Column(np.where(_no_rate(w), w.ts, np.nan)))
    lo, hi = runs.first, runs.last + 1
    seconds = (stuck.last(lo, hi) - stuck.first(lo, hi)) / 1000
    return runs.at((stuck.count(lo, hi) >= 2) & (seconds >= limits.zero_rate_seconds)), stuck


def _no_rate(w: Windows) -> Bools:
    rates_gone = ~(w.col("io-wait-ratio") > 0) & ~(w.col("io-ratio") > 0)
    at_zero: Bools = w.col("select-rate") == 0
    return at_zero & rates_gone & _work_waits(w)


def unserved(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if librdkafka's delivery reports pile up, and no record is acknowledged."""
    replies = w.count("reply-queue")
    rising: Bools = (replies >= MIN_READINGS) & (w.rises("reply-queue") == replies - 1)
    return rising & ~w.rose("record-ack-total") & (w.grown("reply-queue") >= limits.min_reply_growth)


@per_windows
def inside(w: Windows) -> Floats:
    """Return, per window, how long (s) a callback has run at the last sample; NaN if no callback is known to run.

    While a callback runs, callback-time-max grows by one second per second, and record-ack-total does not grow.
    """
    seconds, some = np.full(len(w), np.nan), np.flatnonzero(w.samples > 1)
    last = w.last_row[some]
    longest, acknowledged = w.col("callback-time-max"), w.col("record-ack-total")
    runs = longest[last] - longest[last - 1] >= RUNNING_SHARE * (w.ts[last] - w.ts[last - 1])
    runs &= ~(acknowledged[last] > acknowledged[last - 1]) & (w.col("queue-records")[last] > 0)
    seconds[some[runs]] = longest[last[runs]] / 1000
    return seconds


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if metrics suggest a stuck I/O thread or unserved delivery reports."""
    suspected = unserved(w, thresholds) | (inside(w) >= thresholds.suspect_inside_seconds)
    suspected |= flagged(w, frozen(w, thresholds).runs.window)
    if not w.reported("select-total").all():
        suspected |= flagged(w, without_rate(w, thresholds)[0].window)
    return suspected | flagged(w, _at_end(w, thresholds).window)


def _at_end(w: Windows, limits: Thresholds) -> Runs:
    """Return the stretches of unchanged `select-total` up to a window's last sample, if records wait at that sample."""
    runs = _still(w)
    runs = runs.at((runs.last == w.last_row[runs.window]) & _work_waits(w)[runs.last])
    linger = or_zero(w.option("linger.ms", runs.window)) / 1000
    return runs.at(runs.seconds >= limits.unmoved_seconds + linger)


BLIND_SELECTOR = "the client reports neither select-total nor select-rate, the metrics of its I/O thread"
BLIND_BUFFER = "the client does not report how full its buffer is"
BLIND_RATE = "records wait, and select-rate falls; an average rate does not prove that the I/O thread still runs"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice."""
    selector = w.reported("select-total") | w.reported("select-rate") | w.reported("reply-queue")
    load = w.reported(used_ratios(w)) | w.reported("waiting-threads")
    fades = ~w.reported("select-total") & (w.last("select-rate") < w.max("select-rate") / 2)
    fades &= (w.last(used_ratios(w)) > 0) | (w.last("waiting-threads") > 0)
    return first_reason(len(w), (BLIND_SELECTOR, ~selector), (BLIND_BUFFER, ~load), (BLIND_RATE, fades))


GATE = Gate(blind, suspects)


def _measured(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    if not GATE.suspected(w, limits)[0]:
        return []
    facts = _standing(window, w, limits) + _without_rate(window, w, limits)
    if (seconds := inside(w)[0]) >= limits.suspect_inside_seconds:
        last = window.readings[-1]
        waiting = count_of(last.metrics["queue-records"], "record")
        text = f"the client reports that a callback has not returned for {elapsed(seconds)}, and {waiting} wait"
        sure = seconds >= _overdue_after(window, limits)
        facts.append(Fact.of("metric", last, text, sure, since=round(last.ts_ms - 1000 * seconds)))
    if unserved(w, limits)[0]:
        reports = run(window, "reply-queue")
        before, *_, after = reports.values("reply-queue")
        text = f"the unserved delivery reports rose from {before:,.0f} to {after:,.0f} in {elapsed(reports.seconds)}"
        facts.append(Fact.of("metric", reports.last, text, since=reports.first))
    return facts


def _stopped(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    """Return a fact if select-total has stopped rising, but too recently for a suspicion; else []."""
    facts = []
    for first, last in zip((runs := _at_end(w, limits)).first, runs.last, strict=True):
        unchanged = run(window, "select-total", first, last)
        text = f"select-total stayed at {unchanged.first.metrics['select-total']:.0f} for the last "
        facts.append(Fact.of("metric", unchanged.last, f"{text}{elapsed(unchanged.seconds)}, while records wait"))
    return facts


def _standing(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    facts = []
    blockades, ratios = frozen(w, limits), used_ratios(w).values
    for at, (first, last) in enumerate(zip(blockades.runs.first, blockades.runs.last, strict=True)):
        unchanged, used = run(window, "select-total", first, last), number_or_none(ratios[last])
        text = f"select-total stayed at {unchanged.first.metrics['select-total']:.0f} for "
        bounded = "; then select-total rose, so the I/O thread ran again" if _rises_again(window, last) else ""
        if blockades.filling[at]:
            before = number_or_none(ratios[first])
            filled = f"from {percent(before)} to {percent(used)}" if before is not None and used is not None else "up"
            text += f"{elapsed(unchanged.seconds)} while the buffer filled {filled}{bounded}"
            sure = unchanged.seconds >= limits.confirm_frozen_seconds
            facts.append(Fact.of("metric", unchanged.last, text, sure, since=unchanged.first))
            continue
        since, configured = window.readings[blockades.busy_from[at]], number_or_none(blockades.timeout[at])
        timeout = elapsed(limits.assumed_request_timeout_seconds if configured is None else configured)
        threads = max(unchanged.values("waiting-threads"), default=0)
        load = [f"{percent(used)} of the buffer in use"] if used is not None else []
        load += [f"{count_of(threads, 'thread')} waiting for memory"] if threads else []
        text += (
            f"{elapsed((unchanged.last.ts_ms - since.ts_ms) / 1000)} with {' and '.join(load)}; request.timeout.ms is "
        )
        text += f"{timeout}{'' if configured else ' by default'}{bounded}"
        facts.append(Fact.of("metric", unchanged.last, text, configured is not None, since=since))
    return facts


def _rises_again(window: ClientWindow, last: int) -> bool:
    """Return True if select-total rose after row `last`, a stretch's last sample."""
    return any(reading.get("select-total") is not None for reading in window.readings[last + 1 :])


def _held_for(w: Windows, window: ClientWindow, limits: Thresholds) -> float | None:
    """Return the longest time (s) that a callback held the I/O thread.

    Returns None if no callback held the thread, or if one may still hold it.
    """
    runs = frozen(w, limits).runs
    return round(float(runs.seconds.max()), 1) if len(runs) and _rises_again(window, runs.last[-1]) else None


def _without_rate(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    facts = []
    runs, stuck = without_rate(w, limits)
    configured = number_or_none(w.option("request.timeout.ms")[0])
    short = configured is not None and configured / 1000 <= limits.assumed_request_timeout_seconds
    for row, end in zip(runs.first, runs.last, strict=True):
        lo, hi = np.array([row]), np.array([end + 1])
        first, last = (window.readings[at[0]] for at in (stuck.first_row(lo, hi), stuck.last_row(lo, hi)))
        used = number_or_none(used_ratios(w).values[stuck.last_row(lo, hi)[0]])
        threads = max(run(window, "select-rate", row, end).values("waiting-threads"), default=0)
        text = f"select-rate and io-wait-ratio were 0 for {elapsed((last.ts_ms - first.ts_ms) / 1000)} with "
        text += f"{percent(used)} of the buffer in use" if used is not None else "work in the buffer"
        text += f" and {count_of(threads, 'thread')} waiting for memory"
        facts.append(Fact.of("metric", last, text, short, since=first.ts_ms - 30_000))
    return facts


def _logged(window: ClientWindow) -> list[Fact]:
    if not (refused := failures(window, *EXHAUSTED)):
        return []
    text = f"send() failed because the buffer was full: {quoted(_sentence(refused[0].text))}"
    return [Fact.of("log", refused[0], text)]


def _refused(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    """Return facts on refused calls of flush() in a callback. Clients refuse such calls since version 4.1."""
    lines = events(window, FLUSH_REFUSED)
    if not lines or sum(line.repeats for line in lines) < limits.min_refused_lines:
        return []
    text = (
        f"the client refused calls of flush() inside its callbacks: {quoted(lines[-1].text)}; "
        "the I/O thread is not stuck, but these calls flushed nothing"
    )
    return [Fact.of("log", lines[-1], text, since=lines[0])]


def _sent_inside(window: ClientWindow) -> list[Fact]:
    """Return facts on a send() on the I/O thread. On this thread, only a callback can call send()."""
    lines = [event for event in events(window, METADATA_WAITED) if on_io_thread(event)]
    if not lines:
        return []
    calls = "send() in a callback waited for metadata on the I/O thread"
    return [Fact.of("log", lines[-1], f"{calls}: {quoted(lines[-1].text)}", True, since=lines[0])]


def _sentence(text: str) -> str:
    start = max(text.find("Failed to allocate"), text.find("Local: Queue full"), text.find("You have exhausted"), 0)
    return text[start:]


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if counters rise, no flush() is refused, and the newest dump shows no callback."""
    selects = values(window, "select-total") or values(window, "record-ack-total")
    rates = values(window, "select-rate")
    moves = len(selects) > 2 and selects[-3] < selects[-2] < selects[-1]
    turns = not selects and len(rates) > 1 and min(rates[-2:]) > 0
    inside = any(in_callback(thread) for _, thread in [*network_threads(window)][-1:])
    return (moves or turns) and not inside and not events(window, FLUSH_REFUSED)


def silence(window: ClientWindow, thresholds: Thresholds) -> Verdict | None:
    """Judge a client without new samples: its I/O thread may be stuck, or its application may not poll.

    Returns None if the missing samples show neither a stuck I/O thread nor an application that does not poll.
    """
    if window.departed_ms is None:
        return None
    if pushes(window) and not reports_in_poll(window.client.library):
        return _pushes_no_more(window, window.departed_ms)
    if not reports_only_in_poll(window):
        return None
    if (ended := statistics_ended(window)) is None:
        return Verdict(ID, "unknown", reason=ENDED)
    w = window.table
    queued, limit = (number_or_none(w.last(name)[0]) for name in ("queue-records", "queue-records-limit"))
    full = [
        Fact.of("log", e, f"the producer's queue is full: {quoted(_sentence(e.text))}", True)
        for e in events(window, *EXHAUSTED)
        if e.ts_ms > window.departed_ms
    ]
    if not full and not (queued and limit and queued >= thresholds.silent_queue_ratio * limit):
        return conclude(ID, [], doubts=[replace(ended, text=f"{ended.text}; {CLOSED}")])
    return conclude(ID, [ended, *full[:1], *full[-1:]], {"cause": "poll-not-called", "queued_records": queued})


def _pushes_no_more(window: ClientWindow, departed_ms: int) -> Verdict | None:
    """Judge a client that stopped pushing. Return None if the client ended or had nothing to send."""
    before, last = window.readings[-2:] if window.readings[1:] else (window.readings[-1], window.readings[-1])
    if last.get(CLOSES) or events(window, CLOSING, CLOSED_PRODUCER, DIED):
        return None
    used, sent = used_bytes(last), last.get("record-send-total")
    if not used and sent == before.get("record-send-total"):
        return None
    if (sign := lived(window)) is None:
        return Verdict(ID, "unknown", reason=SILENT)
    filled = (used or 0.0) - (used_bytes(before) or 0.0)
    if not pushes_on(window) or sent is None or sent != before.get("record-send-total") or filled <= 0:
        return Verdict(ID, "unknown", reason=f"{SILENT}; {sign.text} came after the last push")
    seconds = (last.ts_ms - before.ts_ms) / 1000
    text = f"the used buffer grew by {size(filled)} to {size(used or 0.0)} in {elapsed(seconds)}, and nothing was sent"
    away = (sign.ts_ms - departed_ms) / 1000
    silent = f"the I/O thread stopped pushing metrics, but {sign.text} came {elapsed(away)} later"
    return conclude(
        ID, [Fact.of("metric", last, text, since=before), Fact.of("absence", sign, silent, since=departed_ms)]
    )


SILENT = (
    "the client stopped pushing metrics without the final push that close() sends: either its process has ended, or "
    "its I/O thread is stuck; a thread dump or the client's log shows which"
)


#: Shares of the buffer at which a dump is worth its cost. HALF_FULL_RATIO is for clients without select-total.
FULL_RATIO, HALF_FULL_RATIO = 0.8, 0.5


FULL = "send() found no room in the buffer; no data shows whether the I/O thread is stuck or the brokers are slow"


def doubt(look: Look) -> str:
    """Return why `diagnose` cannot rule the failure mode out; '' if the mode is ruled out."""
    if look.measured:
        return ""
    dumps, what = io_thread(look.window)
    return look.twice(dumps, FULL if not dumps and events(look.window, *EXHAUSTED) else what)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """Yield reasons to take a thread dump: records or threads wait, or the buffer is nearly full."""
    metrics, used = readings.now.metrics, readings.used_bytes
    threads = metrics.get("waiting-threads", 0.0)
    if (used > 0 or threads > 0) and readings.risen("select-total") == 0:
        yield f"select-total stayed at {metrics['select-total']:.0f} with {used:.0f} bytes in the buffer"
    if threads > 0:
        yield f"{threads:.0f} threads wait for buffer memory"
    ratio = used / metrics["buffer-total-bytes"] if used else 0.0
    if ratio >= (FULL_RATIO if "select-total" in metrics else HALF_FULL_RATIO):
        yield f"the buffer is {ratio:.0%} full"


MODE = LiveMode(
    **FILE.facts(Thresholds()),
    judge=judge,
    gate=GATE,
    recovered=recovered,
    silence=silence,
    doubt=doubt,
    worth_a_dump=worth_a_dump,
)
