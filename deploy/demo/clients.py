"""The demo's clients: programs that really fail, and healthy controls that look like them."""

from __future__ import annotations

from dataclasses import replace

from deploy.demo.client import DemoClient, Outage

_DEADLOCK = DemoClient(
    name="callback-deadlock",
    help="a callback that sends a failed record again and waits for the result; the producer's broker is suspended",
    program="SteadyProducer",
    service="order-service",
    mode="producer-callback-deadlock",
    kinds=2,
    default=True,
    broker="own",
    topics=("orders",),
    options={
        "callback": "resend-and-get",
        "rate": "100",
        "p.client.id": "order-publisher",
        "p.buffer.memory": "4194304",
        "p.batch.size": "65536",
        "p.request.timeout.ms": "4000",
        "p.delivery.timeout.ms": "8000",
        "p.max.block.ms": "10000",
        "p.retries": "3",
    },
    outage=Outage(after=15, seconds=5, from_onset=True),
)
_DEADLOCK_41 = replace(
    _DEADLOCK,
    name="callback-deadlock-4.1",
    help="callback-deadlock with kafka-clients 4.1 and metadata.recovery.strategy=none",
    default=False,
    classpath="clients-4.1",
    options={**_DEADLOCK.options, "p.metadata.recovery.strategy": "none"},
)
_DEADLOCK_011 = replace(
    _DEADLOCK,
    name="callback-deadlock-0.11",
    help="callback-deadlock with kafka-clients 0.11, which has other metrics and log lines",
    default=False,
    classpath="clients-0.11",
    options={name: value for name, value in _DEADLOCK.options.items() if name != "p.delivery.timeout.ms"}
    | {"p.retries": "0"},
)
_SEND_IN_CALLBACK = replace(
    _DEADLOCK,
    name="send-in-callback",
    help="a callback that calls send(), which blocks for max.block.ms each time (kafka-clients 4.1)",
    kinds=1,
    default=False,
    classpath="clients-4.1",
    options={**_DEADLOCK.options, "callback": "resend"},
    outage=Outage(after=20, seconds=40, from_onset=True),
)
_CHECKOUTS = {"rate": "4", "p.client.id": "checkout-events", "p.max.block.ms": "20000"}
_BLOCKED = DemoClient(
    name="send-blocked",
    help="threads that serve requests and send to a missing topic, because a release misspelt the topic's name",
    program="RequestPool",
    service="checkout-web",
    mode="send-blocked-on-metadata",
    default=True,
    topics=("checkouts",),
    options={**_CHECKOUTS, "wrong.after": "25", "wrong.topic": "chekouts"},
)
_NO_PARTITION = replace(
    _BLOCKED,
    name="send-blocked-partition",
    help="threads that serve requests and send to a partition that the topic does not have",
    default=False,
    options={**_CHECKOUTS, "wrong.after": "25", "wrong.partition": "7"},
)
_NO_CLUSTER = replace(
    _BLOCKED,
    name="send-blocked-cluster",
    help="producer threads that wait in send(), because no broker can be reached",
    default=False,
    broker="none",
    options=_CHECKOUTS,
    not_by_pushes="it reaches no broker",
)
_NOT_CLOSED = DemoClient(
    name="not-closed",
    help="a job that returns from main() while records are in the producer's buffer",
    program="SteadyProducer",
    service="nightly-export",
    mode="producer-not-closed",
    default=True,
    classpath="clients-4.1",
    topics=("exports",),
    options={
        "topic": "exports",
        "p.client.id": "export-writer",
        "seconds": "15",
        "rate": "20",
        "burst": "400",
        "idle.seconds": "20",
        "end": "exit",
        "p.linger.ms": "120000",
        "p.batch.size": "1000000",
    },
)
_BURST = replace(
    _NOT_CLOSED,
    name="not-closed-burst",
    help="a job that sends a burst and exits at once",
    default=False,
    options={
        "topic": "exports",
        "p.client.id": "export-writer",
        "seconds": "35",
        "rate": "100",
        "burst": "20000",
        "end": "exit",
        "p.linger.ms": "0",
        "p.batch.size": "16384",
    },
)
_KILLED = replace(
    _NOT_CLOSED,
    name="not-closed-killed",
    help="a job that is killed while records are in the producer's buffer",
    default=False,
    options={**_NOT_CLOSED.options, "end": "halt"},
)
_FORCED = replace(
    _NOT_CLOSED,
    name="not-closed-forced",
    help="a job that closes its producer without waiting",
    default=False,
    options={**_NOT_CLOSED.options, "end": "close-now"},
)
_CROSS_TOPIC = DemoClient(
    name="cross-topic-blocking",
    help="an old Scala consumer of three topics with one connector; the handler of one topic sleeps",
    program="LegacyTopics",
    service="trade-feed",
    mode="cross-topic-blocking",
    default=True,
    classpath="legacy",
    broker="legacy",
    topics=("trades", "quotes", "fills"),
    options={"topics": "trades,quotes,fills", "slow.topic": "trades", "slow.after": "25"},
)
_LOOP = DemoClient(
    name="shutdown-loop",
    help="an old Scala consumer that never ends, because an interrupted thread looks for the coordinator for ever",
    program="LegacyShutdown",
    service="event-worker",
    mode="consumer-shutdown-loop",
    default=True,
    classpath="legacy",
    broker="legacy",
    topics=("events",),
    # The session timeout is long, because an expired ZooKeeper session would end the endless loop.
    options={"end": "loop", "topic": "events", "seconds": "25", "c.zookeeper.session.timeout.ms": "30000"},
    nice=19,
)
_LEFT_BEHIND = replace(
    _LOOP,
    name="shutdown-left-behind",
    help="an old Scala consumer that is interrupted in shutdown(): a fetcher thread keeps the process alive",
    default=False,
    options={**_LOOP.options, "end": "left-behind"},
)
_HEALTHY = DemoClient(
    name="healthy",
    help="a producer and a consumer that do nothing wrong",
    program="ProduceAndConsume",
    service="order-api",
    default=True,
    classpath="clients-4.1",
    topics=("orders",),
    options={"rate": "20", "p.client.id": "order-api", "c.client.id": "order-billing", "c.group.id": "billing"},
)
_STEADY = DemoClient(
    name="clean-close",
    help="control: a job that closes its producer",
    program="SteadyProducer",
    service="invoice-service",
    topics=("invoices",),
    options={"topic": "invoices", "p.client.id": "invoice-writer", "rate": "100", "seconds": "60"},
)


def _control(base: DemoClient, name: str, help: str, **options: str) -> DemoClient:
    """Return a healthy client: a copy of `base` with these options. A `_` in an option's name means a dot."""
    changed = {key.replace("_", "."): value for key, value in options.items()}
    return replace(
        base,
        name=name,
        help=f"control: {help}",
        mode=None,
        default=False,
        outage=None,
        options={**base.options, **changed},
    )


_SLOW_LOOP = replace(
    _HEALTHY,
    name="slow-handler",
    help="a consumer with one poll loop for three topics: the slow handler of one topic delays all three",
    mode="cross-topic-blocking",
    default=False,
    topics=("orders", "payments", "refunds"),
    options={
        **_HEALTHY.options,
        "topics": "orders,payments,refunds",
        "slow.topic": "payments",
        "slow.after": "25",
        "handle.ms": "500",
        "c.max.poll.records": "50",
    },
)
_ROLLED_CLUSTER = (
    "the three brokers of the client's cluster are upgraded from 3.9 to 4.4, then restarted, killed and frozen in turn"
)
_ROLLED = replace(
    _control(
        _HEALTHY,
        "rolled",
        _ROLLED_CLUSTER,
        topics="payments,refunds",
        rate="10",
        p_acks="all",
        p_enable_idempotence="true",
        p_client_id="payment-api",
        c_client_id="payment-ledger",
        c_group_id="ledger",
    ),
    service="payment-api",
    broker="cluster",
    topics=("payments", "refunds"),
)
_STALLED = DemoClient(
    name="delivery-stalled",
    help="a producer that cannot reach its broker's advertised address because of a new firewall rule",
    program="SteadyProducer",
    service="ledger-service",
    mode="delivery-stalled",
    kinds=2,
    broker="gateway",
    topics=("ledger",),
    options={"topic": "ledger", "rate": "20", "p.delivery.timeout.ms": "60000", "p.request.timeout.ms": "15000"},
    outage=Outage(after=25, seconds=1e6, how="shut", fails=True),
    not_by_pushes="the fault that separates the client from its broker also stops its pushes",
)
_SWALLOWED = replace(
    _STALLED,
    name="delivery-swallowed",
    help="a producer that keeps its connections, but gets no answer to its requests",
    kinds=1,
    outage=Outage(after=25, seconds=1e6, how="swallow", fails=True),
)
_LEADERLESS = replace(
    _STALLED,
    name="delivery-leaderless",
    help="a producer that sends to a topic with only one replica; the broker with this replica is killed",
    kinds=1,
    broker="cluster",
    options={**_STALLED.options, "p.client.id": "ledger-writer"},
    outage=Outage(after=25, seconds=1e6, how="leader", fails=True),
    not_by_pushes="",
)
_HANGING = replace(
    _HEALTHY,
    name="consumer-stalled",
    help="a consumer with a handler that hangs on one record",
    mode="consumer-stalled",
    kinds=2,
    default=False,
    service="billing-worker",
    topics=("bills",),
    options={
        "topics": "bills",
        "c.group.id": "billing",
        "rate": "20",
        "slow.after": "25",
        "handle.ms": "100000000",
        "c.max.poll.interval.ms": "30000",
    },
    not_by_pushes="a consumer pushes its metrics in poll(), which is not called while its handler hangs",
)
_CIRCLING = replace(
    _HANGING,
    name="consumer-rejoins",
    help="a consumer that is removed from its group again and again, because handling takes too long",
    options={**_HANGING.options, "handle.ms": "20000", "c.max.poll.interval.ms": "15000", "c.max.poll.records": "1"},
)
_GROUPS = DemoClient(
    name="groups-of-kafka-4",
    help="healthy members of a KIP-848 group, a Streams group and a share group in one process",
    program="Groups",
    service="stock-service",
    default=True,
    classpath="streams-4.4",
    topics=("stock",),
    options={
        "kinds": "consumer,streams,share",
        "topics": "stock",
        "p.client.id": "stock-feed",
        "c.client.id": "stock-{}",
        "c.group.id": "stock-by-{}",
        "s.client.id": "stock-streams",
        "s.application.id": "stock-by-streams",
    },
)


def _of_kafka_4(name: str, help: str, kind: str, **options: str) -> DemoClient:
    """Return a client that stalls in a group of type `kind`, such as `share`."""
    return replace(_control(_GROUPS, name, help, kinds=kind, **options), help=help, mode="consumer-stalled")


_KIP848 = _of_kafka_4(
    "kip848-stalled",
    "a consumer of the new protocol with a handler that hangs on one record",
    "consumer",
    c_max_poll_interval_ms="60000",
    slow_after="25",
    handle_ms="100000000",
)
_STREAMS = _of_kafka_4(
    "streams-stalled",
    "a Kafka Streams processor that hangs on one record, in a group of the new protocol",
    "streams",
    s_max_poll_interval_ms="60000",
    slow_after="25",
    handle_ms="100000000",
)
_SHARE = _of_kafka_4(
    "share-stalled",
    "a share consumer with a handler that never returns: brokers deliver its records again and again",
    "share",
    slow_after="25",
    handle_ms="100000000",
)
_PYTHON = {"confluent-kafka": "parcel-api", "kafka-python": "letter-api", "aiokafka": "courier-api"}


def _rolled_python(library: str, service: str) -> DemoClient:
    return DemoClient(
        name=f"rolled-{library}",
        help=f"control: two processes use {library}, and new processes replace them in turn; {_ROLLED_CLUSTER}",
        program="produce_and_consume",
        service=service,
        classpath=library,
        broker="cluster",
        topics=(f"{service}-a", f"{service}-b"),
        options={
            "rate": "10",
            "p.client.id": service,
            "c.client.id": f"{service}-in",
            "c.group.id": service,
            "restart.every": "150",
        },
    )


_FALLS_SILENT = "after a connection breaks during a push, a client of version 3.9 never pushes again"
_CONTROLS = (
    _STEADY,
    replace(
        _control(_STALLED, "network-outage", "a producer with a broker that is out of reach for 20 s"),
        outage=Outage(after=25, seconds=20, how="shut"),
    ),
    _control(_HANGING, "idle-consumer", "a consumer of a topic without records", rate="0.0001", handle_ms="0"),
    _control(
        _HANGING,
        "slow-but-returns",
        "a handler that needs 20 s for each batch and falls behind, but returns every time",
        handle_ms="400",
        c_max_poll_records="50",
        c_max_poll_interval_ms="60000",
    ),
    _control(_HANGING, "paused", "a consumer that pauses its partitions on purpose", handle_ms="0", pause_after="25"),
    _control(_STEADY, "flush-without-close", "a job that flushes its producer and exits", end="flush"),
    _control(_STEADY, "idle-exit", "an idle producer that ends", seconds="20", idle_seconds="40", end="exit"),
    _control(_STEADY, "idle", "a producer with nothing to send", seconds="10", idle_seconds="100000"),
    _control(
        _STEADY,
        "long-linger",
        "a producer with a long linger.ms, so that batches and the I/O thread wait for 45 s",
        rate="5",
        p_linger_ms="45000",
        p_batch_size="500000",
        seconds="120",
    ),
    _control(_STEADY, "slow-callback", "a producer with a slow callback", rate="8", seconds="0", callback="sleep"),
    _control(
        _STEADY,
        "back-pressure",
        "a producer that sends more records than the brokers can take",
        rate="20000",
        threads="4",
        size="500",
        seconds="0",
        p_buffer_memory="65536",
        p_batch_size="1000",
        p_max_in_flight_requests_per_connection="1",
    ),
    replace(
        _control(_STEADY, "outage", "a producer with a broker that is killed and comes back", seconds="0"),
        broker="own",
        outage=Outage(after=20, seconds=15, how="kill"),
        not_by_pushes=_FALLS_SILENT,
    ),
    replace(
        _control(_STEADY, "hanging-broker", "a producer with a broker that hangs for 15 s", seconds="0"),
        broker="own",
        outage=Outage(after=20, seconds=15),
        not_by_pushes=_FALLS_SILENT,
    ),
    replace(
        _control(
            _HEALTHY,
            "restless",
            "clients of one broker that is restarted again and again; a second consumer joins and leaves the group",
            second_every="40",
        ),
        broker="own",
        outage=Outage(after=60, seconds=1, how="stop", every=120),
    ),
    _ROLLED,
    replace(
        _ROLLED,
        name="rolled-3.9",
        help=f"{_ROLLED.help}, with kafka-clients 3.9",
        classpath="clients-3.9",
        not_by_pushes=_FALLS_SILENT,
    ),
    replace(_ROLLED, name="rolled-2.3", help=f"{_ROLLED.help}, with kafka-clients 2.3", classpath="clients-2.3"),
    replace(
        _control(
            _STEADY, "rolled-0.11", f"{_ROLLED_CLUSTER}, with a producer 0.11", seconds="0", rate="10", p_acks="all"
        ),
        broker="cluster",
        classpath="clients-0.11",
    ),
    replace(
        _GROUPS,
        name="rolled-groups",
        default=False,
        help=f"control: members of a KIP-848 group, a Streams group and a share group; {_ROLLED_CLUSTER}",
        broker="cluster",
        options={**_GROUPS.options, "waits": "true", "rate": "10"},
    ),
    replace(
        _control(_GROUPS, "kip848-fenced", "a member that is frozen until its group removes it", kinds="consumer"),
        outage=Outage(after=30, seconds=60, how="freeze"),
    ),
    *(_rolled_python(library, service) for library, service in _PYTHON.items()),
    _control(_HEALTHY, "slow-consumer", "a handler that needs 40 ms for each record", handle_ms="40"),
    replace(
        _control(
            _CROSS_TOPIC, "connector-per-topic", "a Scala consumer with a connector per topic", connectors="per-topic"
        ),
        measurements=("queue",),
    ),
    replace(
        _control(_CROSS_TOPIC, "idle-topics", "an old Scala consumer with two idle topics", slow_after="-1"),
        topics=("trades",),
    ),
    _control(_LOOP, "legacy-clean", "an old Scala consumer that ends as it should", end="clean"),
)
_FAILING = (
    _DEADLOCK,
    _DEADLOCK_41,
    _DEADLOCK_011,
    _SEND_IN_CALLBACK,
    _BLOCKED,
    _NO_PARTITION,
    _NO_CLUSTER,
    _NOT_CLOSED,
    _BURST,
    _KILLED,
    _FORCED,
    _CROSS_TOPIC,
    _SLOW_LOOP,
    _LOOP,
    _LEFT_BEHIND,
    _STALLED,
    _SWALLOWED,
    _LEADERLESS,
    _HANGING,
    _CIRCLING,
    _KIP848,
    _STREAMS,
    _SHARE,
)

CLIENTS: dict[str, DemoClient] = {client.name: client for client in (_HEALTHY, _GROUPS, *_FAILING, *_CONTROLS)}
