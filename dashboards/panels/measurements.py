"""Panels of clients' measurements."""

from __future__ import annotations

from collections.abc import Iterable

from clienthealth.configuration.installation import KEPT, listed
from clienthealth.modes.consumer_stalled.rules import ID as CONSUMER_STALLED
from clienthealth.modes.delivery_stalled.rules import ID as DELIVERY_STALLED
from clienthealth.modes.send_blocked_on_metadata.rules import ID as SEND_BLOCKED
from clienthealth_exporters.prometheus.limits import LIMITS
from dashboards.look import CRITICAL, GOOD, NEUTRAL, WARNING, words
from dashboards.panel import CLOCK, NONE, Panel, Query, chart, rows, timeline
from dashboards.scope import (
    BY_CLIENT,
    BY_SHARD,
    LEGEND,
    NAMED_KEPT,
    OF_CLIENT,
    OF_SERVICE,
    WORST,
    ever,
    to_client,
    worst,
)


def worst_clients(
    metric: str, among: str, matchers: str = "", by: str = BY_CLIENT, pick: str = "topk", most: int = WORST
) -> str:
    """Return a query for the clients with the worst values of a metric.

    `among`: query for the clients that may be selected; '' for all clients. `by`: labels that identify a series.
    `pick`: topk if large values are bad, bottomk if small values are bad.
    """
    scope = f"{matchers}, {OF_CLIENT}" if matchers else OF_CLIENT
    return worst(f"{metric}{{{scope}}}", by, most, pick, among=among)


def _of(kinds: Iterable[str]) -> str:
    return f'kafka_client_info{{kind=~"{"|".join(sorted(kinds))}", {OF_CLIENT}}}'


def reporting(kinds: Iterable[str], width: int = 24, among: str = "") -> Panel:
    return timeline(
        100,
        "Is it reporting",
        f"Whether clients report (at most {WORST} clients, gone clients first). A client that has gone is no longer "
        "judged, and may have lost the records in its buffer. What to do: check whether the client's process runs. "
        "Alert: the alert on the failure mode of this dashboard.",
        Query(
            worst(f"kafka_client_up{{{OF_CLIENT}}}", BY_CLIENT, pick="bottomk", among=among or ever(_of(kinds))), LEGEND
        ),
        words({0: ("gone", NEUTRAL), 1: ("reporting", GOOD)}),
        width=width,
        links=to_client("overview"),
    )


def last_seen(kinds: Iterable[str], width: int = 12, among: str = "") -> Panel:
    seen = f"kafka_client_last_seen_timestamp_seconds{{{OF_CLIENT}}}"
    silent = worst(
        seen,
        BY_CLIENT,
        # Rank clients by the number of the query's time steps in which no new data arrived. A ranking by the age of the
        # data takes Prometheus much longer.
        ranked=" - ".join(f"{count}({seen}[$__range:$__interval] @ end())" for count in ("count_over_time", "changes")),
        among=among or ever(_of(kinds)),
    )
    return chart(
        101,
        "Time since its last data",
        "Time since the newest data of a client. High is bad: the client or its reporter has stopped. A time up to the "
        "client's reporting interval is normal. What to do: check whether the process runs, then whether its metrics "
        "reach the monitor's input topic. Alert: KafkaClientHealthInputSilent fires if no client reports.",
        [Query(f"time() - {silent}", LEGEND)],
        CLOCK,
        width=width,
        links=to_client("overview"),
    )


def buffer_used(width: int = 12, among: str = "") -> Panel:
    return chart(
        110,
        "Buffer used",
        "Used share of the producer's buffer. High is bad: when the buffer is full, send() blocks for max.block.ms "
        "and fails. What to do: find out whether records leave too slowly or come too fast. Alert: "
        "KafkaClientBufferNearlyExhausted.",
        [Query(worst_clients("kafka_client_producer_buffer_used_ratio", among), LEGEND)],
        "percentunit",
        above={LIMITS.buffer_used_ratio: WARNING, LIMITS.buffer_full_ratio: CRITICAL},
        ceiling=1,
        width=width,
        links=to_client("producers"),
    )


def buffer_bytes(width: int = 12, among: str = "") -> Panel:
    return chart(
        111,
        "Free bytes and size of the buffer",
        "Free bytes of the fullest buffers. Dashed: the smallest buffer.memory of all chosen producers. Near 0 is bad. "
        "A buffer that is always nearly full is too small. Alert: KafkaClientBufferNearlyExhausted.",
        [
            Query(
                worst_clients("kafka_client_producer_buffer_available_bytes", among, pick="bottomk", most=WORST - 1),
                LEGEND,
            ),
            Query(
                f"min(kafka_client_producer_buffer_total_bytes{{{OF_CLIENT}}})", "smallest buffer.memory", dashed=True
            ),
        ],
        "bytes",
        width=width,
        links=to_client("producers"),
    )


def seconds_to_full(width: int = 12, among: str = "") -> Panel:
    return chart(
        112,
        "Time until the buffer is full",
        "Time until the buffer is full if it fills at the present speed, shown only while it fills. A short time is "
        "bad: below the dashed line, the buffer is full in ten minutes or less, and then send() blocks. What to do: "
        "check brokers, network and callbacks. Alert: KafkaClientBufferNearlyExhausted.",
        [Query(worst_clients("kafka_client_producer_buffer_seconds_to_full", among, pick="bottomk"), LEGEND)],
        CLOCK,
        nothing=NONE,
        above={LIMITS.buffer_seconds_to_full: WARNING},
        width=width,
        links=to_client("producers"),
    )


def waiting_threads(width: int = 12, among: str = "") -> Panel:
    return chart(
        113,
        "Threads waiting in send()",
        "Threads that wait in send() because the buffer has no room. Any waiting thread is bad: the application cannot "
        "continue in this thread. What to do: take a thread dump, which shows the callers of send(). Alert: "
        "KafkaClientBufferNearlyExhausted.",
        [Query(worst_clients("kafka_client_producer_waiting_threads", among), LEGEND)],
        "none",
        width=width,
        links=to_client("producers"),
    )


def records_failed(width: int = 12, among: str = "") -> Panel:
    dropped = f"kafka_client_producer_buffer_exhausted_records_total{{{OF_CLIENT}}}"
    rate = f"rate({dropped}[$__rate_interval])"
    return chart(
        114,
        "Records given up, dropped, sent again",
        "Records per second. An empty chart is good. Given up: no broker acknowledged the records in time, or a broker "
        "refused them. Dropped: send() failed because the buffer was full (clients before 2.6 lack this metric). "
        "Records given up or dropped are lost unless the application sends them again. Sent again (dashed): normal "
        "while brokers restart, bad if it lasts. What to do: read the error in the client's log. Alerts: the alert on "
        f"{DELIVERY_STALLED} fires if no broker acknowledges records. KafkaClientBufferNearlyExhausted fires before "
        "records are dropped.",
        [
            Query(worst_clients("kafka_client_producer_record_error_rate", among, most=7), f"given up: {LEGEND}"),
            Query(worst(rate, BY_CLIENT, 6, among=among), f"dropped: {LEGEND}"),
            Query(
                worst_clients("kafka_client_producer_record_retry_rate", among, most=7),
                f"sent again: {LEGEND}",
                dashed=True,
            ),
        ],
        "recps",
        nothing=NONE,
        width=width,
        links=to_client("producers"),
    )


def batch_size(width: int = 12, among: str = "") -> Panel:
    return chart(
        115,
        "Batch size",
        "Average size of a producer's batches, the smallest first. Small batches at a high rate are bad: each costs "
        "the brokers as much work as a large one. What to do: raise linger.ms, or send to fewer partitions. No alert "
        "on this value.",
        [Query(worst_clients("kafka_client_producer_batch_size_bytes", among, pick="bottomk"), LEGEND)],
        "bytes",
        width=width,
        links=to_client("producers"),
    )


def compression(width: int = 12, among: str = "") -> Panel:
    return chart(
        116,
        "Compressed to",
        "Compressed size of batches as a share of their uncompressed size, the largest first. 100 % means no "
        "compression. Missing compression is bad if batches are large and contain text. What to do: set "
        "compression.type, or send larger batches, which compress better. No alert.",
        [Query(worst_clients("kafka_client_producer_compression_ratio", among), LEGEND)],
        "percentunit",
        ceiling=1,
        width=width,
        links=to_client("producers"),
    )


def callback_time(width: int = 12, among: str = "") -> Panel:
    return chart(
        120,
        "Callback time",
        "Duration of a callback, measured by the client or derived from its I/O thread. High is bad: while a callback "
        "runs on the producer's only I/O thread, nothing is sent. What to do: hand the callback's work to another "
        "thread. Alert on the average duration: KafkaClientCallbacksSlow.",
        [
            Query(
                worst_clients("kafka_client_producer_callback_seconds", among, by=f"{BY_CLIENT}, stat"),
                f"{LEGEND}, {{{{stat}}}}",
            )
        ],
        "s",
        above={LIMITS.callback_seconds: WARNING},
        width=width,
        links=to_client("producers"),
    )


def io_busy(width: int = 12, among: str = "") -> Panel:
    return chart(
        121,
        "I/O thread busy",
        "Share of time that the producer's I/O thread spends outside its selector. High is bad: callbacks delay "
        "sending. At 100 % while the buffer fills, a callback is stuck. What to do: take a thread dump. "
        "Alert: KafkaClientCallbacksSlow.",
        [Query(worst_clients("kafka_client_producer_io_thread_busy_ratio", among), LEGEND)],
        "percentunit",
        above={LIMITS.io_thread_busy_ratio: WARNING},
        ceiling=1,
        width=width,
        links=to_client("producers"),
    )


def queue_time(width: int = 12, among: str = "") -> Panel:
    return chart(
        122,
        "Time in the buffer",
        "Time that batches wait before they are sent. High is bad: brokers or the I/O thread are too slow. If "
        "linger.ms is high, too, the wait is intended. What to do: see the panels 'Request latency' and 'Callback "
        "time'. No alert on this value.",
        [
            Query(
                worst_clients("kafka_client_producer_queue_time_seconds", among, by=f"{BY_CLIENT}, stat"),
                f"{LEGEND}, {{{{stat}}}}",
            )
        ],
        "s",
        width=width,
        links=to_client("producers"),
    )


def request_latency(width: int = 12, among: str = "") -> Panel:
    return chart(
        123,
        "Request latency",
        "Time from a request to its response. High is bad: brokers or network are slow, and producers' buffers fill. "
        "What to do: look at the brokers before the client. No alert on this value.",
        [
            Query(
                worst_clients("kafka_client_producer_request_latency_seconds", among, by=f"{BY_CLIENT}, stat"),
                f"{LEGEND}, {{{{stat}}}}",
            )
        ],
        "s",
        width=width,
        links=to_client("producers"),
    )


def latency_by_broker(width: int = 12) -> Panel:
    by = listed((*KEPT, "broker"))
    return chart(
        124,
        "Slowest brokers",
        "For each broker, the largest average response time that a producer reports. Each producer reports only its "
        "slowest broker. High is bad: the broker, its disk or the network to it is slow. What to do: check that broker "
        "first. No alert on this value.",
        [
            Query(
                worst(f"max by ({by}) (kafka_client_producer_slowest_broker_latency_seconds{{{OF_CLIENT}}})", by),
                f"broker {{{{broker}}}} {NAMED_KEPT}",
            )
        ],
        "s",
        width=width,
    )


def throttled(kind: str, width: int = 12) -> Panel:
    throttle = worst(f"kafka_client_throttle_seconds{{{OF_CLIENT}}}", BY_CLIENT, among=ever(_of({kind})))
    return chart(
        125,
        "Held back by quotas",
        "Average time by which brokers delay responses because the client exceeds its quota. Empty is good. A delay "
        "that lasts is bad: buffers or lag grow. What to do: raise the quota, or find out which clients share it. No "
        "alert on this value.",
        [Query(throttle, LEGEND)],
        "s",
        nothing=NONE,
        width=width,
        links=to_client(f"{kind}s"),
    )


def throughput(kind: str, width: int = 12) -> Panel:
    series = {
        "producer": "kafka_client_producer_record_send_rate",
        "consumer": "kafka_client_consumer_records_consumed_rate",
    }[kind]
    rate = f"{series}{{{OF_CLIENT}}}"
    return chart(
        126,
        "Records sent" if kind == "producer" else "Records received",
        "Records per second of the busiest clients. A fall to 0 while there is work is bad: compare with the same "
        "hour of yesterday. What to do: see the client's verdict, and its buffer or lag. "
        + ("Alert: KafkaClientNothingSent." if kind == "producer" else "No alert on this value."),
        [Query(worst(rate, BY_CLIENT), LEGEND)],
        "recps",
        width=width,
        links=to_client(f"{kind}s"),
    )


def connections(kind: str, width: int = 12) -> Panel:
    connected = worst(f"kafka_client_connections{{{OF_CLIENT}}}", BY_CLIENT, pick="bottomk", among=ever(_of({kind})))
    return chart(
        127,
        "Connections to brokers",
        "Number of open connections of each client, the lowest first. If a client has no connection for a long "
        "time, that is bad: it reaches no broker, or no broker accepts its login. Clients may close idle connections "
        "after ten minutes. What to do: read in the client's log which address it tries, and why it fails. No alert on "
        "this value.",
        [Query(connected, LEGEND)],
        "none",
        width=width,
        links=to_client(f"{kind}s"),
    )


def refused(kind: str, width: int = 12) -> Panel:
    rate = f"60 * kafka_client_failed_authentication_rate{{{OF_CLIENT}}}"
    alert = f"The alert on {SEND_BLOCKED} fires if the client cannot send."
    return chart(
        128,
        "Authentications refused",
        "Failed authentications per minute, the most frequent first. Empty is good. Any failure is bad: the client's "
        "password, token or certificate is wrong or has expired. What to do: read the reason in the client's log. "
        + (alert if kind == "producer" else "No alert on this value."),
        [Query(worst(rate, BY_CLIENT, among=ever(_of({kind}))), LEGEND)],
        "short",
        nothing=NONE,
        width=width,
        links=to_client(f"{kind}s"),
    )


def versions(id_: int, kind: str) -> Panel:
    """Return a table of library versions: how many clients of this kind run, and which share is unhealthy."""
    by = listed((*KEPT, "library", "version"))

    def clients(statuses: str) -> str:
        chosen = f'kind="{kind}", {statuses}, {OF_SERVICE}'
        each = f"{BY_SHARD}, library, version, status"
        return f"sum by ({by}) (max by ({each}) (kafka_client_service_version_clients{{{chosen}}}))"

    all_, ill = clients('status!="gone"'), clients('status=~"suspected|confirmed"')
    return rows(
        id_,
        "Libraries and versions",
        f"Number of {kind}s by library and version, and the share of these {kind}s that have a suspected or "
        "confirmed failure. Versions with the largest share come first. If one version is worse than the others, "
        "check what changed in it. Old versions lack metrics that some verdicts need. No alert.",
        {
            f"{kind}s": (all_, "none"),
            "unhealthy": (
                f"({ill} or 0 * {all_})\n/\n{all_}",
                "percentunit",
            ),
        },
        largest="unhealthy",
        nothing=f"no {kind}s",
        height=6,
    )


def topic_queues(width: int = 12, among: str = "") -> Panel:
    return chart(
        130,
        "Queue per topic",
        "Used share of the queue between a client and one topic. High is bad: the topic's handler is too slow. If one "
        "queue is full while others are empty, it blocks the client's other topics. What to do: examine the handler "
        "of the topic with the full queue. Alert: KafkaClientTopicQueueSaturated.",
        [
            Query(
                worst_clients(
                    "kafka_client_consumer_queue_used_ratio", among, 'topic=~"$topic"', f"{BY_CLIENT}, topic"
                ),
                f"{{{{topic}}}}: {LEGEND}",
            )
        ],
        "percentunit",
        above={LIMITS.queue_used_ratio: WARNING},
        ceiling=1,
        width=width,
        links=to_client("consumers"),
    )


def last_poll(width: int = 12, among: str = "") -> Panel:
    return chart(
        131,
        "Time since the last poll()",
        "Time since a consumer last called poll(). High is bad: the consumer's handler takes long or hangs. After "
        "max.poll.interval.ms the consumer loses its partitions. What to do: take a thread dump and see what the "
        "polling thread does. No alert on this value.",
        [Query(worst_clients("kafka_client_consumer_last_poll_age_seconds", among), LEGEND)],
        CLOCK,
        width=width,
        links=to_client("consumers"),
    )


def poll_idle(width: int = 12, among: str = "") -> Panel:
    return chart(
        132,
        "Waiting for records",
        "Share of time that consumers wait in poll(), the smallest first. Near 0 is bad if the lag rises: the handler "
        "is the bottleneck. What to do: add consumers, or make the handler faster. No alert on this value.",
        [Query(worst_clients("kafka_client_consumer_poll_idle_ratio", among, pick="bottomk"), LEGEND)],
        "percentunit",
        ceiling=1,
        width=width,
        links=to_client("consumers"),
    )


def rebalances(width: int = 12, among: str = "") -> Panel:
    rate = worst(f"60 * kafka_client_consumer_rebalance_rate{{{OF_CLIENT}}}", BY_CLIENT)
    return chart(
        133,
        "Rebalances per minute",
        "Number of rebalances that a consumer takes part in, per minute. The consumers with the most rebalances are "
        "shown. A few rebalances are normal while members start or stop. Many rebalances are bad, because consumption "
        "pauses during each rebalance. What to do: see in the log which members join and leave. Compare the time "
        f"between polls with max.poll.interval.ms. If a member hangs, the alert on {CONSUMER_STALLED} fires.",
        [Query(rate, LEGEND)],
        "short",
        nothing=NONE,
        width=width,
        links=to_client("consumers"),
    )


def coordinator_time(width: int = 12, among: str = "") -> Panel:
    commits = worst_clients(
        "kafka_client_consumer_commit_latency_seconds", among, by=f"{BY_CLIENT}, stat", most=WORST // 2
    )
    return chart(
        134,
        "Time of commits and rebalances",
        "Duration of commits of offsets. Dashed: the longest recent rebalance. Long commits are bad: the group's "
        "coordinator or the network to it is slow. A rebalance lasts until the slowest member has rejoined the group. "
        "No alert on this value.",
        [
            Query(commits, f"commit: {LEGEND}, {{{{stat}}}}"),
            Query(
                worst_clients("kafka_client_consumer_rebalance_seconds", among, most=WORST // 2),
                f"rebalance: {LEGEND}",
                dashed=True,
            ),
        ],
        "s",
        width=width,
        links=to_client("consumers"),
    )
