"""Define hand-made windows for cross-topic-blocking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import TopicReading
from tests.scenarios._making import (
    PARK,
    PUT,
    Scenario,
    consumer,
    dump,
    every,
    fetcher,
    fires,
    legacy,
    line,
    mine,
    near_miss,
    prefetched,
    rising,
    still,
    stuck_at,
    suspects,
    taker,
    unknown,
    window,
)


def by_selector(waited: Callable[[float], float], selects: float, fetches: Callable[[float], float]) -> ClientWindow:
    """Return a window of a Java client before 2.4. Only the selector's metrics show the client's polls."""
    readings = consumer(
        {"a": still(8), "b": still(0)},
        5,
        io_wait_time_ns_total=lambda s: 1e12 + 1e9 * waited(s),
        select_total=rising(selects),
        fetch_total=fetches,
        records_consumed_total=still(500),
    )
    with_totals = [
        replace(r, topics=tuple(replace(t, metrics={**t.metrics, "records-consumed-total": 250.0}) for t in r.topics))
        for r in readings
    ]
    return window("consumer", with_totals)


def in_turn(rate: float, waiting: float = 300) -> ClientWindow:
    """Return a window of a librdkafka consumer of two topics at `rate` records/s."""
    readings = prefetched({"a": (2 * waiting, waiting), "b": (2 * waiting, waiting)})

    def positioned(position: float) -> tuple[TopicReading, ...]:
        return tuple(replace(t, metrics={**t.metrics, "position": position}) for t in readings[0].topics)

    return window("consumer", [replace(r, topics=positioned(500 + 10 * rate * n)) for n, r in enumerate(readings)])


SCENARIOS: tuple[Scenario, ...] = (
    fires(
        "one-queue-full-others-starve",
        window(
            "legacy-consumer",
            legacy(
                stuck_at(900, 20),
                {"a": lambda s: 2.0 * (s > 20), "b": still()},
                {"a": stuck_at(50, 20), "b": stuck_at(50, 20)},
            ),
        ),
    ),
    fires(
        "blocked-since-before-the-window",
        window("legacy-consumer", legacy(still(900), {"a": still(2), "b": still()}, {"a": still(500), "b": still(80)})),
    ),
    suspects(
        "blocked-for-10-s",
        window(
            "legacy-consumer",
            legacy(
                stuck_at(900, 50),
                {"a": lambda s: 2.0 * (s >= 50), "b": still()},
                {"a": stuck_at(50, 50), "b": stuck_at(50, 50)},
                step=2.5,
            ),
        ),
    ),
    fires(
        "fetcher-parked-in-two-dumps",
        window(
            "legacy-consumer",
            legacy(rising(), {"a": still(2), "b": still()}, {"a": still(500), "b": still(80)}),
            dumps=[dump(10, fetcher(PUT), taker()), dump(30, fetcher(PUT), taker())],
        ),
    ),
    suspects("librdkafka-one-topic-full", window("consumer", prefetched({"a": (100_000, 900), "b": (0, 700)}))),
    suspects(
        "java-slow-poll-loop",
        window("consumer", consumer({"a": rising(50), "b": rising(10)}, last_poll_seconds_ago=lambda s: s)),
    ),
    unknown(
        "java-commit-waits-for-brokers-that-are-gone",
        window(
            "consumer",
            consumer({"a": rising(50), "b": rising(10)}, last_poll_seconds_ago=lambda s: s, connection_count=still(0)),
        ),
    ),
    suspects(
        "a-queue-of-one-chunk-with-unknown-capacity",
        window(
            "legacy-consumer",
            legacy(stuck_at(900, 20), {"a": still(1), "b": still()}, {"a": stuck_at(50, 20), "b": stuck_at(50, 20)}),
        ),
    ),
    suspects(
        "java-handler-of-one-topic-hangs",
        window(
            "consumer",
            consumer(
                {"a": still(1), "b": still(2)},
                last_poll_seconds_ago=lambda s: max(0.0, s - 20),
                records_consumed_total=stuck_at(400, 20),
            ),
        ),
    ),
    fires(
        "java-poll-interval-expired",
        window(
            "consumer",
            consumer({"a": rising(50), "b": rising(10)}, last_poll_seconds_ago=lambda s: 280 + s),
            logs=[mine(line(20, "poll-timeout-expired"))],
        ),
    ),
    near_miss(
        "idle-topics-beside-a-busy-one",
        window(
            "legacy-consumer",
            legacy(rising(), {"a": still(2), "b": still()}, {"a": rising(), "b": still(16)}),
            dumps=[dump(10, fetcher(PUT, state="RUNNABLE"), taker())],
        ),
    ),
    near_miss(
        "slow-topic-beside-an-idle-one",
        window(
            "legacy-consumer", legacy(still(900), {"a": still(2), "b": still()}, {"a": still(5000), "b": still(16)})
        ),
    ),
    near_miss(
        "only-topic-is-slow",
        window(
            "legacy-consumer",
            legacy(still(900), {"a": still(2)}, {"a": still(5000)}),
            dumps=[dump(10, fetcher(PUT), taker()), dump(40, fetcher(PUT), taker())],
        ),
    ),
    near_miss(
        "broker-outage-of-a-consumer",
        window("legacy-consumer", legacy(still(900), {"a": still(), "b": still()}, {"a": still(500), "b": still(400)})),
    ),
    near_miss(
        "one-connector-per-topic",
        window(
            "legacy-consumer",
            legacy(rising(), {"a": still(2), "b": still()}, {"a": still(500), "b": rising()}),
            dumps=[
                dump(
                    s,
                    fetcher(PUT, "orders_web-1-1-aa"),
                    taker(),
                    fetcher(PARK, "orders_web-1-2-bb", "RUNNABLE", 50 + s),
                )
                for s in (10, 40)
            ],
        ),
    ),
    near_miss(
        "java-batches-that-keep-up",
        window(
            "consumer",
            consumer(
                {"a": still(50), "b": lambda s: 10 + s},
                last_poll_seconds_ago=lambda s: s % 25,
                records_consumed_total=rising(20),
            ),
        ),
    ),
    near_miss(
        "java-slow-consumer-of-one-topic",
        window("consumer", consumer({"a": rising(50)}, last_poll_seconds_ago=lambda s: s)),
    ),
    near_miss(
        "java-lag-without-slow-polls",
        window("consumer", consumer({"a": rising(50), "b": rising(10)}, last_poll_seconds_ago=still(1))),
    ),
    near_miss("librdkafka-caught-up", window("consumer", prefetched({"a": (100_000, 900), "b": (0, 0)}))),
    near_miss("librdkafka-one-queue-that-is-worked-off-fast", in_turn(rate=100)),
    near_miss("librdkafka-one-queue-of-a-few-records", in_turn(rate=2, waiting=10)),
    unknown("librdkafka-records-of-two-topics-in-turn-and-slowly", in_turn(rate=2)),
    unknown("polls-not-reported", window("consumer", every(10, {"records-lag-max": still(5)}))),
    unknown("queues-not-reported", window("legacy-consumer", every(10, {"fetch-requests-total": rising()}))),
    suspects(
        "away-from-poll-by-the-selector",
        by_selector(lambda s: min(s, 10.0) * 0.9, 10, lambda s: 100 + 2.0 * min(s, 10)),
    ),
    near_miss("polls-though-paused-by-the-selector", by_selector(lambda s: 0.9 * s, 10, still(100))),
    near_miss("polls-without-waiting-by-the-selector", by_selector(lambda s: 0.001 * s, 400, still(100))),
    near_miss("fetches-without-waiting-by-the-selector", by_selector(lambda s: 0.001 * s, 12, rising(2))),
)
