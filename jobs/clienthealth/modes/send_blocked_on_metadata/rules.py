"""A caller of `send()` waits for metadata that does not come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools, Column, Floats
from clienthealth.measure.view import Windows, per_windows
from clienthealth.model.readings import LogEvent, Reading, Thread, ThreadDump
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Verdict
from clienthealth.model.wording import count_of, elapsed, listing, quoted
from clienthealth.modes import MIN_READINGS, Gate, Limits, LiveMode, Texts, first_reason, lasted, mode_file
from clienthealth.modes._evidence import (
    NEVER_SECONDS,
    SAME_MOMENT_MS,
    Fact,
    Happened,
    captured,
    conclude,
    counted,
    events,
    failures,
    has_frame,
    increases,
    number_of,
    reported,
    rose_around,
    run,
    spanned,
    values,
    with_counts,
)
from clienthealth.modes._io_thread import is_network_thread, network_threads, on_io_thread
from clienthealth.modes._looks import Look, TwoReadings, io_thread
from clienthealth.modes.held import Held, held
from clienthealth.read.logs.dumps import WAIT_FRAME

FILE = mode_file(__file__)
ID = FILE.id
METADATA_WAITED, TOPIC_ERRORS, UNREACHABLE = map(FILE.reads, ("metadata-waited", "topic-errors", "unreachable"))
CONNECTION_FAILED, AUTHENTICATION = map(FILE.reads, ("connection-failed", "also-seen.authentication"))
TLS, PRODUCER_CONFIG = map(FILE.reads, ("also-seen.tls", "self-descriptions.producer-config"))

DENIED, LEADERLESS = ("TOPIC_AUTHORIZATION_FAILED", "not authorized"), "LEADER_NOT_AVAILABLE"
#: In a process with one producer, a thread counts as blocked if it waits in two dumps at least STAYS_SECONDS apart. A
#: thread with only short waits is unlikely to wait in both dumps.
STAYS_SECONDS = 9.0


class Thresholds(Limits, of=FILE):
    """Limits that decide whether a wait for metadata is a fault."""

    min_wait_ms: int
    confirm_blocked_seconds: float
    min_unsent_seconds: float
    topic_error_seconds: float
    min_topic_errors: int
    min_attempts_seconds: float
    fresh_metadata_seconds: float
    min_failed_sends: int


def judge(window: ClientWindow, thresholds: Thresholds) -> Verdict:
    """Return this failure mode's verdict on a window. `background` in mode.toml explains the rules."""
    w = window.table
    # Sends in callbacks belong to the mode producer-callback-deadlock.
    failed = [event for event in failures(window, METADATA_WAITED) if not on_io_thread(event)]
    waits = _waits(window, w, thresholds)
    topics = _missing_topics(window, thresholds)
    same_call = _same_call(window, failed, waits)
    sends_logged, sends_counted = _sends(failed), _sends_counted(window, w)
    facts = _logged(failed, thresholds) + _dumped(waits, same_call, thresholds)
    sends = bool(sent_any(w)[0])
    if waits or failed or not sends:
        for topic, lines in topics.items():
            text = f"the brokers answered {_error(lines[-1])} for topic {topic} {len(lines)} times in "
            facts.append(Fact.of("log", lines[0], text + elapsed(spanned(lines))))
    facts += _measured(window, w, thresholds) + _attempts(window, w, thresholds)
    cause, named = _cause(window, failed, topics)
    blocked = Counter(stay.dump.ts_ms for stay in waits)
    waited = [_waited_ms(event) / 1000 for event in failed]
    longest = max(waited + [stay.seconds for stay in waits if same_call], default=0.0) or None
    detail = {
        "cause": cause,
        **named,
        "blocked_threads": max(blocked.values(), default=None),
        "longest_block_seconds": longest,
        "failed_sends": number_of(sends_logged, sends_counted),
    }
    # A dump with the I/O thread, but without a waiting caller, is enough for `ok`, even without metrics.
    otherwise = None if facts or any(network_threads(window)) else GATE.reason(w, thresholds)
    return with_counts(
        conclude(ID, facts, detail, otherwise, _doubts(window, thresholds, sends, topics)),
        counted(window, "failed_sends", "log", sends_logged),
        counted(window, "failed_sends", "metric", sends_counted),
    )


def _sends(failures: list[LogEvent]) -> Happened:
    """Return (epoch ms, number of failed sends) per line; simultaneous lines of a thread count once."""
    # If all lines have the same time, each repetition is one more failed send.
    undated = len({event.ts_ms for event in failures}) == 1
    happened: list[tuple[int, float]] = []
    last: dict[str, int] = {}
    for event in failures:
        if not event.thread or event.ts_ms - last.get(event.thread, 0) >= min(SAME_MOMENT_MS, _waited_ms(event)):
            happened.append((event.ts_ms, event.repeats if undated or not event.thread else 1))
            last[event.thread or ""] = event.ts_ms
    return happened


def _sends_counted(window: ClientWindow, w: Windows) -> Happened:
    """Return (epoch ms, number of failed sends) for each time that `record-error-total` rose.

    Leave out times at which `record-send-total` also rose. Returns [] if records were in the buffer.
    """
    failed = increases(window, "record-error-total")
    if not failed or not w.reported("record-send-total")[0] or w.max(_used(w))[0] > 0:
        return []
    sent = dict(increases(window, "record-send-total"))
    return [(ts, number) for ts, number in failed if ts not in sent]


def _waits(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Held]:
    """Return the threads that wait for this client's metadata, according to thread dumps.

    If the process has several producers, metrics or log lines must show that this client may wait.
    """
    dumps: list[ThreadDump] = []
    for dump in (*window.earlier_dumps, *window.dumps):
        dumps = [*dumps, dump] if any(map(_is_waiting, dump.threads)) else []
    if not any(dump in window.dumps for dump in dumps):
        return []
    waiting = held(dumps, lambda _, thread: _is_waiting(thread) or None)
    remain = {stay.thread.name for stay in waiting if stay.seconds >= STAYS_SECONDS}
    alone = all(sum(map(is_network_thread, dump.threads)) < 2 for dump in dumps)
    counted = alone or _is_marked(window, w)
    unsent = {dump.ts_ms for dump in dumps if counted and _idle(window, w, dump.ts_ms, limits, alone)}

    def place(dump: ThreadDump, thread: Thread) -> str | None:
        counts = dump.ts_ms in unsent or (alone and thread.name in remain)
        return WAIT_FRAME if counts and _is_waiting(thread) else None

    return held(dumps, place)


def _is_marked(window: ClientWindow, w: Windows) -> bool:
    """Return True if data shows that callers may wait in this client's send()."""
    own = events(window, METADATA_WAITED, TOPIC_ERRORS, AUTHENTICATION, TLS)
    marked = not window.client.client_id or any(event.client_id == window.client.client_id for event in own)
    return marked or bool(w.reported("record-send-total")[0])


def _is_waiting(thread: Thread) -> bool:
    return has_frame(thread, WAIT_FRAME) and not is_network_thread(thread)


def _idle(window: ClientWindow, w: Windows, ts_ms: int, limits: Thresholds, alone: bool) -> bool:
    """Return True if the client sent nothing around `ts_ms`, or if records fail."""
    if w.rose("record-error-total")[0]:
        return True
    if not (sent_totals := reported(window.known_readings, "record-send-total")):
        return not _is_starting(window, ts_ms, limits.min_unsent_seconds)
    sent = next((v for ts, v in reversed(sent_totals) if ts <= ts_ms), sent_totals[0][1])
    same = [ts for ts, v in sent_totals if v == sent]
    seconds = (max(ts_ms, same[-1]) - min(ts_ms, same[0])) / 1000
    idle = sent_totals[-1][1] == sent and seconds >= limits.min_unsent_seconds
    return idle and (alone or (ts_ms <= same[-1] and _may_wait(window.known_readings[-1], limits)))


def _may_wait(reading: Reading, limits: Thresholds) -> bool:
    """Return True if a caller may be waiting for metadata in send().

    While a caller waits, the client keeps requesting metadata. So no caller waits if the metadata is old, a connection
    is open, and no request is in flight.
    """
    age = reading.get("metadata-age")
    old = age is not None and limits.fresh_metadata_seconds < age < NEVER_SECONDS
    return not old or reading.get("connection-count") == 0 or (reading.get("requests-in-flight") or 0) > 0


def _is_starting(window: ClientWindow, ts_ms: int, seconds: float) -> bool:
    """Return True if the client may be in its first send(): it has just logged its options."""
    return any(event in PRODUCER_CONFIG and 0 <= ts_ms - event.ts_ms < 1000 * seconds for event in window.known_logs)


def _doubts(window: ClientWindow, limits: Thresholds, sends: bool, topics: dict[str, list[LogEvent]]) -> list[Fact]:
    """Return facts that suggest the failure without proof, such as a waiting caller that may use another producer."""
    waiting = [(dump, thread) for dump in window.dumps for thread in dump.threads if _is_waiting(thread)]
    for dump, thread in reversed(waiting):
        several = sum(map(is_network_thread, dump.threads)) > 1
        others = several and not rose_around(window, "record-send-total", dump.ts_ms)
        starts = not sends and _is_starting(window, dump.ts_ms, limits.min_unsent_seconds)
        if others or starts:
            return [Fact.of("thread-dump", dump, f"'{thread.name}' waits in send(), {ANY if others else FIRST}")]
    lines = _refusals(window)
    if not lines or (sends and not topics):
        return []
    answer = f"the brokers answer {_error(lines[-1])} for topic {lines[-1].captures.get('topic')}"
    text = f"{answer}, but {'other records are sent' if sends else 'no data shows whether callers wait for this topic'}"
    return [Fact.of("log", lines[-1], text, since=lines[0])]


FIRST = "but the producer had just started, and every first send() waits for metadata"
ANY = "but no data shows which producer of the process this thread uses"


def _error(event: LogEvent) -> str:
    return event.captures.get("error", "UNKNOWN_TOPIC_OR_PARTITION")


def _waited_ms(event: LogEvent) -> float:
    return captured(event, "waitMs") if event.captures.get("waitMs") else 1000 * captured(event, "waitS")


def _logged(failures: list[LogEvent], limits: Thresholds) -> list[Fact]:
    if not failures:
        return []
    longest = max(failures, key=_waited_ms)
    first, waited = failures[0], _waited_ms(longest)
    line = next((line for line in longest.text.split("\n") if "metadata after" in line), longest.text)
    sentence = line.split("TimeoutException: ")[-1].split("KafkaTimeoutError: ")[-1]
    text = f"send() gave up{f' after {elapsed(waited / 1000)}' if waited else ''}: {quoted(sentence)}"
    return [Fact.of("log", first, text, waited >= limits.min_wait_ms, since=round(first.ts_ms - _waited_ms(first)))]


def _same_call(window: ClientWindow, failures: list[LogEvent], waits: list[Held]) -> bool | None:
    """Return whether a caller stayed in one call of send() in all dumps; None if unknown."""
    if not waits:
        return None
    first, last = waits[0].dump.ts_ms, waits[-1].dump.ts_ms
    logged = sum(first <= ts_ms <= last for ts_ms, _ in _sends(failures))
    errors = reported(window.readings, "record-error-total")
    counted = [v for ts, v in errors if ts <= first][-1:] + [v for ts, v in errors if first < ts <= last]
    failed = max(logged, counted[-1] - counted[0] if counted else 0)
    if failed >= min(Counter(stay.dump.ts_ms for stay in waits).values()):
        return False
    return True if len(counted) > 1 else None


def _dumped(waits: list[Held], same_call: bool | None, limits: Thresholds) -> list[Fact]:
    if not waits:
        return []
    fullest = max(grouped(waits, lambda stay: stay.dump.ts_ms).values(), key=len)
    longest = max(waits, key=lambda stay: stay.seconds)
    text = f"KafkaProducer.waitOnMetadata blocks {count_of(len(fullest), 'caller')} of send(): "
    text += listing(stay.thread.name for stay in fullest)
    if longest.seconds:
        text += f"; {longest.thread.name} was there{longest.repeated}"
        text += ", but sends failed meanwhile, so it was in different calls of send()" if same_call is False else ""
    direct = bool(same_call) and longest.seconds >= limits.confirm_blocked_seconds
    return [Fact.of("thread-dump", fullest[0].dump, text, direct, since=waits[0].since_ms)]


def _missing_topics(window: ClientWindow, limits: Thresholds) -> dict[str, list[LogEvent]]:
    """Return {topic: log lines about the topic} for the topics that brokers keep refusing."""
    by_topic = grouped(_refusals(window), lambda event: event.captures.get("topic", ""))
    return {
        topic: lines
        for topic, lines in by_topic.items()
        if len(lines) >= limits.min_topic_errors and spanned(lines) >= limits.topic_error_seconds
    }


def _refusals(window: ClientWindow) -> list[LogEvent]:
    return [event for event in events(window, TOPIC_ERRORS) if _error(event) != LEADERLESS]


def _attempts(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    bootstraps = [e for e in events(window, UNREACHABLE, CONNECTION_FAILED) if e.captures.get("node", "-")[:1] == "-"]
    for lines, what, least in (
        (events(window, AUTHENTICATION, TLS), "authentication or TLS failed", limits.topic_error_seconds),
        (bootstraps, "bootstrap brokers did not answer", limits.min_attempts_seconds),
    ):
        times, seconds = sum(line.repeats for line in lines), spanned(lines)
        often = lines and times >= limits.min_topic_errors and seconds >= least
        if often and not w.max("record-send-total")[0] > 0:
            text = f"{what} {times} times in {elapsed(seconds)}, and no data shows that a record was sent"
            return [Fact.of("log", lines[-1], f"{text}: {quoted(lines[-1].text)}", since=lines[0])]
    return []


#: Why sends fail: metadata never came, metadata is requested again and again, or no connection is open.
NEVER, RENEWED, DISCONNECTED = 1, 2, 3


def unsent(w: Windows) -> Windows:
    """Return each window's samples since `record-send-total` last rose; no samples if it rose at the last sample."""
    runs = w.still("record-send-total")
    last = w.column("record-send-total").last_row(w.lo, w.hi)
    runs = runs.at(runs.last == last[runs.window])
    since = w.at(np.arange(len(w)))
    since.lo = np.where(w.rose("record-send-total"), w.hi, w.lo)
    since.lo[runs.window] = runs.first
    return since


@per_windows
def sent_any(w: Windows) -> Bools:
    """Return one flag per window: True if the total of sent records rose within the window."""
    return w.rose("record-send-total")


@per_windows
def failing(w: Windows, limits: Thresholds) -> NDArray[np.int8]:
    """Return for each window why sends fail: `NEVER`, `RENEWED`, `DISCONNECTED`; 0 for no failure or no known reason.

    Only samples after the last successful send are used. If a sample after the last successful send shows buffered
    records, or a thread that waits for memory, metadata is not the reason.
    """
    why_failing = np.zeros(len(w), np.int8)
    some = np.flatnonzero(w.grown("record-error-total") >= limits.min_failed_sends)
    since = unsent(w.at(some)) if len(some) else w.at(some)
    counted = since.count("record-error-total") >= MIN_READINGS
    counted &= since.grown("record-error-total") >= limits.min_failed_sends
    some, since = some[counted], since.at(counted)
    if len(some):
        counts = since.column("record-error-total")
        took_ms = since.ts[counts.last_row(since.lo, since.hi)] - since.ts[counts.first_row(since.lo, since.hi)]
        why = _metadata(since, limits)
        # Buffered records do not wait for metadata.
        why[(since.max(_used(since)) > 0) | (took_ms < 1000 * limits.min_unsent_seconds)] = 0
        why_failing[some] = np.where(_buffer_unchanged(since), why, 0)
    return why_failing


def _while_counted(w: Windows, values: Floats) -> Column:
    return Column(np.where(np.isnan(w.col("record-error-total")), np.nan, values))


def _used(w: Windows) -> Column:
    return _while_counted(w, np.maximum(0.0, w.col("buffer-total-bytes") - w.col("buffer-available-bytes")))


def _buffer_unchanged(w: Windows) -> Bools:
    used = _used(w)
    reported = w.count(used)
    same = (reported == w.count("record-error-total")) & (w.min(used) == w.max(used))
    waiting = w.max(_while_counted(w, w.col("waiting-threads"))) > 0
    unchanged: Bools = ((reported == 0) | same) & ~waiting
    return unchanged


def _metadata(w: Windows, limits: Thresholds) -> NDArray[np.int8]:
    readings = w.count("record-error-total")
    age, connections = w.col("metadata-age"), w.col("connection-count")
    ages = _while_counted(w, _young(age).values)
    reported = w.count(ages)
    renewed = (reported == readings) & (w.max(ages) <= limits.fresh_metadata_seconds)
    disconnected = w.count(_while_counted(w, np.where(connections == 0, 0.0, np.nan))) == readings
    return np.select([reported == 0, renewed, disconnected], [NEVER, RENEWED, DISCONNECTED], 0).astype(np.int8)


def suspects(w: Windows, thresholds: Thresholds) -> Bools:
    """Return one flag per window: True if sends failed for lack of metadata after the last successful send."""
    return failing(w, thresholds) > 0


BLIND_SENDS = "the client does not report how many records it sent, and no log line or thread dump shows any send"
BLIND_IDLE = "nothing was sent; without a log line or thread dump of the process, it is unknown whether callers wait"
BLIND_METADATA = "nothing was sent, and the client has no metadata yet; no log line or thread dump shows why"
BLIND_ASKS = "nothing was sent while the client kept renewing its metadata; a caller may be waiting for metadata"


def blind(w: Windows, thresholds: Thresholds) -> Texts:
    """Return one text per window: why metrics do not suffice for a verdict; '' if metrics suffice."""
    silent = ~sent_any(w)
    asks = ~(w.last("record-send-total") > w.from_last("record-send-total", 1))
    since = unsent(w.at(asks))
    renewed = (_metadata(since, thresholds) == RENEWED) & ~(since.max(_used(since)) > 0)
    asks[asks] = renewed & (lasted(since) >= thresholds.min_unsent_seconds)
    unlogged = silent.copy()
    unlogged[silent] = ~w.has_log_data(np.flatnonzero(silent))
    age = w.once_for_rows("metadata known", lambda: _young(w.col("metadata-age")))
    return first_reason(
        len(w),
        (BLIND_SENDS, silent & ~w.reported("record-send-total")),
        (BLIND_METADATA, silent & ~w.reported(age)),
        (BLIND_IDLE, unlogged),
        (BLIND_ASKS, asks),
    )


def _young(age: Floats) -> Column:
    return Column(np.where(age < NEVER_SECONDS, age, np.nan))


GATE = Gate(blind, suspects)


def _measured(window: ClientWindow, w: Windows, limits: Thresholds) -> list[Fact]:
    why = failing(w, limits)[0]
    if not why:
        return []
    failing_run = run(window, "record-error-total", int(unsent(w).lo[0] - w.lo[0]))
    before, *_, after = failing_run.values("record-error-total")
    text = f"{count_of(after - before, 'send')} failed and no record was sent in {elapsed(failing_run.seconds)}, "
    text += f"and the buffer did not change; {_metadata_words(why, failing_run.values('metadata-age'))}"
    return [Fact.of("metric", failing_run.last, text, since=failing_run.first)]


def _metadata_words(why: int, ages: list[float]) -> str:
    if why == NEVER:
        return "the producer has never received metadata"
    if why == RENEWED:
        return f"its metadata was never older than {elapsed(max(ages))}"
    received = [age for age in ages if age < NEVER_SECONDS]
    return f"no connection is open, and its metadata is {elapsed(received[-1])} old"


def _cause(
    window: ClientWindow, failures: list[LogEvent], topics: dict[str, list[LogEvent]]
) -> tuple[str, dict[str, str]]:
    """Return (why metadata is missing, the topic or address to examine)."""
    of_partition = [e for e in failures if "partition" in e.captures]
    if of_partition:
        captures = of_partition[-1].captures
        return "partition-missing", {name: captures[name] for name in ("topic", "partition") if name in captures}
    errors = {event.captures.get("topic", ""): _error(event) for event in events(window, TOPIC_ERRORS)}
    named = [e.captures["topic"] for e in failures if "topic" in e.captures]
    if topics or errors.keys() & set(named):
        topic = max(topics, key=lambda t: len(topics[t])) if topics else named[-1]
        return "topic-denied" if errors.get(topic) in DENIED else "topic-missing", {"topic": topic}
    if rejected := events(window, AUTHENTICATION, TLS):
        captures = rejected[-1].captures
        return "authentication", {name: captures[name] for name in ("reason", "address") if captures.get(name)}
    if events(window, UNREACHABLE, CONNECTION_FAILED):
        addressed = [*events(window, PRODUCER_CONFIG), *events(window, UNREACHABLE, CONNECTION_FAILED)]
        address = next((a for e in reversed(addressed) if (a := e.captures.get("address"))), None)
        return "cluster-unreachable", {"bootstrap": address.strip("[]/")} if address else {}
    ages = values(window, "metadata-age")
    named_topic = {"topic": named[-1]} if named else {}
    if ages and ages[-1] < NEVER_SECONDS and max(ages) <= 60:
        return "topic-missing", named_topic
    if window.readings and (not ages or ages[-1] >= NEVER_SECONDS):
        return "cluster-unreachable", named_topic
    return "unknown", named_topic


def recovered(window: ClientWindow, thresholds: Thresholds) -> bool:
    """Return True if sends succeed, and no line reports a waiting send or an unknown topic."""
    sends = window.table.rose("record-send-total")[0]
    return bool(sends) and not events(window, METADATA_WAITED, TOPIC_ERRORS)


def doubt(look: Look) -> str:
    """Return why `diagnose` cannot rule the failure mode out; '' if the mode is ruled out."""
    if look.measured:
        return ""
    dumps, what = io_thread(look.window)
    return look.twice(dumps, "no caller of send() waits for metadata" if dumps else what)


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """Yield reasons to take a thread dump: metadata never arrived, or records fail."""
    before, now = readings.before, readings.now
    if before and min(reading.metrics.get("metadata-age", 0.0) for reading in (before, now)) > NEVER_SECONDS:
        yield "the producer has never received metadata of the cluster"
    if failed := readings.risen("record-error-total"):
        yield f"{failed:.0f} records failed since the last sample"


MODE = LiveMode(
    **FILE.facts(Thresholds()), judge=judge, gate=GATE, recovered=recovered, doubt=doubt, worth_a_dump=worth_a_dump
)
