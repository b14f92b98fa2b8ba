"""Judge consumers that never complete their shutdown.

An old Scala consumer loops in the search for its offset manager, or leaves a fetcher thread behind. A Java consumer
does not return from close().
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.view import Windows
from clienthealth.model.readings import LogEvent, Thread
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import elapsed, quoted
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, mode_file
from clienthealth.modes._evidence import (
    Circumstance,
    Fact,
    captured,
    conclude,
    events,
    has_frame,
    innermost,
    spanned,
    stated,
)
from clienthealth.modes._io_thread import in_foreign_code
from clienthealth.modes._looks import NOTHING, Look, TwoReadings, unpolled
from clienthealth.modes._polls import has_polled, polled_ms
from clienthealth.modes.circumstances import coordinator_answers
from clienthealth.modes.held import Held, held
from clienthealth.read.logs.fields import FETCHER_THREAD
from clienthealth.read.logs.wordings import Meaning

FILE = mode_file(__file__)
ID = FILE.id
LOOKUPS, OUTAGE, BEGUN, COMPLETED, FAILED = map(FILE.reads, ("lookups", "outage", "begun", "completed", "failed"))
CLOSED, DESTROYING, *CLOSINGS = map(FILE.reads, ("closed", "destroying", "closing", "waiting"))
REFUSED, CONNECTOR_CONFIG = map(FILE.reads, ("close-refused", "self-descriptions.connector-config"))

LOOKUP_FRAME = "ClientUtils$.channelToOffsetManager"
STOPPING_FRAME = "ZookeeperConsumerConnector.shutdown"
#: Socket calls in which a thread waits, although it is RUNNABLE.
SOCKET_FRAMES = ("sun.nio.ch.Net.poll", "sun.nio.ch.Net.connect", "sun.nio.ch.SocketDispatcher.read")


class Thresholds(Limits, of=FILE):
    """Limits that decide whether log lines show an endless loop, and when a shutdown() or close() is overdue."""

    pause_seconds: float
    gap_seconds: float
    min_rate_lines: float
    min_repeats: int
    suspect_seconds: float
    min_excerpt_repeats: int
    confirm_seconds: float
    outage_seconds: float
    spin_cpu_share: float
    overdue_shutdown_seconds: float
    suspect_close_seconds: float
    confirm_close_seconds: float
    silent_poll_seconds: float


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    if window.client.kind == "consumer":
        return _closes(window, thresholds)
    looping = _looping(_since_completed(window), thresholds)
    left = _left_behind(window, thresholds)
    facts = looping or left or _overdue(window, thresholds, (BEGUN,), (COMPLETED, FAILED), "the connector")
    lines = events(window, LOOKUPS)
    in_dumps = (t.name for d in reversed(window.dumps) for t in d.threads if _in_lookup(t))
    detail = {
        "cause": "endless-lookup" if looping else "threads-left-behind" if left else None,
        "broker": next((e.captures["address"] for e in reversed(lines) if "address" in e.captures), None),
        "thread": next((e.thread for e in reversed(lines) if e.thread), None) or next(in_dumps, None),
    }
    return conclude(ID, facts, detail, _blindness(window, thresholds))


def _closes(window: ClientWindow, limits: Thresholds) -> Verdict:
    seen = closing(window)
    facts = _hanging(window, seen, limits) if seen else []
    facts = facts or _overdue(window, limits, CLOSINGS, (CLOSED,), "the consumer") or stated(window, DESTROYING)
    refused = [] if facts else _overdue(window, limits, (REFUSED,), (CLOSED,), "the consumer")
    if facts or refused:
        where = {"thread": seen.stay.thread.name, "frame": innermost(seen.stay.thread)} if seen else {}
        return conclude(ID, facts or refused, {"cause": "close-refused" if refused else "close-hangs", **where})
    if seen:
        text = f"'{seen.stay.thread.name}' is inside close(), which may take some time"
        return conclude(ID, [], doubts=[seen.fact(text)])
    begun = events(window, *CLOSINGS)
    if begun and not any(event.ts_ms >= begun[-1].ts_ms for event in events(window, CLOSED)):
        return conclude(ID, [], doubts=[Fact("log", begun[-1].ts_ms, begun[-1].ts_ms, UNDER_WAY)])
    w = window.table
    has_evidence = window.dumps or events(window, CLOSED)
    doubts = []
    if not has_evidence and silent(w, limits)[0]:
        ago = elapsed(w.last("last-poll-seconds-ago")[0])
        text = f"the consumer has not called poll() for {ago}, and no thread dump shows whether close() is running"
        doubts.append(Fact.of("metric", window.readings[-1], text))
    return conclude(ID, [], otherwise=None if has_evidence else GATE.reason(w, limits), doubts=doubts)


def _hanging(window: ClientWindow, seen: Closing, limits: Thresholds) -> list[Fact]:
    dump, thread = seen.stay.dump, seen.stay.thread
    if seen.seconds < limits.suspect_close_seconds or _has_left(window, seen):
        return []
    text = f"'{thread.name}' has been inside close() for at least {elapsed(seen.seconds)}, in {innermost(thread)}"
    given = None if in_foreign_code(thread) else coordinator_answers(window, seen.last_ms)
    # `thread` may be closing another consumer of the process.
    alone = sum(thread.name.startswith(CONSUMER_THREADS) for thread in dump.threads) < 2
    certain = alone or any(polled_ms(reading) is not None for reading in window.readings[-1:])
    facts = [seen.fact(text, certain and seen.seconds >= limits.confirm_close_seconds, given)]
    if seen.last_ms > dump.ts_ms:
        text = "the consumer still reports metrics and has not polled since close() began, so close() has not ended"
        facts.append(replace(seen.fact(text, given=given), kind="metric"))
    return facts


def _has_left(window: ClientWindow, seen: Closing) -> bool:
    """Return True if the thread in close() is closing another consumer.

    KafkaConsumer.close() first leaves the group, and then removes the metric with the time of the last poll. So if this
    consumer has already lost the metric, a thread that is still leaving a group is closing another consumer.
    """
    with_time = [reading.ts_ms for reading in window.known_readings if polled_ms(reading) is not None]
    leaving = any("ConsumerCoordinator" in frame for frame in seen.stay.thread.frames)
    return leaving and bool(with_time) and window.known_readings[-1].ts_ms > max(with_time[-1], seen.stay.since_ms)


def _since_completed(window: ClientWindow) -> ClientWindow:
    if not (completed := events(window, COMPLETED)):
        return window
    since = completed[-1].ts_ms
    logs = tuple(event for event in window.logs if event.ts_ms >= since)
    return replace(window, logs=logs, dumps=tuple(d for d in window.dumps if d.ts_ms >= since))


def _looping(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    longest: tuple[float, list[Fact]] = (0.0, [])
    spinning = _spinning(window, limits)
    for name in sorted({e.thread or "" for e in events(window, LOOKUPS)} | spinning.keys()):
        storm, stay = _storm(window, name, limits), spinning.get(name)
        times = [e.ts_ms for e in storm] + ([stay.since_ms, stay.dump.ts_ms] if stay else [])
        seconds = (max(times) - min(times)) / 1000 if times else 0.0
        measured = bool(storm) or (stay is not None and (stay.cpu_ms is not None or _moves(stay, limits)))
        marks = [e for e in events(window, BEGUN, COMPLETED, FAILED) if storm and e.ts_ms <= storm[0].ts_ms]
        stopping = bool(marks) and marks[-1] in BEGUN
        outage = not stopping and bool(events(window, OUTAGE))
        enough = limits.outage_seconds if outage else limits.suspect_seconds
        if seconds < enough and not stopping and not _is_excerpt(window, storm, stay, limits):
            continue
        direct = stopping or (measured and seconds >= limits.confirm_seconds and not outage)
        facts = _storm_facts(storm, name, direct) + (_seen(stay, direct, min(times)) if stay else [])
        longest = max(longest, (seconds, facts), key=lambda found: (found[0], len(found[1])))
    return longest[1]


def _is_excerpt(window: ClientWindow, storm: list[LogEvent], stay: Held | None, limits: Thresholds) -> bool:
    """Return True if data without samples shows a loop: a thread inside shutdown(), or many lines in a short log."""
    if window.readings or events(window, OUTAGE):
        return False
    if stay and any(has_frame(thread, STOPPING_FRAME) for _, thread in stay.seen):
        return True
    times = [e.ts_ms for e in window.logs] + [d.ts_ms for d in window.dumps]
    short = max(times, default=0) - min(times, default=0) < 1000 * limits.suspect_seconds
    return short and sum(e.repeats for e in storm) >= limits.min_excerpt_repeats


def _storm_facts(storm: list[LogEvent], name: str, direct: bool) -> list[Fact]:
    if not storm:
        return []
    seconds, times = spanned(storm), sum(event.repeats for event in storm)
    within = f"in {elapsed(seconds)}" if seconds else "within a tenth of a second"
    text = f"{name or 'a thread'} logged {quoted(storm[0].text)} without a pause: at least {times:,} times {within}"
    return [Fact.of("log", storm[0], text, direct)]


def _seen(stay: Held, direct: bool, since_ms: int) -> list[Fact]:
    text = f"thread '{stay.thread.name}' is RUNNABLE under {LOOKUP_FRAME.replace('$', '')}{stay.repeated}"
    if stay.seen[1:] and stay.cpu_ms is not None:
        text += f" and used {elapsed(stay.cpu_ms / 1000)} of CPU in between"
    return [Fact.of("thread-dump", stay.dump, text, direct, since=since_ms)]


def _storm(window: ClientWindow, thread: str, limits: Thresholds) -> list[LogEvent]:
    """Return the log lines of the longest period in which a thread's look-ups fail in bursts.

    The bursts of a period are less than `gap_seconds` apart.
    """
    lines = [e for e in events(window, LOOKUPS) if (e.thread or "") == thread]
    bursts = [burst for burst in _rows([[line] for line in lines], limits.pause_seconds) if _is_burst(burst, limits)]
    return max(_rows(bursts, limits.gap_seconds), key=spanned, default=[])


def _rows(parts: list[list[LogEvent]], pause_seconds: float) -> list[list[LogEvent]]:
    rows: list[list[LogEvent]] = []
    for part in parts:
        if rows and part[0].ts_ms - rows[-1][-1].ts_ms < 1000 * pause_seconds:
            rows[-1] += part
        else:
            rows.append(list(part))
    return rows


def _is_burst(lines: list[LogEvent], limits: Thresholds) -> bool:
    by_address: Counter[str | None] = Counter()
    for event in lines:
        by_address[event.captures.get("address")] += event.repeats
    often = sum(by_address.values()) >= limits.min_rate_lines * max(spanned(lines), 0.5)
    return often and max(by_address.values()) >= limits.min_repeats


def _spinning(window: ClientWindow, limits: Thresholds) -> dict[str, Held]:
    looking = held(window.dumps, lambda _, thread: LOOKUP_FRAME if has_frame(thread, LOOKUP_FRAME) else None)
    runs = [tuple((dump, thread) for dump, thread in stay.seen if _in_lookup(thread)) for stay in looking]
    newest = {stay.thread.name: stay for stay in map(Held, filter(None, runs))}

    def ran(stay: Held) -> bool:
        used = stay.cpu_ms is None or stay.cpu_ms >= limits.spin_cpu_share * 1000 * stay.seconds
        return used or bool(stay.cpu_ms and _moves(stay, limits))

    return {name: stay for name, stay in newest.items() if ran(stay)}


def _moves(stay: Held, limits: Thresholds) -> bool:
    """Return True if frames change between dumps, which shows that the thread loops even if it uses little CPU time."""
    return len(stay.seen) >= limits.min_repeats and len({thread.frames for _, thread in stay.seen}) > 1


def _in_lookup(thread: Thread) -> bool:
    waits = any(part in thread.frames[0] for part in SOCKET_FRAMES) if thread.frames else True
    return thread.state == "RUNNABLE" and has_frame(thread, LOOKUP_FRAME) and not waits


def _left_behind(window: ClientWindow, limits: Thresholds) -> list[Fact]:
    """Return facts on a failed shutdown: its log line, and the remaining fetcher threads."""
    errors = events(window, FAILED)
    facts = []
    if errors:
        text = f"the connector's shutdown failed: {quoted(errors[0].text)}"
        facts.append(Fact.of("log", errors[0], text))
    exiting = {d.ts_ms for d in window.dumps if any(t.name == "DestroyJavaVM" for t in d.threads)}
    after = [d for d in window.dumps if not errors or d.ts_ms > errors[0].ts_ms]
    fetchers = held(after, lambda _, thread: thread.name.startswith(FETCHER_THREAD) or None)
    for name, stay in sorted({stay.thread.name: stay for stay in fetchers}.items()):
        wants = tuple((dump, thread) for dump, thread in stay.seen if dump.ts_ms in exiting)
        late = errors and stay.dump.ts_ms - errors[0].ts_ms >= 1000 * limits.overdue_shutdown_seconds
        left = Held(wants or (stay.seen if late else ()))
        if left.seen and (errors or (left.seen[1:] and left.cpu_ms == 0 and not window.readings)):
            text = f"{name} keeps the JVM from exiting (DestroyJavaVM waits)" if wants else f"{name} still runs"
            text += f",{left.repeated}" if left.repeated else ""
            facts.append(Fact.of("thread-dump", left.dump, text, since=left.since_ms))
    return facts


def _overdue(
    window: ClientWindow, limits: Thresholds, began: Sequence[Meaning], ends: Sequence[Meaning], client: str
) -> list[Fact]:
    begun, ended = events(window, *began), events(window, *ends)
    for event in begun:
        seconds = max((window.newest_ms - event.ts_ms) / 1000, 60 * captured(event, "minutes"))
        if not any(e.ts_ms >= event.ts_ms for e in ended) and seconds >= limits.overdue_shutdown_seconds:
            text = f"{client} began to shut down {elapsed(seconds)} ago, but the shutdown has not completed"
            given = coordinator_answers(window, window.newest_ms) if window.client.kind == "consumer" else None
            return [Fact.of("log", event, text, given=given)]
    return []


def _blindness(window: ClientWindow, limits: Thresholds) -> str | None:
    marks, fetches = events(window, BEGUN, COMPLETED, FAILED), window.table.rose("fetch-requests-total")[0]
    if marks:
        return UNDER_WAY if marks[-1] in BEGUN else None
    lookups, dumps = [e.ts_ms for e in events(window, LOOKUPS)], [d.ts_ms for d in window.dumps]
    newest = window.dumps[-1].threads if dumps else ()
    if not fetches and (
        max(lookups, default=0) > max(dumps, default=0) or any(has_frame(t, LOOKUP_FRAME) for t in newest)
    ):
        return LOOKING
    return None if dumps or events(window, OUTAGE) else GATE.reason(window.table, limits)


UNDER_WAY = "the consumer began to shut down, but the data ends before the shutdown completes"
LOOKING = "the consumer is looking for its offset manager, and no data shows that the search succeeded"
BLIND = "the consumer fetches nothing, and no log line or thread dump shows why; metrics cannot show this failure"
BLIND_POLLS = "no data shows that the consumer polls, and no thread dump shows whether close() is running"


def silent(w: Windows, limits: Thresholds) -> Bools:
    """Return one flag per window: True if a Java consumer has not polled for `silent_poll_seconds`."""
    return (w.last("last-poll-seconds-ago") >= limits.silent_poll_seconds) & (w.samples >= MIN_READINGS)


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return, for each window, why metrics cannot rule the failure out; '' if fetches or polls rule it out."""
    if w.kind != "consumer":
        return first_reason(len(w), (BLIND, ~w.rose("fetch-requests-total")))
    ago = w.last("last-poll-seconds-ago")
    goes_on = w.rose("records-consumed-total") | w.rose("fetch-total") | w.reported("time-between-poll-max")
    polls = np.where(np.isnan(ago), goes_on, ago < thresholds.silent_poll_seconds)
    return first_reason(len(w), (BLIND_POLLS, ~polls))


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if a Java consumer has not polled for a long time."""
    return silent(w, thresholds) if w.kind == "consumer" else np.zeros(len(w), np.bool_)


GATE = Gate(blind, suspects)


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if the consumer was closed, or consumes again."""
    w = window.table
    if window.client.kind == "consumer":
        polled = w.last("last-poll-seconds-ago")[0] < thresholds.silent_poll_seconds
        works = polled and w.rose("records-consumed-total")[0]
        return closing(window) is None and bool(events(window, CLOSED) or works)
    lookups, ends = events(window, LOOKUPS), events(window, COMPLETED)
    if ends:
        return not events(window, FAILED) and (not lookups or ends[-1].ts_ms >= lookups[-1].ts_ms)
    return bool(w.rose("fetch-requests-total")[0]) and not lookups


CLOSE = "KafkaConsumer.close"
CONSUMER_THREADS = ("kafka-coordinator-heartbeat-thread", "consumer_background_thread")


class Closing(NamedTuple):
    """A thread's stay inside close(), according to thread dumps.

    `stay`     the `Held` of the thread: the consecutive dumps that show the thread inside close()
    `last_ms`  latest time (epoch ms) at which close() had not ended: the time of the newest dump, or of a later sample.
               A client sends no sample after close(), so a sample shows that close() has not ended
    """

    stay: Held
    last_ms: int

    @property
    def seconds(self) -> float:
        return (self.last_ms - self.stay.since_ms) / 1000

    def fact(self, text: str, direct: bool = False, given: Circumstance | None = None) -> Fact:
        """Return a fact that thread dumps show. The fact lasts from the first dump to `last_ms`."""
        return Fact("thread-dump", self.stay.since_ms, self.last_ms, text, direct, self.stay.dump.source, given)


def closing(window: ClientWindow) -> Closing | None:
    """Return the thread that has been inside this client's close() for the longest time, or None."""
    inside = held(window.dumps, lambda _, thread: CLOSE if has_frame(thread, CLOSE) else None)
    closed = [event.ts_ms for event in window.known_logs if event in CLOSED]
    if closed and not has_polled(window, closed[-1]):
        return None  # This client is closed, so a thread inside close() is closing another client.
    still = [stay for stay in inside if stay.dump is window.dumps[-1] and not has_polled(window, stay.since_ms)]
    newest = [(reading.ts_ms, polled) for reading in window.readings[-1:] if (polled := polled_ms(reading)) is not None]
    found = []
    for stay in still:
        unpolled = [ts_ms for ts_ms, polled in newest if polled <= stay.since_ms]
        found.append(Closing(stay, max([stay.dump.ts_ms, *unpolled])))
    return max(found, key=lambda candidate: candidate.seconds, default=None)


def doubt(look: Look) -> str:
    """Return why `diagnose` cannot rule the failure mode out; '' if the mode is ruled out."""
    marks = events(look.window, CONNECTOR_CONFIG, LOOKUPS, BEGUN, COMPLETED, FAILED)
    if marks and marks[-1] in BEGUN:
        return "the connector began to shut down, but the data ends before the shutdown completes"
    if look.vanished and look.window.client.kind != "consumer" and not events(look.window, COMPLETED):
        return "the connector's metrics ended before the JVM's other metrics; no data shows how the shutdown ended"
    if look.measured:
        return unpolled(look)
    if marks and marks[-1] in LOOKUPS:
        return "the consumer failed to find its offset manager, and no data shows that it succeeded later"
    if events(look.window, COMPLETED):
        return ""
    dumps = look.window.dumps
    if looking := [t.name for dump in dumps for t in dump.threads if has_frame(t, LOOKUP_FRAME)]:
        return look.twice(dumps[-1:], f"thread '{looking[0]}' is looking for its offset manager")
    return look.twice(dumps, "no thread loops" if dumps else NOTHING)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """Yield a reason to take a thread dump if the consumer has not polled for a long time."""
    away = readings.now.metrics.get("last-poll-seconds-ago", 0.0)
    if away >= thresholds.silent_poll_seconds:
        yield f"the last poll() was {away:.0f} s ago"


MODE = LiveMode(
    **FILE.facts(Thresholds()), judge=judge, gate=GATE, recovered=recovered, doubt=doubt, worth_a_dump=worth_a_dump
)
