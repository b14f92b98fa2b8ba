"""Define hand-made windows for send-blocked-on-metadata."""

from __future__ import annotations

import dataclasses

from clienthealth.model.readings import Reading
from tests.scenarios._making import (
    ADDRESS,
    ALLOCATE,
    AWAIT_UPDATE,
    CALLBACK,
    MIB,
    MISSING,
    Scenario,
    caller,
    dump,
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
    unknown_topic,
    window,
)

OWN = network(("sun.nio.ch.EPoll.wait", "org.apache.kafka.clients.producer.internals.Sender.run"), "RUNNABLE")

OTHER = dataclasses.replace(OWN, name="kafka-producer-network-thread | audit")


def cut_off(in_buffer: float) -> list[Reading]:
    """Return samples of a producer that has had no broker for ten minutes. 20 sends/s fail."""
    return producer(
        rising(),
        still(in_buffer),
        metadata_age=still(600),
        connection_count=still(0),
        record_send_total=still(),
        record_error_total=rising(20),
    )


def failing_since(seconds: float, step: float) -> list[Reading]:
    """Return samples after a topic's deletion: two sends fail each second."""
    return producer(
        rising(),
        step=step,
        metadata_age=still(0.4),
        record_send_total=stuck_at(5000, seconds),
        record_error_total=lambda s: 2 * max(0.0, s - seconds),
    )


REJECTED = "Connection to node -1 (kafka-1/10.0.0.1:9092) failed authentication due to: Authentication failed: bad user"
NO_ENTRY = {"node": "-1", "address": "kafka-1/10.0.0.1:9092", "reason": "Authentication failed: bad user"}

SCENARIOS: tuple[Scenario, ...] = (
    fires(
        "topic-missing-after-60-s",
        window(readings=producer(rising()), logs=[line(50, "topic-not-in-metadata", **MISSING)]),
    ),
    fires(
        "old-client-metadata-not-updated",
        window(
            logs=[
                line(50, "metadata-not-updated", "Failed to update metadata after 60000 ms.", waitMs="60000"),
                line(40, "bootstrap-disconnected", **ADDRESS),
            ]
        ),
    ),
    suspects(
        "topic-unknown-and-nothing-sent",
        window(readings=producer(rising(), record_send_total=still(0)), logs=unknown_topic(40, 1)),
    ),
    suspects(
        "topic-denied",
        window(
            readings=producer(rising(), record_send_total=still(0)),
            logs=unknown_topic(40, 1, "TOPIC_AUTHORIZATION_FAILED"),
        ),
    ),
    fires("kafka-python-gives-up", window(logs=[mine(line(50, "metadata-not-updated", waitS="60.0"))])),
    fires(
        "partition-missing",
        window(logs=[line(50, "partition-not-in-metadata", topic="orders", partition="9", count="3", waitMs="3000")]),
    ),
    fires(
        "topic-missing-before-the-first-timeout",
        window(
            readings=producer(rising(), metadata_age=still(0.4)),
            logs=unknown_topic(20, 1),
            dumps=[dump(12, *(caller(n) for n in range(8)))],
        ),
    ),
    suspects(
        "outage-of-31-s",
        window(
            readings=producer(rising(), record_send_total=stuck_at(5000, 20), record_error_total=still()),
            logs=[mine(line(20 + n, "bootstrap-disconnected", **ADDRESS)) for n in range(30)],
            dumps=[dump(30, caller(1), caller(2)), dump(50, caller(1), caller(2))],
        ),
    ),
    suspects(
        "callers-found-55-s-apart-in-one-call-or-two",
        window(logs=[mine(line(20, "connection-failed", **ADDRESS))], dumps=[dump(2, caller(1)), dump(57, caller(1))]),
    ),
    fires(
        "callers-held-for-55-s",
        window(
            readings=producer(rising(), record_send_total=still(), record_error_total=still()),
            dumps=[dump(2, caller(1)), dump(57, caller(1))],
        ),
    ),
    suspects(
        "sends-fail-and-none-goes-out",
        window(
            readings=producer(
                rising(), metadata_age=still(0.4), record_send_total=still(), record_error_total=rising(2)
            )
        ),
    ),
    suspects(
        "sends-fail-since-the-last-one-went-out",
        window(readings=failing_since(30, step=10)),
    ),
    near_miss(
        "sends-fail-for-the-last-10-s",
        window(readings=failing_since(49, step=1)),
    ),
    near_miss(
        "sends-failed-between-those-that-went-out",
        window(
            readings=producer(
                rising(),
                metadata_age=still(0.4),
                record_send_total=lambda s: 100.0 if 20 <= s < 50 else 100 + s,
                record_error_total=rising(2),
            )
        ),
    ),
    suspects(
        "no-connection-and-nothing-in-the-buffer",
        window(readings=cut_off(in_buffer=0)),
    ),
    near_miss(
        "no-connection-and-as-much-expires-as-is-sent",
        dataclasses.replace(window(readings=cut_off(in_buffer=MIB // 25)), has_log_data=True),
    ),
    unknown("nothing-sent-and-nothing-of-the-process-read", window(readings=cut_off(in_buffer=MIB // 25))),
    suspects("fails-fast-by-choice", window(logs=[line(50, "topic-not-in-metadata", topic="orders", waitMs="100")])),
    near_miss(
        "outage-without-waiting-callers",
        window(
            readings=producer(rising(), record_send_total=stuck_at(5000, 20), record_error_total=still()),
            logs=[mine(line(20 + n, "connection-failed", **ADDRESS)) for n in range(30)],
        ),
    ),
    near_miss(
        "topic-created-by-first-send",
        window(readings=producer(rising(), record_send_total=rising()), logs=unknown_topic(2, 0.2)),
    ),
    near_miss(
        "callers-wait-for-memory",
        window(
            readings=producer(rising(), still(MIB), MIB, record_send_total=rising()),
            dumps=[dump(20, caller(1, ALLOCATE))],
        ),
    ),
    unknown(
        "a-first-send-11-s-after-the-producer-began",
        window(logs=[mine(line(9, "producer-config"))], dumps=[dump(20, caller(1), OWN)]),
    ),
    suspects(
        "a-first-send-16-s-after-the-producer-began",
        window(logs=[mine(line(9, "producer-config"))], dumps=[dump(25, caller(1), OWN)]),
    ),
    near_miss(
        "callers-of-another-producer",
        window(
            readings=producer(rising(), record_send_total=rising(), record_error_total=still(), step=1),
            logs=[line(50, "topic-not-in-metadata", **MISSING)],
            dumps=[dump(20, caller(1))],
        ),
    ),
    unknown(
        "callers-of-one-of-two-producers-without-metrics",
        window(dumps=[dump(s, OWN, OTHER, caller(1)) for s in (20, 40)]),
    ),
    fires(
        "callers-of-one-of-two-producers-with-a-refusal-of-its-own",
        window(
            logs=[mine(line(10, "topic-not-in-metadata", **MISSING))],
            dumps=[dump(s, OWN, OTHER, caller(1)) for s in (20, 40)],
        ),
    ),
    near_miss(
        "the-network-thread-waits-itself",
        window(
            readings=producer(still(500), record_send_total=still()),
            dumps=[dump(20, network((*AWAIT_UPDATE, *CALLBACK), "TIMED_WAITING"))],
        ),
    ),
    near_miss(
        "records-too-large",
        window(readings=producer(rising(), record_send_total=rising(), record_error_total=rising(2))),
    ),
    *(
        make(
            name,
            window(
                readings=producer(
                    rising(), record_send_total=stuck_at(5000, 30), record_error_total=still(), metadata_age=age
                )
            ),
        )
        for make, name, age in (
            (unknown, "no-send-while-metadata-is-renewed", lambda s: 0.05 if s >= 30 else 20.0),
            (near_miss, "no-send-while-metadata-grows-old", lambda s: 20.0 + s),
        )
    ),
    unknown("sends-not-counted", window(readings=producer(rising()))),
    unknown(
        "never-any-metadata", window(readings=producer(rising(), metadata_age=still(1.8e9), record_send_total=still()))
    ),
    suspects(
        "topic-denied-and-sends-fail",
        window(
            readings=producer(
                rising(), record_send_total=still(0), record_error_total=rising(1), metadata_age=still(0.5)
            ),
            logs=unknown_topic(40, 1, "TOPIC_AUTHORIZATION_FAILED"),
        ),
    ),
    fires(
        "the-same-call-in-dumps-of-two-windows",
        window(
            readings=producer(rising(), record_send_total=still(7), record_error_total=still()),
            dumps=[dump(26, caller(1), OWN)],
            earlier=[dump(-70, OWN), dump(-50, caller(1), OWN)],
        ),
    ),
    suspects(
        "callers-found-in-one-short-call-after-the-other",
        window(
            readings=producer(rising(), record_send_total=still(), record_error_total=rising(1)),
            dumps=[dump(2, caller(1), caller(2)), dump(57, caller(1), caller(2))],
        ),
    ),
    suspects(
        "not-let-in-again-and-again",
        window(logs=[mine(line(2 * n, "authentication-failed", REJECTED, **NO_ENTRY)) for n in range(8)]),
    ),
    fires(
        "not-let-in-and-callers-wait",
        window(
            logs=[mine(line(2 * n, "authentication-failed", REJECTED, **NO_ENTRY)) for n in range(8)],
            dumps=[dump(12, caller(1), caller(2))],
        ),
    ),
    unknown("not-let-in-once", window(logs=[mine(line(5, "authentication-failed", REJECTED, **NO_ENTRY))])),
    near_miss(
        "not-let-in-again-while-records-are-sent",
        window(
            readings=producer(rising(), record_send_total=rising()),
            logs=[mine(line(2 * n, "authentication-failed", REJECTED, **NO_ENTRY)) for n in range(8)],
        ),
    ),
    suspects(
        "no-bootstrap-broker-answers-for-50-s",
        window(
            readings=producer(rising(), record_send_total=still(0), metadata_age=still(1.8e9)),
            logs=[mine(line(5 * n, "connection-failed", node="-1", **ADDRESS)) for n in range(11)],
        ),
    ),
    unknown(
        "no-bootstrap-broker-answers-for-25-s",
        window(
            readings=producer(rising(), record_send_total=still(0), metadata_age=still(1.8e9)),
            logs=[mine(line(5 * n, "connection-failed", node="-1", **ADDRESS)) for n in range(6)],
        ),
    ),
    near_miss(
        "an-outage-of-one-that-has-sent-before",
        window(
            readings=producer(rising(), record_send_total=still(4000), metadata_age=still(80)),
            logs=[mine(line(5 * n, "bootstrap-disconnected", **ADDRESS)) for n in range(11)],
        ),
    ),
    near_miss(
        "callers-that-went-on",
        window(dumps=[dump(15, caller(1), caller(2), OWN), dump(40, OWN)], readings=producer(rising())),
    ),
    fires(
        "callers-held-while-other-topics-go-on",
        window(
            dumps=[dump(s, caller(1), OWN) for s in (2, 30, 56)],
            readings=producer(rising(), record_send_total=rising(), record_error_total=still()),
        ),
    ),
    unknown(
        "topic-unknown-while-others-are-sent",
        window(readings=producer(rising(), record_send_total=rising()), logs=unknown_topic(40, 1)),
    ),
    suspects(
        "reports-every-5-min",
        window(
            readings=producer(
                rising(),
                record_send_total=still(7),
                record_error_total=rising(1),
                metadata_age=still(0.5),
                step=300,
                until=1500,
            )
        ),
    ),
)
