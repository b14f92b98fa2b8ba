"""The rules: when it is suspected, when it is confirmed, when it is over."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clienthealth.indicators.buffer import used_ratios
from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, listing, percent, quoted
from clienthealth.modes import MIN_READINGS, Gate, Texts, first_reason, threshold
from clienthealth.modes._evidence import (
    Fact,
    conclude,
    events,
    innermost,
    number_or_none,
    option,
    rose_around,
    run,
    values,
)
from clienthealth.modes._io_thread import (
    at_work,
    in_callback,
    is_network_thread,
    network_threads,
    on_io_thread,
    sends,
)
from clienthealth.modes.producer_callback_deadlock.callback_dumps import APART_SECONDS, in_dumps
from clienthealth.modes.producer_callback_deadlock.lines import EXHAUSTED, FLUSH_REFUSED, ID, THREAD_DIED
from clienthealth.modes.send_blocked_on_metadata.lines import METADATA_WAITED
from clienthealth.settings.fields import Checked
from clienthealth.windows.client_window import ClientWindow
from clienthealth.windows.columns import Bools, Column, Floats, Ints
from clienthealth.windows.view import Runs, Windows

#: Causes that end by themselves.
BOUNDED = ("send-in-callback", "flush-refused")


@dataclass(frozen=True)
class Thresholds(Checked):
    """When a selector that stands still is a fault."""

    suspect_frozen_seconds: float = threshold(
        15.0,
        "frozen this long while the buffer filled: in no control did the buffer fill at all while it stood",
        at_least=0,
    )
    confirm_frozen_seconds: float = threshold(
        25.0,
        "and this long: a batch of slow callbacks would have ended; six deadlocks lasted for good",
        at_least="suspect_frozen_seconds",
    )
    min_fills: int = threshold(
        2,
        "times the buffer shrank within one frozen stretch: at most 1 in every control, 24 to 37 in deadlocks",
        at_least=1,
    )
    assumed_request_timeout_seconds: float = threshold(
        30.0, "the client's default request.timeout.ms, used where its configuration is not known", at_least=0
    )
    timeout_margin: float = threshold(
        1.25,
        "a frozen stretch must exceed request.timeout.ms by this factor: idle and lingering producers reach 29 s of 30",
        at_least=1,
    )
    min_overdue_seconds: float = threshold(
        20.0, "with a short request.timeout.ms, a run of slow callbacks can outlast it: never judge sooner", at_least=0
    )
    still_cpu_share: float = threshold(
        0.0002,
        "share of a CPU used between two dumps at the same place: a thread that waits for a lock uses 0.003 %, one "
        "whose callbacks take 80 ms each 0.14 %",
        at_least=0,
        at_most=1,
    )
    busy_cpu_share: float = threshold(
        0.5,
        "share of a CPU used between two dumps at the same place: a callback that goes round in circles",
        at_least=0,
        at_most=1,
    )
    zero_rate_seconds: float = threshold(
        10.0, "select-rate 0 for so long besides the 30 s that the rate looks back: 40 s without a select", at_least=0
    )
    min_refused_lines: int = threshold(
        3, "calls of flush() that the client refused inside callbacks: it is no accident", at_least=1
    )
    silent_queue_ratio: float = threshold(
        0.5,
        "so full when librdkafka's statistics, which come in poll(), ended: a producer that is closed has less waiting",
        at_least=0,
        at_most=1,
    )
    min_reply_growth: int = threshold(
        1000, "delivery reports not served: so many more in one window is not a slow poll loop", at_least=1
    )


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """See the mode's docstring for the rules."""
    w = window.table
    dumped, doubts = _dumped(window, thresholds)
    refused = _refused(window, thresholds)
    measured = _measured(window, w, thresholds)
    dead, thrown = _dead(window)
    dumped = [*dead, *_deadlocked(window), *dumped]
    facts = [fact for fact, _ in dumped] + measured
    # Alone they tell of back-pressure; a client that pushes its metrics on the thread that is stuck has no others.
    if any(fact.kind == "metric" or fact.direct for fact in facts):
        facts += _logged(window)
    sent = _sent_inside(window)
    facts += refused + sent
    cause = next((cause for _, cause in dumped), None)
    if cause is None and sent:
        cause = "send-in-callback"
    if cause is None and doubts and measured:
        cause = doubts[-1][1]
    if cause is None and values(window, "reply-queue"):
        cause = "poll-not-called"
    if cause is None and refused and not measured:
        cause = "flush-refused"
    held_seconds = _held_for(window, w, thresholds)
    detail = {
        "cause": cause,
        "thrown": thrown,
        "bounded": True if cause in BOUNDED or held_seconds is not None else None,
        "blocked_seconds": held_seconds,
        "waiting_threads": max((int(v) for v in values(window, "waiting-threads")), default=None),
        "buffer_used_ratio": number_or_none(w.max(used_ratios(w))[0]),
    }
    return conclude(ID, facts, detail, _blindness(window, w, thresholds), doubts=[fact for fact, _ in doubts])


def _dumped(window: ClientWindow, limits: Thresholds) -> tuple[list[tuple[Fact, str]], list[tuple[Fact, str]]]:
    return in_dumps(window, limits.still_cpu_share, limits.busy_cpu_share, _overdue_after(window, limits))


def _dead(window: ClientWindow) -> tuple[list[tuple[Fact, str]], str | None]:
    """The I/O thread has ended, by its log or by dumps without it in which others go on sending; and what it threw.

    Only of a dump that is known to be complete is a thread missing; in two of them it is not just being started.
    """
    facts = [Fact("log", e.ts_ms, e.ts_ms, quoted(e.text), True, e.source) for e in events(window, THREAD_DIED)[-1:]]
    thrown = next((e.captures["thrown"] for e in events(window, THREAD_DIED) if "thrown" in e.captures), None)
    without: list[tuple[ThreadDump, Thread]] = []
    for dump in (*window.earlier_dumps, *window.dumps):
        sender = next((thread for thread in dump.threads if sends(thread)), None)
        if any(map(is_network_thread, dump.threads)):
            without = []
        elif dump.complete and sender is not None:
            without.append((dump, sender))
    if without and without[-1][0] in window.dumps:
        (first, _), (last, sender) = without[0], without[-1]
        text = f"'{sender.name}' is in {innermost(sender)}, and no producer of the process has an I/O thread any more"
        twice = last.ts_ms - first.ts_ms >= 1000 * APART_SECONDS
        facts.append(Fact("thread-dump", first.ts_ms, last.ts_ms, text, twice, last.source))
    return [(fact, "io-thread-died") for fact in facts], thrown


def _deadlocked(window: ClientWindow) -> list[tuple[Fact, str]]:
    """The JVM itself says that the I/O thread and others wait for each other: they do so for ever."""
    facts = []
    for dump, thread in network_threads(window):
        if thread.name in dump.deadlocked:
            others = listing(f"'{name}'" for name in dump.deadlocked if name != thread.name)
            text = f"the JVM reports a deadlock of the I/O thread '{thread.name}' and {others}, in {innermost(thread)}"
            cause = "callback-blocked" if in_callback(thread) else "io-thread-blocked"
            facts.append((Fact("thread-dump", dump.ts_ms, dump.ts_ms, text, True, dump.source), cause))
    return facts


def _overdue_after(window: ClientWindow, limits: Thresholds) -> float:
    """Seconds after which a thread should have gone back to its selector, and something holds it for good."""
    timeout_ms = option(window, "request.timeout.ms")
    timeout = limits.assumed_request_timeout_seconds if timeout_ms is None else timeout_ms / 1000
    return max(limits.min_overdue_seconds, timeout * limits.timeout_margin)


# -- what the metrics show, over any number of windows ---------------------------------------------------------------


class Frozen(NamedTuple):
    """Runs over which `select-total` stood still and the thread should have gone back to its selector.

    filling     the buffer filled meanwhile
    overdue     work waited for longer than request.timeout.ms allows, from row `busy_from` to the end of the run
    timeout     request.timeout.ms in seconds, NaN where it is not known
    """

    runs: Runs
    filling: Bools
    overdue: Bools
    busy_from: Ints
    timeout: Floats


def frozen(w: Windows, limits: Thresholds) -> Frozen:
    """Direct evidence: a selector that stands still while the buffer fills, or for too long with work waiting."""
    runs = w.still("select-total")
    if not len(runs):
        return Frozen(runs, runs.window > 0, runs.window > 0, runs.first, runs.seconds)
    free, busy, idle = _while_counted(w)
    lo, hi = runs.first, runs.last + 1
    filling = (free.falls(lo, hi) >= limits.min_fills) & (runs.seconds >= limits.suspect_frozen_seconds)
    busy_from = busy.first_row(lo, hi)
    to_the_end = (busy.count(lo, hi) >= MIN_READINGS) & (idle.last_row(lo, hi) < busy_from)
    stood = np.where(to_the_end, (w.ts[runs.last] - w.ts[busy_from]) / 1000, 0.0)
    long = np.flatnonzero(to_the_end & (stood >= limits.min_overdue_seconds))
    timeout = np.full(len(runs), np.nan)
    timeout[long] = w.option("request.timeout.ms", runs.window[long]) / 1000
    assumed = np.where(np.isnan(timeout), limits.assumed_request_timeout_seconds, timeout)
    overdue = np.zeros(len(runs), np.bool_)
    overdue[long] = (stood >= assumed * limits.timeout_margin)[long]
    proven = filling | overdue
    return Frozen(runs.at(proven), filling[proven], overdue[proven], busy_from[proven], timeout[proven])


def _while_counted(w: Windows) -> tuple[Column, Column, Column]:
    """Over the readings that know `select-total`: free bytes of the buffer, and which had work waiting or had none."""

    def made() -> tuple[Column, Column, Column]:
        counted, works = ~np.isnan(w.col("select-total")), _work_waits(w)
        return (
            Column(np.where(counted, w.col("buffer-available-bytes"), np.nan)),
            Column(np.where(counted & works, 1.0, np.nan)),
            Column(np.where(counted & ~works, 1.0, np.nan)),
        )

    return w.once_for_rows("deadlock: while counted", made)


def _work_waits(w: Windows) -> Bools:
    works: Bools = (used_ratios(w).values > 0) | (w.col("waiting-threads") > 0)
    return works


def without_rate(w: Windows, limits: Thresholds) -> tuple[Runs, Column]:
    """For clients without `select-total`: runs of `select-rate` with rows at 0 and work waiting, and those rows' times.

    The rates look back: their ratios must be 0 too.
    """
    uncounted = np.flatnonzero(~w.reported("select-total"))
    runs = w.at(uncounted).still("select-rate")
    runs = dataclasses.replace(runs, window=uncounted[runs.window])
    stuck = w.once_for_rows("deadlock: stuck", lambda: Column(np.where(_no_rate(w), w.ts, np.nan)))
    lo, hi = runs.first, runs.last + 1
    seconds = (stuck.last(lo, hi) - stuck.first(lo, hi)) / 1000
    return runs.at((stuck.count(lo, hi) >= 2) & (seconds >= limits.zero_rate_seconds)), stuck


def _no_rate(w: Windows) -> Bools:
    rates_gone = ~(w.col("io-wait-ratio") > 0) & ~(w.col("io-ratio") > 0)
    at_zero: Bools = w.col("select-rate") == 0
    return at_zero & rates_gone & _work_waits(w)


def unserved(w: Windows, limits: Thresholds) -> Bools:
    """librdkafka: delivery reports that the application does not fetch, more at every reading, and none delivered."""
    replies = w.count("reply-queue")
    rising: Bools = (replies >= MIN_READINGS) & (w.rises("reply-queue") == replies - 1)
    return rising & ~w.rose("record-ack-total") & (w.grown("reply-queue") >= limits.min_reply_growth)


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Any of these."""
    suspected = unserved(w, thresholds)
    suspected[frozen(w, thresholds).runs.window] = True
    if not w.reported("select-total").all():
        suspected[without_rate(w, thresholds)[0].window] = True
    return suspected


BLIND_SELECTOR = "the client counts no selects of its I/O thread (neither select-total nor select-rate)"
BLIND_BUFFER = "the client does not tell how full its buffer is"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """No count of selects, or no word of the buffer."""
    selector = w.reported("select-total") | w.reported("select-rate") | w.reported("reply-queue")
    load = w.reported(used_ratios(w)) | w.reported("waiting-threads")
    return first_reason(len(w), (BLIND_SELECTOR, ~selector), (BLIND_BUFFER, ~load))


GATE = Gate(blind, suspects)


# -- the same in words -----------------------------------------------------------------------------------------------


def _measured(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    blockades = frozen(w, limits)
    facts = [
        _filling(window, w, blockades, at, limits)
        if blockades.filling[at]
        else _overdue(window, w, blockades, at, limits)
        for at in range(len(blockades.runs))
    ]
    runs, stuck = without_rate(w, limits)
    facts += [_without_rate(window, w, runs, stuck, at, limits) for at in range(len(runs))]
    return facts + ([_unserved(window)] if unserved(w, limits)[0] else [])


def _ended_at(window: ClientWindow, blockades: Frozen, at: int) -> bool:
    """Did the selector go on after a run?"""
    return any(r.get("select-total") is not None for r in window.readings[blockades.runs.last[at] + 1 :])


def _held_for(window: ClientWindow, w: Windows, limits: Thresholds) -> float | None:
    """For how many seconds the I/O thread was held at most, where it has come back each time; None where it has not."""
    blockades = frozen(w, limits)
    if not len(blockades.runs) or not _ended_at(window, blockades, len(blockades.runs) - 1):
        return None
    return round(float(blockades.runs.seconds.max()), 1)


def _went_on(window: ClientWindow, blockades: Frozen, at: int) -> str:
    return "; then it went on, so the blockade was bounded" if _ended_at(window, blockades, at) else ""


def _filling(window: ClientWindow, w: Windows, blockades: Frozen, at: int, limits: Thresholds) -> Fact:
    stood = run(window, "select-total", blockades.runs.first[at], blockades.runs.last[at])
    before, after = (
        number_or_none(used_ratios(w).values[row]) for row in (blockades.runs.first[at], blockades.runs.last[at])
    )
    filled = f"from {percent(before)} to {percent(after)}" if before is not None and after is not None else "up"
    return Fact(
        "metric",
        stood.first.ts_ms,
        stood.last.ts_ms,
        f"select-total stood at {stood.first.metrics['select-total']:.0f} for {elapsed(stood.seconds)} "
        f"while the buffer filled {filled}{_went_on(window, blockades, at)}",
        direct=stood.seconds >= limits.confirm_frozen_seconds,
        source=stood.last.source,
    )


def _overdue(window: ClientWindow, w: Windows, blockades: Frozen, at: int, limits: Thresholds) -> Fact:
    stood = run(window, "select-total", blockades.runs.first[at], blockades.runs.last[at])
    since = window.readings[blockades.busy_from[at]]
    configured = number_or_none(blockades.timeout[at])
    timeout = limits.assumed_request_timeout_seconds if configured is None else configured
    waiting = max(stood.values("waiting-threads"), default=0)
    used = number_or_none(used_ratios(w).values[blockades.runs.last[at]])
    load = [f"{percent(used)} of the buffer in use"] if used is not None else []
    load += [f"{count_of(waiting, 'thread')} waiting for memory"] if waiting else []
    return Fact(
        "metric",
        since.ts_ms,
        stood.last.ts_ms,
        f"select-total stood at {stood.first.metrics['select-total']:.0f} for "
        f"{elapsed((stood.last.ts_ms - since.ts_ms) / 1000)} with "
        f"{' and '.join(load)}; request.timeout.ms is {elapsed(timeout)}{'' if configured else ' by default'}"
        f"{_went_on(window, blockades, at)}",
        direct=configured is not None,
        source=stood.last.source,
    )


def _without_rate(window: ClientWindow, w: Windows, runs: Runs, stuck: Column, at: int, limits: Thresholds) -> Fact:
    lo, hi = runs.first[at : at + 1], runs.last[at : at + 1] + 1
    first, last = (window.readings[row[0]] for row in (stuck.first_row(lo, hi), stuck.last_row(lo, hi)))
    configured = number_or_none(w.option("request.timeout.ms")[0])
    short = configured is not None and configured / 1000 <= limits.assumed_request_timeout_seconds
    used = number_or_none(used_ratios(w).values[stuck.last_row(lo, hi)[0]])
    waiting = max(run(window, "select-rate", runs.first[at], runs.last[at]).values("waiting-threads"), default=0)
    full = f"{percent(used)} of the buffer in use" if used is not None else "work in the buffer"
    return Fact(
        "metric",
        first.ts_ms - 30_000,
        last.ts_ms,
        f"select-rate and io-wait-ratio are 0 for {elapsed((last.ts_ms - first.ts_ms) / 1000)} "
        f"with {full} and {count_of(waiting, 'thread')} waiting for memory",
        direct=short,
        source=last.source,
    )


def _unserved(window: ClientWindow) -> Fact:
    reports = run(window, "reply-queue")
    before, *_, after = reports.values("reply-queue")
    return Fact(
        "metric",
        reports.first.ts_ms,
        reports.last.ts_ms,
        f"delivery reports that the application has not served rose from {before:,.0f} to {after:,.0f} "
        f"in {elapsed(reports.seconds)}",
        source=reports.last.source,
    )


def _logged(window: ClientWindow) -> list[Fact]:
    lines = events(window, EXHAUSTED)
    refused = [e for e in lines if e.client_id or rose_around(window, "record-error-total", e.ts_ms, 1000) is not False]
    if not refused:
        return []
    sends = f"{'at least ' if refused[1:] else ''}{count_of(len(refused), 'send')}"
    text = f"{sends} failed for want of buffer memory: {quoted(sentence(refused[0].text))}"
    return [Fact("log", refused[0].ts_ms, refused[0].ts_ms, text, source=refused[0].source)]


def _refused(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    """Clients since 4.1 refuse flush() inside a callback: nothing is stuck, and nothing is flushed either."""
    lines = events(window, FLUSH_REFUSED)
    times = sum(line.repeats for line in lines)
    if not lines or times < limits.min_refused_lines:
        return []
    text = (
        f"the client refused {count_of(times, 'call')} of flush() inside its callbacks: {quoted(lines[-1].text)}; "
        "no record waits for it, but what the callback wanted is not done"
    )
    return [Fact("log", lines[0].ts_ms, lines[-1].ts_ms, text, source=lines[-1].source)]


def _sent_inside(window: ClientWindow) -> list[Fact]:
    """A send() that waited for metadata on the I/O thread: a callback called it."""
    lines = [event for event in events(window, METADATA_WAITED) if on_io_thread(event)]
    if not lines:
        return []
    text = (
        f"{'at least ' if lines[1:] else ''}{count_of(len(lines), 'call')} of send() in a callback waited for metadata "
        f"on the I/O thread: {quoted(lines[-1].text)}"
    )
    return [Fact("log", lines[0].ts_ms, lines[-1].ts_ms, text, direct=True, source=lines[-1].source)]


def sentence(text: str) -> str:
    start = max(text.find("Failed to allocate"), text.find("Local: Queue full"), text.find("You have exhausted"), 0)
    return text[start:]


def _blindness(window: ClientWindow, w: Windows, limits: Thresholds) -> str | None:
    reason = GATE.reason(w, limits)
    return None if reason != BLIND_BUFFER and any(at_work(thread) for _, thread in network_threads(window)) else reason


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """The selector moves again over two readings, and the newest dump finds the I/O thread outside callbacks."""
    selects = values(window, "select-total") or values(window, "record-ack-total")
    rates = values(window, "select-rate")
    moves = len(selects) > 2 and selects[-3] < selects[-2] < selects[-1]
    turns = not selects and len(rates) > 1 and min(rates[-2:]) > 0
    newest = list(network_threads(window))[-1:]
    inside = any(in_callback(thread) for _, thread in newest)
    return (moves or turns) and not inside and not events(window, FLUSH_REFUSED)
