"""Hand-made windows for consumer-shutdown-loop."""

from __future__ import annotations

from clienthealth.records import Thread
from tests.scenarios._making import (
    LOOKUP,
    PUT,
    Scenario,
    dump,
    fetcher,
    fires,
    legacy,
    line,
    lookups,
    near_miss,
    rising,
    still,
    suspects,
    unknown,
    window,
)

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
    unknown(
        "the-log-ends-while-it-shuts-down",
        window("legacy-consumer", logs=[line(50, "connector-shutting-down"), line(52, "client-version")]),
    ),
    near_miss(
        "one-line-in-a-healthy-start",
        window("legacy-consumer", legacy(rising(), {"a": still()}, {"a": rising()}), logs=lookups([2])),
    ),
    near_miss(
        "crashed-broker-is-still-in-zookeeper",
        window(
            "legacy-consumer",
            logs=[line(9, "broker-out-of-reach"), *lookups([10 + 0.1 * n for n in range(300)])],
            dumps=[dump(12, Thread("worker", "RUNNABLE", LOOKUP, 5000.0))],
        ),
    ),
    near_miss(
        "caught-looking-in-one-dump",
        window("legacy-consumer", dumps=[dump(5, Thread("worker", "RUNNABLE", LOOKUP, 5000.0))]),
    ),
    near_miss("coordinator-restarts", window("legacy-consumer", logs=lookups([float(n) for n in range(40)]))),
    near_miss(
        "a-round-over-twenty-brokers",
        window("legacy-consumer", logs=lookups([0.1 * n for n in range(20)], [f"kafka-{n}:9092" for n in range(20)])),
    ),
    near_miss(
        "look-up-waits-for-a-dead-host",
        window(
            "legacy-consumer",
            dumps=[dump(s, Thread("worker", "RUNNABLE", ("sun.nio.ch.Net.poll", *LOOKUP), 40.0)) for s in (5, 35)],
        ),
    ),
    near_miss(
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
        "frozen-and-nothing-tells-why", window("legacy-consumer", legacy(still(900), {"a": still()}, {"a": still(5)}))
    ),
)
