"""One metric, many spellings: the table that maps every dialect's names onto ours, which are the Java client's.

Most dialects spell the Java name by a rule from its MBean group and attribute. So the table holds the attributes per
group once, and the rules beside it. Other libraries (librdkafka, the old Scala consumer, Metricbeat's renamed fields)
are listed name by name. Units are ours throughout (metrics.CLIENT_METRICS, TOPIC_METRICS); only librdkafka needs
conversion, its factors stand beside its names. Spark-free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS

#: MBean group (the key property `type`) of the Java client → the attributes that we read from it. From the client's
#: own registries (SenderMetricsRegistry, FetchMetricsRegistry, Selector, ConsumerCoordinator, KafkaConsumerMetrics).
JAVA: Mapping[str, tuple[str, ...]] = {
    "producer-metrics": (
        "select-total",
        "select-rate",
        "io-time-ns-total",
        "io-wait-time-ns-total",
        "io-wait-ratio",
        "io-ratio",
        "buffer-total-bytes",
        "buffer-available-bytes",
        "waiting-threads",
        "bufferpool-wait-ratio",
        "buffer-exhausted-total",
        "record-send-total",
        "record-send-rate",
        "record-retry-total",
        "record-error-total",
        "requests-in-flight",
        "connection-count",
        "connection-close-total",
        "failed-authentication-total",
        "metadata-age",
        "record-queue-time-avg",
        "record-queue-time-max",
        "request-latency-avg",
        "request-latency-max",
        "produce-throttle-time-avg",
        "batch-size-avg",
        "compression-rate-avg",
    ),
    "producer-topic-metrics": ("record-send-total", "record-send-rate", "record-error-total"),
    "producer-node-metrics": ("request-latency-avg", "request-latency-max"),
    "consumer-metrics": (
        "select-total",
        "last-poll-seconds-ago",
        "poll-idle-ratio-avg",
        "time-between-poll-max",
        "request-total",
        "response-total",
        "connection-count",
        "failed-authentication-total",
        "io-wait-time-ns-total",
    ),
    "consumer-fetch-manager-metrics": (
        "records-lag-max",
        "records-lag",
        "records-lead",
        "records-consumed-total",
        "records-consumed-rate",
        "fetch-total",
        "fetch-throttle-time-avg",
    ),
    "consumer-coordinator-metrics": (
        "assigned-partitions",
        "last-heartbeat-seconds-ago",
        "rebalance-total",
        "rebalance-latency-max",
        "commit-latency-avg",
        "commit-latency-max",
    ),
}

#: Names of older Java clients (1.0 to 3.x), same meaning and unit.
FORMERLY: Mapping[str, tuple[str, ...]] = {
    "io-time-ns-total": ("iotime-total",),
    "io-wait-time-ns-total": ("io-waittime-total",),
}

#: What producer and consumer both have, from the network layer that they share, whether we read it of both or not.
SHARED = frozenset(
    {
        "select-total",
        "select-rate",
        "io-time-ns-total",
        "io-wait-time-ns-total",
        "io-wait-ratio",
        "io-ratio",
        "request-total",
        "response-total",
        "connection-count",
        "connection-close-total",
        "failed-authentication-total",
        "request-latency-avg",
        "request-latency-max",
    }
)

#: MBeans of the Scala consumer (0.8 to 1.1): `type/name/attribute` → our name.
SCALA: Mapping[str, str] = {
    "ZookeeperConsumerConnector/FetchQueueSize/Value": "queue-chunks",
    "ConsumerFetcherManager/MaxLag/Value": "max-lag",
    "ConsumerTopicMetrics/MessagesPerSec/Count": "messages-total",
    "FetchRequestAndResponseMetrics/FetchRequestRateAndTimeMs/Count": "fetch-requests-total",
    "FetcherLagMetrics/ConsumerLag/Value": "records-lag",
}

#: Fields of Metricbeat's module `kafka` whose name is not that of the MBean attribute.
METRICBEAT: Mapping[str, str] = {
    "available_buffer_bytes": "buffer-available-bytes",
    "records_consumed": "records-consumed-total",
    "max_lag": "records-lag-max",
    "messages_in": "messages-total",
}

#: librdkafka's statistics: our name → where it stands there, and what to multiply it by to have our unit.
LIBRDKAFKA: Mapping[str, tuple[str, float]] = {
    "buffer-total-bytes": ("msg_size_max", 1),
    "buffer-available-bytes": ("msg_size_max - msg_size", 1),
    "queue-records": ("msg_cnt", 1),
    "queue-records-limit": ("msg_max", 1),
    "record-send-total": ("txmsgs", 1),
    "records-consumed-total": ("rxmsgs", 1),
    "reply-queue": ("replyq", 1),
    "metadata-age": ("min topics.*.metadata_age", 1e-3),
    "connection-count": ("count brokers.*.state = UP", 1),
    "requests-in-flight": ("sum brokers.*.waitresp_cnt", 1),
    "record-queue-time-avg": ("brokers.*.int_latency.avg", 1e-3),
    "record-queue-time-max": ("max brokers.*.int_latency.max", 1e-3),
    "request-latency-avg": ("brokers.*.rtt.avg", 1e-3),
    "request-latency-max": ("max brokers.*.rtt.max", 1e-3),
    "slowest-node": ("nodeid of the greatest brokers.*.rtt.avg", 1),
    "slowest-node-latency-avg": ("max brokers.*.rtt.avg", 1e-3),
    "produce-throttle-time-avg": ("brokers.*.throttle.avg", 1),
    "fetch-throttle-time-avg": ("brokers.*.throttle.avg", 1),
    "batch-size-avg": ("topics.*.batchsize.avg", 1),
    "assigned-partitions": ("cgrp.assignment_size", 1),
    "rebalance-total": ("cgrp.rebalance_cnt", 1),
    "records-lag-max": ("max consumer_lag of all partitions", 1),
}

#: The same for its partitions (`topics.*.partitions.*`).
LIBRDKAFKA_PARTITION: Mapping[str, str] = {
    "queue-records": "msgq_cnt + xmit_msgq_cnt (producer), fetchq_cnt (consumer)",
    "queue-bytes": "msgq_bytes + xmit_msgq_bytes (producer), fetchq_size (consumer)",
    "record-send-total": "txmsgs",
    "records-consumed-total": "rxmsgs",
    "records-lag": "consumer_lag",
    "position": "app_offset",
    "committed-offset": "committed_offset",
    "start-offset": "lo_offset",
    "end-offset": "hi_offset",
}


def kip714(group: str, name: str) -> str:
    """KIP-714 through a broker's plugin (OTLP): group without `-metrics`, dots for hyphens."""
    return f"org.apache.kafka.{group.removesuffix('-metrics')}.{name}".replace("-", ".")


def otel_agent(group: str, name: str) -> str:
    """The OpenTelemetry Java agent and its metrics reporter (OTLP): the kind, underscores for hyphens."""
    return f"kafka.{_kind(group)}.{name.replace('-', '_')}"


def micrometer(group: str, name: str) -> str:
    """Micrometer's KafkaClientMetrics as Prometheus writes them."""
    return f"kafka_{group.removesuffix('-metrics')}_{name}".replace("-", "_")


def jmx_exporter(group: str, name: str) -> str:
    """The JMX exporter by its default rules, and Confluent's kafka_client.yml."""
    return f"kafka_{_kind(group)}_{group}_{name}".replace("-", "_")


def jmx_exporter_1(group: str, name: str) -> str:
    """The JMX exporter since 1.0: `_total` is kept for counters, and it cannot know that an attribute is one."""
    return jmx_exporter(group, name).removesuffix("_total")


def attribute(group: str, name: str) -> str:
    """The MBean attribute as it is: Jolokia, Telegraf, jmxtrans, kafka-python."""
    return name


Rule = Callable[[str, str], str]

#: Title of a dialect → its rule.
RULES: Mapping[str, Rule] = {
    "MBean attribute (Jolokia, Telegraf, jmxtrans, kafka-python)": attribute,
    "KIP-714 (OTLP)": kip714,
    "OpenTelemetry Java agent (OTLP)": otel_agent,
    "Micrometer (Prometheus)": micrometer,
    "JMX exporter (Prometheus)": jmx_exporter,
    "JMX exporter since 1.0": jmx_exporter_1,
}


def spellings(*rules: Rule) -> dict[str, str]:
    """Every name that the rules give, older names of the Java client included → our name."""
    return {
        rule(group, spelled): name
        for group, names in JAVA.items()
        for name in names
        for spelled in (name, *FORMERLY.get(name, ()))
        for rule in rules
    }


def mbeans() -> dict[str, str]:
    """`type/attribute` of the Java client and `type/name/attribute` of the Scala consumer → our name."""
    return {**spellings(lambda group, name: f"{group}/{name}"), **SCALA}


def kinds() -> dict[str, str]:
    """MBean type → the kind of client that has it."""
    return {
        **{group: _kind(group) for group in JAVA},
        **{key.split("/")[0]: "legacy-consumer" for key in SCALA},
    }


def telling() -> dict[str, str]:
    """Attribute → kind, of the attributes by which a Java client shows its kind."""
    return {name: _kind(group) for group, names in JAVA.items() for name in names if name not in SHARED}


def _kind(group: str) -> str:
    return group.split("-")[0]


def table() -> str:
    """All names as a Markdown table: ours, the unit, and the spelling of each dialect."""
    header = ["Our name", "Unit", "Of each", *RULES, "librdkafka statistics", "Scala consumer (MBean)", "Metricbeat"]
    clients = {name: unit for metrics in CLIENT_METRICS.values() for name, unit in metrics.items()}
    rows = [_row(name, unit, "client") for name, unit in clients.items()]
    rows += [_row(name, unit, "topic, partition or thread") for name, unit in TOPIC_METRICS.items()]
    return "".join("| " + " | ".join(row) + " |\n" for row in (header, ["---"] * len(header), *rows))


#: MBean groups whose attributes belong to a topic or a partition, alone or besides the client itself.
_OF_TOPICS = ("producer-topic-metrics", "consumer-fetch-manager-metrics")


def _row(name: str, unit: str, of_each: str) -> list[str]:
    client = of_each == "client"
    groups = [g for g, names in JAVA.items() if name in names and (g != _OF_TOPICS[0] if client else g in _OF_TOPICS)]
    spelled = (name, *FORMERLY.get(name, ()))
    field, factor = LIBRDKAFKA.get(name, ("", 1)) if client else (LIBRDKAFKA_PARTITION.get(name, ""), 1)
    return [
        f"`{name}`",
        unit,
        of_each,
        *(_codes(rule(group, one) for group in groups for one in spelled) for rule in RULES.values()),
        _codes([field]) + (f" × {factor:g}" if factor != 1 else ""),
        _codes(mbean for mbean, ours in SCALA.items() if ours == name),
        _codes(field for field, ours in METRICBEAT.items() if ours == name and client),
    ]


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in dict.fromkeys(texts) if text)


_NEXT = re.compile(r", ([a-zA-Z][\w-]*)=")


def separated(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, each with its own value alone.

    A greedy group in a pattern of the exporter, `client-id=(.+)><>`, takes the properties behind it along: `orders,
    node-id=node-1` would be a client of its own. Each becomes a label (`node_id`), unless there is one of its name.
    """
    apart = dict(labels)
    for name, value in labels.items():
        if ", " in value and not value.startswith('"'):
            apart[name], *behind = _NEXT.split(value)
            for key, of_key in zip(behind[::2], behind[1::2], strict=True):
                apart.setdefault(key.replace("-", "_"), of_key)
    return apart
