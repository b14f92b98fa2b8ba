"""The measurements of a window equal values that were calculated by hand."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from clienthealth.measure.client import client_indicators
from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.packed import LogEntry
from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.model.telemetry import Snapshot, TopicMetrics
from clienthealth.settings import LagSettings
from tests.support.stepped import START, Stepped, logged, snapshot

BUFFER = {"buffer-total-bytes": 1000.0}
CHUNKS = [
    TopicMetrics("slow", thread="0", metrics={"queue-chunks": 2.0}),
    TopicMetrics("slow", thread="1", metrics={"queue-chunks": 1.0}),
    TopicMetrics("fast", thread="0", metrics={"queue-chunks": 0.0}),
]
SELECTOR = ("select-total", "io-time-ns-total", "io-wait-time-ns-total", "record-send-total")


def selector(*values: float) -> dict[str, float]:
    return dict(zip(SELECTOR, values, strict=True))


def windows(inputs: Iterable[Snapshot | LogEntry]) -> dict[tuple[str, int], ClientWindow]:
    """Return all windows by (client id, first second of the window)."""
    monitor = Stepped()
    monitor.batch(inputs)
    return {
        (client_id, (window.start_ms - START) // 1000): window
        for client_id, client in monitor.clients.items()
        for window in client.windows
    }


def indicators(*snapshots: Snapshot, client_id: str = "p") -> dict[str, Any]:
    (measured,) = client_indicators(windows(snapshots)[client_id, 0].table, LagSettings())
    return measured


def test_a_reading_is_in_two_windows_and_the_clients_of_a_process_are_apart() -> None:
    by_start = windows(snapshot(s, {"select-total": s}, client) for s in (0, 10, 20, 40) for client in ("p", "q"))
    assert {key: len(window.readings) for key, window in by_start.items()} == {
        ("p", -30): 3, ("p", 0): 4, ("p", 30): 1, ("q", -30): 3, ("q", 0): 4, ("q", 30): 1,
    }  # fmt: skip


def test_readings_are_in_order_and_a_record_that_came_twice_counts_once() -> None:
    by_start = windows(snapshot(s, {"select-total": s}) for s in (20, 0, 10, 10))
    assert [reading.ts_ms - START for reading in by_start["p", 0].readings] == [0, 10_000, 20_000]


def test_samples_of_one_moment_become_one_reading() -> None:
    (made,) = windows([snapshot(5, {"select-total": 7}), snapshot(5, {"waiting-threads": 2})])["p", 0].readings
    assert made.metrics == {"select-total": 7.0, "waiting-threads": 2.0}


def test_delta_totals_are_added_up() -> None:
    by_start = windows(snapshot(s, {"select-total": 10, "waiting-threads": 1}, delta=True) for s in (0, 10, 20))
    assert [(r.metrics["select-total"], r.metrics["waiting-threads"]) for r in by_start["p", 0].readings] == [
        (10.0, 1.0), (20.0, 1.0), (30.0, 1.0),
    ]  # fmt: skip


def test_deltas_of_topics_are_added_up_by_client_topic_and_partition() -> None:
    def reported(second: int, client_id: str, delta: bool, *values: tuple[str, int, float]) -> Snapshot:
        metrics = [{"records-consumed-total": value, "records-lag": 3.0} for _, _, value in values]
        topics = [TopicMetrics(t, p, metrics=m) for (t, p, _), m in zip(values, metrics, strict=True)]
        return snapshot(second, {}, client_id, "consumer", topics=topics, delta=delta)

    by_start = windows(
        [
            reported(0, "c", True, ("a", 0, 1), ("a", 1, 20), ("b", 0, 300)),
            reported(0, "d", True, ("a", 0, 5000)),
            reported(0, "e", False, ("a", 0, 70)),
            reported(10, "c", True, ("a", 0, 2), ("b", 0, 400)),
            reported(10, "d", True, ("a", 0, 6000)),
            reported(10, "e", False, ("a", 0, 90)),
        ]
    )
    assert {
        of: [[one.metrics["records-consumed-total"] for one in made.topics] for made in by_start[of, 0].readings]
        for of in ("c", "d", "e")
    } == {"c": [[1, 20, 300], [3, 700]], "d": [[5000], [11_000]], "e": [[70], [90]]}
    assert {one.metrics["records-lag"] for made in by_start["c", 0].readings for one in made.topics} == {3}


def test_an_event_that_names_no_client_goes_to_all_clients_of_its_kind() -> None:
    by_start = windows(
        [
            snapshot(0, {"select-total": 1}, "p"),
            snapshot(0, {"select-total": 1}, "q"),
            snapshot(0, {"records-lag-max": 1}, "c", "consumer"),
            logged(1),
            logged(2, client_id="q"),
        ]
    )
    assert {client: len(by_start[client, 0].logs) for client in ("p", "q", "c")} == {"p": 1, "q": 2, "c": 0}


def test_an_event_of_another_process_stays_away() -> None:
    two = [
        snapshot(0, {"select-total": 1}, client, instance=instance) for client, instance in (("p", "h:1"), ("q", "h:2"))
    ]
    by_start = windows([*two, logged(0.001, instance="h:2")])
    assert [len(by_start[client, 0].logs) for client in ("p", "q")] == [0, 1]


def test_a_client_known_from_its_log_or_thread_alone_is_there() -> None:
    thread = Thread("kafka-producer-network-thread | lonely", "WAITING", ("a.B.c",))
    monitor = Stepped()
    monitor.batch(
        [
            snapshot(0, {"records-lag-max": 1}, "c", "consumer"),
            logged(0.001, "metadata-not-updated", "silent"),
            logged(0, dump=ThreadDump(START + 2, (thread,))),
        ]
    )
    assert sorted(monitor.records) == ["shop|h:1|c", "shop|h|lonely", "shop|h|silent"]
    assert {monitor.records[f"shop|h|{name}"]["client"]["kind"] for name in ("silent", "lonely")} == {"producer"}


WAITS = ("java.lang.Object.wait", "org.apache.kafka.clients.producer.internals.ProducerMetadata.awaitUpdate")
FRAMES = (*WAITS, "org.apache.kafka.clients.producer.KafkaProducer.waitOnMetadata")
WAITING = (
    Thread("kafka-producer-network-thread | p", "RUNNABLE", ("sun.nio.ch.EPoll.wait",)),
    Thread("api", "TIMED_WAITING", (*FRAMES, "org.apache.kafka.clients.producer.KafkaProducer.doSend")),
)


@pytest.mark.parametrize("ill", [False, True])
def test_what_a_dump_showed_is_of_the_client_that_reports_later_under_another_instance(ill: bool) -> None:
    monitor = Stepped()
    for second in range(0, 600, 10):
        batch: list[Any] = [
            snapshot(second, {"select-total": second}, "other", service="else", instance="o:1", host="o")
        ]
        batch.append(logged(second, "version" if second else "producer-config", "p", instance="h:1"))
        if second == 20:
            batch.append(logged(second, instance="h:1", dump=ThreadDump(START + 20_000, WAITING)))
        if second >= 40:
            moving = {"select-total": second * 10.0, "record-send-total": 0.0 if ill else second * 5.0}
            waiting = {"metadata-age": float(second) if ill else 1.0, "metadata-wait-time-ns-total": second * 1e9 * ill}
            batch.append(snapshot(second, moving | waiting, "p", instance="10.0.0.1:Wc"))
        monitor.batch(batch, second)
    changes = [
        c for published in monitor.published for c in published.changes if c.verdict.mode == "send-blocked-on-metadata"
    ]
    assert [(c.client.instance, c.change) for c in changes[:3]] == [
        ("h:1", "opened"),
        ("h:1", "moved"),
        ("10.0.0.1:Wc", "opened"),
    ]
    closed = [(c.ts_ms - START) / 1000 for c in changes if c.change == "closed"]
    assert not closed if ill else closed and closed[0] <= 210
    newest = dict(record for published in monitor.published for record in published.records)
    assert newest["shop|h:1|p"] is None


def test_a_dump_of_one_process_does_not_count_for_its_namesake() -> None:
    monitor = Stepped()
    for second in (0, 40, 80):
        lines = [logged(second + n, "buffer-exhausted", "p", instance=f"h:{n}") for n in (1, 2)]
        dumped = [logged(0, instance="h:1", dump=ThreadDump(START + 3000, WAITING))] if not second else []
        monitor.batch([*lines, *dumped], second + 20)
    accused = {
        change.client.instance
        for published in monitor.published
        for change in published.changes
        if change.verdict.mode == "send-blocked-on-metadata"
    }
    assert accused == {"h:1"}


def test_the_buffer_by_hand() -> None:
    measured = indicators(
        *(snapshot(s, {**BUFFER, "buffer-available-bytes": 900 - 20 * s, "waiting-threads": 2}) for s in (0, 10, 20))
    )
    assert measured["buffer_used_ratio"] == {"last": pytest.approx(0.5), "max": pytest.approx(0.5)}
    # The buffer fills by 0.02 of its size per second, and half of the buffer is still free.
    assert measured["buffer"]["seconds_to_full"] == pytest.approx(25.0)
    assert measured["buffer"]["waiting_threads"] == 2.0


def test_a_librdkafka_buffer_is_as_full_as_its_fuller_limit() -> None:
    limits = {"queue-records": 80, "queue-records-limit": 100}
    measured = indicators(snapshot(0, {**BUFFER, "buffer-available-bytes": 900, **limits}))
    assert measured["buffer_used_ratio"]["last"] == pytest.approx(0.8)


def test_what_is_not_known_is_not_there() -> None:
    measured = indicators(*(snapshot(s, {**BUFFER, "record-send-total": 5}) for s in (0, 10)))
    assert "buffer_used_ratio" not in measured
    assert measured["callback_seconds"] == {"source": "unknown"}


def test_callback_time_is_derived_from_the_time_outside_the_selector() -> None:
    # In every 10 s, the I/O thread is outside select() for 8 s, and sends 80 records, so it spends 0.1 s per record.
    measured = indicators(*(snapshot(s, selector(10 * s, 0.5e8 * s, 1.5e8 * s, 8 * s)) for s in (0, 10, 20)))
    assert measured["io_thread_busy_ratio"] == pytest.approx(0.8)
    assert measured["callback_seconds"]["avg"] == pytest.approx(0.1)
    assert measured["callback_seconds"]["source"] == "derived"


def test_a_measured_callback_wins_over_a_derived_one() -> None:
    measured = {"callback-time-avg": 12, "callback-time-max": 40}
    indicated = indicators(*(snapshot(s, {"select-total": s, **measured}) for s in (0, 10)))
    assert indicated["callback_seconds"] == {"avg": 0.012, "max": 0.04, "source": "measured"}


def test_an_io_thread_that_never_came_back_was_busy_all_the_time() -> None:
    stuck = {**BUFFER, **selector(5, 1, 1, 9), "buffer-available-bytes": 10}
    assert indicators(*(snapshot(s, stuck) for s in (0, 10, 20)))["io_thread_busy_ratio"] == 1.0


def test_a_select_in_progress_does_not_change_the_busy_ratio() -> None:
    # In the first 10 s, the I/O thread is outside select() for 8 s. The next 10 s are spent in one select().
    counts = (selector(0, 0, 0, 0), selector(100, 0.5e9, 1.5e9, 80), selector(100, 0.5e9, 1.5e9, 80))
    measured = indicators(*(snapshot(10 * n, one) for n, one in enumerate(counts)))
    assert measured["io_thread_busy_ratio"] == pytest.approx(0.8)
    idle = {**BUFFER, **selector(5, 1, 1, 9)}
    assert "io_thread_busy_ratio" not in indicators(*(snapshot(s, idle) for s in (0, 10, 20)))


def test_the_culprit_topic_stands_out() -> None:
    measured = indicators(snapshot(0, {"max-lag": 0}, "c", "legacy-consumer", topics=CHUNKS), client_id="c")
    assert measured["queues"] == [
        {"topic": "fast", "used_ratio": 0.0},
        {"topic": "slow", "used_ratio": 1.0},
    ]


@cache
def storm() -> Stepped:
    monitor = Stepped()
    for second in range(10):
        monitor.batch(
            (logged(second + n / 10_000, "consumer-metadata-fetch-failed") for n in range(10_000)), second + 1
        )
    return monitor


def test_a_storm_of_one_line_costs_ten_events_a_second() -> None:
    assert len(storm().state.log_entries) == 100
