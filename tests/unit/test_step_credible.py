"""A log line does not accuse a client if the client's metrics contradict it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from clienthealth.monitor.attribution import contradicted
from clienthealth.monitor.incidents import Transition
from tests.scenarios._making import at, client, line
from tests.support.stepped import Stepped, logged, snapshot

IO_THREAD = "kafka-producer-network-thread | p"


def producer(second: float, instance: str = "a", stuck_since: float = 1e9, failed: float = 0) -> Any:
    went = min(second, stuck_since)
    metrics = {
        "record-send-total": 100 * went,
        "record-error-total": failed,
        "select-total": 50 * went,
        "buffer-total-bytes": 1e6,
        "buffer-available-bytes": 1e6,
    }
    return snapshot(second, metrics, "p", instance=instance)


def consumer(second: float, instance: str = "a", away_since: float = 1e9) -> Any:
    polled = min(second, away_since)
    metrics = {
        "last-poll-seconds-ago": second - polled,
        "time-between-poll-max": 500,
        "records-consumed-total": 100 * polled + 1,
        "fetch-total": 2 * polled + 1,
        "records-lag-max": 10,
        "assigned-partitions": 4,
    }
    reading = snapshot(second, metrics, "c", "consumer", instance=instance)
    reading.config = {"max.poll.interval.ms": "60000"}
    return reading


def run(monitor: Stepped, inputs: list[Any], second: int = 420) -> list[Transition]:
    others = [snapshot(s, {"select-total": s}, "other", instance="o:1", host="o") for s in range(0, second, 10)]
    monitor.batches([*inputs, *others], 10, "other")
    return [change for published in monitor.published for change in published.changes]


REFUTED: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("producer-callback-deadlock", producer, [logged(203, "io-thread-died", "p")]),
    (
        "producer-callback-deadlock",
        producer,
        [logged(203, "topic-not-in-metadata", "p", thread=IO_THREAD, topic="t", waitMs="60000")],
    ),
    (
        "send-blocked-on-metadata",
        producer,
        [logged(203 + n, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for n in range(5)],
    ),
    (
        "delivery-stalled",
        producer,
        [logged(203 + 10 * n, "records-expired", "p", partition="t-0", records="5", waitMs="120000") for n in range(5)],
    ),
    ("consumer-stalled", consumer, [logged(203, "poll-timeout-expired", "c")]),
    ("consumer-stalled", consumer, [logged(203 + n, "commit-refused", "c") for n in range(0, 20, 5)]),
    ("consumer-shutdown-loop", consumer, [logged(203, "consumer-closing", "c")]),
]


@pytest.mark.parametrize(("mode", "client", "lines"), REFUTED)
def test_old_lines_with_new_times_accuse_no_client_with_contrary_metrics(
    mode: str, client: Callable[..., Any], lines: list[Any]
) -> None:
    monitor = Stepped()
    assert run(monitor, [*(client(s) for s in range(0, 420, 10)), *lines]) == []
    record = monitor.records[f"shop|a|{'p' if client is producer else 'c'}"]
    assert {v["mode"]: v["status"] for v in record["verdicts"]}[mode] == "ok", "once the lines are past"


def test_a_wait_that_the_client_does_not_count_is_no_health() -> None:
    """The producer does not count a failed wait in `partitionsFor` as an error."""
    monitor = Stepped()
    waits = [logged(s, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for s in range(203, 420, 20)]
    assert run(monitor, [*(producer(s) for s in range(0, 420, 10)), *waits]) == []
    [verdict] = [v for v in monitor.records["shop|a|p"]["verdicts"] if v["mode"] == "send-blocked-on-metadata"]
    assert verdict["status"] == "unknown" and "contradict" in verdict["reason"]


def test_a_dead_thread_is_that_of_the_client_without_further_selects() -> None:
    inputs = [producer(s, "a") for s in range(0, 420, 10)] + [producer(s, "b", 200) for s in range(3, 420, 10)]
    changes = run(Stepped(), [*inputs, logged(200, "io-thread-died", "p")])
    assert [(c.client.instance, c.change, c.verdict.status) for c in changes] == [("b", "opened", "confirmed")]


def test_the_client_expelled_from_its_group_is_the_one_that_did_not_poll() -> None:
    inputs = [consumer(s, "a") for s in range(0, 420, 10)] + [consumer(s, "b", 140) for s in range(3, 420, 10)]
    changes = run(Stepped(), [*inputs, logged(200, "poll-timeout-expired", "c")])
    assert {c.client.instance for c in changes} == {"b"}
    assert [c.change for c in changes if c.verdict.mode == "consumer-stalled"] == ["opened", "escalated"]


def test_lines_alone_open_an_incident_once_the_metrics_after_them_do_not_speak_against_it() -> None:
    inputs: list[Any] = [producer(s, failed=max(0, (s - 195) // 5)) for s in range(0, 400, 10)]
    inputs += [logged(s, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for s in range(200, 400, 5)]
    monitor = Stepped()
    changes = run(monitor, inputs, 400)
    assert [(c.verdict.mode, c.change) for c in changes] == [("send-blocked-on-metadata", "opened")]
    opened = next(n for n, p in enumerate(monitor.published) if p.changes)
    assert opened <= 23


def test_a_client_without_later_metrics_is_accused_by_later_lines() -> None:
    inputs: list[Any] = [producer(s) for s in range(0, 200, 10)]
    inputs += [logged(s, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for s in range(200, 500, 20)]
    changes = run(Stepped(), inputs, 600)
    assert ("send-blocked-on-metadata", "opened") in [(c.verdict.mode, c.change) for c in changes]


def test_kafka_python_counts_no_send_that_fails_for_lack_of_metadata() -> None:
    readings = [producer(s) for s in range(0, 420, 10)]
    for reading in readings:
        reading.client = structs.replace(reading.client, library="kafka-python")
    lines = [logged(203 + n, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for n in range(5)]
    changes = run(Stepped(), [*readings, *lines])
    assert [(c.verdict.mode, c.change) for c in changes][:1] == [("send-blocked-on-metadata", "opened")]


def test_an_option_that_is_no_number_costs_no_client_its_log() -> None:
    monitor, samples = Stepped(), [consumer(s) for s in range(0, 420, 10)]
    for reading in samples:
        reading.config = {"max.poll.interval.ms": "soon"}
    assert run(monitor, [*samples, logged(203, "poll-timeout-expired", "c")]) == []


def test_a_line_is_held_against_what_its_own_kind_of_client_counts() -> None:
    monitor = Stepped()
    old = [snapshot(s, {"fetch-total": s}, "l", "legacy-consumer", instance="a") for s in range(0, 420, 10)]
    names = ("topic-not-in-metadata", "records-expired", "poll-timeout-expired", "commit-refused", "consumer-closing")
    lines = [logged(203 + n, name, topic="t", waitMs="60000", partition="t-0") for n, name in enumerate(names)]
    run(monitor, [*(producer(s) for s in range(0, 420, 10)), *(consumer(s) for s in range(0, 420, 10)), *old, *lines])


@pytest.mark.parametrize(("failed", "opened"), [(None, True), (40, True), (0, False)])
def test_a_client_that_logs_its_failure_and_reports_nothing_more_is_judged_by_its_lines(
    failed: float | None, opened: bool
) -> None:
    lines = [logged(203 + n, "topic-not-in-metadata", "p", topic="t", waitMs="60000") for n in range(5)]
    samples = [producer(second) for second in range(0, 201, 10)]
    if failed is not None:
        samples += [producer(second, failed=failed) for second in range(210, 420, 10)]
    changes = run(Stepped(), [*samples, *lines])
    assert bool([c for c in changes if c.verdict.mode == "send-blocked-on-metadata"]) is opened


@pytest.mark.parametrize(("failed", "refuted"), [((0, 0), True), ((0, 6), False), ((3, 3), False)])
def test_a_short_recording_refutes_a_line_only_by_a_counter_that_is_still_0(
    failed: tuple[int, int], refuted: bool
) -> None:
    """A failure counter above 0 may include the failure that the line reports."""
    gave_up = line(30, "topic-not-in-metadata", topic="t", waitMs="3000")
    samples = (np.array([at(25), at(35)]), np.array(failed, float))
    assert contradicted(client("producer"), lambda _: samples, {}, [gave_up]) == ((gave_up,) if refuted else ())
