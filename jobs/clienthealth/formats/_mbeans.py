"""MBeans of Kafka clients → samples: those of the Java client (0.8.2 to 4.x) and of the old Scala consumer.

Their names are taken apart by `mbeans.object_name`, as the JVM exporter does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.formats._samples import Process
from clienthealth.mbeans import object_name
from clienthealth.model import metric_names
from clienthealth.model.nodes import node
from clienthealth.model.values import integer, number, text

#: What tells the version: the Java client's attribute, the Scala client's MBean.
VERSIONS = frozenset({"app-info/version", "app-info/Version", "AppInfo/Version/Value"})

_KINDS = metric_names.kinds()
_NOTHING: Mapping[str, str] = {}


class MBean(NamedTuple):
    """What an MBean's name says.

    path     `type`, or `type/name`
    kind     of the client, None where it is no client's
    node     the broker that it is about, see `nodes.node`
    names    attribute → our name
    """

    path: str
    client_id: str | None
    kind: str | None
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


@lru_cache(maxsize=16_384)
def parts(mbean: str) -> MBean:
    """An MBean's name taken apart. Old Java clients name the client `id` in app-info, Scala ones `clientId`."""
    _, properties = object_name(mbean)

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if name in properties), None)

    kind = _KINDS.get(properties.get("type", ""))
    path = "/".join(properties[key] for key in ("type", "name") if key in properties)
    of_node = node(first("node-id", "brokerHost"))
    # Of what the Scala consumer counts per broker, it has the sum in an MBean of its own.
    per_broker = kind == "legacy-consumer" and of_node is not None
    return MBean(
        path=path,
        client_id=first("client-id", "clientId", "id"),
        kind=kind,
        topic=properties.get("topic"),
        partition=integer(properties.get("partition")),
        thread=properties.get("threadId"),
        node=of_node,
        names=_NOTHING if per_broker else NAMES.get(path, _NOTHING),
    )


def add(process: Process, mbean: MBean, name: str | None, value: float | None) -> None:
    """Give the process a sample of an MBean's attribute. `name`: ours."""
    process.add(mbean.client_id, mbean.kind, name, value, mbean.topic, mbean.partition, mbean.thread, mbean.node)


def read(process: Process, name: str, attributes: Mapping[str, Any]) -> None:
    """Give the process the samples of an MBean by its name and attributes. An MBean of no client's has none."""
    mbean = parts(name)
    if mbean.kind is None:
        _read_version(process, mbean, attributes)
        return
    if attributes:
        add(process, mbean, None, None)
    for attribute, value in attributes.items():
        if (ours := mbean.names.get(attribute)) is not None:
            add(process, mbean, ours, number(value))


def _read_version(process: Process, mbean: MBean, attributes: Mapping[str, Any]) -> None:
    for attribute, value in attributes.items():
        if f"{mbean.path}/{attribute}" in VERSIONS and (version := text(value)):
            process.saw_version(version)
