"""The dashboard "consumers and lag": groups that fall behind, and topics that delay other topics."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth_exporters.prometheus.limits import LIMITS
from dashboards.look import WARNING
from dashboards.page import Page, Section
from dashboards.panel import AGE, Panel, number
from dashboards.panels import groups
from dashboards.panels import measurements as measured
from dashboards.scope import BY_CLIENT, CLIENT_VARIABLES, GROUP_VARIABLES, OF_CLIENT


def page() -> Page:
    return Page(
        name="consumers",
        title="Kafka clients: consumers and lag",
        description="Consumer groups and how far they are behind; consumers, their topic queues and their polling.",
        variables=(*CLIENT_VARIABLES, *GROUP_VARIABLES),
        sections=(
            Section("Now", _strip()),
            Section(
                "Groups (choose by group and topic)",
                (
                    groups.states(),
                    groups.lag_seconds(),
                    groups.lag_records(),
                    groups.lag_by_topic(),
                    groups.records_in_and_out(),
                    groups.retention(),
                    measured.last_seen({"consumer", "legacy-consumer"}),
                ),
            ),
            Section(
                "Consumers (choose by client)",
                (
                    measured.topic_queues(width=24),
                    measured.last_poll(),
                    measured.poll_idle(),
                    measured.rebalances(),
                    measured.coordinator_time(),
                    measured.throttled("consumer"),
                    measured.throughput("consumer"),
                    measured.connections("consumer"),
                    measured.refused("consumer"),
                ),
            ),
            Section("Versions", (measured.versions(6, "consumer"),)),
            Section("Partitions", (groups.partitions(),), collapsed=True),
        ),
    )


def _strip() -> Sequence[Panel]:
    return (
        number(
            1,
            "Consumers",
            "Number of consumers in the exporter's metrics. It is bad if you run more consumers than the metrics "
            'contain: the rest are not monitored. With client_series = "unhealthy", a difference is normal, because '
            "the metrics contain only unhealthy consumers. Alert: KafkaClientHealthInputSilent fires if an input "
            "topic receives no data.",
            f'count(max by ({BY_CLIENT}) (kafka_client_info{{kind=~"consumer|legacy-consumer", {OF_CLIENT}}}))',
            "none",
            nothing="no consumers",
        ),
        groups.in_trouble(),
        groups.largest_lag_seconds(),
        groups.largest_lag_records(),
        number(
            2,
            "Fullest topic queue",
            "Fill level of the fullest queue, as a share of the queue's size. A consumer may have a queue for each of "
            "its topics. High is bad: the topic's handler does not keep up. What to do: find the consumer in the panel "
            "'Queue per topic'. Alert: KafkaClientTopicQueueSaturated.",
            f'max(kafka_client_consumer_queue_used_ratio{{{OF_CLIENT}, topic=~"$topic"}})',
            "percentunit",
            above={LIMITS.queue_used_ratio: WARNING},
            nothing="not known",
        ),
        number(
            3,
            "Longest without poll()",
            "The longest time since a consumer last called poll(). High is bad: after max.poll.interval.ms the "
            "consumer loses its partitions. What to do: take a thread dump. No alert on this value.",
            f"max(kafka_client_consumer_last_poll_age_seconds{{{OF_CLIENT}}})",
            AGE,
            nothing="not known",
        ),
    )
