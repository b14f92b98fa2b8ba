"""The dashboard "producers": buffers, callbacks, I/O threads, and brokers."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth_exporters.prometheus.limits import LIMITS
from dashboards.look import CRITICAL, WARNING
from dashboards.page import Page, Section
from dashboards.panel import Panel, number
from dashboards.panels import measurements as measured
from dashboards.scope import BY_CLIENT, CLIENT_VARIABLES, OF_CLIENT


def page() -> Page:
    return Page(
        name="producers",
        title="Kafka clients: producers",
        description="Buffers, callbacks and I/O threads of producers, the worst first.",
        variables=CLIENT_VARIABLES,
        sections=(
            Section("Now", _strip()),
            Section(
                "Buffer",
                (
                    measured.buffer_used(),
                    measured.buffer_bytes(),
                    measured.seconds_to_full(),
                    measured.waiting_threads(),
                    measured.records_failed(),
                    measured.queue_time(),
                    measured.batch_size(),
                    measured.compression(),
                    measured.throughput("producer"),
                ),
            ),
            Section("Callbacks and I/O thread", (measured.callback_time(), measured.io_busy())),
            Section(
                "Brokers",
                (
                    measured.request_latency(),
                    measured.latency_by_broker(),
                    measured.connections("producer"),
                    measured.refused("producer"),
                    measured.throttled("producer"),
                    measured.last_seen({"producer"}),
                ),
            ),
            Section("Versions", (measured.versions(6, "producer"),)),
        ),
    )


def _strip() -> Sequence[Panel]:
    return (
        number(
            1,
            "Producers",
            "Number of producers in the exporter's metrics. It is bad if you run more producers than the metrics "
            'contain: the rest are not monitored. With client_series = "unhealthy", a difference is normal, because '
            "the metrics contain only unhealthy producers. Alert: KafkaClientHealthInputSilent fires if an input "
            "topic receives no data.",
            f'count(max by ({BY_CLIENT}) (kafka_client_info{{kind="producer", {OF_CLIENT}}}))',
            "none",
            nothing="no producers",
            width=4,
        ),
        number(
            2,
            "Fullest buffer",
            "Used part of the fullest buffer, as a share of buffer.memory. High is bad: at 100 %, send() blocks. What "
            "to do: find the producer in the panel 'Buffer used'. Alert: KafkaClientBufferNearlyExhausted.",
            f"max(kafka_client_producer_buffer_used_ratio{{{OF_CLIENT}}})",
            "percentunit",
            above={LIMITS.buffer_used_ratio: WARNING, LIMITS.buffer_full_ratio: CRITICAL},
            nothing="not known",
            width=5,
        ),
        number(
            3,
            "Threads waiting in send()",
            "Number of application threads that wait in send() because a buffer is full. A thread that keeps waiting "
            "is bad. What to do: take a thread dump of the process. Alert: KafkaClientBufferNearlyExhausted.",
            f"sum(max by ({BY_CLIENT}) (kafka_client_producer_waiting_threads{{{OF_CLIENT}}}))",
            "none",
            nothing="not known",
            width=5,
        ),
        number(
            4,
            "Slowest callbacks",
            "Average duration of a callback, for the slowest producer. High is bad, because the producer sends "
            "nothing while a callback runs. What to do: hand the callbacks' work to another thread. Alert: "
            "KafkaClientCallbacksSlow.",
            f'max(kafka_client_producer_callback_seconds{{stat="avg", {OF_CLIENT}}})',
            "s",
            above={LIMITS.callback_seconds: WARNING},
            nothing="not known",
            width=5,
        ),
        number(
            5,
            "Busiest I/O thread",
            "The largest share of time that an I/O thread spends outside its selector. High is bad: a "
            "callback holds the thread up. What to do: take a thread dump. Alert: KafkaClientCallbacksSlow.",
            f"max(kafka_client_producer_io_thread_busy_ratio{{{OF_CLIENT}}})",
            "percentunit",
            above={LIMITS.io_thread_busy_ratio: WARNING},
            nothing="not known",
            width=5,
        ),
    )
