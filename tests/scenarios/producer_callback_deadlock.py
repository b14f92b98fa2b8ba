"""Define hand-made windows for producer-callback-deadlock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clienthealth.model.clients import Client
from clienthealth.model.readings import LogEvent, Reading, Thread, ThreadDump
from tests.scenarios._making import (
    AWAIT_UPDATE,
    CALLBACK,
    FULL,
    GET,
    MIB,
    NETWORK,
    PARK,
    Scenario,
    at,
    caller,
    dump,
    every,
    filling,
    fires,
    line,
    mine,
    near_miss,
    network,
    producer,
    rising,
    still,
    stuck_at,
    suspects,
    unknown,
    window,
)

FLUSH = (
    *PARK,
    "org.apache.kafka.clients.producer.internals.ProduceRequestResult.await",
    "org.apache.kafka.clients.producer.KafkaProducer.flush",
    *CALLBACK,
)
LOGGER = (
    "org.apache.log4j.Category.callAppenders",
    "org.slf4j.impl.Reload4jLoggerAdapter.warn",
    "org.apache.kafka.clients.NetworkClient.processDisconnection",
    "org.apache.kafka.clients.producer.internals.Sender.run",
    "java.lang.Thread.run",
)
SELECTOR = (
    "sun.nio.ch.EPoll.wait",
    "org.apache.kafka.common.network.Selector.select",
    "org.apache.kafka.clients.NetworkClient.poll",
    "org.apache.kafka.clients.producer.internals.Sender.run",
    "java.lang.Thread.run",
)


def timed(
    callback_ms: Callable[[float], float | None],
    acknowledged: Callable[[float], float | None] = lambda s: 7,
    queued: Callable[[float], float | None] = lambda s: 10 + s,
) -> list[Reading]:
    names = {"callback-time-max": callback_ms, "record-ack-total": acknowledged, "queue-records": queued}
    return every(10, names)


OTHER = Thread("kafka-producer-network-thread | audit", "RUNNABLE", ("sun.nio.ch.EPoll.wait",), 50.0)
EXIT = "java.lang.Runtime.exit"
DO_SEND = "org.apache.kafka.clients.producer.KafkaProducer.doSend"
FLUSHES = "org.apache.kafka.clients.producer.KafkaProducer.flush"
CLOSE = "org.apache.kafka.clients.producer.KafkaProducer.close"
HELD = producer(
    lambda s: 500 + 50 * min(s, 20) + 50 * max(0, s - 42), lambda s: 20_000 * (s - 20) if 20 < s < 42 else 0.0, step=1
)


def whole(seconds: float, *threads: Thread, deadlocked: tuple[str, ...] = ()) -> ThreadDump:
    return replace(dump(seconds, *threads), complete=True, deadlocked=deadlocked)


def refusal(seconds: float) -> LogEvent:
    return mine(line(seconds, "flush-refused-in-callback"))


IN_SEND = (*PARK, "org.apache.kafka.clients.producer.internals.BufferPool.allocate", DO_SEND)

SCENARIOS: tuple[Scenario, ...] = (
    fires(
        "io-thread-died-by-its-log",
        window(logs=[mine(line(20, "io-thread-died", thrown="java.lang.OutOfMemoryError"))]),
    ),
    suspects("io-thread-missing-in-a-whole-dump", window(dumps=[whole(20, caller(1, IN_SEND))])),
    fires(
        "io-thread-missing-in-two-whole-dumps",
        window(dumps=[whole(20, caller(1, IN_SEND)), whole(35, caller(2, IN_SEND))]),
    ),
    unknown("io-thread-not-in-the-part-of-a-dump", window(dumps=[dump(20, caller(1, IN_SEND)), dump(35, caller(1))])),
    unknown(
        "io-thread-missing-while-the-producer-is-closed",
        window(dumps=[whole(20, caller(1, (*PARK, "java.lang.Thread.join", CLOSE, FLUSHES)))]),
    ),
    fires(
        "deadlock-that-the-jvm-reports",
        window(
            dumps=[whole(20, network(LOGGER, "BLOCKED"), deadlocked=("log-flusher", NETWORK))],
            readings=producer(rising(), still(), step=10),
        ),
    ),
    near_miss(
        "deadlock-of-other-threads",
        window(
            dumps=[whole(20, network(SELECTOR, "RUNNABLE"), deadlocked=("a", "b"))],
            readings=producer(rising(), still(), step=10),
        ),
    ),
    fires(
        "deadlock-64-mib-10-s", window(readings=producer(stuck_at(500, 15), filling(200_000, 15, 64 * MIB), 64 * MIB))
    ),
    fires("deadlock-1-mib-fast", window(readings=producer(stuck_at(500, 5), filling(30_000, 5, MIB), MIB, step=1))),
    fires(
        "deadlock-full-buffer-timeout-known",
        window(
            readings=producer(still(500), still(MIB), MIB, waiting_threads=still(4)),
            config={"request.timeout.ms": "4000"},
        ),
    ),
    suspects(
        "deadlock-full-buffer-timeout-unknown",
        window(readings=producer(still(500), still(MIB), MIB, waiting_threads=still(4))),
    ),
    fires(
        "deadlock-full-buffer-and-failed-sends",
        window(
            readings=producer(still(500), still(MIB), MIB, waiting_threads=still(4)),
            logs=[line(25, "buffer-exhausted", FULL)],
        ),
    ),
    suspects(
        "deadlock-0.11-rates-zero",
        window(
            readings=producer(
                lambda s: None,
                still(MIB),
                MIB,
                select_rate=still(),
                io_wait_ratio=still(),
                io_ratio=still(),
                waiting_threads=still(2),
            )
        ),
    ),
    fires("deadlock-dump-alone", window(dumps=[dump(5, network(GET))])),
    fires(
        "deadlock-just-begun",
        window(readings=producer(stuck_at(500, 45), filling(200_000, 45, 32 * MIB)), dumps=[dump(48, network(GET))]),
    ),
    fires(
        "send-inside-callback",
        window(
            readings=producer(stuck_at(500, 30)), dumps=[dump(40, network((*AWAIT_UPDATE, *CALLBACK), "TIMED_WAITING"))]
        ),
    ),
    fires(
        "blocked-on-a-lock-beyond-request-timeout",
        window(dumps=[dump(5, network(CALLBACK, "BLOCKED", 900.0)), dump(50, network(CALLBACK, "BLOCKED", 901.4))]),
    ),
    suspects(
        "the-same-on-jvm-8-without-cpu",
        window(dumps=[dump(5, network(CALLBACK, "BLOCKED", None)), dump(50, network(CALLBACK, "BLOCKED", None))]),
    ),
    fires(
        "the-same-on-jvm-8-while-the-selector-stands",
        window(
            readings=producer(still(500), still(0.0), step=5),
            # select-total did not rise between the dumps, as the sample at 55 s shows.
            dumps=[dump(5, network(CALLBACK, "BLOCKED", None)), dump(52, network(CALLBACK, "BLOCKED", None))],
        ),
    ),
    fires(
        "blocked-at-the-same-place-four-minutes-before",
        window(
            dumps=[dump(20, network(CALLBACK, "BLOCKED", 901.4))],
            earlier=[dump(-220, network(CALLBACK, "BLOCKED", 900.0))],
        ),
    ),
    suspects(
        "the-same-four-hours-before-on-jvm-8",
        window(
            dumps=[dump(20, network(CALLBACK, "BLOCKED", None))],
            earlier=[dump(-14_400, network(CALLBACK, "BLOCKED", None))],
        ),
    ),
    suspects(
        "a-callback-burns-cpu-at-one-place",
        window(
            dumps=[dump(5, network(CALLBACK, "RUNNABLE", 3_600.0)), dump(21, network(CALLBACK, "RUNNABLE", 17_700))]
        ),
    ),
    unknown(
        "a-callback-of-80-ms-that-two-dumps-find",
        window(dumps=[dump(5, network(CALLBACK, "RUNNABLE", 900.0)), dump(25, network(CALLBACK, "RUNNABLE", 930.0))]),
    ),
    unknown("its-selector-stands-at-the-end", window(readings=producer(stuck_at(400, 35), still(8 * MIB)))),
    fires(
        "a-callback-that-ends-the-process",
        window(
            dumps=[dump(5, network(("java.lang.Object.wait", "java.lang.Thread.join", EXIT, *CALLBACK), "WAITING"))],
        ),
    ),
    suspects(
        "a-callback-that-three-dumps-find-at-work",
        window(
            dumps=[
                dump(s, network((f"com.example.Ledger.{step}", *CALLBACK), "RUNNABLE", 900.0 + 900 * s))
                for s, step in ((5, "read"), (15, "sum"), (36, "sort"))
            ]
        ),
    ),
    unknown(
        "a-callback-that-two-dumps-find-at-work",
        window(
            dumps=[
                dump(s, network((f"com.example.Ledger.{step}", *CALLBACK), "RUNNABLE", 900.0 + 900 * s))
                for s, step in ((5, "read"), (36, "sort"))
            ]
        ),
    ),
    suspects("blocked-in-a-logger-in-one-dump", window(dumps=[dump(20, network(LOGGER, "BLOCKED"))])),
    fires(
        "blocked-in-a-logger-in-two-dumps",
        window(dumps=[dump(5, network(LOGGER, "BLOCKED", 900.0)), dump(50, network(LOGGER, "BLOCKED", 900.1))]),
    ),
    suspects(
        "blocked-in-foreign-code-with-a-truncated-stack",
        window(dumps=[dump(20, network(("com.example.audit.Trail.add",), "BLOCKED"))]),
    ),
    near_miss(
        "blocked-in-a-logger-while-the-selector-goes-on",
        window(readings=producer(rising()), dumps=[dump(20, network(LOGGER, "BLOCKED"))]),
    ),
    near_miss("at-its-selector", window(dumps=[dump(20, network(SELECTOR, "RUNNABLE"))])),
    unknown("blocked-in-its-own-code-in-one-dump", window(dumps=[dump(20, network(SELECTOR[1:], "BLOCKED"))])),
    suspects("waits-for-a-queue-in-one-dump", window(dumps=[dump(20, network((*PARK, *CALLBACK)))])),
    suspects(
        "callback-holds-the-thread",
        window(
            readings=producer(still(500)),
            dumps=[dump(10, network(CALLBACK, "BLOCKED")), dump(40, network(CALLBACK, "BLOCKED"))],
        ),
    ),
    suspects(
        "librdkafka-never-polled",
        window(
            readings=every(
                10, {"reply-queue": rising(500), "queue-records": rising(500), "queue-records-limit": still(100_000)}
            )
        ),
    ),
    # A callback has run for 45 s. The limit is 37.5 s, which is 1.25 × request.timeout.ms (30 s).
    fires("own-clock-callback-runs-45-s", window(readings=timed(lambda s: max(0.0, 1000 * (s - 5))))),
    suspects("own-clock-callback-runs-35-s", window(readings=timed(lambda s: max(0.0, 1000 * (s - 15))))),
    fires(
        "own-clock-callback-of-librdkafka",
        replace(
            window(readings=timed(lambda s: max(0.0, 1000 * (s - 5)))),
            client=Client("shop", "h", "h:1", "p", "producer", "librdkafka", "2.16.0"),
        ),
    ),
    # While a callback runs, callback-time-max grows. Here, callback-time-max stays at 40 s, so the callback may have
    # ended.
    unknown("own-clock-callbacks-of-40-s-return", window(readings=timed(still(40_000)))),
    unknown(
        "own-clock-callback-runs-while-another-thread-serves-reports",
        window(readings=timed(lambda s: 1000 * s, rising(1))),
    ),
    unknown("own-clock-callback-runs-and-no-record-waits", window(readings=timed(lambda s: 1000 * s, queued=still(0)))),
    near_miss(
        "back-pressure",
        window(
            readings=producer(rising(20), still(MIB), MIB, waiting_threads=still(4)),
            logs=[line(s, "buffer-exhausted", FULL) for s in range(1, 60)],
        ),
    ),
    near_miss("idle-producer", window(readings=producer(still(500)))),
    near_miss(
        "hanging-broker-19-s", window(readings=producer(lambda s: 500 + max(0.0, s - 19), still(300_000), step=1))
    ),
    near_miss(
        "hanging-broker-until-request-timeout",
        window(
            readings=producer(lambda s: 500 + max(0.0, s - 31), still(300_000), step=1),
            config={"request.timeout.ms": "30000"},
        ),
    ),
    near_miss(
        "slow-callback-14-s-per-batch",
        window(
            readings=producer(lambda s: 500 + s // 14, filling(50_000, 0, 32 * MIB), step=1),
            dumps=[
                dump(20, network(CALLBACK, "TIMED_WAITING", 900)),
                dump(50, network(CALLBACK, "TIMED_WAITING", 950)),
            ],
        ),
    ),
    near_miss(
        "garbage-collection-25-s",
        window(
            readings=[
                r
                for r in producer(
                    lambda s: 500 + 100 * (min(s, 20) + max(0.0, s - 45)), filling(100_000, 0, 32 * MIB), step=5
                )
                if r.ts_ms <= at(20) or r.ts_ms >= at(45)
            ]
        ),
    ),
    near_miss(
        "callback-waits-for-another-producer",
        window(readings=producer(rising(), still(300_000), step=1), dumps=[dump(20, network(GET))]),
    ),
    near_miss(
        "dead-and-another-client",
        window(
            readings=producer(rising()),
            dumps=[dump(20, Thread("kafka-producer-network-thread | audit", "WAITING", GET))],
        ),
    ),
    unknown("no-selector-counted", window(readings=every(10, {"record-send-rate": still(5)}))),
    unknown(
        "select-rate-falls-while-records-wait",
        window(
            readings=producer(
                lambda s: None,
                still(MIB),
                MIB,
                step=30,
                until=90,
                select_rate=lambda s: 19.7 if s < 60 else 2.4,
                io_wait_ratio=lambda s: 0.57 if s < 60 else 0.07,
                waiting_threads=still(),
            )
        ),
    ),
    near_miss(
        "select-rate-falls-while-nothing-waits",
        window(
            readings=producer(
                lambda s: None,
                step=30,
                until=90,
                select_rate=lambda s: 19.7 if s < 60 else 2.4,
                io_wait_ratio=still(0.97),
                waiting_threads=still(),
            )
        ),
    ),
    unknown("no-buffer-reported", window(readings=every(10, {"select-total": rising()}))),
    unknown("two-readings", window(readings=producer(rising(), until=15))),
    fires(
        "reports-every-5-min",
        window(readings=producer(stuck_at(500, 100), filling(20_000, 100, 32 * MIB), step=300, until=1500)),
    ),
    near_miss(
        "busy-and-reports-every-5-min", window(readings=producer(rising(), still(32 * MIB), step=300, until=1500))
    ),
    near_miss("idle-and-reports-every-5-min", window(readings=producer(still(500), step=300, until=1500))),
    suspects("held-for-22-s-and-let-go", window(readings=HELD)),
    fires("flush-inside-callback", window(dumps=[dump(5, network(FLUSH))])),
    fires(
        "send-waits-inside-a-callback-by-the-log-alone",
        window(logs=[line(40, "topic-not-in-metadata", thread="k-thread | orders", topic="dead", waitMs="60000")]),
    ),
    near_miss(
        "send-waits-outside-callbacks",
        window(
            readings=producer(rising()),
            logs=[line(40, "topic-not-in-metadata", thread="http-1", topic="dead", waitMs="60000")],
        ),
    ),
    suspects("flush-refused", window(readings=producer(rising()), logs=[refusal(s) for s in range(10, 40)])),
    near_miss("flush-refused-once", window(readings=producer(rising()), logs=[refusal(10)])),
    suspects(
        "two-dumps-at-once-are-one-look",
        window(dumps=[dump(5, network(GET), OTHER), dump(6, network(GET), OTHER)]),
    ),
    suspects("the-result-may-be-another-producers", window(dumps=[dump(5, network(GET), OTHER)])),
    fires(
        "its-result-does-not-come-either", window(dumps=[dump(5, network(GET), OTHER), dump(50, network(GET), OTHER)])
    ),
    suspects(
        "waits-for-an-answer-of-http",
        window(dumps=[dump(20, network(("sun.nio.ch.Net.poll", "com.example.Http.post", *CALLBACK), "RUNNABLE"))]),
    ),
    unknown(
        "sleeps-in-a-callback-in-one-dump",
        window(dumps=[dump(20, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING"))]),
    ),
    suspects(
        "sleeps-in-a-callback-while-its-selector-stands-for-30-s",
        window(
            readings=producer(stuck_at(500, 20), still(1000)),
            dumps=[dump(45, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING"))],
        ),
    ),
    unknown(
        "sleeps-in-a-callback-while-its-selector-stands-for-20-s",
        window(
            readings=producer(stuck_at(500, 30), still(1000)),
            dumps=[dump(45, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING"))],
        ),
    ),
    suspects(
        "sleeps-in-one-callback-without-cpu",
        window(
            dumps=[
                dump(s, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING", 50.0 + s / 100))
                for s in (5, 30, 55)
            ]
        ),
    ),
    unknown(
        "slow-callbacks-in-two-dumps",
        window(
            dumps=[
                dump(s, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING", cpu))
                for s, cpu in ((5, 50.0), (50, 110.0))
            ]
        ),
    ),
    suspects(
        "wakes-up-in-one-callback-and-reports-no-more",
        window(
            readings=producer(rising(), until=25),
            dumps=[
                dump(s, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING", cpu))
                for s, cpu in ((30, 50.0), (42, 54.4), (54, 56.8))
            ],
        ),
    ),
    unknown(
        "wakes-up-in-one-callback-and-may-report-again",
        window(
            readings=producer(rising(), until=45),
            dumps=[
                dump(s, network(("java.lang.Thread.sleep", *CALLBACK), "TIMED_WAITING", cpu))
                for s, cpu in ((42, 50.0), (54, 54.4))
            ],
        ),
    ),
)
