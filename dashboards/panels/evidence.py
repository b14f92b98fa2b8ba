"""Panels with the metrics that decide whether a client has a failure mode."""

from __future__ import annotations

from clienthealth.configuration.installation import KEPT, listed
from clienthealth.modes.consumer_stalled.rules import ID as CONSUMER_STALLED
from clienthealth.modes.cross_topic_blocking.rules import ID as CROSS_TOPIC
from clienthealth.modes.delivery_stalled.rules import ID as DELIVERY_STALLED
from clienthealth.modes.producer_callback_deadlock.rules import ID as CALLBACK_DEADLOCK
from clienthealth.modes.producer_not_closed.rules import ID as NOT_CLOSED
from clienthealth.modes.send_blocked_on_metadata.rules import ID as SEND_BLOCKED
from dashboards.panel import CLOCK, Panel, Query, chart, rows
from dashboards.panels.measurements import worst_clients
from dashboards.scope import BY_CLIENT, LEGEND, NAMED_KEPT, OF_CLIENT, OF_SERVICE, WORST, to_client, worst

_BEST = 4
_LEFT_ROWS = 100
_BY_SERVICE = listed((*KEPT, "service"))


def _beside_best(metric: str, among: str, pick: str = "topk") -> list[Query]:
    """Return two queries on `metric`: for the clients with the worst values, and for the best clients of services.

    The second query compares services by the value of each service's best client. The query selects at
    most `_BEST` services: the best clients of these services have worse values than the best clients of all others.
    """
    best = f"{'min' if pick == 'topk' else 'max'} by ({_BY_SERVICE}) ({metric}{{{OF_SERVICE}}})"
    return [
        Query(worst_clients(metric, among, pick=pick, most=WORST - _BEST), LEGEND),
        Query(worst(best, _BY_SERVICE, _BEST, pick), f"best of {{{{service}}}} {NAMED_KEPT}", dashed=True),
    ]


def selects(width: int = 12, among: str = "") -> Panel:
    return chart(
        140,
        "Selects per second",
        "How often I/O threads return to their selector, the slowest first. Dashed: the fastest producer of the same "
        "service. A rate of 0 while the buffer fills is bad: it proves that the I/O thread is stuck. A healthy thread "
        "returns within request.timeout.ms. What to do: take two thread dumps, ten seconds apart. Alert for "
        f"{CALLBACK_DEADLOCK}.",
        _beside_best("kafka_client_producer_select_rate", among, pick="bottomk"),
        "ops",
        width=width,
        links=to_client("producers"),
    )


def undelivered(width: int = 12, among: str = "") -> Panel:
    return chart(
        141,
        "Oldest undelivered batch",
        "Time for which records have waited without any delivery. Dashed: the best producer of the same service. A "
        "rise is bad: after delivery.timeout.ms (2 min by default) the producer gives up the waiting records. What to "
        f"do: restore the connection to the brokers that the verdict names. Alert for {DELIVERY_STALLED}.",
        _beside_best("kafka_client_producer_undelivered_age_seconds", among),
        CLOCK,
        width=width,
        links=to_client("producers"),
    )


def metadata_age(width: int = 12, among: str = "") -> Panel:
    return chart(
        142,
        "Age of the metadata",
        "Time since producers last received metadata. Dashed: the best producer of the same service. More than "
        "metadata.max.age.ms (5 min by default) is bad: no broker answers, and send() may wait for metadata. What to "
        f"do: check whether the bootstrap address answers and the topic exists. Alert for {SEND_BLOCKED}.",
        _beside_best("kafka_client_producer_metadata_age_seconds", among),
        CLOCK,
        width=width,
        links=to_client("producers"),
    )


def metadata_waiting(width: int = 12, among: str = "") -> Panel:
    return chart(
        143,
        "Callers waiting for metadata",
        "Highest number of threads that wait for metadata in send(), in any thread dump since the failure began. Any "
        "thread that waits for metadata is bad: the thread is blocked for up to max.block.ms, and then send() fails. "
        "Without a dump the panel is empty. What to do: remove the cause that the verdict names. Alert for "
        f"{SEND_BLOCKED}.",
        [Query(worst_clients("kafka_client_producer_metadata_waiting_threads", among), LEGEND)],
        "none",
        width=width,
        links=to_client("producers"),
    )


def left_at_end(width: int = 24, among: str = "") -> Panel:
    def most(unit: str) -> str:
        left = f"max_over_time(kafka_client_producer_left_at_end_{unit}{{{OF_CLIENT}}}[$__range])"
        shown = f"{left} and on ({BY_CLIENT}) ({among})" if among else left
        return f"topk({_LEFT_ROWS}, max by ({BY_CLIENT}) ({shown}))"

    return rows(
        146,
        "Left undelivered at the end",
        "Number of undelivered records in the last sample of each producer that has ended. Any undelivered record is "
        "bad, because it may be lost. What to do: send the records again if their source allows it, and close the "
        f"producer on every path that ends the process. Alert for {NOT_CLOSED}.",
        {"bytes": (most("bytes"), "bytes"), "records": (most("records"), "short")},
        hidden=("host",),
        largest="bytes",
        nothing="none",
        width=width,
        height=10,
        links=to_client("overview", "__data.fields"),
    )


def last_heartbeat(width: int = 12, among: str = "") -> Panel:
    return chart(
        144,
        "Time since the last heartbeat",
        "Time since the last heartbeat of consumers to their group. Dashed: the best consumer of the same service. "
        "More than session.timeout.ms (45 s by default) is bad: the coordinator removes the member. If heartbeats "
        "continue without polls, the handler hangs. What to do: take two thread dumps, ten seconds apart. Alert for "
        f"{CONSUMER_STALLED}.",
        _beside_best("kafka_client_consumer_last_heartbeat_age_seconds", among),
        CLOCK,
        width=width,
        links=to_client("consumers"),
    )


def topic_fetches(width: int = 12, among: str = "") -> Panel:
    by = f"{BY_CLIENT}, topic"
    return chart(
        145,
        "Records per topic",
        "Records per second that a consumer reads from each of its topics, if the consumer has several topics. The "
        "slowest topics come first. A rate of 0 is bad if records wait on the topic while the consumer reads "
        "another topic, or while another topic's queue is full. The handler of the other topic then blocks the topic "
        f"with the rate 0. What to do: examine the handler that blocks. Alert for {CROSS_TOPIC}.",
        [
            Query(
                worst_clients(
                    "kafka_client_consumer_topic_records_consumed_rate", among, 'topic=~"$topic"', by, pick="bottomk"
                ),
                f"{{{{topic}}}}: {LEGEND}",
            )
        ],
        "recps",
        width=width,
        links=to_client("consumers"),
    )
