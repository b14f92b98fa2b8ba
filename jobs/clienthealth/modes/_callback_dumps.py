"""What thread dumps show of a producer's I/O thread inside a callback: where it waits, and whether it comes back."""

from __future__ import annotations

from clienthealth.model.readings import ClientWindow, Thread, ThreadDump
from clienthealth.modes import MIN_READINGS
from clienthealth.modes._evidence import Fact, duration, has_frame, innermost, values
from clienthealth.modes._io_thread import (
    in_callback,
    is_network_thread,
    network_threads,
    sleeps,
    waits,
)

WAITS = ("ProduceRequestResult.await", "TransactionalRequestResult.await", ".waitOnMetadata", "BufferPool.allocate")
#: Dumps nearer to each other are one look: of a hand that was quick, or of two exporters while one takes over.
APART_MS = 5000


def in_dumps(
    window: ClientWindow, still_cpu_share: float, overdue_seconds: float
) -> tuple[list[tuple[Fact, str]], list[Fact]]:
    """What dumps show of the I/O thread inside a callback, each with the cause that its frames tell.

    `still_cpu_share`: of a CPU, that a thread at one place uses at most; `overdue_seconds`: so long there is no wait
    that ends.

    Second: what is no proof, but no health either.
    """
    facts: list[tuple[Fact, str]] = []
    doubts: list[Fact] = []
    earlier: dict[str, tuple[ThreadDump, Thread]] = {}
    for dump, thread in network_threads(window):
        cause = _cause_of(thread)
        if cause is None or (cause != "send-in-callback" and _came_back(window, dump)):
            earlier.pop(thread.name, None)
            continue
        first, before = earlier.setdefault(thread.name, (dump, thread))
        apart = dump.ts_ms - first.ts_ms >= APART_MS
        stays = apart and _held(window, first, before, dump, thread, still_cpu_share)
        if apart and not stays:
            earlier[thread.name] = dump, thread
        where = f"the I/O thread '{thread.name}' is {thread.state or 'found'}"
        fact: Fact | None = None
        if cause == "send-in-callback":
            why = "the callback's own send() waits for what only this thread can fetch"
            fact = _seen(dump, f"{where} in {_wait_frame(thread)}: {why}", direct=not _came_back(window, dump))
        elif cause != "callback-blocked":
            why = "inside a callback: it waits for a result that only it could deliver"
            # The result may be another producer's: then it comes.
            alone = sum(map(is_network_thread, dump.threads)) == 1
            proves = thread.state == "WAITING" and (alone or stays)
            if proves or _unmoved(window, dump):
                fact = _seen(dump, f"{where} in {_wait_frame(thread)}, {why}", proves)
        elif stays and not sleeps(thread):
            fact = _held_fact(first, dump, thread, overdue_seconds)
        elif waits(thread) and _unmoved(window, dump):
            fact = _seen(dump, f"{where} inside a callback, in {innermost(thread)}")
        if fact is None:
            text = f"{where} inside a callback, in {innermost(thread)}: nothing tells whether it comes back"
            doubts.append(_seen(dump, text))
        else:
            facts.append((fact, cause))
    return facts, doubts


def _seen(dump: ThreadDump, text: str, direct: bool = False) -> Fact:
    return Fact("thread-dump", dump.ts_ms, dump.ts_ms, text, direct, dump.source)


def _cause_of(thread: Thread) -> str | None:
    """What holds the I/O thread inside a callback, as its frames tell; None where it is not in one."""
    if has_frame(thread, "ProduceRequestResult.await"):
        return "flush-in-callback" if has_frame(thread, "KafkaProducer.flush") else "get-in-callback"
    if not in_callback(thread):
        return None
    return "send-in-callback" if any(has_frame(thread, wait) for wait in WAITS) else "callback-blocked"


def _selects_after(window: ClientWindow, dump: ThreadDump) -> list[float]:
    return [v for r in window.readings if r.ts_ms > dump.ts_ms and (v := r.get("select-total")) is not None]


def _came_back(window: ClientWindow, dump: ThreadDump) -> bool:
    """Did the selector go on after the dump? Then the thread waited for something that another one delivered."""
    later = _selects_after(window, dump)
    return bool(later) and later[-1] > later[0]


def _unmoved(window: ClientWindow, dump: ThreadDump) -> bool:
    """Did the selector not move after the dump, as far as that is counted?"""
    return len(_selects_after(window, dump)) >= MIN_READINGS or not values(window, "select-total")


def _held(
    window: ClientWindow, first: ThreadDump, before: Thread, last: ThreadDump, after: Thread, still_cpu_share: float
) -> bool:
    """Is the thread at the same place as in an earlier dump, and has it been there all the time, as far as is known?"""
    if before.frames != after.frames:
        return False
    selects = [r.get("select-total") for r in window.readings if r.ts_ms >= first.ts_ms]
    counts = [value for value in selects if value is not None]
    if counts and counts[-1] > counts[0]:
        return False
    if before.cpu_ms is None or after.cpu_ms is None:  # JVM 8 does not tell
        return True
    return after.cpu_ms - before.cpu_ms <= still_cpu_share * (last.ts_ms - first.ts_ms)


def _held_fact(first: ThreadDump, last: ThreadDump, thread: Thread, overdue_seconds: float) -> Fact:
    """Held by a lock or a queue; beyond `overdue_seconds`, without a time limit, it does not end by itself."""
    apart = (last.ts_ms - first.ts_ms) / 1000
    return Fact(
        "thread-dump",
        first.ts_ms,
        last.ts_ms,
        f"the I/O thread '{thread.name}' is {thread.state or 'found'} inside a callback at the same place as "
        f"{duration(apart)} before and used no CPU in between, in {innermost(thread)}",
        direct=apart > overdue_seconds and thread.state != "TIMED_WAITING",
        source=last.source,
    )


def _wait_frame(thread: Thread) -> str:
    frame = next((f for f in thread.frames if any(wait in f for wait in WAITS)), "")
    return ".".join(frame.split(".")[-2:])
