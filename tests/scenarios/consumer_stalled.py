"""Define hand-made windows for consumer-stalled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.readings import LogEvent, Reading, Thread, ThreadDump
from tests.scenarios._making import (
    PARK,
    Scenario,
    consumer,
    dump,
    every,
    fires,
    line,
    mine,
    near_miss,
    rising,
    still,
    stuck_at,
    suspects,
    unknown,
    window,
)

Of = Callable[[float], float]
THIRTY = {"max.poll.interval.ms": "30000"}
HANDLER = (
    "java.net.SocketInputStream.socketRead0",
    "com.example.Ledger.book",
    "org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.run",
)


POLL = (
    "sun.nio.ch.EPoll.wait",
    "org.apache.kafka.common.network.Selector.select",
    "org.apache.kafka.clients.consumer.KafkaConsumer.poll",
    "com.example.Worker.run",
)
RESERVE = ("jdk.internal.misc.Unsafe.park", "com.example.Warehouse.reserve", "com.example.Worker.run")


def own(frames: Sequence[str], state: str = "WAITING") -> Thread:
    return Thread("orders-0", state, tuple(frames), 100.0)


def polling(away: Of, consumed: Of | None = None, lag: Of | None = None, **more: Of) -> list[Reading]:
    names = {"last-poll-seconds-ago": away, "records-consumed-total": consumed or stuck_at(400, 10)}
    names |= {"assigned-partitions": still(2)} | {name.replace("_", "-"): of for name, of in more.items()}
    readings = consumer({"a": lag or still(0)})
    return [replace(r, metrics=c.metrics) for r, c in zip(readings, every(10, names), strict=True)]


def until(second: float) -> Of:
    return lambda seconds: 100 + min(seconds, second)


#: The last poll is at 10 s. max.poll.interval.ms is 30 s, so all requests end 30 s after the last poll: at 40 s.
ANSWERED = {"request_total": until(40), "response_total": until(40), "select_total": until(40)}
ANSWERED_35 = {name: until(35) for name in ANSWERED}
COMMIT = (
    "sun.nio.ch.EPoll.wait",
    "org.apache.kafka.common.network.Selector.select",
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.commitOffsetsSync",
    "org.apache.kafka.clients.consumer.KafkaConsumer.commitSync",
    "com.example.Worker.run",
)


TEN = rising(10)


def outside(
    config: Mapping[str, str] | None = None, before: Of = TEN, got: float = 50, **more: Of | None
) -> ClientWindow:
    """Return a window without polls. The last poll was 12 s before the window, and returned `got` records."""
    metrics: dict[str, Of | None] = {
        "time_between_poll_max": lambda s: 900 if s < 40 else None,  # type: ignore[dict-item,return-value]
        "last_heartbeat_seconds_ago": still(1),
        "fetch_total": still(700),
        **more,
    }
    total = before(-20) + got
    readings = polling(lambda s: s + 12, still(total), **{name: of for name, of in metrics.items() if of})
    names = {"last-poll-seconds-ago": still(0), "records-consumed-total": lambda s: before(s - 60)}
    earlier = [replace(reading, ts_ms=reading.ts_ms - 60_000) for reading in every(10, names, until=50)]
    return replace(window("consumer", readings, config=config), earlier_readings=tuple(earlier))


LOOP = ("org.apache.kafka.streams.processor.internals.StreamThread.run",)
STREAMS = (
    Thread("app-StreamThread-1", "WAITING", ("jdk.internal.misc.Unsafe.park", "com.example.Fraud.score", *LOOP), 100.0),
    Thread("app-StreamThread-2", "RUNNABLE", (*POLL[:3], *LOOP), 100.0),
)


def named(client_id: str, readings: Sequence[Reading] = (), dumps: Sequence[ThreadDump] = ()) -> ClientWindow:
    made = window("consumer", readings, dumps=dumps)
    return replace(made, client=msgspec.structs.replace(made.client, client_id=client_id))


def expired(*seconds: float) -> list[LogEvent]:
    text = "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than"
    return [mine(line(s + more, "poll-timeout-expired", text)) for s in seconds for more in (0, 0.001)]


def worker(frames: Sequence[str]) -> Thread:
    return Thread("listener-0-C-1", "RUNNABLE", tuple(frames), 900.0)


SCENARIOS: tuple[Scenario, ...] = (
    fires("handler-hangs", window("consumer", polling(lambda s: max(0.0, s - 10), **ANSWERED), config=THIRTY)),
    suspects(
        "handler-hangs-and-nothing-shows-answers",
        window("consumer", polling(lambda s: max(0.0, s - 10)), config=THIRTY),
    ),
    unknown(
        "a-commit-waits-for-brokers-that-are-gone",
        window(
            "consumer",
            polling(
                lambda s: 260 + s,
                last_heartbeat_seconds_ago=lambda s: 262 + s,
                connection_count=still(0),
                select_total=rising(12),
                response_total=still(90),
            ),
        ),
    ),
    unknown(
        "a-commit-waits-for-brokers-that-hang",
        window(
            "consumer",
            polling(
                lambda s: s,
                last_heartbeat_seconds_ago=lambda s: max(0.0, s - 20),
                connection_count=still(2),
                select_total=rising(12),
                request_total=rising(0.4),
                response_total=still(90),
            ),
            config=THIRTY,
        ),
    ),
    unknown(
        "a-commit-waits-for-an-unknown-coordinator",
        window(
            "consumer",
            polling(
                lambda s: 30 + s,
                last_heartbeat_seconds_ago=lambda s: 30 + s,
                connection_count=still(2),
                select_total=rising(12),
                request_total=rising(10),
                response_total=rising(10),
            ),
        ),
    ),
    unknown(
        "left-its-group-once-its-coordinator-was-back",
        window("consumer", logs=[mine(line(30, "connection-failed", node="1")), *expired(40)]),
    ),
    fires(
        "left-its-group-long-after-an-outage",
        window("consumer", logs=[mine(line(5, "connection-failed", node="1")), *expired(40)]),
    ),
    unknown(
        "a-thread-that-polled-waits-inside-the-client",
        window("consumer", dumps=[dump(1, own(POLL)), dump(20, own(COMMIT)), dump(51, own(COMMIT))]),
    ),
    suspects(
        "the-application-holds-the-thread-in-an-outage",
        window(
            "consumer",
            polling(lambda s: s, connection_count=still(0)),
            dumps=[dump(1, own(POLL)), dump(20, own(RESERVE)), dump(51, own(RESERVE))],
            config=THIRTY,
        ),
    ),
    unknown(
        "came-back-from-a-commit-before-it-was-seen",
        window("consumer", polling(still(0), rising(5), time_between_poll_max=still(602_000)), config=THIRTY),
    ),
    unknown(
        "came-back-from-a-commit-once-its-brokers-were-back",
        window(
            "consumer",
            polling(
                lambda s: 560 + s if s < 40 else 1,
                time_between_poll_max=lambda s: 500 if s < 40 else 602_000,
                last_heartbeat_seconds_ago=lambda s: 560 + s,
                request_total=lambda s: 90 + 10 * (s >= 40),
                response_total=lambda s: 90 + 10 * (s >= 40),
            ),
            config={"max.poll.interval.ms": "300000"},
            before=polling(lambda s: 530 + s)[:3],
        ),
    ),
    suspects(
        "left-its-group-before-it-was-seen-and-one-commit-is-refused",
        window(
            "consumer",
            polling(lambda s: 30 + s, last_heartbeat_seconds_ago=lambda s: 30 + s),
            logs=[mine(line(30, "commit-refused"))],
        ),
    ),
    unknown(
        "an-old-client-fetches-nothing-and-hears-nothing",
        window(
            "consumer",
            every(10, {"fetch-total": still(70), "select-total": rising(11), "io-wait-time-ns-total": rising(1e8)}),
        ),
    ),
    fires("left-its-group", window("consumer", polling(lambda s: max(0.0, s - 10)), logs=expired(40))),
    fires(
        "no-heartbeats-any-more",
        window(
            "consumer",
            polling(lambda s: 260 + s, last_heartbeat_seconds_ago=lambda s: max(1.0, s - 35), **ANSWERED_35),
        ),
    ),
    near_miss(
        "a-coordinator-that-froze-amid-a-commit",
        window(
            "consumer",
            polling(
                lambda s: max(0.0, s - 32),
                rising(10),
                last_heartbeat_seconds_ago=lambda s: max(1.0, s - 33),
                **{name: lambda s: 200 + min(s, 33) for name in ANSWERED},
            ),
        ),
    ),
    unknown(
        "a-coordinator-that-froze-amid-the-work-on-a-batch",
        window(
            "consumer",
            polling(
                lambda s: 10 + s,
                still(400),
                last_heartbeat_seconds_ago=lambda s: max(1.0, s - 33),
                **{name: lambda s: 200 + min(s, 33) for name in ANSWERED},
            ),
            config={"max.poll.interval.ms": "300000"},
        ),
    ),
    unknown(
        "no-heartbeats-since-before-it-was-seen",
        window("consumer", polling(lambda s: 60 + s, last_heartbeat_seconds_ago=lambda s: 30 + s)),
    ),
    near_miss(
        "coordinator-out-of-reach-while-it-polls",
        window("consumer", polling(lambda s: s % 3, last_heartbeat_seconds_ago=lambda s: 30 + s)),
    ),
    fires("left-its-group-by-the-log-alone", window("consumer", logs=expired(40))),
    fires(
        "thrown-out-in-circles",
        window(
            "consumer",
            polling(
                lambda s: s % 20,
                rising(1),
                rising(20),
                time_between_poll_max=still(20_000),
                rebalance_total=lambda s: 1 + s // 20,
            ),
            logs=expired(15, 35, 55),
            config={"max.poll.interval.ms": "15000"},
        ),
    ),
    fires(
        "librdkafka-left-its-group",
        window(
            "consumer",
            logs=[mine(line(20, "librdkafka-poll-interval-exceeded", limitMs="300000", overMs="412"))],
        ),
    ),
    fires(
        "python-client-left-its-group",
        window("consumer", logs=[line(20, "python-poll-timeout-expired", "Heartbeat poll expired, leaving group")]),
    ),
    suspects(
        "old-client-with-repeatedly-refused-commits",
        window("consumer", logs=[mine(line(s, "commit-refused")) for s in (5, 30, 55)]),
    ),
    suspects(
        "joins-again-and-again-by-metrics-alone",
        window(
            "consumer",
            polling(lambda s: s % 9, rising(0.1), rising(20), rebalance_total=lambda s: 1 + s // 9),
        ),
    ),
    near_miss(
        "others-come-and-go-and-it-polls-all-the-while",
        window(
            "consumer",
            polling(
                lambda s: s % 3,
                rising(1),
                rising(20),
                time_between_poll_max=still(27_000),
                rebalance_total=lambda s: 1 + s // 5,
            ),
        ),
    ),
    suspects(
        "a-thread-that-polled-waits-outside-poll",
        window("consumer", dumps=[dump(1, own(POLL)), dump(20, own(RESERVE)), dump(31, own(RESERVE))]),
    ),
    suspects(
        "where-it-polled-and-hung-was-minutes-before",
        window(
            "consumer",
            polling(lambda s: 250 + s, still(400), last_heartbeat_seconds_ago=still(1)),
            dumps=[dump(20, own(RESERVE))],
            config={"max.poll.interval.ms": "900000"},
            earlier=[dump(-300, own(POLL)), dump(-220, own(RESERVE))],
        ),
    ),
    suspects(
        "a-streams-thread-beside-another-that-polls",
        named("app-StreamThread-1-consumer", dumps=[dump(1, *STREAMS), dump(40, *STREAMS)]),
    ),
    unknown(
        "the-other-streams-thread-hangs",
        named("app-StreamThread-2-consumer", dumps=[dump(1, *STREAMS), dump(40, *STREAMS)]),
    ),
    unknown(
        "a-streams-thread-hangs-beside-a-consumer-of-the-application",
        named("orders", polling(lambda s: max(0.0, s - 5)), [dump(10, *STREAMS), dump(50, *STREAMS)]),
    ),
    suspects(
        "a-listener-beside-another-of-a-process-that-nothing-names",
        named("", dumps=[dump(1, worker(HANDLER), own(POLL)), dump(40, worker(HANDLER), own(POLL))]),
    ),
    unknown(
        "a-thread-stands-and-another-that-polled-moves-on",
        named(
            "billing",
            dumps=[
                dump(1, own(POLL), replace(own(POLL), name="orders-1")),
                dump(5, own(RESERVE), replace(own(HANDLER[1:2]), name="orders-1")),
                dump(50, own(RESERVE), replace(own(RESERVE[1:]), name="orders-1")),
            ],
        ),
    ),
    suspects(
        "both-threads-that-polled-stand",
        named(
            "billing",
            dumps=[
                dump(1, own(POLL), replace(own(POLL), name="orders-1")),
                dump(5, own(RESERVE), replace(own(RESERVE), name="orders-1")),
                dump(50, own(RESERVE), replace(own(RESERVE), name="orders-1")),
            ],
        ),
    ),
    near_miss(
        "kafka-streams-has-restored-its-state",
        named(
            "app-StreamThread-1-restore-consumer",
            polling(lambda s: 400 + s, still(400)),
            dumps=[dump(1, *STREAMS), dump(40, *STREAMS)],
        ),
    ),
    unknown(
        "it-polled-in-between",
        window(
            "consumer", dumps=[dump(1, own(POLL)), dump(20, own(RESERVE)), dump(25, own(POLL)), dump(33, own(RESERVE))]
        ),
    ),
    near_miss(
        "the-client-polls-so-the-thread-is-another-consumers",
        window(
            "consumer",
            polling(lambda s: s % 3, rising(5)),
            dumps=[dump(1, own(POLL)), dump(5, own(RESERVE)), dump(50, own(RESERVE))],
        ),
    ),
    fires(
        "the-poll-loop-has-ended-by-an-exception",
        window(
            "consumer",
            polling(lambda s: max(0.0, s - 5), last_heartbeat_seconds_ago=still(1)),
            logs=[
                line(
                    5, "thread-died", 'Exception in thread "orders-0" java.lang.IllegalStateException', died="orders-0"
                )
            ],
        ),
    ),
    fires(
        "the-thread-that-polled-is-there-no-more",
        window(
            "consumer",
            polling(lambda s: max(0.0, s - 5), last_heartbeat_seconds_ago=still(1)),
            dumps=[dump(2, own(POLL)), dump(50, Thread("kafka-coordinator-heartbeat-thread | g", "WAITING", ("x",)))],
        ),
    ),
    unknown(
        "one-refused-commit-once-the-coordinator-is-back",
        window("consumer", logs=[mine(line(28, "coordinator-found")), mine(line(30, "commit-refused"))]),
    ),
    suspects("one-refused-commit", window("consumer", logs=[mine(line(30, "commit-refused"))])),
    unknown("away-for-a-minute-of-five", window("consumer", polling(lambda s: s))),
    suspects("outside-poll-for-longer-than-its-records-need", outside()),
    unknown("inside-a-long-poll", outside(fetch_total=rising(2))),
    unknown("more-records-than-ever-before", outside(got=2000)),
    unknown("its-first-batch", outside(before=still(0))),
    unknown("its-batches-take-20-s", outside(time_between_poll_max=still(20_000))),
    unknown("it-was-given-more-time", outside({"max.poll.interval.ms": "900000"})),
    unknown("no-member-of-a-group", outside(last_heartbeat_seconds_ago=None)),
    unknown("its-broker-froze-after-it-polled", outside(last_heartbeat_seconds_ago=lambda s: max(0.0, s - 40))),
    suspects("away-for-longer-than-the-default", window("consumer", polling(lambda s: 290 + s))),
    suspects(
        "nearly-thrown-out", window("consumer", polling(lambda s: 200 + s), config={"max.poll.interval.ms": "300000"})
    ),
    suspects(
        "listener-at-the-same-frames",
        window("consumer", dumps=[dump(5, worker(HANDLER)), dump(50, worker(HANDLER))]),
    ),
    unknown(
        "a-thread-of-its-pool-waits-for-work",
        window(
            "consumer",
            dumps=[dump(s, replace(worker(PARK), state="WAITING")) for s in (5, 50)],
        ),
    ),
    suspects(
        "listener-at-the-same-frames-and-away",
        window(
            "consumer",
            polling(lambda s: 250 + s),
            dumps=[dump(5, worker(HANDLER)), dump(50, worker(HANDLER))],
        ),
    ),
    fires(
        "listener-at-the-same-frames-for-too-long",
        window(
            "consumer",
            polling(lambda s: 250 + s),
            config={"max.poll.interval.ms": "300000"},
            dumps=[dump(5, worker(HANDLER)), dump(50, worker(HANDLER))],
        ),
    ),
    near_miss("idle-topic", window("consumer", polling(still(0), still(0)), config=THIRTY)),
    near_miss("paused-on-purpose", window("consumer", polling(still(0), still(400), rising(50)), config=THIRTY)),
    near_miss(
        "slow-handler-that-returns",
        window(
            "consumer",
            polling(lambda s: s % 20, rising(2), rising(18), time_between_poll_max=still(20_000)),
            config=THIRTY,
        ),
    ),
    near_miss(
        "rebalance-that-ends",
        window("consumer", polling(still(0), stuck_at(400, 10), rising(5), rebalance_total=lambda s: 1.0 + (s > 30))),
    ),
    near_miss("no-lag-and-nothing-ever-consumed", window("consumer", polling(lambda s: 400 + s, still(0)))),
    near_miss(
        "a-spare-member-without-partitions",
        window("consumer", polling(lambda s: 400 + s, still(400), assigned_partitions=still(0))),
    ),
    fires(
        "a-member-of-the-new-protocol-that-left-its-group-and-its-partitions",
        window(
            "consumer",
            polling(
                lambda s: 25 + s,
                still(400),
                assigned_partitions=still(0),
                last_heartbeat_seconds_ago=lambda s: max(0.0, s - 5),
                **{name: lambda s: 200 + min(s, 5) for name in ANSWERED},
            ),
            config=THIRTY,
            before=polling(still(0), still(400), last_heartbeat_seconds_ago=still(1), **ANSWERED),
        ),
    ),
    suspects(
        "a-share-consumer-that-outlasts-the-locks-on-its-records",
        window(
            "consumer",
            polling(
                lambda s: s % 40,
                lambda s: 400 + s // 40,
                time_between_poll_max=still(40_000),
                acknowledgements_error_total=lambda s: 7 + s // 40,
            ),
        ),
    ),
    near_miss(
        "acknowledgements-refused-as-a-leader-moved",
        window("consumer", polling(lambda s: s % 2, rising(2), acknowledgements_error_total=lambda s: 7 + s // 40)),
    ),
    near_miss(
        "listener-of-another-consumer-at-the-same-frames",
        window("consumer", polling(still(0)), dumps=[dump(5, worker(HANDLER)), dump(50, worker(HANDLER))]),
    ),
    near_miss(
        "another-record-in-each-dump",
        window(
            "consumer",
            polling(lambda s: s % 5),
            dumps=[dump(5, worker(HANDLER)), dump(50, worker(("com.example.Ledger.close", *HANDLER[1:])))],
        ),
    ),
    unknown("polls-not-reported", window("consumer", every(10, {"records-lag-max": still(5)}))),
)
