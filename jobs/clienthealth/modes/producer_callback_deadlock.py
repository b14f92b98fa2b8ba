"""A producer's I/O thread is stuck in its own callback.

Mechanism. Callbacks run on the producer's single I/O thread. One that sends again and calls `get()` without a time
limit waits for a result that only its own thread could deliver; and because that thread enforces every timeout,
nothing times out. The buffer fills, then each `send()` blocks for `max.block.ms` and fails, for ever.

What proves it. A new batch in the buffer wakes the I/O thread up, and a living thread goes back to its selector once
in `request.timeout.ms` at the latest. So a selector that stands still while the buffer fills, or stands still longer
than that while work waits, is proof. A thread dump proves it from the first moment: the network thread WAITING in
`ProduceRequestResult.await`. It does not where the selector went on afterwards: then the callback waited for
something that another thread delivered.

Relatives, told apart by `detail.cause`: `get-in-callback`; `flush-in-callback`; `send-in-callback` (the callback's
own send() waits for metadata or memory on the I/O thread: bounded by `max.block.ms` per record, then it recovers);
`callback-blocked` (it holds the thread in something else); `poll-not-called` (librdkafka: delivery reports that the
application never serves fill its queue).

Known gaps. Clients before 1.0 have no `select-total`: their rates fall to 0 only after 30 to 60 s. kafka-python
counts no selects at all. A client that pushes its metrics itself (KIP-714) falls silent instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clienthealth.logs.signatures import DEADLOCK
from clienthealth.modes import MIN_READINGS, FailureMode, threshold
from clienthealth.modes._evidence import (
    Fact,
    Run,
    conclude,
    count,
    duration,
    events,
    has_frame,
    moved,
    option,
    percent,
    quoted,
    rose_around,
    runs,
    used_ratio,
    values,
)
from clienthealth.records import ClientWindow, Reading, Thread, ThreadDump, Verdict

if TYPE_CHECKING:
    from pyspark.sql import Column

    from clienthealth.windows import WindowColumns

NETWORK_THREAD = "kafka-producer-network-thread"
CALLBACK_FRAMES = ("onCompletion", "completeFutureAndFireCallbacks", "RecordBatch.done")
WAITS = ("ProduceRequestResult.await", "TransactionalRequestResult.await", ".waitOnMetadata", "BufferPool.allocate")


@dataclass(frozen=True)
class Thresholds:
    """When a selector that stands still is a fault."""

    suspect_frozen_seconds: float = threshold(
        15.0, "frozen this long while the buffer filled: in no control did the buffer fill at all while it stood"
    )
    confirm_frozen_seconds: float = threshold(
        25.0, "and this long: a batch of slow callbacks would have ended; six deadlocks lasted for good"
    )
    min_fills: int = threshold(
        2, "times the buffer shrank within one frozen stretch: at most 1 in every control, 24 to 37 in deadlocks"
    )
    assumed_request_timeout_seconds: float = threshold(
        30.0, "the client's default request.timeout.ms, used where its configuration is not known"
    )
    timeout_margin: float = threshold(
        1.25,
        "a frozen stretch must exceed request.timeout.ms by this factor: idle and lingering producers reach 29 s of 30",
    )
    min_overdue_seconds: float = threshold(
        20.0, "with a short request.timeout.ms, a run of slow callbacks can outlast it: never judge sooner"
    )
    zero_rate_seconds: float = threshold(
        10.0, "select-rate 0 for so long besides the 30 s that the rate looks back: 40 s without a select"
    )
    min_reply_growth: int = threshold(
        1000, "delivery reports not served: so many more in one window is not a slow poll loop"
    )


def judge(window: ClientWindow, now_ms: int, thresholds: Thresholds) -> Verdict:
    """See the module's docstring for the rules."""
    limits = thresholds
    dumped = list(_dumped(window))
    facts = [fact for fact, _ in dumped] + _measured(window, limits)
    if facts and any(fact.kind == "metric" for fact in facts):
        facts += _logged(window)
    cause = next((cause for _, cause in dumped), None)
    if cause is None and values(window, "reply-queue"):
        cause = "poll-not-called"
    detail = {
        "cause": cause,
        "bounded": True if cause == "send-in-callback" else None,
        "waiting_threads": max((int(v) for v in values(window, "waiting-threads")), default=None),
        "buffer_used_ratio": max((r for x in window.readings if (r := used_ratio(x)) is not None), default=None),
    }
    return conclude(DEADLOCK, facts, detail, _blindness(window))


def _network_threads(window: ClientWindow) -> Iterator[tuple[ThreadDump, Thread]]:
    for dump in window.dumps:
        for thread in dump.threads:
            if not thread.name.startswith(NETWORK_THREAD):
                continue
            owner = thread.name.partition(" | ")[2]
            if owner == window.client.client_id or not (owner and window.client.client_id):
                yield dump, thread


def _dumped(window: ClientWindow) -> Iterator[tuple[Fact, str]]:
    """Network threads that wait inside a callback, each with the cause that its frames tell."""
    earlier: dict[str, tuple[ThreadDump, Thread]] = {}
    for dump, thread in _network_threads(window):
        inside = any(part in frame for frame in thread.frames for part in CALLBACK_FRAMES)
        if has_frame(thread, "ProduceRequestResult.await"):
            cause = "flush-in-callback" if has_frame(thread, "KafkaProducer.flush") else "get-in-callback"
        elif inside and any(has_frame(thread, wait) for wait in WAITS):
            cause = "send-in-callback"
        else:
            cause = "callback-blocked"
        later = [
            r.metrics["select-total"] for r in window.readings if r.ts_ms > dump.ts_ms and "select-total" in r.metrics
        ]
        came_back = bool(later) and later[-1] > later[0]
        where = f"the I/O thread '{thread.name}' is {thread.state} in {_wait_frame(thread)}"
        if cause == "send-in-callback":
            yield (
                Fact(
                    "thread-dump",
                    dump.ts_ms,
                    dump.ts_ms,
                    f"{where}: the callback's own send() waits for what only this thread can fetch",
                    direct=not came_back,
                    source=dump.source,
                ),
                cause,
            )
        elif cause != "callback-blocked" and not came_back:
            yield (
                Fact(
                    "thread-dump",
                    dump.ts_ms,
                    dump.ts_ms,
                    f"{where}, inside a callback: it waits for a result that only it could deliver",
                    direct=thread.state == "WAITING",
                    source=dump.source,
                ),
                cause,
            )
        elif inside and thread.name in earlier and not came_back:
            before, same = earlier[thread.name]
            if same.frames == thread.frames and same.cpu_ms == thread.cpu_ms is not None:
                yield (
                    Fact(
                        "thread-dump",
                        before.ts_ms,
                        dump.ts_ms,
                        f"the I/O thread '{thread.name}' is {thread.state} inside a callback at the same place as "
                        f"{duration((dump.ts_ms - before.ts_ms) / 1000)} before and used no CPU in between",
                        source=dump.source,
                    ),
                    cause,
                )
        earlier[thread.name] = (dump, thread)


def _wait_frame(thread: Thread) -> str:
    frame = next((f for f in thread.frames if any(wait in f for wait in WAITS)), "")
    return ".".join(frame.split(".")[-2:])


def _measured(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    facts = []
    for run in runs(window, "select-total"):
        fact = _filling(run, limits) or _overdue(window, run, limits)
        if fact:
            facts.append(fact)
    if not values(window, "select-total"):
        for run in runs(window, "select-rate"):
            fact = _no_rate(window, run, limits)
            if fact:
                facts.append(fact)
    unserved = _unserved(window, limits)
    return facts + ([unserved] if unserved else [])


def _filling(run: Run, limits: Thresholds) -> Fact | None:
    free = run.values("buffer-available-bytes")
    fills = sum(later < earlier for earlier, later in itertools.pairwise(free))
    if fills < limits.min_fills or run.seconds < limits.suspect_frozen_seconds:
        return None
    before, after = used_ratio(run.first), used_ratio(run.last)
    filled = f"from {percent(before)} to {percent(after)}" if before is not None and after is not None else "up"
    return Fact(
        "metric",
        run.first.ts_ms,
        run.last.ts_ms,
        f"select-total stood at {run.first.metrics['select-total']:.0f} for {duration(run.seconds)} "
        f"while the buffer filled {filled}",
        direct=run.seconds >= limits.confirm_frozen_seconds,
        source=run.last.source,
    )


def _work_waits(reading: Reading) -> bool:
    return (used_ratio(reading) or 0.0) > 0 or (reading.get("waiting-threads") or 0) > 0


def _overdue(window: ClientWindow, run: Run, limits: Thresholds) -> Fact | None:
    configured = option(window, "request.timeout.ms")
    timeout = limits.assumed_request_timeout_seconds if configured is None else configured / 1000
    busy = [reading for reading in run.readings if _work_waits(reading)]
    if len(busy) < MIN_READINGS or busy != list(run.readings[-len(busy) :]):
        return None
    stood = (busy[-1].ts_ms - busy[0].ts_ms) / 1000
    if stood < max(timeout * limits.timeout_margin, limits.min_overdue_seconds):
        return None
    waiting = max(run.values("waiting-threads"), default=0)
    used = used_ratio(run.last)
    load = [f"{percent(used)} of the buffer in use"] if used is not None else []
    load += [f"{count(waiting, 'thread')} waiting for memory"] if waiting else []
    return Fact(
        "metric",
        busy[0].ts_ms,
        run.last.ts_ms,
        f"select-total stood at {run.first.metrics['select-total']:.0f} for {duration(stood)} with "
        f"{' and '.join(load)}; request.timeout.ms is {duration(timeout)}{'' if configured else ' by default'}",
        direct=configured is not None,
        source=run.last.source,
    )


def _no_rate(window: ClientWindow, run: Run, limits: Thresholds) -> Fact | None:
    stuck = [
        r
        for r in run.readings
        if r.get("select-rate") == 0 and not r.get("io-wait-ratio") and not r.get("io-ratio") and _work_waits(r)
    ]
    if len(stuck) < 2 or (stuck[-1].ts_ms - stuck[0].ts_ms) / 1000 < limits.zero_rate_seconds:
        return None
    configured = option(window, "request.timeout.ms")
    short = configured is not None and configured / 1000 <= limits.assumed_request_timeout_seconds
    used, waiting = used_ratio(stuck[-1]), max(run.values("waiting-threads"), default=0)
    full = f"{percent(used)} of the buffer in use" if used is not None else "work in the buffer"
    return Fact(
        "metric",
        stuck[0].ts_ms - 30_000,
        stuck[-1].ts_ms,
        f"select-rate and io-wait-ratio are 0 for {duration((stuck[-1].ts_ms - stuck[0].ts_ms) / 1000)} "
        f"with {full} and {count(waiting, 'thread')} waiting for memory",
        direct=short,
        source=stuck[-1].source,
    )


def _unserved(window: ClientWindow, limits: Thresholds) -> Fact | None:
    replies = [r for r in window.readings if r.get("reply-queue") is not None]
    if len(replies) < MIN_READINGS or moved(window, "record-ack-total"):
        return None
    counts = [r.metrics["reply-queue"] for r in replies]
    if any(b <= a for a, b in itertools.pairwise(counts)):
        return None
    if counts[-1] - counts[0] < limits.min_reply_growth:
        return None
    seconds = (replies[-1].ts_ms - replies[0].ts_ms) / 1000
    return Fact(
        "metric",
        replies[0].ts_ms,
        replies[-1].ts_ms,
        f"delivery reports that the application has not served rose from {counts[0]:,.0f} to {counts[-1]:,.0f} "
        f"in {duration(seconds)}",
        source=replies[-1].source,
    )


def _logged(window: ClientWindow) -> list[Fact]:
    lines = events(window, "buffer-exhausted", "buffer-exhausted-at-once", "queue-full")
    mine = [e for e in lines if e.client_id or rose_around(window, "record-error-total", e.ts_ms, 1000) is not False]
    if not mine:
        return []
    sends = f"{'at least ' if mine[1:] else ''}{count(len(mine), 'send')}"
    text = f"{sends} failed for want of buffer memory: {quoted(_sentence(mine[0].text))}"
    return [Fact("log", mine[0].ts_ms, mine[0].ts_ms, text, source=mine[0].source)]


def _sentence(text: str) -> str:
    start = max(text.find("Failed to allocate"), text.find("Local: Queue full"), text.find("You have exhausted"), 0)
    return text[start:]


def _blindness(window: ClientWindow) -> str | None:
    if len(window.readings) < MIN_READINGS:
        return None if any(_network_threads(window)) else f"fewer than {MIN_READINGS} readings"
    if not any(values(window, name) for name in ("select-total", "select-rate", "reply-queue")):
        return None if any(_network_threads(window)) else BLIND_SELECTOR
    if not any(used_ratio(r) is not None or r.get("waiting-threads") is not None for r in window.readings):
        return BLIND_BUFFER
    return None


BLIND_SELECTOR = "the client counts no selects of its I/O thread (neither select-total nor select-rate)"
BLIND_BUFFER = "the client does not tell how full its buffer is"


def suspects(w: WindowColumns, thresholds: Thresholds) -> Column:
    """A selector that stood still over three readings with work waiting, rates at 0, unserved reports, or a wait."""
    from pyspark.sql import functions as F

    free = w.min("buffer-available-bytes")
    work = (free < w.max("buffer-total-bytes")) | (free < w.max("buffer-available-bytes"))
    work = work | (w.max("waiting-threads") > 0) | (w.max("queue-records") > 0)
    selects = w.known_values("select-total")
    thrice = F.zip_with(F.slice(selects, 3, 1_000_000), selects, lambda later, earlier: later == earlier)
    idle = ~w.known("select-total") & (w.min("select-rate") == 0)
    still = F.exists(thrice, lambda same: F.coalesce(same, F.lit(False))) | idle
    unserved = w.last("reply-queue") - w.first("reply-queue") >= thresholds.min_reply_growth
    return (
        F.coalesce(still & work, F.lit(False))
        | F.coalesce(unserved, F.lit(False))
        | w.has_frame(*CALLBACK_FRAMES, *WAITS)
    )


def blind(w: WindowColumns, thresholds: Thresholds) -> Column:
    """No count of selects, or no word of the buffer."""
    from pyspark.sql import functions as F

    selector = w.known("select-total") | w.known("select-rate") | w.known("reply-queue")
    by_bytes = w.known("buffer-available-bytes") & w.known("buffer-total-bytes")
    by_records = w.known("queue-records") & w.known("queue-records-limit")
    load = by_bytes | by_records | w.known("waiting-threads")
    seen = w.has_frame(NETWORK_THREAD)
    return F.when(~selector & ~seen, F.lit(BLIND_SELECTOR)).when(~load & selector, F.lit(BLIND_BUFFER))


MODE = FailureMode(
    id=DEADLOCK,
    title="Producer deadlocked in its own callback",
    summary="The producer's I/O thread is stuck in one of its own callbacks, so nothing is sent any more.",
    impact=(
        "Every record sent from now on fails after max.block.ms, what is in the buffer is lost when the process "
        "ends, and it does not recover even though the brokers are fine."
    ),
    action=(
        "Take a thread dump, restart the process, and change the callback so that it never waits: no get(), flush() "
        "or blocking send() inside it; hand a retry to another thread."
    ),
    kinds=frozenset({"producer"}),
    evidence=("metric", "thread-dump", "log"),
    thresholds=Thresholds(),
    confused_with=(
        "Back-pressure: the buffer is full and threads wait, but select-total goes on.",
        "A broker outage or a broker that hangs: select-total goes on, or stands still for request.timeout.ms at most.",
        "A slow callback: a dump finds the thread inside it, yet it comes back to the selector between batches.",
        "An idle producer: select-total stands still for many seconds, but the buffer is empty.",
        "A long garbage collection: all threads stand still, and the readings stop with them.",
    ),
    judge=judge,
    suspects=suspects,
    blind=blind,
)
