"""Translate the names of metrics in other tools and libraries to the Java client's names, which the monitor uses.

Functions derive most names from the Java client's MBean group and attribute. `metrics.toml` lists names that no
function derives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from clienthealth.model.metrics import SPELLINGS

#: The attributes that are read from each MBean group (`type`) of the Java client.
JAVA: Mapping[str, Sequence[str]] = SPELLINGS["java"]
#: Maps our name of a metric to the metric's names in older Java clients. The unit is the same under each name.
FORMERLY: Mapping[str, Sequence[str]] = SPELLINGS["formerly"]
SHARED: frozenset[str] = frozenset(SPELLINGS["shared"])
SCALA: Mapping[str, str] = SPELLINGS["scala"]
METRICBEAT: Mapping[str, str] = SPELLINGS["metricbeat"]
#: Maps our name of a metric to (path, factor). The path leads to the value in librdkafka's statistics. The factor
#: converts the value to our unit.
LIBRDKAFKA: Mapping[str, tuple[str, float]] = SPELLINGS["librdkafka"]
#: Maps our name of a partition's metric to its path in the statistics that librdkafka reports for the partition.
LIBRDKAFKA_PARTITION: Mapping[str, str] = SPELLINGS["librdkafka_partition"]


def kip714(group: str, name: str) -> str:
    """Return a metric's name in KIP-714 pushes (OTLP), such as `org.apache.kafka.producer.record.send.total`.

    `group`, `name`: MBean group and attribute, such as producer-metrics and record-send-total.
    """
    return f"org.apache.kafka.{group.removesuffix('-metrics')}.{name}".replace("-", ".")


def otel_agent(group: str, name: str) -> str:
    """Return the name that OpenTelemetry's Java agent gives a metric, such as `kafka.producer.record_send_total`."""
    return f"kafka.{_kind(group)}.{name.replace('-', '_')}"


def micrometer(group: str, name: str) -> str:
    """Return the name of a metric in Micrometer (KafkaClientMetrics), such as `kafka_producer_record_send_total`."""
    return f"kafka_{group.removesuffix('-metrics')}_{name}".replace("-", "_")


def jmx_exporter(group: str, name: str) -> str:
    """Return a metric's name in the JMX exporter, such as `kafka_producer_producer_metrics_record_send_total`."""
    return f"kafka_{_kind(group)}_{group}_{name}".replace("-", "_")


def jmx_exporter_1(group: str, name: str) -> str:
    """Return a metric's name in the JMX exporter 1.0 and newer. These versions leave out a final `_total`."""
    return jmx_exporter(group, name).removesuffix("_total")


def attribute(group: str, name: str) -> str:
    """Return the MBean attribute, which Jolokia, Telegraf, jmxtrans and kafka-python use as the metric's name."""
    return name


#: A function that takes an MBean group and an attribute, and returns the name of the metric in a tool.
Rule = Callable[[str, str], str]


def spellings(*rules: Rule) -> dict[str, str]:
    """Map all spellings of the Java client's metrics to our names. Apply each rule to current and former names."""
    return {
        rule(group, spelled): name
        for group, names in JAVA.items()
        for name in names
        for spelled in (name, *FORMERLY.get(name, ()))
        for rule in rules
    }


def mbeans() -> dict[str, str]:
    """Map `type/attribute` (Java client) and `type/name/attribute` (Scala consumer) of MBeans to our names."""
    return {**spellings(lambda group, name: f"{group}/{name}"), **SCALA}


def kinds() -> dict[str, str]:
    """Return a map from an MBean's `type` to the kind of client: producer, consumer or legacy-consumer."""
    return {**{group: _kind(group) for group in JAVA}, **{key.split("/")[0]: "legacy-consumer" for key in SCALA}}


def telling() -> dict[str, str]:
    """Map each MBean attribute that exists in only one kind of Java client to this kind."""
    return {name: _kind(group) for group, names in JAVA.items() for name in names if name not in SHARED}


def _kind(group: str) -> str:
    return group.split("-")[0]


_NEXT = re.compile(r", ([a-zA-Z][\w-]*)=")


def separated(labels: Mapping[str, str]) -> dict[str, str]:
    """Move MBean properties out of a label's value, into labels of their own.

    A greedy pattern of the JMX exporter, `client-id=(.+)><>`, gives `orders, node-id=node-1`. The value becomes
    `orders`, and a new label `node_id` gets the value `node-1`.
    """
    apart = dict(labels)
    for name, value in labels.items():
        if ", " in value and not value.startswith('"'):
            apart[name], *behind = _NEXT.split(value)
            for key, of_key in zip(behind[::2], behind[1::2], strict=True):
                apart.setdefault(key.replace("-", "_"), of_key)
    return apart
