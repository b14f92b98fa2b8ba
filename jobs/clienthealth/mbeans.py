"""From the MBeans of a JVM to canonical snapshots of its Kafka clients: Java clients, and the Scala consumer of 0.8.

The names of the metrics are the MBeans' attributes; what is not a number, or -1 ("unknown" in Kafka's clients), is
left out. The old Scala MBeans (Yammer gauges and meters) are given the names of `metrics.CLIENT_METRICS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clienthealth.model import metric_names
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.nodes import node, slowest_node

#: The attributes of MBeans, by the name of the MBean.
MBeans = Mapping[str, Mapping[str, Any]]

GROUP_OPTION = "group.id"
RUNTIME = "java.lang:type=Runtime"
#: What is read of a JVM: pattern → attributes (empty: all). Brokers have MBeans in kafka.server too, hence the types.
PATTERNS: Mapping[str, Sequence[str]] = {
    "kafka.producer:*": (),
    "kafka.consumer:*": (),
    "kafka.server:type=FetcherLagMetrics,*": ("Value",),
    "kafka.common:type=AppInfo,*": (),
    RUNTIME: ("Name", "StartTime"),
}

_PROPERTY = re.compile(r'\s*([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_ESCAPED = re.compile(r"\\(.)")
#: Consumers up to 1.0 put the partition into the attribute's name instead of the MBean's.
_LAG = ".records-lag"
_LAG_IN_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.records-lag")
#: Clients without a client.id of their own are called after their group since 2.4.
_NAMED_BY_GROUP = re.compile(r"consumer-(?P<group>.+)-\d+")

#: Names of older clients → ours; clients of some versions have both.
_FORMERLY = {old: name for name, before in metric_names.FORMERLY.items() for old in before}

TopicKey = tuple[str, int | None, str | None]


@dataclass(frozen=True)
class Process:
    """The JVM that the MBeans are of. `instance` is host:pid; `config`: options of its clients that are known."""

    service: str
    host: str
    instance: str
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _Client:
    kind: str
    version: str | None = None
    group: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    topics: dict[TopicKey, dict[str, float]] = field(default_factory=dict)
    latencies: dict[int, float] = field(default_factory=dict)

    def topic(self, topic: str, name: str, value: object, *, partition: str = "", thread: str = "") -> None:
        number = _number(value)
        if name in TOPIC_METRICS and number is not None:
            key = (topic, int(partition) if partition else None, thread or None)
            self.topics.setdefault(key, {})[name] = number

    def metric(self, name: str, value: object) -> None:
        of_kind, later = CLIENT_METRICS[self.kind], _FORMERLY.get(name)
        if name in of_kind and (number := _number(value)) is not None:
            self.metrics[name] = number
        elif later is not None and later in of_kind and (number := _number(value)) is not None:
            self.metrics.setdefault(later, number)


def object_name(name: str) -> tuple[str, dict[str, str]]:
    """Domain and key properties of an MBean's name, in any order, without the quotes that JMX demands.

    Of a property that is there twice the first counts.
    """
    domain, _, properties = name.partition(":")
    pairs = _PROPERTY.findall(properties)
    return domain.strip('"'), {key: _unquoted(value) for key, value in reversed(pairs)}


def process(service: str, mbeans: MBeans, config: Mapping[str, str]) -> Process | None:
    """The JVM by its Runtime MBean, whose Name is pid@host; None if that is missing."""
    pid, _, host = str(mbeans.get(RUNTIME, {}).get("Name", "")).partition("@")
    return Process(service, host, f"{host}:{pid}", config) if pid and host else None


def snapshots(mbeans: MBeans, of: Process, ts_ms: int) -> list[dict[str, Any]]:
    """A canonical snapshot (the JSON of the topic client-metrics) of each Kafka client of the JVM, sorted by id."""
    clients: dict[tuple[str, str], _Client] = {}
    scala_version = None
    for name, attributes in mbeans.items():
        domain, properties = object_name(name)
        if domain == "kafka.common" and properties.get("name") == "Version":
            scala_version = str(attributes.get("Value"))
        elif domain in ("kafka.producer", "kafka.consumer") and "name" not in properties:
            _java(clients, domain.removeprefix("kafka."), properties, attributes)
        elif domain in ("kafka.consumer", "kafka.server") and "name" in properties:
            _scala(clients, properties, attributes)
    for client in clients.values():
        if client.kind == "legacy-consumer":
            client.version = scala_version
    return [
        _snapshot(client_id, client, of, ts_ms)
        for (_, client_id), client in sorted(clients.items())
        if client.metrics or client.topics
    ]


def _java(
    clients: dict[tuple[str, str], _Client],
    kind: str,
    properties: Mapping[str, str],
    attributes: Mapping[str, Any],
) -> None:
    client_id = properties.get("client-id", properties.get("id"))
    if client_id is None:
        return
    client = clients.setdefault((kind, client_id), _Client(kind))
    group, topic = properties.get("type"), properties.get("topic")
    if group == "app-info":
        version = attributes.get("version", attributes.get("Version"))
        client.version = str(version) if version else client.version
    elif topic is not None:
        for name, value in attributes.items():
            client.topic(topic, name, value, partition=properties.get("partition", ""))
    elif "node-id" in properties:
        number, latency = node(properties["node-id"]), _number(attributes.get("request-latency-avg"))
        if group == "producer-node-metrics" and number is not None and latency is not None:
            client.latencies[number] = max(latency, client.latencies.get(number, 0.0))
    else:
        for name, value in attributes.items():
            client.metric(name, value)
            in_name = _LAG_IN_NAME.fullmatch(name) if name.endswith(_LAG) else None
            if in_name:
                client.topic(in_name["topic"], "records-lag", value, partition=in_name["partition"])
    if kind == "consumer" and client.group is None:
        by_group = _NAMED_BY_GROUP.fullmatch(client_id)
        client.group = by_group["group"] if by_group else None


def _of_scala() -> dict[tuple[str, str], tuple[str, str]]:
    """See _SCALA."""
    by_bean = {}
    for bean, name in metric_names.SCALA.items():
        kind, bean_name, _ = bean.split("/")
        of_client = name if name in CLIENT_METRICS["legacy-consumer"] else ""
        by_bean[kind, bean_name] = of_client, name if name in TOPIC_METRICS else ""
    return by_bean


#: Scala MBean (type, name) → metric of the client, metric of the topic. Meters are read by their Count.
_SCALA = _of_scala()
_NO_METRIC = ("", "")


def _scala(
    clients: dict[tuple[str, str], _Client], properties: Mapping[str, str], attributes: Mapping[str, Any]
) -> None:
    mapped = _SCALA.get((properties.get("type", ""), properties["name"]), _NO_METRIC)
    client_id = properties.get("clientId")
    # An MBean without a metric of ours may still name the client's group.
    if (mapped is _NO_METRIC and "groupId" not in properties) or client_id is None or "brokerHost" in properties:
        return
    client = clients.setdefault(("legacy-consumer", client_id), _Client("legacy-consumer"))
    client.group = properties.get("groupId", client.group)
    value = attributes.get("Count", attributes.get("Value"))
    of_client, of_topic = mapped
    topic = properties.get("topic")
    if topic is None:
        number = _number(value)
        if of_client and number is not None:
            client.metrics[of_client] = number
    elif of_topic:
        client.topic(
            topic,
            of_topic,
            value,
            partition=properties.get("partition", ""),
            thread=properties.get("threadId", ""),
        )


def _snapshot(client_id: str, client: _Client, of: Process, ts_ms: int) -> dict[str, Any]:
    return {
        "ts": ts_ms,
        "client": {
            "service": of.service,
            "host": of.host,
            "instance": of.instance,
            "client_id": client_id,
            "kind": client.kind,
            "library": "java" if client.kind != "legacy-consumer" else "scala",
            "version": client.version,
            "group": client.group or (of.config.get(GROUP_OPTION) if client.kind != "producer" else None),
        },
        "metrics": client.metrics | slowest_node(client.latencies),
        "topics": list(_topics(client)),
        "config": dict(of.config),
    }


def _topics(client: _Client) -> Iterator[dict[str, Any]]:
    for (topic, partition, thread), metrics in client.topics.items():
        yield {"topic": topic, "partition": partition, "thread": thread, "metrics": metrics}


def _number(value: object) -> float | None:
    """The value as a number; NaN, infinities and -1 are how Kafka's clients say that they do not know."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number != -1 else None


def _unquoted(value: str) -> str:
    if len(value) < 2 or not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value[1:-1])
