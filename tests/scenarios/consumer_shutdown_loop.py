"""Define hand-made windows for consumer-shutdown-loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clienthealth.model.readings import Reading, Thread, ThreadDump
from tests.scenarios._making import (
    LOOKUP,
    PUT,
    Scenario,
    dump,
    every,
    fetcher,
    fires,
    legacy,
    line,
    lookups,
    mine,
    near_miss,
    rising,
    still,
    stuck_at,
    suspects,
    unknown,
    window,
)

CLOSING = Thread(
    "worker",
    "WAITING",
    (
        "java.lang.Object.wait",
        "com.example.Rebalance.onPartitionsRevoked",
        "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.onLeavePrepare",
        "org.apache.kafka.clients.consumer.KafkaConsumer.close",
    ),
)


LEAVING = replace(CLOSING, frames=("sun.nio.ch.EPoll.wait", *CLOSING.frames[2:]))


def closing(*seconds: float, thread: Thread = CLOSING) -> list[ThreadDump]:
    return [dump(s, thread) for s in seconds]


def polls(ago: Callable[[float], float | None]) -> list[Reading]:
    return every(10, {"last-poll-seconds-ago": ago, "records-consumed-total": stuck_at(400, 5)})


SCENARIOS: tuple[Scenario, ...] = (
    fires("storm-of-one-broker", window("legacy-consumer", logs=lookups([0.1 * n for n in range(200)]))),
    fires(
        "storm-over-five-brokers",
        window("legacy-consumer", logs=lookups([0.1 * n for n in range(200)], [f"kafka-{n}:9092" for n in range(5)])),
    ),
    suspects("two-seconds-of-storm", window("legacy-consumer", logs=lookups([0.1 * n for n in range(20)]))),
    suspects(
        "fifty-seconds-of-storm-in-an-outage",
        window("legacy-consumer", logs=[line(0, "broker-out-of-reach"), *lookups([1 + 0.1 * n for n in range(500)])]),
    ),
    fires(
        "a-second-of-storm-after-a-shutdown-began",
        window(
            "legacy-consumer", logs=[line(1, "connector-shutting-down"), *lookups([2 + 0.1 * n for n in range(10)])]
        ),
    ),
    fires(
        "spinning-in-two-dumps",
        window(
            "legacy-consumer",
            dumps=[
                dump(5, Thread("worker", "RUNNABLE", LOOKUP, 5000.0)),
                dump(25, Thread("worker", "RUNNABLE", LOOKUP, 9000.0)),
            ],
        ),
    ),
    suspects(
        "spinning-in-two-dumps-of-an-old-jvm",
        window("legacy-consumer", dumps=[dump(s, Thread("worker", "RUNNABLE", LOOKUP)) for s in (5, 25)]),
    ),
    fires(
        "the-log-ended-but-the-thread-spins-on",
        window(
            "legacy-consumer",
            logs=lookups([0.1 * n for n in range(12)]),
            dumps=[dump(20, Thread("worker", "RUNNABLE", LOOKUP, 9000.0))],
        ),
    ),
    fires(
        "threads-left-behind",
        window(
            "legacy-consumer",
            logs=[line(5, "connector-shutdown-error")],
            dumps=[dump(20, fetcher(PUT), Thread("DestroyJavaVM", "RUNNABLE", ()))],
        ),
    ),
    suspects(
        "threads-left-behind-long-ago",
        window(
            "legacy-consumer", dumps=[dump(s, fetcher(PUT), Thread("DestroyJavaVM", "RUNNABLE", ())) for s in (10, 40)]
        ),
    ),
    suspects(
        "shutdown-does-not-complete",
        window("legacy-consumer", logs=[line(5, "connector-shutting-down"), line(40, "connection-failed")]),
    ),
    fires(
        "spins-while-others-starve-it",
        window(
            "legacy-consumer",
            dumps=[
                dump(5, Thread("worker", "RUNNABLE", LOOKUP, 40.0)),
                dump(25, Thread("worker", "RUNNABLE", LOOKUP[1:], 340.0)),
                dump(45, Thread("worker", "RUNNABLE", LOOKUP, 640.0)),
            ],
        ),
    ),
    fires(
        "journald-lets-a-burst-pass-every-30-s",
        window("legacy-consumer", logs=[replace(of, repeats=900) for of in lookups([1, 1.1, 31, 31.1])]),
    ),
    suspects(
        "the-application-logs-what-shutdown-threw",
        window(
            "legacy-consumer",
            logs=[
                line(5, "connector-shutting-down"),
                line(5.1, "connector-shutdown-exception"),
                line(5.1, "connector-shutdown-completed"),
            ],
        ),
    ),
    fires("close-never-returns", window("consumer", dumps=closing(5, 25, 50))),
    fires("close-does-not-return-by-the-metrics", window("consumer", polls(lambda s: s), dumps=closing(5))),
    suspects("close-takes-20-s", window("consumer", dumps=closing(5, 25))),
    suspects(
        "close-never-returns-by-the-log",
        window("consumer", logs=[mine(line(5, "consumer-closing")), line(50, "client-version")]),
    ),
    suspects("close-waits-inside-the-client", window("consumer", dumps=closing(5, 25, 50, thread=LEAVING))),
    unknown(
        "close-waits-for-brokers-that-are-gone",
        window("consumer", every(10, {"connection-count": still()}), dumps=closing(5, 25, 50, thread=LEAVING)),
    ),
    suspects("a-backtrace-inside-rd-kafka-destroy", window("consumer", logs=[line(5, "librdkafka-destroy-frame")])),
    suspects(
        "close-is-refused",
        window("consumer", logs=[mine(line(5, "java-close-refused")), line(50, "client-version")]),
    ),
    near_miss(
        "close-is-refused-and-the-polling-thread-closes",
        window("consumer", logs=[mine(line(5, "java-close-refused")), mine(line(6, "consumer-unregistered"))]),
    ),
    suspects("closes-for-10-s", window("consumer", dumps=closing(5, 15))),
    unknown("closes-for-8-s", window("consumer", dumps=closing(5, 13))),
    unknown("the-log-ends-while-it-closes", window("consumer", logs=[mine(line(50, "consumer-closing"))])),
    unknown("not-polled-for-a-minute", window("consumer", polls(lambda s: 40 + s))),
    near_miss("another-consumer-of-the-process-closes", window("consumer", polls(still()), dumps=closing(5, 25, 50))),
    unknown(
        "its-last-poll-is-gone-and-another-one-hangs",
        window("consumer", polls(lambda s: 0.0 if s < 15 else None), dumps=closing(20, 40, 55)),
    ),
    near_miss(
        "it-has-closed-and-another-one-hangs",
        window("consumer", logs=[mine(line(3, "consumer-unregistered"))], dumps=closing(5, 25, 50)),
    ),
    near_miss(
        "closes-at-once",
        window("consumer", logs=[mine(line(5, "consumer-closing")), mine(line(5.2, "consumer-unregistered"))]),
    ),
    unknown(
        "the-log-ends-while-it-shuts-down",
        window("legacy-consumer", logs=[line(50, "connector-shutting-down"), line(52, "client-version")]),
    ),
    near_miss(
        "one-line-in-a-healthy-start",
        window("legacy-consumer", legacy(rising(), {"a": still()}, {"a": rising()}), logs=lookups([2])),
    ),
    unknown(
        "crashed-broker-is-still-in-zookeeper",
        window(
            "legacy-consumer",
            logs=[line(9, "broker-out-of-reach"), *lookups([10 + 0.1 * n for n in range(300)])],
            dumps=[dump(12, Thread("worker", "RUNNABLE", LOOKUP, 5000.0))],
        ),
    ),
    unknown(
        "caught-looking-in-one-dump",
        window("legacy-consumer", dumps=[dump(5, Thread("worker", "RUNNABLE", LOOKUP, 5000.0))]),
    ),
    unknown("coordinator-restarts", window("legacy-consumer", logs=lookups([float(n) for n in range(40)]))),
    unknown(
        "a-round-over-twenty-brokers",
        window("legacy-consumer", logs=lookups([0.1 * n for n in range(20)], [f"kafka-{n}:9092" for n in range(20)])),
    ),
    unknown(
        "look-up-waits-for-a-dead-host",
        window(
            "legacy-consumer",
            dumps=[dump(s, Thread("worker", "RUNNABLE", ("sun.nio.ch.Net.poll", *LOOKUP), 40.0)) for s in (5, 35)],
        ),
    ),
    unknown(
        "look-ups-that-hardly-run",
        window(
            "legacy-consumer",
            dumps=[
                dump(5, Thread("worker", "RUNNABLE", LOOKUP, 40.0)),
                dump(35, Thread("worker", "RUNNABLE", LOOKUP, 60.0)),
            ],
        ),
    ),
    near_miss(
        "clean-shutdown",
        window(
            "legacy-consumer",
            logs=[
                line(5, "connector-shutting-down"),
                line(5.1, "connector-shutdown-completed"),
                line(40, "client-version"),
            ],
        ),
    ),
    near_miss(
        "main-has-returned-in-a-healthy-jvm",
        window(
            "legacy-consumer",
            legacy(rising(), {"a": still()}, {"a": rising()}),
            dumps=[dump(s, fetcher(PUT), Thread("DestroyJavaVM", "RUNNABLE", ())) for s in (10, 40)],
        ),
    ),
    unknown(
        "frozen-and-nothing-shows-why", window("legacy-consumer", legacy(still(900), {"a": still()}, {"a": still(5)}))
    ),
)
