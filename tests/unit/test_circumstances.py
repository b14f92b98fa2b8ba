"""A client's window shows whether brokers answered the client."""

from __future__ import annotations

import pytest

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import LogEvent, Thread, ThreadDump
from clienthealth.modes import modes
from clienthealth.modes.circumstances import answered_at, coordinator_answers
from clienthealth.monitor.window_verdicts import verdict
from tests.scenarios._making import at, every, line, mine, rising, still, window
from tests.support.stepped import START, Stepped, logged, snapshot

POLLS_ON = {"select-total": rising(10), "connection-count": still(2)}


def measured(requests: float, responses: float, silent: float = 1.0) -> ClientWindow:
    counts = {"request-total": rising(requests), "response-total": rising(responses)}
    return window("consumer", every(5, {**POLLS_ON, **counts, "last-heartbeat-seconds-ago": still(silent)}))


def logs(*events: LogEvent) -> ClientWindow:
    return window("consumer", logs=[mine(event) for event in events])


@pytest.mark.parametrize(
    ("seen", "holds"),
    [
        (measured(0.4, 0.4), True),
        (measured(0.4, 0), False),
        (measured(0, 0), None),
        (measured(5, 5, silent=40), False),
        (window("consumer", every(5, {"connection-count": still(0)})), False),
        (window("consumer", every(5, POLLS_ON)), None),
        (logs(line(50, "coordinator-lost", "Group coordinator kafka-1:9092 is unavailable or invalid")), False),
        (logs(line(5, "connection-failed", "Connection to node 1 could not be established")), None),
        (logs(line(50, "rejoining-group", "(Re-)joining group")), None),
    ],
)
def test_signs_that_brokers_answer(seen: ClientWindow, holds: bool | None) -> None:
    assert coordinator_answers(seen, at(55)).holds is holds


def test_an_unread_answer_is_not_missing() -> None:
    counts = {"select-total": still(70), "request-total": lambda s: 50 + (s > 20), "response-total": still(50)}
    assert coordinator_answers(window("consumer", every(5, counts)), at(55)).holds is None


HEARTBEATS = Thread("kafka-coordinator-heartbeat-thread | g", "WAITING", ("java.lang.Object.wait",))
SENDS = Thread(
    "main", "TIMED_WAITING", ("java.lang.Object.wait", "org.apache.kafka.clients.producer.KafkaProducer.doSend")
)
COMMITS = Thread(
    "main", "RUNNABLE", ("sun.nio.ch.EPoll.wait", "org.apache.kafka.clients.consumer.KafkaConsumer.commitSync")
)


@pytest.mark.parametrize(
    ("seconds", "thread", "complete", "holds"),
    [
        ((35, 50), HEARTBEATS, True, None),
        ((35, 50), COMMITS, True, False),
        ((35, 50), SENDS, True, False),
        ((35, 50), HEARTBEATS, False, False),
        ((45, 50), HEARTBEATS, True, False),
        ((50,), HEARTBEATS, True, False),
    ],
)
def test_what_was_before_the_samples_is_refuted_unless_dumps_show_no_call_of_a_client(
    seconds: tuple[int, ...], thread: Thread, complete: bool, holds: bool | None
) -> None:
    dumps = [ThreadDump(at(second), (thread,), complete=complete) for second in seconds]
    seen = window("consumer", [r for r in every(5, POLLS_ON) if r.ts_ms >= at(35)], dumps=dumps)
    assert answered_at(seen, at(10)).holds is holds


@pytest.mark.parametrize(("second", "status"), [(55, "unknown"), (20, "confirmed")])
def test_what_was_logged_just_before_a_window_explains_what_it_begins_with(second: float, status: str) -> None:
    bucket = Stepped()
    readings = (snapshot(s, {"last-poll-seconds-ago": 1.0}, "c", "consumer", every=5) for s in (20, 50, 59, 62, 70, 80))
    lines = (logged(second, "connection-failed", "c"), logged(61, "poll-timeout-expired", "c"))
    bucket.batch([*readings, *lines])
    seen = next(w for w in bucket.clients["c"].windows if w.start_ms == START + 60_000)
    assert [reading.ts_ms - START for reading in seen.earlier_readings] == [20_000, 50_000, 59_000]
    assert verdict(modes()["consumer-stalled"], seen).status == status
