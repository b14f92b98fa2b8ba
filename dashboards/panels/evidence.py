"""Panels on the deciding evidence of failure modes, from series of unhealthy clients and some peers."""

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

#: Number of healthy clients of a service that are drawn for comparison.
_BEST = 4
#: Maximum rows of the table of undelivered records.
_LEFT_ROWS = 100
_BY_SERVICE = listed((*KEPT, "service"))


def _beside_best(metric: str, among: str, pick: str = "topk") -> list[Query]:
    """Return queries for the worst clients and, as dashed lines, for the healthiest clients of their service."""
    best = f"{'min' if pick == 'topk' else 'max'} by ({_BY_SERVICE}) ({metric}{{{OF_SERVICE}}})"
    return [
        Query(worst_clients(metric, among, pick=pick, most=WORST - _BEST), LEGEND),
        Query(worst(best, _BY_SERVICE, _BEST, pick), f"best of {{{{service}}}} {NAMED_KEPT}", limit=True),
    ]


def selects(width: int = 12, among: str = "") -> Panel:
    return chart(
        140,
        "Selects per second",
        "How often I/O threads go back to their selector, the slowest first; dashed the liveliest producer of the same "
        "service. 0 while the buffer fills is bad, and the proof: the thread is stuck. A living one comes back within "
        f"request.timeout.ms. What to do: take two thread dumps, ten seconds apart. Alert: of {CALLBACK_DEADLOCK}.",
        _beside_best("kafka_client_producer_select_rate", among, pick="bottomk"),
        "ops",
        width=width,
        links=to_client("producers"),
    )


def undelivered(width: int = 12, among: str = "") -> Panel:
    return chart(
        141,
        "Oldest undelivered batch",
        "For how long nothing was delivered while records waited; dashed the best of the same service. Rising is bad: "
        "at delivery.timeout.ms (2 min by default) records are given up. What to do: open the way to the brokers that "
        f"the verdict names. Alert: of {DELIVERY_STALLED}.",
        _beside_best("kafka_client_producer_undelivered_age_seconds", among),
        CLOCK,
        width=width,
        links=to_client("producers"),
    )


def metadata_age(width: int = 12, among: str = "") -> Panel:
    return chart(
        142,
        "Age of the metadata",
        "Time since producers last got metadata; dashed the freshest of the same service. Beyond metadata.max.age.ms "
        "(5 min by default) is bad: no broker answers, and send() waits for it. What to do: see whether the bootstrap "
        f"address answers and the topic exists. Alert: of {SEND_BLOCKED}.",
        _beside_best("kafka_client_producer_metadata_age_seconds", among),
        CLOCK,
        width=width,
        links=to_client("producers"),
    )


def metadata_waiting(width: int = 12, among: str = "") -> Panel:
    return chart(
        143,
        "Callers waiting for metadata",
        "Threads that a dump found in send(), waiting for metadata: the most since the failure began. Any is bad: each "
        "call holds its thread for up to max.block.ms and then fails. Empty where no dump was read: the log tells "
        f"instead. What to do: look at the cause that the verdict names. Alert: of {SEND_BLOCKED}.",
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
        "What producers that have ended still held when they were last heard of: the most that they can have lost, of "
        "those that held most. Any is bad. What to do: send it again if its source allows it, and close the producer "
        f"at every way out of the process. Alert: of {NOT_CLOSED}.",
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
        "Time since consumers sent their group a heartbeat; dashed the best of the same service. Beyond "
        "session.timeout.ms (45 s by default) is bad: the member is thrown out. Heartbeats that go on beside polls "
        "that do not are a handler that hangs; both rising is a client that has left its group. What to do: two thread "
        f"dumps, ten seconds apart. Alert: of {CONSUMER_STALLED}.",
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
        "Records per second that consumers of several topics get from each of them, the slowest. One topic that goes "
        "on, or has a full queue, beside others at 0 is bad: its handler holds them up. What to do: look at the "
        f"handler of that topic. Alert: of {CROSS_TOPIC}.",
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
