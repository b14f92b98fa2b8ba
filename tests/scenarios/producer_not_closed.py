"""Define hand-made windows for producer-not-closed."""

from __future__ import annotations

from dataclasses import replace

from clienthealth.model.readings import Reading
from tests.scenarios._making import (
    MIB,
    STARTED,
    Scenario,
    at,
    fires,
    last_reading,
    line,
    mine,
    near_miss,
    producer,
    rising,
    still,
    suspects,
    unknown,
    window,
)

GAVE_UP = [
    mine(line(5, "producer-closing", timeout="45000")),
    mine(line(50, "producer-force-close", timeout="45000")),
]
SCENARIOS: tuple[Scenario, ...] = (
    unknown(
        "a-close-that-was-still-delivering",
        window(
            readings=producer(rising(), lambda s: 8 * MIB - 100_000 * s),
            logs=[STARTED, mine(line(20, "producer-closing", timeout="60000"))],
            departed=50,
        ),
    ),
    suspects(
        "a-close-that-delivered-nothing",
        window(
            readings=producer(rising(), still(8 * MIB)),
            logs=[STARTED, mine(line(20, "producer-closing", timeout="60000"))],
            departed=50,
        ),
    ),
    fires("exit-after-a-burst", window(readings=last_reading(8 * MIB), logs=[STARTED], departed=10)),
    suspects("exit-with-little-in-the-buffer", window(readings=last_reading(49_152), logs=[STARTED], departed=10)),
    unknown(
        "little-in-the-buffer-where-all-that-was-read-ends",
        replace(window(readings=last_reading(49_152), logs=[STARTED], departed=10), outlived=False),
    ),
    suspects("exit-after-a-burst-log-not-read", window(readings=last_reading(8 * MIB), departed=10)),
    fires(
        "exact-count-of-unacknowledged",
        window(
            readings=[Reading(at(10), {"record-send-total": 700.0, "record-ack-total": 300.0})],
            logs=[STARTED],
            departed=10,
        ),
    ),
    fires(
        "librdkafka-reports-its-loss",
        window(logs=[mine(line(12, "librdkafka-terminating", records="42", bytes="4200"))], departed=10),
    ),
    suspects(
        "closed-inside-a-callback",
        window(
            logs=[line(10, "close-inside-callback"), mine(line(10, "producer-force-close", timeout="0"))], departed=10
        ),
    ),
    fires(
        "closed-inside-a-callback-with-records-left",
        window(
            readings=last_reading(49_152),
            logs=[line(10, "close-inside-callback"), mine(line(10, "producer-force-close", timeout="0"))],
            departed=10,
        ),
    ),
    unknown(
        "closed-inside-a-callback-nothing-left",
        window(
            readings=last_reading(),
            logs=[line(10, "close-inside-callback"), mine(line(10, "producer-force-close", timeout="0"))],
            departed=10,
        ),
    ),
    fires(
        "close-gave-up-after-5-s",
        window(
            readings=last_reading(4 * MIB),
            logs=[
                mine(line(5, "producer-closing", timeout="5000")),
                mine(line(10, "producer-force-close", timeout="5000")),
            ],
            departed=10,
        ),
    ),
    suspects(
        "close-gave-up-after-45-s-and-the-io-thread-showed-no-life",
        window(readings=last_reading(16_384), logs=GAVE_UP, departed=50),
    ),
    fires(
        "close-gave-up-after-45-s-although-the-io-thread-worked",
        window(
            readings=last_reading(16_384),
            logs=[*GAVE_UP, mine(line(30, "connection-failed", node="1"))],
            departed=50,
        ),
    ),
    fires(
        "close-with-no-time-and-a-full-buffer",
        window(
            readings=last_reading(4 * MIB),
            logs=[mine(line(10, "producer-closing", timeout="0")), mine(line(10, "producer-force-close", timeout="0"))],
            departed=10,
        ),
    ),
    fires(
        "records-given-up-after-a-close-with-no-time",
        window(
            readings=[*last_reading(4 * MIB), *(replace(r, ts_ms=at(30)) for r in last_reading())],
            logs=[
                mine(line(20, "producer-closing", timeout="0")),
                mine(line(20, "producer-force-close", timeout="0")),
                mine(line(21, "records-aborted")),
            ],
            departed=30,
        ),
    ),
    fires(
        "closed-with-no-time-and-read-once-more",
        window(
            readings=[*last_reading(4 * MIB), *(replace(r, ts_ms=at(30)) for r in last_reading())],
            logs=[
                mine(line(20, "producer-closing", timeout="0")),
                mine(line(20, "producer-force-close", timeout="0")),
            ],
            departed=30,
        ),
    ),
    fires(
        "killed-for-its-memory",
        window(readings=last_reading(4 * MIB), logs=[line(11, "process-killed-for-memory", pid="7")], departed=10),
    ),
    fires(
        "out-of-memory",
        window(readings=last_reading(4 * MIB), logs=[mine(line(10, "process-out-of-memory"))], departed=10),
    ),
    near_miss(
        "clean-close",
        window(
            readings=last_reading(MIB),
            logs=[STARTED, mine(line(11, "producer-closing", timeout="9223372036854775807"))],
            departed=10,
        ),
    ),
    near_miss(
        "only-the-end-of-a-close-was-read",
        window(readings=last_reading(MIB), logs=[mine(line(11, "producer-unregistered"))], departed=10),
    ),
    near_miss("idle-exit-without-close", window(readings=last_reading(), logs=[STARTED], departed=10)),
    near_miss(
        "flushed-and-close-with-no-time",
        window(readings=last_reading(), logs=[mine(line(10, "producer-force-close", timeout="0"))], departed=10),
    ),
    unknown("scaled-down-log-not-read", window(readings=last_reading(49_152), departed=10)),
    unknown(
        "buffer-not-reported",
        window(readings=[Reading(at(10), {"record-send-rate": 5.0})], logs=[STARTED], departed=10),
    ),
    unknown("still-there", window(readings=last_reading(8 * MIB))),
    suspects(
        "close-has-not-come-back",
        window(
            readings=last_reading(4 * MIB),
            logs=[STARTED, mine(line(2, "producer-closing", timeout="9223372036854775807"))],
            departed=10,
        ),
    ),
    unknown(
        "read-in-the-middle-of-a-close",
        window(
            readings=last_reading(4 * MIB),
            logs=[STARTED, mine(line(8, "producer-closing", timeout="9223372036854775807"))],
            departed=10,
        ),
    ),
    suspects("aiokafka-not-stopped", window(logs=[line(12, "aiokafka-unclosed")], departed=12)),
    unknown(
        "killed-while-it-was-sending",
        window(
            readings=producer(rising(), record_send_total=rising()),
            logs=[STARTED, line(60, "process-killed")],
            departed=50,
        ),
    ),
)
