"""Interpret the MBeans of Kafka clients, and make snapshots of all clients of a JVM.

Negative values are left out, because Kafka's clients write a negative value for an unknown one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from clienthealth.model import metric_names
from clienthealth.model.clients import ClientProcess
from clienthealth.model.samples import Samples, Subject, node
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import integer, number, text

MBeans = Mapping[str, Mapping[str, Any]]

GROUP_OPTION = "group.id"
RUNTIME = "java.lang:type=Runtime"
_PROPERTY = re.compile(r'(?:^|,)\s*+([^=,]++)=("(?:[^"\\]|\\.)*"|[^,]*)')
_ESCAPED = re.compile(r"\\(.)")
#: Java consumers up to version 1.0 have an attribute `TOPIC-PARTITION.records-lag` for each partition.
_LAG = ".records-lag"
_LAG_IN_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.records-lag")
#: Since Kafka 2.4, consumers without a client.id are named after their group.
_NAMED_BY_GROUP = re.compile(r"consumer-(?P<group>.+)-\d+")

VERSIONS = frozenset({"app-info/version", "app-info/Version", "AppInfo/Version/Value"})

_KINDS = metric_names.kinds()
_NOTHING: Mapping[str, str] = {}


class MBean(NamedTuple):
    """The meaning of an MBean's name.

    `domain`   the text before the first colon, such as `kafka.producer`
    `path`     the MBean's `type`, or `type/name` if it has both properties
    `subject`  the measured client, topic, partition or broker; `Subject.kind` is None if no Kafka client is measured
    `group`    the consumer group that `groupId` or a client id like `consumer-GROUP-1` names; None if unknown
    `names`    maps the MBean's attributes to our names of metrics
    """

    domain: str
    path: str
    subject: Subject
    group: str | None
    names: Mapping[str, str]


class _Layout(NamedTuple):
    """The meaning of an MBean's attributes.

    `attributes`  the attributes that `NAMES` contains
    `names`       our names of the metrics in `attributes`, in the same order
    `lags`        (attribute, topic, partition) for each attribute `TOPIC-PARTITION.records-lag`
    """

    attributes: Sequence[str]
    names: Sequence[str]
    lags: Sequence[tuple[str, str, int]]


#: Maps each MBean's path to a dictionary from attributes to our names of metrics.
NAMES: dict[str, dict[str, str]] = {}
for _spelled, _name in metric_names.mbeans().items():
    NAMES.setdefault(_spelled.rpartition("/")[0], {})[_spelled.rpartition("/")[2]] = _name

#: Maps a pattern of MBean names to the attributes to request; () means all attributes. Each attribute costs CPU time in
#: the JVM.
PATTERNS: Mapping[str, Sequence[str]] = {
    **{f"kafka.{_KINDS[group]}:type={group},*": tuple(NAMES[group]) for group in metric_names.JAVA},
    # Request all attributes, because the lag of each partition is an attribute (_LAG).
    "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*": (),
    **{f"kafka.{kind}:type=app-info,*": ("version", "Version") for kind in ("producer", "consumer")},
    # Read only FetcherLagMetrics from kafka.server, because brokers also register MBeans in this domain.
    **{
        f"kafka.{'server' if kind == 'FetcherLagMetrics' else 'consumer'}:type={kind},*": ("Value", "Count")
        for kind in dict.fromkeys(path.partition("/")[0] for path in metric_names.SCALA)
    },
    "kafka.common:type=AppInfo,*": ("Value",),
    RUNTIME: ("Name", "StartTime"),
}


def object_name(name: str) -> tuple[str, dict[str, str]]:
    """Return (domain, key properties) of an MBean's name, without the quotes that JMX demands.

    If a property occurs twice, its first value is returned.
    """
    domain, _, properties = name.partition(":")
    return domain.strip('"'), {key: _unquoted(value) for key, value in reversed(_PROPERTY.findall(properties))}


@lru_cache(maxsize=16_384)
def parts(mbean: str) -> MBean:
    """Return the meaning of an MBean's name."""
    domain, properties = object_name(mbean)

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if name in properties), None)

    kind = _KINDS.get(properties.get("type", ""))
    client_id = first("client-id", "clientId", "id")
    by_group = _NAMED_BY_GROUP.fullmatch(client_id) if client_id and kind == "consumer" else None
    path = "/".join(properties[key] for key in ("type", "name") if key in properties)
    subject = Subject(
        client_id,
        kind,
        properties.get("topic"),
        integer(properties.get("partition")),
        properties.get("threadId"),
        node(first("node-id", "brokerHost")),
    )
    group = by_group["group"] if by_group else properties.get("groupId")
    return MBean(domain, path, subject, group, NAMES.get(path, _NOTHING))


def process_of(service: str, mbeans: MBeans, config: Mapping[str, str]) -> ClientProcess | None:
    """Return the JVM as a process; None if the attribute `Name` of its Runtime MBean is not `pid@host`."""
    pid, _, host = str(mbeans.get(RUNTIME, {}).get("Name", "")).partition("@")
    return ClientProcess(service, host, f"{host}:{pid}", config) if pid and host else None


def snapshots(mbeans: MBeans, process: ClientProcess, ts_ms: int) -> list[Snapshot]:
    """Return one snapshot per Kafka client with a client id and a known metric, sorted by kind and client id.

    `mbeans`: the MBeans read from the JVM. `ts_ms`: the time of reading (epoch ms).
    """
    samples = Samples(ts_ms, Identity(process.service, process.host, process.instance, library="java"))
    for name, attributes in mbeans.items():
        read(samples, name, attributes)
    clients = [one for one in samples.snapshots() if one.client.client_id and (one.metrics or one.topics)]
    for snapshot in clients:
        snapshot.config = dict(process.config)
        client = snapshot.client
        if client.kind != "producer" and not client.group:
            snapshot.client = msgspec.structs.replace(client, group=process.config.get(GROUP_OPTION))
    return sorted(clients, key=lambda snapshot: (snapshot.client.kind or "", snapshot.client.client_id or ""))


def read(samples: Samples, name: str, attributes: Mapping[str, Any]) -> None:
    """Add the values of an MBean's attributes to `samples`.

    From an MBean that measures no client, only the client library's version is added.
    """
    mbean = parts(name)
    subject = mbean.subject
    if subject.kind is None:
        _read_version(samples, mbean, attributes)
    elif attributes:
        layout = _layout(mbean.path, tuple(attributes))
        samples.add_all(subject, layout.names, [attributes[attribute] for attribute in layout.attributes])
        if mbean.group and subject.client_id:
            samples.saw(subject.client_id, subject.kind, group=mbean.group)
        for attribute, topic, partition in layout.lags:
            of_partition = subject._replace(topic=topic, partition=partition)
            samples.add(of_partition, "records-lag", number(attributes[attribute]))


@lru_cache(maxsize=1024)
def _layout(path: str, attributes: tuple[str, ...]) -> _Layout:
    ours = NAMES.get(path, _NOTHING)
    read = [attribute for attribute in attributes if attribute in ours]
    lags = [
        (attribute, in_name["topic"], int(in_name["partition"]))
        for attribute in attributes
        if attribute.endswith(_LAG) and attribute not in ours and (in_name := _LAG_IN_NAME.fullmatch(attribute))
    ]
    return _Layout(read, [ours[attribute] for attribute in read], lags)


def add(samples: Samples, mbean: MBean, name: str | None, value: float | None) -> None:
    """Add one value of a client's MBean, and the client's group, to `samples`.

    `name`: our name of the metric; None if the metric only shows that the client exists. `value`: None if unknown.
    """
    samples.add(mbean.subject, name, value)
    if mbean.group and mbean.subject.kind and mbean.subject.client_id:
        samples.saw(mbean.subject.client_id, mbean.subject.kind, group=mbean.group)


def _read_version(samples: Samples, mbean: MBean, attributes: Mapping[str, Any]) -> None:
    """Add the client library's version. A version without a client id (Scala) is the default for the JVM's clients."""
    for attribute, value in attributes.items():
        if f"{mbean.path}/{attribute}" in VERSIONS and (version := text(value)):
            if mbean.subject.client_id is not None:
                samples.saw(mbean.subject.client_id, mbean.domain.removeprefix("kafka."), version)
            else:
                samples.version = max(samples.version or "", version)


def _unquoted(value: str) -> str:
    if len(value) < 2 or not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value[1:-1])
