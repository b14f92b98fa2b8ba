"""Telegraf's JSON (`data_format = "json"`): one metric per record, or a batch under `metrics`.

A metric has a name, tags, fields and a time. This file has their meaning for Kafka clients, also for line protocol
(`influx.py`). From inputs.jolokia2_agent: fields are MBean attributes; the client's id, topic and partition are tags if
the user listed them as tag keys. From inputs.prometheus, which scrapes the JMX exporter or Micrometer: the series is
the field's name (`metric_version = 2`), or the metric's name with a field for its type. Telegraf leaves NaN fields out.
The tag `host` and the agent's URL, or that of the scraped page, identify the JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.model import metric_names
from clienthealth.model.samples import Samples, node, unusable
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import epoch, host_and_instance, integer, mapping, measurement, number
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import Labels, kind_of, label, labels_of, series
from clienthealth.read.formats._prometheus import add as add_series

_NAMES = metric_names.spellings(metric_names.attribute)
_TELLING = metric_names.telling()
#: Fields in which inputs.prometheus puts a value if the measurement has the name of the Prometheus metric.
_VALUES = frozenset({"gauge", "counter", "value", "untyped"})


class Point(NamedTuple):
    """One metric of Telegraf. `ts_ms`: None if it has no time; field values are kept as written."""

    name: str
    tags: Labels
    fields: Mapping[str, Any]
    ts_ms: int | None


class _Whose(NamedTuple):
    """The identity that the tags of a point from Jolokia give."""

    service: str | None
    host: str | None
    instance: str | None
    client_id: str | None
    topic: str | None
    partition: int | None
    node: int | None


class _Layout(NamedTuple):
    """The meaning of a measurement's name and fields.

    series  the fields that are Prometheus series, with their names; if there are any, other fields are ignored
    kind    kind of the client, None if it is not a Kafka client's
    fields  the fields that are read if there are no series; `names` are our names of them
    """

    series: Sequence[tuple[str, str]]
    kind: str | None = None
    fields: Sequence[str] = ()
    names: Sequence[str] = ()


class Processes:
    """The processes in a record: one Telegraf polls many processes, and may write several polls in one batch."""

    def __init__(self) -> None:
        self._by_time: dict[Any, Samples] = {}

    def add(self, point: Point) -> None:
        """Add one metric."""
        name, tags, fields, ts_ms = point
        service, host, instance, client_id, topic, partition, of_node = _whose(tags)
        layout = _layout(name, tuple(fields), of_node is not None)
        for field, spelled in layout.series:
            if (of_client := series(spelled, tags)) is not None:
                described, scraped = of_client
                process = self._by_time.get((ts_ms, scraped))
                if process is None:
                    process = self._by_time[ts_ms, scraped] = scraped.process(ts_ms)
                add_series(process, described, number(fields[field]))
        if layout.series:
            return
        key = (ts_ms, service, host, instance)
        process = self._by_time.get(key)
        if process is None:
            process = self._by_time[key] = Samples(ts_ms, service=service, host=host, instance=instance, library="java")
        values = [fields[field] for field in layout.fields]
        process.add_all(client_id, layout.kind, layout.names, values, topic, partition, node=of_node)

    def snapshots(self) -> list[Snapshot]:
        """Return one snapshot per client, process and moment."""
        return [snapshot for process in self._by_time.values() for snapshot in process.snapshots()]


@lru_cache(maxsize=1024)
def _layout(name: str, fields: tuple[str, ...], of_node: bool) -> _Layout:
    if kind_of(name) is not None and not _VALUES.isdisjoint(fields):
        return _Layout([(field, name) for field in fields if field in _VALUES])
    if of_clients := [(field, field) for field in fields if kind_of(field) is not None]:
        return _Layout(of_clients)
    ours = {field: _NAMES.get(_attribute(field)) for field in fields}
    read = {field: one for field, one in ours.items() if one and (not of_node or one.startswith("request-latency"))}
    return _Layout((), _kind(name, fields) if fields else None, tuple(read), tuple(read.values()))


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
    """Return the client's kind, from the user's name for the measurement, else from fields that only one kind has."""
    for kind in ("producer", "consumer"):
        if kind in name:
            return kind
    return next((_TELLING[a] for field in fields if (a := _attribute(field)) in _TELLING), None)


def _attribute(field: str) -> str:
    return field.replace("_", "-")


def _recognise(record: Record) -> bool:
    document = record.document
    if type(document) is not dict:
        return False
    if "fields" in document and "name" in document and "timestamp" in document:
        return True
    batch = document.get("metrics")
    return type(batch) is list and any(type(mapping(point).get("fields")) is dict for point in batch)


def _decode(record: Record) -> list[Snapshot] | None:
    document = mapping(record.document)
    points = document.get("metrics", [document])
    if type(points) is not list:
        return None
    processes = Processes()
    broken = 0
    for point in points:
        if type(point) is not dict or type(point.get("fields")) is not dict:
            broken += 1
            continue
        name, moment = point.get("name"), epoch(measurement(point.get("timestamp")))
        tags = labels_of(mapping(point.get("tags")))
        processes.add(Point(name if type(name) is str else "", tags, point["fields"], moment))
    return [*processes.snapshots(), *(unusable() for _ in range(broken))]


FORMAT = Format("telegraf", "metrics", 30, _recognise, _decode)
