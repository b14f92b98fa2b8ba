"""Judge by thread dumps whether a producer's I/O thread exists, and returns from callbacks and loggers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.wording import elapsed, quoted
from clienthealth.modes import MIN_READINGS, mode_file
from clienthealth.modes._evidence import Fact, deadlock, events, has_frame, innermost, reported
from clienthealth.modes._io_thread import (
    CALLBACK_FRAMES,
    in_callback,
    in_foreign_code,
    is_network_thread,
    is_own,
    network_threads,
    sends,
    sleeps,
    waits,
)
from clienthealth.modes.held import Held, held

if TYPE_CHECKING:
    from clienthealth.modes.producer_callback_deadlock.rules import Thresholds

THREAD_DIED = mode_file(__file__).reads("thread-died")
SELECTS = "select-total"
WAITS = ("ProduceRequestResult.await", "TransactionalRequestResult.await", ".waitOnMetadata", "BufferPool.allocate")
#: Dumps closer than APART_SECONDS count as one, because two exporters may dump a process at once.
APART_SECONDS = 5.0
#: A thread that mostly sleeps uses at most `LITTLE * still_cpu_share` of one CPU.
LITTLE = 5
HELD = ("callback-blocked", "io-thread-blocked")


Caused = list[tuple[Fact, str]]


def in_dumps(window: ClientWindow, limits: Thresholds, overdue_seconds: float) -> tuple[Caused, Caused]:
    """Return (facts, doubts) on an I/O thread that runs code outside the Kafka client, such as a callback.

    A fact shows that the thread stays in code outside the client. A doubt only shows that the thread was in code
    outside the client, and may have returned since. A wait longer than `overdue_seconds` counts as endless.
    """

    def place(dump: ThreadDump, thread: Thread) -> Hashable:
        cause = _cause_of(thread) if is_own(window, thread) else None
        back = cause != "send-in-callback" and _came_back(window, dump)
        return None if cause is None or back else (cause, thread.frames)

    def stays(stay: Held) -> bool:
        return stay.seconds < APART_SECONDS or _meanwhile(window, stay, limits) is not None

    facts, doubts = Caused(), Caused()
    for stay in held((*window.earlier_dumps, *window.dumps), place, stays=stays):
        if stay.dump in window.dumps:
            cause, thread = _cause_of(stay.thread) or "", stay.thread
            fact = _shown(window, stay, cause, limits, overdue_seconds)
            text = f"{_inside(thread)}, in {innermost(thread)}: nothing shows whether the thread returns"
            (facts if fact else doubts).append((fact or _seen(stay, text), cause))
    return facts or _stays_inside(window, limits), doubts


def _stays_inside(window: ClientWindow, limits: Thresholds) -> Caused:
    """Return a fact if the newest dumps show an I/O thread in one callback; [] for clients with select-total."""

    def callback(_: ThreadDump, thread: Thread) -> Hashable:
        entered = (at for at, frame in enumerate(thread.frames) if any(part in frame for part in CALLBACK_FRAMES))
        at = next(entered, None) if is_own(window, thread) and thread.state == "RUNNABLE" else None
        return None if at is None else thread.frames[at:]

    if reported(window.readings, SELECTS):
        return []
    found = held((*window.earlier_dumps, *window.dumps), callback)[-1:]
    return [
        (_seen(stay, f"inside the same callback{stay.repeated}", since=stay.since_ms), "callback-blocked")
        for stay in found
        if len(stay.seen) >= MIN_READINGS and stay.seconds >= limits.suspect_inside_seconds
    ]


def _shown(window: ClientWindow, stay: Held, cause: str, limits: Thresholds, overdue_seconds: float) -> Fact | None:
    """Return what a dump proves about an I/O thread in foreign code; None if the thread may return from this code."""
    thread, dump, meanwhile = stay.thread, stay.dump, _meanwhile(window, stay, limits)
    wait = next((f for f in thread.frames if any(part in f for part in WAITS)), "")
    in_wait = f"in {'.'.join(wait.split('.')[-2:])}"
    if cause == "send-in-callback":
        # A logger's send() may use another producer, so it proves no deadlock.
        caller = "the callback's own" if in_callback(thread) else "a logger's"
        why = f"{caller} send() waits for metadata or memory that only this thread can provide"
        return _seen(stay, f"{in_wait}: {why}", direct=in_callback(thread) and not _came_back(window, dump))
    if cause not in HELD:
        # Another producer of the process may deliver the awaited result.
        alone = sum(map(is_network_thread, dump.threads)) == 1
        proves = thread.state == "WAITING" and (alone or meanwhile is not None)
        why = "inside a callback: the thread waits for a result that only this thread could deliver"
        return _seen(stay, f"{in_wait}, {why}", proves) if proves or _unmoved(window, dump) else None
    if has_frame(thread, "java.lang.Runtime.exit"):
        return _seen(stay, f"{_inside(thread)}, in System.exit(), which does not return", True)
    # A thread that sleeps in two dumps may have sent a batch in between.
    if meanwhile is not None and (meanwhile or not sleeps(thread)):
        sure = bool(meanwhile) or _is_unchanged(window, stay)
        direct = stay.seconds > overdue_seconds and thread.state not in ("TIMED_WAITING", "RUNNABLE") and sure
        text = (
            f"{_inside(thread)} at the same place as {elapsed(stay.seconds)} before{meanwhile}, in {innermost(thread)}"
        )
        return _seen(stay, text, direct, since=stay.since_ms)
    if waits(thread) and _unmoved(window, dump):
        return _seen(stay, f"{_inside(thread)}, in {innermost(thread)}")
    seconds = _around(window, dump)
    if seconds >= limits.confirm_frozen_seconds:
        unchanged = f"select-total did not change for {elapsed(seconds)}"
        return _seen(stay, f"{_inside(thread)}, in {innermost(thread)}, and {unchanged}")
    return None


def _seen(stay: Held, text: str, direct: bool = False, since: int | None = None) -> Fact:
    text = f"the I/O thread '{stay.thread.name}' is {stay.thread.state or 'found'} {text}"
    return Fact.of("thread-dump", stay.dump, text, direct, since=since)


def _inside(thread: Thread) -> str:
    return "inside a callback" if in_callback(thread) else "in code outside the Kafka client"


def _cause_of(thread: Thread) -> str | None:
    if has_frame(thread, "ProduceRequestResult.await"):
        return "flush-in-callback" if has_frame(thread, "KafkaProducer.flush") else "get-in-callback"
    if any(has_frame(thread, wait) for wait in WAITS):
        return "send-in-callback"
    if in_callback(thread):
        return "callback-blocked"
    return "io-thread-blocked" if in_foreign_code(thread) and waits(thread) else None


def _came_back(window: ClientWindow, dump: ThreadDump) -> bool:
    """Return True if select-total rose after the dump: the I/O thread has returned."""
    return _rises(window, dump.ts_ms + 1)


def _rises(window: ClientWindow, since_ms: int) -> bool:
    counts = [count for ts_ms, count in reported(window.readings, SELECTS) if ts_ms >= since_ms]
    return bool(counts) and counts[-1] > counts[0]


def _unmoved(window: ClientWindow, dump: ThreadDump) -> bool:
    """Return True if MIN_READINGS values of select-total follow the dump, or if no value can follow the dump.

    No value can follow if the client does not report select-total, or if its samples ended before the dump.
    """
    times = [ts_ms for ts_ms, _ in reported(window.readings, SELECTS)]
    last = window.ends_ms is not None and dump.ts_ms > window.ends_ms
    return not times or last or sum(ts_ms > dump.ts_ms for ts_ms in times) >= MIN_READINGS


def _is_unchanged(window: ClientWindow, stay: Held) -> bool:
    known = reported(window.readings, SELECTS)
    before = [count for ts_ms, count in known if ts_ms <= stay.since_ms]
    after = [count for ts_ms, count in known if ts_ms >= stay.dump.ts_ms]
    return bool(before and after) and before[-1] == after[0]


def _around(window: ClientWindow, dump: ThreadDump) -> float:
    """Return how long (s) select-total stayed unchanged around a dump; 0 if unknown."""
    known = reported(window.readings, SELECTS)
    before = [count for ts_ms, count in known if ts_ms <= dump.ts_ms]
    same = [ts_ms for ts_ms, count in known if before and count == before[-1]]
    return (same[-1] - same[0]) / 1000 if same and same[-1] > dump.ts_ms else 0.0


def _meanwhile(window: ClientWindow, stay: Held, limits: Thresholds) -> str | None:
    """Return, as text, a thread's CPU time from the first to the last dump of its `Held`; '' if unknown.

    Returns None if the thread may have moved.
    """
    if stay.seconds < APART_SECONDS or _rises(window, stay.since_ms):
        return None
    if stay.cpu_ms is None:
        return ""
    share = stay.cpu_ms / 1000 / stay.seconds
    if 0 <= share <= limits.still_cpu_share:
        return " and used no CPU in between"
    if 0 <= share <= LITTLE * limits.still_cpu_share and _reports_no_more(window, stay):
        return " and used little CPU in between, and the client's metrics have ended"
    busy = share >= limits.busy_cpu_share
    return f" and used {elapsed(stay.cpu_ms / 1000)} of CPU in between" if busy else None


def _reports_no_more(window: ClientWindow, stay: Held) -> bool:
    """Return True if samples ended before the first dump of a `Held`, and two samples were overdue at its last dump."""
    times = [reading.ts_ms for reading in window.known_readings]
    due_ms = 2 * max((after - before for before, after in itertools.pairwise(times)), default=math.inf)
    return bool(times) and times[-1] < stay.since_ms and stay.dump.ts_ms - times[-1] >= due_ms


def died(window: ClientWindow) -> tuple[Caused, str | None]:
    """Return (facts that show the end of an I/O thread, name of the exception or None).

    The end of an I/O thread is shown by a log line, or by complete dumps in which a thread is in send(), but no I/O
    thread exists. Dumps less than APART_SECONDS apart are only indirect evidence, because the I/O thread may be
    starting.
    """
    facts = [Fact.of("log", e, quoted(e.text), True) for e in events(window, THREAD_DIED)[-1:]]
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
        text = f"'{sender.name}' is in {innermost(sender)}, but no producer of the process still has an I/O thread"
        twice = last.ts_ms - first.ts_ms >= 1000 * APART_SECONDS
        facts.append(Fact.of("thread-dump", last, text, twice, since=first))
    return [(fact, "io-thread-died") for fact in facts], thrown


def deadlocked(window: ClientWindow) -> Caused:
    """Return a fact for each dump in which the JVM reports a deadlock of the I/O thread."""
    facts = []
    for dump, thread in network_threads(window):
        if thread.name in dump.deadlocked:
            cause = "callback-blocked" if in_callback(thread) else "io-thread-blocked"
            facts.append((deadlock(dump, thread, "I/O thread", True), cause))
    return facts
