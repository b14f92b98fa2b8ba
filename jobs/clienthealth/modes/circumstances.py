"""Circumstances that modes check before they accuse an application.

While brokers do not answer, the application's calls (such as a commit) wait, and the application is not at fault. A
mode accuses an application of a delay only if brokers answered during the delay.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clienthealth.measure.client_window import LEAD_MS, ClientWindow
from clienthealth.model.readings import LogEvent, Reading, Thread
from clienthealth.model.wording import elapsed, quoted
from clienthealth.modes import catalogue
from clienthealth.modes._evidence import Circumstance
from clienthealth.modes._io_thread import in_foreign_code, on_io_thread
from clienthealth.modes._looks import TwoReadings
from clienthealth.modes._polls import HEARTBEAT_SECONDS, reports_in_poll

#: After an outage, a client repeats a lost request within this time (ms). By default, request.timeout.ms is 30 s.
SETTLES_MS = LEAD_MS
#: A broker's answer counts as current for this time (ms). Heartbeats come every 3 to 5 s.
FRESH_MS = 15_000
#: Brokers count as away after this time (ms) without an answer. A healthy broker answers within 0.5 s.
ANSWER_MS = 10_000
#: A thread is inside a call of a Java client if one of its frames contains one of these texts.
_CALLS = (".KafkaConsumer.", ".KafkaShareConsumer.", ".KafkaProducer.", ".FutureRecordMetadata.")
#: Dumps prove that no thread is inside a client's call only if the dumps span at least this time (ms).
STANDS_MS = 10_000


#: The last `READINGS` samples are regular if their longest interval is at most `UNEVEN` × their shortest interval.
READINGS, UNEVEN = 4, 3


class _Sign(NamedTuple):
    """Evidence on whether brokers served the client (`served`) from `since_ms` to `ts_ms` (epoch ms)."""

    since_ms: int
    ts_ms: int
    served: bool
    text: str = ""


def coordinator_answers(window: ClientWindow, at_ms: int) -> Circumstance:
    """Check that brokers answered the client around the time `at_ms` (epoch ms).

    The first of these rules that applies decides:

    - The circumstance does not hold if an outage overlaps the period from 30 s (SETTLES_MS) before `at_ms` to 10 s
      (ANSWER_MS) after `at_ms`.
    - The circumstance is unknown if the samples begin less than 30 s (SETTLES_MS) before `at_ms`.
    - The circumstance holds if brokers answered after `at_ms`, or at most 15 s (FRESH_MS) before `at_ms`.
    - The circumstance is unknown in all other cases.
    """
    samples = window.known_readings
    signs = [*_measured(samples), *_logged(window)]
    name = "brokers-answer"
    away = [s for s in signs if not s.served and s.since_ms <= at_ms + ANSWER_MS and s.ts_ms >= at_ms - SETTLES_MS]
    if away:
        return Circumstance(False, max(away, key=lambda sign: sign.ts_ms).text, name)
    reaches_back = bool(samples) and samples[0].ts_ms <= at_ms - SETTLES_MS
    answered = [sign.ts_ms - at_ms for sign in signs if sign.served and sign.ts_ms >= at_ms - FRESH_MS]
    if not reaches_back or not answered:
        return Circumstance(None, UNANSWERED, name)
    nearest = min(answered, key=abs) / 1000
    gap = f"{elapsed(abs(nearest))} {'before' if nearest < 0 else 'after'}" if nearest else "at"
    return Circumstance(True, f"its brokers answered {gap} that moment", name)


def process_runs(window: ClientWindow, at_ms: int) -> Circumstance:
    """Check that the client's process ran around the time `at_ms`, neither frozen nor in a garbage collection.

    The process ran if a thread dump was taken at most SETTLES_MS (30 s) before or after `at_ms`, or if the last
    four samples (`READINGS`) up to `at_ms` came at regular intervals. Otherwise the circumstance is unknown.
    """
    if any(abs(dump.ts_ms - at_ms) <= SETTLES_MS for dump in window.dumps):
        return Circumstance(True, "a thread dump of the process was taken", "process-runs")
    times = [reading.ts_ms for reading in window.known_readings if reading.ts_ms <= at_ms]
    gaps = [after - before for before, after in itertools.pairwise(times[-READINGS:])]
    if len(gaps) < READINGS - 1 or max(gaps) > UNEVEN * min(gaps):
        return Circumstance(None, "the client's samples come at irregular intervals", "process-runs")
    return Circumstance(True, f"the client's samples came every {elapsed(max(gaps) / 1000)}", "process-runs")


def io_thread_works(window: ClientWindow, at_ms: int) -> Circumstance:
    """Check that a producer's I/O thread worked around the time `at_ms`. Without data the circumstance is unknown.

    The thread worked if it logged a line in the SETTLES_MS (30 s) before `at_ms`, or if select-total rose in this time
    or later.
    """
    name, since_ms = "io-thread-works", at_ms - SETTLES_MS
    if any(since_ms < one.ts_ms <= at_ms and (_unserved(one) or on_io_thread(one)) for one in window.known_logs):
        return Circumstance(True, "the producer's I/O thread logged a line", name)
    for before, now in itertools.pairwise(window.known_readings):
        if now.ts_ms > since_ms and (TwoReadings(before, now, {}).risen("select-total") or 0) > 0:
            return Circumstance(True, "the producer's I/O thread kept calling select()", name)
    return Circumstance(None, "nothing shows that the producer's I/O thread worked", name)


def answered_at(window: ClientWindow, at_ms: int) -> Circumstance:
    """Check that brokers answered the client around a time that may be before all samples of the client.

    If `at_ms` is inside the window, `coordinator_answers` decides. For an earlier time, dumps decide. If dumps prove
    that all threads were outside the client, the circumstance is unknown. Otherwise the circumstance does not hold.
    """
    known = window.known_readings
    if at_ms >= window.start_ms and at_ms > known[0].ts_ms:
        return coordinator_answers(window, at_ms)
    return Circumstance(None) if _stays_outside(window) else Circumstance(False, BEFORE)


def _stays_outside(window: ClientWindow) -> bool:
    dumps = window.dumps
    if not dumps or dumps[-1].ts_ms - dumps[0].ts_ms < STANDS_MS or reports_in_poll(window.client.library):
        return False
    frames = (frame for dump in dumps for thread in dump.threads for frame in thread.frames)
    return all(dump.complete for dump in dumps) and not any(call in frame for frame in frames for call in _CALLS)


def unless_away(window: ClientWindow, lines: Sequence[LogEvent]) -> Circumstance | None:
    """Check whether brokers were away at the time of each line.

    If brokers were away each time, return the result of `coordinator_answers` for the last line: a circumstance that
    does not hold. Otherwise return None.
    """
    answers = [coordinator_answers(window, line.ts_ms) for line in lines]
    return answers[-1] if all(answer.holds is False for answer in answers) else None


def inside_the_client(window: ClientWindow, thread: Thread, at_ms: int) -> Circumstance | None:
    """Return whether brokers answered while a thread was inside a Kafka client; None if the thread ran other code.

    If the thread's stack shows that it is inside the client, and no data shows answers, the circumstance does not hold.
    Stacks do not show librdkafka's C calls, so any thread of the application may be inside librdkafka.
    """
    own, hidden = in_foreign_code(thread), reports_in_poll(window.client.library)
    answers = None if own and not hidden else coordinator_answers(window, at_ms)
    return Circumstance(False, INSIDE) if answers and answers.holds is None and not own else answers


UNANSWERED = "no data shows that brokers answered the client at that time"
BEFORE = "the client's data begins after that time"
INSIDE = "the thread is inside the Kafka client, and no data shows that brokers answer"


def _logged(window: ClientWindow) -> Iterator[_Sign]:
    for event in window.known_logs:
        if _unserved(event):
            yield _Sign(event.ts_ms, event.ts_ms, False, f"the brokers do not serve the client: {quoted(event.text)}")


def _unserved(event: LogEvent) -> bool:
    return bool((meaning := catalogue().by_id.get(event.signature)) and meaning.unserved)


def _measured(readings: tuple[Reading, ...]) -> Iterator[_Sign]:
    answered_ms, asks = readings[0].ts_ms if readings else 0, False
    for before, reading in itertools.pairwise(readings):
        since_ms, ts_ms, both = before.ts_ms, reading.ts_ms, TwoReadings(before, reading, {})
        counters = ("request-total", "response-total", "select-total")
        asked, answered, selected = ((both.risen(counter) or 0) > 0 for counter in counters)
        if reading.get("connection-count") == 0:
            yield _Sign(since_ms, ts_ms, False, "no connection to a broker is open")
        elif answered:
            silent = reading.get("last-heartbeat-seconds-ago") or 0.0
            if silent <= (ts_ms - since_ms) / 1000 + HEARTBEAT_SECONDS:
                yield _Sign(since_ms, ts_ms, True)
            elif asked:
                text = f"the client has no group coordinator: it sent requests, but no heartbeat for {elapsed(silent)}"
                yield _Sign(since_ms, ts_ms, False, text)
        if answered or not selected:
            # Without a select(), the I/O thread reads no answers.
            answered_ms, asks = ts_ms, False
            continue
        if asks and ts_ms - answered_ms >= ANSWER_MS:
            text = f"no broker answered the client for {elapsed((ts_ms - answered_ms) / 1000)}"
            yield _Sign(answered_ms, ts_ms, False, text)
        asks |= asked


CIRCUMSTANCES: Mapping[str, Callable[[ClientWindow, int], Circumstance]] = {
    "brokers-answer": coordinator_answers,
    "io-thread-works": io_thread_works,
    "process-runs": process_runs,
}
