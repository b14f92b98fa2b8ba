"""Define hand-made windows for delivery-stalled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clienthealth.model.readings import LogEvent, Reading
from tests.scenarios._making import (
    Scenario,
    every,
    filling,
    fires,
    line,
    mine,
    near_miss,
    producer,
    rising,
    still,
    stuck_at,
    suspects,
    unknown,
    window,
)

MIB = 1024 * 1024
SHORT = {"delivery.timeout.ms": "30000"}
Of = Callable[[float], float]


def sending(
    sent: Of,
    used: Callable[[float], float] | None = None,
    select: Callable[[float], float | None] | None = None,
    **more: Of,
) -> list[Reading]:
    names = {"record-send-total": sent, "record-retry-total": still(), "record-error-total": still()}
    names |= {name.replace("_", "-"): of for name, of in more.items()}
    begun = producer(select or rising(), used or filling(20_000, 10, 32 * MIB))
    counted = every(10, names)
    return [replace(r, metrics={**r.metrics, **c.metrics}) for r, c in zip(begun, counted, strict=True)]


def since(seconds: float, rate: float) -> Callable[[float], float]:
    return lambda s: rate * max(0.0, s - seconds)


def expiries(*seconds: float) -> list[LogEvent]:
    text = "Expiring 15 record(s) for ledger-0:60000 ms has passed since batch creation"
    return [mine(line(s, "records-expired", text, records="15", waitMs="60000")) for s in seconds]


def unreachable(*seconds: float, node: str = "1") -> list[LogEvent]:
    text = f"Connection to node {node} (/10.0.0.9:9092) could not be established. Node may not be available."
    return [mine(line(s, "connection-failed", text, node=node, address="/10.0.0.9:9092")) for s in seconds]


def rejections(*seconds: float) -> list[LogEvent]:
    text = "Connection to node 1 (/10.0.0.9:9092) failed authentication due to: Invalid username or password"
    named = {"node": "1", "address": "/10.0.0.9:9092", "reason": "Invalid username or password"}
    return [mine(line(s, "authentication-failed", text, **named)) for s in seconds]


def refusals(*seconds: float) -> list[LogEvent]:
    text = "Got error produce response on topic-partition ledger-0, retrying (9 attempts left). Error: "
    return [
        mine(
            line(s, "produce-refused", text + "NOT_ENOUGH_REPLICAS", error="NOT_ENOUGH_REPLICAS", partition="ledger-0")
        )
        for s in seconds
    ]


def slowly(sent: Of, closed: Of) -> list[Reading]:
    return producer(
        rising(),
        still(MIB),
        step=300,
        until=1500,
        record_send_total=sent,
        connection_close_total=closed,
        record_error_total=still(),
    )


def averaging(latency: Of, open_requests: float, failed: Of) -> list[Reading]:
    """Return samples of kafka-python, which reports only averages and rates."""
    names = {"request-latency-avg": latency, "requests-in-flight": still(open_requests)}
    return every(10, {**names, "record-send-rate": still(1.7), "record-error-rate": failed})


def answered(until: float) -> Of:
    """Return the average latency (ms) by second. The average is constant after the last response, at second `until`."""
    return lambda s: 8 + 1 / (3 + min(s, until))


REFUSED = sending(rising(200), still(MIB), record_retry_total=rising(180), record_error_total=since(0, 20))
FAILING = {"connection_close_total": since(10, 1)}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        make(
            f"a-line-of-a-batch-with-{left}-attempts-left",
            window(logs=[mine(line(30, "produce-refused", error="NOT_ENOUGH_REPLICAS", partition="a-0", left=left))]),
        )
        # `left`: remaining retries. The default of `retries` is 2,147,483,647. With this default and `left` = 2, the
        # producer would have retried 2,147,483,645 times. So `retries` is not the default. The value of `retries` is
        # unknown, so the number of used retries is also unknown.
        for left, make in (("2147482474", suspects), ("0", suspects), ("2147483639", unknown), ("2", unknown))
    ),
    suspects(
        "some-expire-between-deliveries-and-one-at-the-end",
        window(
            readings=sending(stuck_at(400, 40), still(), record_error_total=lambda s: 15.0 * (s >= 50)),
            logs=expiries(5, 50),
        ),
    ),
    suspects("address-out-of-reach", window(readings=sending(stuck_at(400, 10), **FAILING))),
    suspects(
        "half-of-a-short-delivery-timeout-is-over",
        window(
            readings=sending(stuck_at(400, 30), filling(20_000, 30, 32 * MIB), connection_close_total=since(30, 1)),
            config=SHORT,
        ),
    ),
    near_miss(
        "the-same-with-time-left",
        window(readings=sending(stuck_at(400, 30), filling(20_000, 30, 32 * MIB), connection_close_total=since(30, 1))),
    ),
    fires(
        "records-expire",
        window(readings=sending(stuck_at(400, 10), record_error_total=since(40, 15), **FAILING), config=SHORT),
    ),
    fires("records-expire-by-the-log-alone", window(logs=[*unreachable(1, 2, 3), *expiries(10, 31, 50)])),
    suspects(
        "expiries-that-an-application-words",
        window(logs=[replace(event, own=False) for event in (*unreachable(1, 2, 3), *expiries(10, 31, 50))]),
    ),
    suspects(
        "requests-without-an-answer",
        window(readings=sending(stuck_at(400, 10), requests_in_flight=lambda s: 5.0 * (s > 10))),
    ),
    suspects(
        "answers-are-refusals",
        window(
            readings=sending(rising(20), record_retry_total=lambda s: 20 * max(0.0, s - 10)),
            logs=refusals(15, 25, 35, 55),
        ),
    ),
    fires(
        "records-expire-as-the-password-was-changed",
        window(logs=[*rejections(1, 2, 3), *expiries(10, 31, 50)]),
    ),
    suspects("address-out-of-reach-by-the-log-alone", window(logs=unreachable(5, 20, 40, 55))),
    suspects("one-expiry-and-no-metrics", window(logs=expiries(10))),
    suspects(
        "librdkafka-brokers-gone",
        window(
            readings=every(
                10,
                {
                    "record-send-total": stuck_at(400, 10),
                    "queue-records": rising(20),
                    "requests-in-flight": still(),
                    "connection-count": still(),
                },
            )
        ),
    ),
    near_miss(
        "back-pressure",
        window(readings=sending(rising(), still(32 * MIB), waiting_threads=still(4), requests_in_flight=still(1))),
    ),
    near_miss(
        "outage-that-ends",
        window(
            readings=sending(
                lambda s: 400 + 20 * (s if s < 10 else max(10, s - 30)),
                lambda s: 20_000.0 * (10 < s < 45),
                connection_close_total=lambda s: min(30, max(0.0, s - 10)),
            ),
            logs=unreachable(12, 20, 30),
        ),
    ),
    near_miss("long-linger", window(readings=sending(stuck_at(400, 10)))),
    near_miss("idle", window(readings=sending(still(400), still(), connection_close_total=lambda s: float(s > 20)))),
    near_miss(
        "acks-0",
        window(readings=sending(rising(), still(65_536), response_total=still(3), requests_in_flight=still())),
    ),
    near_miss(
        "one-expiry-and-deliveries-go-on",
        window(readings=sending(rising(), still()), logs=expiries(10)),
    ),
    near_miss("bootstrap-out-of-reach", window(readings=sending(rising()), logs=unreachable(5, 20, 40, 55, node="-1"))),
    unknown(
        "deadlock-in-a-callback",
        window(readings=sending(stuck_at(400, 10), select=stuck_at(400, 10), requests_in_flight=still(5))),
    ),
    unknown("nothing-counted", window(readings=producer(rising()))),
    unknown("buffer-not-reported", window(readings=every(10, {"record-send-total": still(400)}))),
    suspects(
        "answers-are-refusals-and-no-log",
        window(readings=sending(rising(20), record_retry_total=lambda s: 20 * max(0.0, s - 10))),
    ),
    fires("refused-until-they-expire", window(readings=REFUSED, logs=[*refusals(15, 25, 35), *expiries(20, 35, 50)])),
    suspects("refused-until-they-expire-and-no-log", window(readings=REFUSED)),
    near_miss(
        "back-pressure-with-failing-sends",
        window(
            readings=sending(
                rising(), still(32 * MIB), record_error_total=since(0, 300), record_retry_total=since(0, 1)
            )
        ),
    ),
    suspects("no-answer-changes-an-average", window(readings=averaging(answered(10), 1, still()))),
    suspects("records-fail-after-the-last-answer", window(readings=averaging(answered(30), 0, since(40, 0.02)))),
    unknown("records-fail-between-answers", window(readings=averaging(answered(60), 0, since(40, 0.02)))),
    unknown("answers-change-an-average", window(readings=averaging(answered(60), 1, still()))),
    unknown("nothing-open-and-an-average-without-change", window(readings=averaging(answered(10), 0, still()))),
    unknown("rounded-averages", window(readings=averaging(still(8.215), 1, still()))),
    suspects(
        "attempts-that-the-end-of-a-window-parts",
        replace(window(logs=unreachable(0, 15)), earlier_logs=tuple(unreachable(-30, -15))),
    ),
    unknown("attempts-of-the-window-before", replace(window(), earlier_logs=tuple(unreachable(-60, -30, -15)))),
    suspects("reports-every-5-min", window(readings=slowly(stuck_at(400, 100), since(100, 1)))),
    near_miss("delivers-and-reports-every-5-min", window(readings=slowly(rising(), still()))),
)
