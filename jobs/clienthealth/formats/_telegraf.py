"""What Telegraf's metrics say of Kafka clients, however they are written: a name, tags, fields and a time.

Those of inputs.jolokia2_agent: fields are MBean attributes; the client's id, topic and partition are tags, where the
user listed them as tag keys. Those of inputs.prometheus, which scrapes the JMX exporter or Micrometer: the series is
the field's name (`metric_version = 2`), or the metric's, with a field that tells its type. Telegraf leaves NaN fields
out. Which JVM it was, tell the tag `host` and the agent's URL, or that of the scraped page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.formats._prometheus import Labels, kind_of, label, series
from clienthealth.formats._prometheus import add as add_series
from clienthealth.model import metric_names
from clienthealth.model.nodes import node
from clienthealth.model.samples import Samples
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import host_and_instance, integer, number

_NAMES = metric_names.spellings(metric_names.attribute)
_TELLING = metric_names.telling()
#: The fields in which inputs.prometheus gives the value of a series that gave the metric its name.
_VALUES = frozenset({"gauge", "counter", "value", "untyped"})


class Point(NamedTuple):
    """One metric of Telegraf. `ts_ms`: None where it tells no time; values of fields as they are written."""

    name: str
    tags: Labels
    fields: Mapping[str, Any]
    ts_ms: int | None


class _Whose(NamedTuple):
    """What the tags of a point of Jolokia say."""

    service: str | None
    host: str | None
    instance: str | None
    client_id: str | None
    topic: str | None
    partition: int | None
    node: int | None


class Processes:
    """The processes of which the metrics of a record are: one Telegraf asks many, and writes several rounds at once."""

    def __init__(self) -> None:
        self._by_time: dict[Any, Samples] = {}

    def add(self, point: Point) -> None:
        """Take a metric."""
        if kind_of(point.name) is not None and not _VALUES.isdisjoint(point.fields):
            for field in _VALUES & point.fields.keys():
                self._add_series(point.name, point, point.fields[field])
        elif any(kind_of(field) is not None for field in point.fields):
            for field, value in point.fields.items():
                self._add_series(field, point, value)
        else:
            self._add_attributes(point)

    def snapshots(self) -> list[Snapshot]:
        """One per client, process and moment."""
        return [snapshot for process in self._by_time.values() for snapshot in process.snapshots()]

    def _add_series(self, name: str, point: Point, value: Any) -> None:
        of_client = series(name, point.tags)
        if of_client is None:
            return
        described, scraped = of_client
        process = self._by_time.get((point.ts_ms, scraped))
        if process is None:
            process = self._by_time[point.ts_ms, scraped] = scraped.process(point.ts_ms)
        add_series(process, described, number(value))

    def _add_attributes(self, point: Point) -> None:
        whose = _whose(point.tags)
        key = (point.ts_ms, whose.service, whose.host, whose.instance)
        process = self._by_time.get(key)
        if process is None:
            process = self._by_time[key] = Samples(
                point.ts_ms, service=whose.service, host=whose.host, instance=whose.instance, library="java"
            )
        kind = _kind(point.name, point.fields)
        for field, value in point.fields.items():
            name = _NAMES.get(_attribute(field))
            if whose.node is not None and name is not None and not name.startswith("request-latency"):
                name = None
            process.add(whose.client_id, kind, name, number(value), whose.topic, whose.partition, node=whose.node)


@lru_cache(maxsize=16_384)
def _whose(tags: Labels) -> _Whose:
    values = dict(tags)
    return _Whose(
        label(values, "service", "application", "app"),
        *host_and_instance(label(values, "jolokia_agent_url"), label(values, "host")),
        label(values, "client-id", "client_id", "clientId"),
        label(values, "topic"),
        integer(label(values, "partition")),
        node(label(values, "node-id", "node_id")),
    )


def _kind(name: str, fields: Iterable[str]) -> str | None:
    """The client's kind, from the name that the user gave the measurement, else from what only one kind has."""
    for kind in ("producer", "consumer"):
        if kind in name:
            return kind
    return next((_TELLING[a] for field in fields if (a := _attribute(field)) in _TELLING), None)


@lru_cache(maxsize=4096)
def _attribute(field: str) -> str:
    return field.replace("_", "-")
