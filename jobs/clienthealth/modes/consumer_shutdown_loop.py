"""A consumer that is told to stop never does: it loops, looking for its offset manager.

Mechanism (Scala consumer 0.8.2 and storm-kafka). At exit the thread that commits offsets carries its interrupt flag,
so every `SocketChannel.connect` throws `ClosedByInterruptException`. That is swallowed, and
`ClientUtils.channelToOffsetManager` tries again without a pause and without a look at the flag. The process never
ends, keeps its partitions, takes a CPU and fills the disk with one log line.

What proves it. The same broker failing again and again with no pause, or a thread RUNNABLE under
`channelToOffsetManager` that used CPU between two dumps: a look-up that merely waits sleeps or sits in a connect. But
the stock client spins in the same way while a broker that has died is still listed in ZooKeeper, for as long as its
session lasts (6 s by default). Then other threads miss that broker too and say so, several times a second.

Relative, `detail.cause` `threads-left-behind`: unmodified 0.8.2.1, interrupted in `shutdown()`, logs an error, leaves
a fetcher thread behind that is no daemon, and the JVM never exits.

Known gaps. The connector's MBeans vanish or freeze at shutdown, so metrics cannot show it. Of a storm only one line
per tenth of a second is kept, so rates are lower bounds.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass

from clienthealth.logs.signatures import LOOP
from clienthealth.modes import FailureMode, Gate, Texts, first_reason, threshold
from clienthealth.modes._evidence import (
    Fact,
    conclude,
    duration,
    events,
    has_frame,
    quoted,
    sightings,
)
from clienthealth.records import ClientWindow, LogEvent, Thread, ThreadDump, Verdict
from clienthealth.windows.view import Windows

LOOKUPS = ("offset-manager-lookup-failed", "offset-manager-channel-failed")
OUTAGE = "broker-out-of-reach"
SHUTDOWN = ("connector-shutting-down", "connector-shutdown-completed", "connector-shutdown-error")
LOOKUP_FRAME = "ClientUtils$.channelToOffsetManager"
STOPPING_FRAME = "ZookeeperConsumerConnector.shutdown"
#: A thread that waits for a socket is RUNNABLE to the JVM as well.
SOCKET_FRAMES = ("sun.nio.ch.Net.", "sun.nio.ch.SocketDispatcher.", "sun.nio.ch.FileDispatcher")
FETCHER = "ConsumerFetcherThread-"


@dataclass(frozen=True)
class Thresholds:
    """When failing look-ups are an endless loop."""

    pause_seconds: float = threshold(
        0.9, "a pause: the look-up waits offsets.channel.backoff.ms, 1 s by default, between rounds"
    )
    gap_seconds: float = threshold(
        5.0, "between two bursts a rate limit took the lines: journald, Docker and shippers let some pass each second"
    )
    min_rate_lines: float = threshold(5.0, "lines kept in a second (10 at most): a restart of the coordinator logs one")
    min_repeats: int = threshold(
        3, "lines on one broker without a pause: a round asks each broker once, so a third is a loop"
    )
    suspect_seconds: float = threshold(
        1.0, "spinning for so long while the brokers answer others: no control did; one loop's log ended after 1.2 s"
    )
    min_excerpt_repeats: int = threshold(
        10, "lines on one broker without a pause where nothing but an excerpt shorter than that is known"
    )
    confirm_seconds: float = threshold(
        10.0, "and for so long: it does not end by itself, six loops lasted until they were killed"
    )
    outage_seconds: float = threshold(
        45.0, "spinning for so long in an outage: crashed brokers stay listed in ZooKeeper for 6 to 40 s, then it ended"
    )
    spin_cpu_share: float = threshold(
        0.05, "share of a CPU used between two dumps: 13 % and more in the loop even while its log stalled it"
    )
    overdue_shutdown_seconds: float = threshold(
        20.0, "a shutdown that began so long ago and has not completed: clean ones took 0.1 s"
    )


def judge(window: ClientWindow, now_ms: int, thresholds: Thresholds) -> Verdict:
    """See the module's docstring for the rules. A look-up from before a shutdown that completed is over."""
    looping = _looping(_since_completed(window), thresholds)
    left = _left_behind(window)
    facts = looping or left or _overdue(window, thresholds)
    lines = events(window, *LOOKUPS)
    detail = {
        "cause": "endless-lookup" if looping else "threads-left-behind" if left else None,
        "broker": next((e.captures["address"] for e in reversed(lines) if "address" in e.captures), None),
        "thread": next((e.thread for e in reversed(lines) if e.thread), None) or _looking(window),
    }
    reason = None if facts else _blindness(window, thresholds)
    return conclude(LOOP, facts, detail if facts else None, reason, independent=not looping)


def _since_completed(window: ClientWindow) -> ClientWindow:
    completed = events(window, SHUTDOWN[1])
    if not completed:
        return window
    since = completed[-1].ts_ms
    logs = tuple(event for event in window.logs if event.ts_ms >= since)
    return dataclasses.replace(window, logs=logs, dumps=tuple(d for d in window.dumps if d.ts_ms >= since))


def _looping(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    """What log and dumps show of the thread that spins longest: both see the same loop, so its length decides."""
    found: tuple[float, list[Fact]] = (0.0, [])
    threads = {e.thread or "" for e in events(window, *LOOKUPS)}
    for name in sorted(threads | {t.name for d in window.dumps for t in d.threads if _in_lookup(t)}):
        storm, dumps = _storm(window, name, limits), _spinning(window, name, limits)
        times = [e.ts_ms for e in storm] + [d.ts_ms for d, _ in dumps]
        seconds = (max(times) - min(times)) / 1000 if times else 0.0
        measured = bool(storm) or (len(dumps) > 1 and dumps[0][1].cpu_ms is not None)
        stopping = bool(storm) and _shutdown_before(window, storm[0])
        outage = not stopping and bool(events(window, OUTAGE))
        enough = limits.outage_seconds if outage else limits.suspect_seconds
        if seconds < enough and not stopping and not _is_excerpt(window, storm, dumps, limits):
            continue
        direct = stopping or (measured and seconds >= limits.confirm_seconds and not outage)
        facts = _told(storm, name, direct) + _seen(dumps, name, direct, min(times))
        found = max(found, (seconds, facts), key=lambda of: (of[0], len(of[1])))
    return found[1]


def _is_excerpt(
    window: ClientWindow, storm: list[LogEvent], dumps: list[tuple[ThreadDump, Thread]], limits: Thresholds
) -> bool:
    """Is too little known to see how long it spins, and what is known nothing else than that it does?"""
    if window.readings or events(window, OUTAGE):
        return False
    if any(has_frame(thread, STOPPING_FRAME) for _, thread in dumps):
        return True
    times = [e.ts_ms for e in window.logs] + [d.ts_ms for d in window.dumps]
    short = max(times, default=0) - min(times, default=0) < 1000 * limits.suspect_seconds
    return short and sum(e.repeats for e in storm) >= limits.min_excerpt_repeats


def _told(storm: list[LogEvent], name: str, direct: bool) -> list[Fact]:
    if not storm:
        return []
    seconds = (storm[-1].ts_ms - storm[0].ts_ms) / 1000
    text = (
        f"{name or 'a thread'} logged {quoted(storm[0].text)} without a pause: "
        f"{sum(event.repeats for event in storm):,} times at least "
        f"{f'in {duration(seconds)}' if seconds else 'within a tenth of a second'}"
    )
    return [Fact("log", storm[0].ts_ms, storm[0].ts_ms, text, direct, storm[0].source)]


def _seen(dumps: list[tuple[ThreadDump, Thread]], name: str, direct: bool, since_ms: int) -> list[Fact]:
    if not dumps:
        return []
    (first, before), (last, after) = dumps[0], dumps[-1]
    text = f"thread '{name}' is RUNNABLE under {LOOKUP_FRAME.replace('$', '')}"
    if len(dumps) > 1:
        text += f" in {len(dumps)} dumps over {duration((last.ts_ms - first.ts_ms) / 1000)}"
        if before.cpu_ms is not None and after.cpu_ms is not None:
            text += f" and used {duration((after.cpu_ms - before.cpu_ms) / 1000)} of CPU in between"
    return [Fact("thread-dump", since_ms, last.ts_ms, text, direct, last.source)]


def _shutdown_before(window: ClientWindow, event: LogEvent) -> bool:
    """Had a shutdown begun, and not completed?"""
    marks = [e for e in events(window, *SHUTDOWN) if e.ts_ms <= event.ts_ms]
    return bool(marks) and marks[-1].signature == "connector-shutting-down"


def _stretches(lines: list[LogEvent], limits: Thresholds) -> list[list[LogEvent]]:
    """Lines of one thread, cut where it paused.

    A log that is rate-limited on its way has gaps that the thread did not make: where both sides of a gap are bursts,
    in which it looked one broker up again and again, it spun in between.
    """
    found: list[list[LogEvent]] = []
    for line in lines:
        bursts = bool(found) and min(line.repeats, found[-1][-1].repeats) >= limits.min_repeats
        pause_ms = 1000 * (limits.gap_seconds if bursts else limits.pause_seconds)
        if found and line.ts_ms - found[-1][-1].ts_ms < pause_ms:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _storm(window: ClientWindow, thread: str, limits: Thresholds) -> list[LogEvent]:
    """The longest row of a thread's failed look-ups that has no pause in it and is dense."""
    lines = [e for e in events(window, *LOOKUPS) if (e.thread or "") == thread]
    storm = max(_stretches(lines, limits), key=len, default=[])
    by_address: Counter[str | None] = Counter()
    for event in storm:
        by_address[event.captures.get("address")] += event.repeats
    if max(by_address.values(), default=0) < limits.min_repeats:
        return []
    seconds = (storm[-1].ts_ms - storm[0].ts_ms) / 1000
    return storm if sum(e.repeats for e in storm) >= limits.min_rate_lines * max(seconds, 0.5) else []


def _spinning(window: ClientWindow, name: str, limits: Thresholds) -> list[tuple[ThreadDump, Thread]]:
    """The dumps that find a thread in the look-up; none where it hardly ran from the first to the last of them."""
    seen = [(dump, thread) for dump, thread in sightings(window, name) if _in_lookup(thread)]
    if len(seen) > 1:
        (first, before), (last, after) = seen[0], seen[-1]
        if before.cpu_ms is not None and after.cpu_ms is not None:
            used_ms = after.cpu_ms - before.cpu_ms
            enough = used_ms >= limits.spin_cpu_share * (last.ts_ms - first.ts_ms)
            # A thread that others starve spins as well, if it is elsewhere in the look-up each time.
            moves = used_ms > 0 and len(seen) >= limits.min_repeats and len({t.frames for _, t in seen}) > 1
            return seen if enough or moves else []
    return seen


def _looking(window: ClientWindow) -> str | None:
    return next((t.name for d in reversed(window.dumps) for t in d.threads if _in_lookup(t)), None)


def _in_lookup(thread: Thread) -> bool:
    waits = any(part in thread.frames[0] for part in SOCKET_FRAMES) if thread.frames else True
    return thread.state == "RUNNABLE" and has_frame(thread, LOOKUP_FRAME) and not waits


def _left_behind(window: ClientWindow) -> list[Fact]:
    """A fetcher keeps alive a JVM whose main thread has ended, after a shutdown that failed.

    Where the failure itself lies before the window, the fetcher must not have run between two dumps, and the
    connector must report no metrics any more.
    """
    errors = events(window, "connector-shutdown-error")
    facts = []
    if errors:
        text = f"the connector's shutdown failed: {quoted(errors[0].text)}"
        facts.append(Fact("log", errors[0].ts_ms, errors[0].ts_ms, text, source=errors[0].source))
    exiting = {d.ts_ms for d in window.dumps if any(t.name == "DestroyJavaVM" for t in d.threads)}
    for name in sorted({t.name for d in window.dumps for t in d.threads if t.name.startswith(FETCHER)}):
        seen = [(d, t) for d, t in sightings(window, name) if d.ts_ms in exiting]
        seen = [(d, t) for d, t in seen if not errors or d.ts_ms > errors[0].ts_ms]
        if not seen:
            continue
        (first, before), (last, after) = seen[0], seen[-1]
        idle = len(seen) > 1 and before.cpu_ms == after.cpu_ms is not None and not window.readings
        if errors or idle:
            text = f"the JVM wants to exit (DestroyJavaVM) and {name} keeps it alive"
            if len(seen) > 1:
                text += f", in {len(seen)} dumps over {duration((last.ts_ms - first.ts_ms) / 1000)}"
            facts.append(Fact("thread-dump", first.ts_ms, last.ts_ms, text, source=last.source))
    return facts


def _overdue(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    begun, ended = events(window, "connector-shutting-down"), events(window, *SHUTDOWN[1:])
    signs = [d.ts_ms for d in window.dumps] + [e.ts_ms for e in window.logs] + [r.ts_ms for r in window.readings]
    for event in begun:
        seconds = (max(signs) - event.ts_ms) / 1000
        if not any(e.ts_ms >= event.ts_ms for e in ended) and seconds >= limits.overdue_shutdown_seconds:
            text = f"the connector began to shut down and has not completed it for {duration(seconds)}"
            return [Fact("log", event.ts_ms, event.ts_ms, text, source=event.source)]
    return []


def _blindness(window: ClientWindow, limits: Thresholds) -> str | None:
    marks = events(window, *SHUTDOWN)
    if marks and marks[-1].signature == "connector-shutting-down" and not window.dumps:
        return UNDER_WAY
    if window.dumps or marks or events(window, *LOOKUPS, OUTAGE):
        return None
    return GATE.reason(Windows.of(window), limits)


UNDER_WAY = "its shutdown had begun, and what was read ends before it completed"
BLIND = "nothing is fetched, and neither a log line nor a thread dump tells why; metrics cannot show this fault"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Nothing is fetched."""
    return first_reason(len(w), (BLIND, ~w.rose("fetch-requests-total")))


GATE = Gate(blind)


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """The shutdown completed after the last look-up, or the consumer fetches and looks nothing up."""
    lookups, ends = events(window, *LOOKUPS), events(window, SHUTDOWN[1])
    if ends:
        return not events(window, SHUTDOWN[2]) and (not lookups or ends[-1].ts_ms >= lookups[-1].ts_ms)
    return bool(Windows.of(window).rose("fetch-requests-total")[0]) and not lookups


MODE = FailureMode(
    id=LOOP,
    title="Consumer stuck in an endless shutdown",
    summary="The consumer was told to stop and never does: its process stays alive and holds its partitions.",
    impact=(
        "Its partitions are consumed by nobody while the process lives, one CPU is busy, and its log can grow by "
        "megabytes a second."
    ),
    action=(
        "Kill the process (kill -9; a normal stop cannot work) and see that its partitions move; then commit offsets "
        "before the thread is interrupted, or replace the 0.8 consumer."
    ),
    kinds=frozenset({"legacy-consumer"}),
    evidence=("log", "thread-dump"),
    thresholds=Thresholds(),
    confused_with=(
        "A healthy start: the same line appears once before the coordinator is found.",
        "A coordinator that restarts: one line a second, then it recovers.",
        "A coordinator that crashed: the same spinning until ZooKeeper drops it; other threads miss that broker too.",
        "A look-up that waits for a dead host: the thread sits in a connect or sleeps, and uses no CPU.",
        "A clean shutdown: 'ZKConsumerConnector shutdown completed' follows within a second.",
    ),
    judge=judge,
    gate=GATE,
    recovered=recovered,
    relief=frozenset({"connector-shutdown-completed"}),
)
