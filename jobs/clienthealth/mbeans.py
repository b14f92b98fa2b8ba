"""MBeans of Kafka clients: what their names and attributes mean, and canonical snapshots of all clients of a JVM.

Those of the Java client (0.8.2 to 4.x) and of the old Scala consumer. Which attribute is which metric stands in
`model/metric_names.py`; what is not a number, or negative ("unknown" in Kafka's clients), is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from clienthealth.model import canonical, metric_names
from clienthealth.model.clients import ClientProcess, Kind
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.nodes import node, slowest_node
from clienthealth.model.values import integer, number

#: The attributes of MBeans, by the name of the MBean.
MBeans = Mapping[str, Mapping[str, Any]]

GROUP_OPTION = "group.id"
RUNTIME = "java.lang:type=Runtime"
_PROPERTY = re.compile(r'\s*([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_ESCAPED = re.compile(r"\\(.)")
#: Consumers up to 1.0 put the partition into the attribute's name instead of the MBean's.
_LAG = ".records-lag"
_LAG_IN_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.records-lag")
#: Clients without a client.id of their own are called after their group since 2.4.
_NAMED_BY_GROUP = re.compile(r"consumer-(?P<group>.+)-\d+")

#: What tells the version: the Java client's attribute, the Scala client's MBean.
VERSIONS = frozenset({"app-info/version", "app-info/Version", "AppInfo/Version/Value"})

_KINDS = metric_names.kinds()
_NOTHING: Mapping[str, str] = {}

TopicKey = tuple[str, int | None, str | None]


@dataclass
class _Client:
    kind: str
    version: str | None = None
    group: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    topics: dict[TopicKey, dict[str, float]] = field(default_factory=dict)
    latencies: dict[int, float] = field(default_factory=dict)


class MBean(NamedTuple):
    """What an MBean's name says.

    path     `type`, or `type/name`
    kind     of the client, None where it is no client's
    group    of the client; only the Scala consumer's MBeans name it
    node     the broker that it is about, see `nodes.node`
    names    attribute → our name
    """

    domain: str
    path: str
    client_id: str | None
    kind: str | None
    group: str | None
    topic: str | None
    partition: int | None
    thread: str | None
    node: int | None
    names: Mapping[str, str]


def _by_path() -> dict[str, dict[str, str]]:
    """See NAMES."""
    by_path: dict[str, dict[str, str]] = {}
    for spelled, name in metric_names.mbeans().items():
        path, _, attribute = spelled.rpartition("/")
        by_path.setdefault(path, {})[attribute] = name
    return by_path


#: Path of an MBean → attribute → our name.
NAMES: Mapping[str, Mapping[str, str]] = _by_path()


def _patterns() -> dict[str, Sequence[str]]:
    """See PATTERNS."""
    patterns: dict[str, Sequence[str]] = {
        f"kafka.{_KINDS[group]}:type={group},*": tuple(NAMES[group]) for group in metric_names.JAVA
    }
    # Of old consumers each partition has a name of its own for its lag; the MBeans of topics have more properties.
    patterns["kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*"] = ()
    patterns |= {f"kafka.{kind}:type=app-info,*": ("version", "Version") for kind in ("producer", "consumer")}
    # Brokers have MBeans in kafka.server, too, hence the type.
    patterns |= {
        f"kafka.{'server' if kind == 'FetcherLagMetrics' else 'consumer'}:type={kind},*": ("Value", "Count")
        for kind in dict.fromkeys(path.partition("/")[0] for path in metric_names.SCALA)
    }
    return {**patterns, "kafka.common:type=AppInfo,*": ("Value",), RUNTIME: ("Name", "StartTime")}


#: What is read of a JVM: pattern → attributes (empty: all). What is not looked at costs the JVM all the same.
PATTERNS: Mapping[str, Sequence[str]] = _patterns()


def object_name(name: str) -> tuple[str, dict[str, str]]:
    """Domain and key properties of an MBean's name, in any order, without the quotes that JMX demands.

    Of a property that is there twice the first counts.
    """
    domain, _, properties = name.partition(":")
    pairs = _PROPERTY.findall(properties)
    return domain.strip('"'), {key: _unquoted(value) for key, value in reversed(pairs)}


@lru_cache(maxsize=16_384)
def parts(mbean: str) -> MBean:
    """An MBean's name taken apart. Old Java clients name the client `id` in app-info, Scala ones `clientId`."""
    domain, properties = object_name(mbean)

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if name in properties), None)

    kind = _KINDS.get(properties.get("type", ""))
    path = "/".join(properties[key] for key in ("type", "name") if key in properties)
    of_node = node(first("node-id", "brokerHost"))
    # Of what the Scala consumer counts per broker, it has the sum in an MBean of its own.
    per_broker = kind == "legacy-consumer" and of_node is not None
    return MBean(
        domain=domain,
        path=path,
        client_id=first("client-id", "clientId", "id"),
        kind=kind,
        group=properties.get("groupId"),
        topic=properties.get("topic"),
        partition=integer(properties.get("partition")),
        thread=properties.get("threadId"),
        node=of_node,
        names=_NOTHING if per_broker else NAMES.get(path, _NOTHING),
    )


def process_of(service: str, mbeans: MBeans, config: Mapping[str, str]) -> ClientProcess | None:
    """The JVM by its Runtime MBean, whose Name is pid@host; None if that is missing."""
    pid, _, host = str(mbeans.get(RUNTIME, {}).get("Name", "")).partition("@")
    return ClientProcess(service, host, f"{host}:{pid}", config) if pid and host else None


def snapshots(mbeans: MBeans, process: ClientProcess, ts_ms: int) -> list[dict[str, Any]]:
    """A canonical snapshot (the JSON of the topic client-metrics) of each Kafka client of the JVM, sorted by id."""
    clients: dict[tuple[str, str], _Client] = {}
    scala_version = None
    for name, attributes in mbeans.items():
        mbean = parts(name)
        version = next((str(v) for a, v in attributes.items() if f"{mbean.path}/{a}" in VERSIONS and v), None)
        if version is not None and mbean.client_id is None:
            scala_version = version
        elif version is not None and mbean.client_id is not None:
            kind = mbean.domain.removeprefix("kafka.")
            clients.setdefault((kind, mbean.client_id), _Client(kind)).version = version
        elif mbean.kind is not None and mbean.client_id is not None:
            _read(clients.setdefault((mbean.kind, mbean.client_id), _Client(mbean.kind)), mbean, attributes)
    for (kind, client_id), client in clients.items():
        if kind == "legacy-consumer":
            client.version = scala_version
        elif kind == "consumer" and (by_group := _NAMED_BY_GROUP.fullmatch(client_id)):
            client.group = by_group["group"]
    return [
        _snapshot(client_id, client, process, ts_ms)
        for (_, client_id), client in sorted(clients.items())
        if client.metrics or client.topics
    ]


def _read(client: _Client, mbean: MBean, attributes: Mapping[str, Any]) -> None:
    """Give a client the values of one of its MBeans."""
    client.group = mbean.group or client.group
    for attribute, raw in attributes.items():
        value = number(raw)
        if value is None:
            continue
        name = mbean.names.get(attribute, "")
        if mbean.node is not None:
            if name == "request-latency-avg":
                client.latencies[mbean.node] = max(value, client.latencies.get(mbean.node, 0.0))
        elif mbean.topic is not None:
            if name in TOPIC_METRICS:
                client.topics.setdefault((mbean.topic, mbean.partition, mbean.thread), {})[name] = value
        elif name in CLIENT_METRICS[client.kind]:
            # Clients of some versions have a metric under its older name, too, read an instant apart.
            client.metrics[name] = max(value, client.metrics.get(name, 0.0))
        elif attribute.endswith(_LAG) and (in_name := _LAG_IN_NAME.fullmatch(attribute)):
            key = (in_name["topic"], int(in_name["partition"]), None)
            client.topics.setdefault(key, {})["records-lag"] = value


def _snapshot(client_id: str, client: _Client, process: ClientProcess, ts_ms: int) -> dict[str, Any]:
    who = process.client(
        client_id,
        cast(Kind, client.kind),
        "java" if client.kind != "legacy-consumer" else "scala",
        client.version,
        client.group or (process.config.get(GROUP_OPTION) if client.kind != "producer" else None),
    )
    metrics = client.metrics | slowest_node(client.latencies)
    return canonical.snapshot(who, ts_ms, metrics, list(_topics(client)), process.config)


def _topics(client: _Client) -> Iterator[dict[str, Any]]:
    for (topic, partition, thread), metrics in client.topics.items():
        yield {"topic": topic, "partition": partition, "thread": thread, "metrics": metrics}


def _unquoted(value: str) -> str:
    if len(value) < 2 or not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value[1:-1])
