"""Telegraf's JSON (`data_format = "json"`). A record has one metric, or a batch of metrics in the field `metrics`.

A JVM is identified by the URL from which Telegraf reads the JVM's metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth.model import metric_names
from clienthealth.model.samples import Processes, Subject, node
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import epoch, host_and_instance, integer, mapping, measurement, number
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import Labels, kind_of, label, labels_of, series

_NAMES = metric_names.spellings(metric_names.attribute)
_TELLING = metric_names.telling()
#: With `metric_version = 1` in inputs.prometheus, one of these fields contains a series' value.
_VALUES = frozenset({"gauge", "counter", "value", "untyped"})


class _Layout(NamedTuple):
    """The meaning of a Telegraf metric's name and of its fields' names.

    `series`  (field, name of the series) for each Prometheus series. In a metric with such a series, all other fields
              are ignored
    `kind`    kind of the client; None for a metric of another program
    `names`   our names of the metrics in `fields`
    """

    series: Sequence[tuple[str, str]]
    kind: str | None = None
    fields: Sequence[str] = ()
    names: Sequence[str] = ()


def add(processes: Processes, name: str, tags: Labels, fields: Mapping[str, Any], ts_ms: int | None) -> None:
    """Add one metric of Telegraf to `processes`. `ts_ms`: epoch ms; None if the metric has no time.

    `fields`: values as the record contains them, numbers or texts.
    """
    layout = _layout(name, tuple(fields))
    for field, spelled in layout.series:
        if of_client := series(spelled, tags):
            process, subject, ours = of_client
            processes.at(ts_ms, process).add(subject, ours, number(fields[field]))
    if not layout.series:
        process, subject = _tagged(tags, layout.kind)
        values = [fields[field] for field in layout.fields]
        processes.at(ts_ms, process).add_all(subject, layout.names, values)


@lru_cache(maxsize=1024)
def _layout(name: str, fields: tuple[str, ...]) -> _Layout:
    if kind_of(name) is not None and not _VALUES.isdisjoint(fields):
        return _Layout([(field, name) for field in fields if field in _VALUES])
    if of_clients := [(field, field) for field in fields if kind_of(field) is not None]:
        return _Layout(of_clients)
    read = {field: ours for field in fields if (ours := _NAMES.get(_attribute(field)))}
    return _Layout((), _kind(name, fields) if fields else None, tuple(read), tuple(read.values()))


@lru_cache(maxsize=16_384)
def _tagged(tags: Labels, kind: str | None) -> tuple[Identity, Subject]:
    values = dict(tags)
    host, instance = host_and_instance(label(values, "jolokia_agent_url"), label(values, "host"))
    subject = Subject(
        label(values, "client-id", "client_id", "clientId"),
        kind,
        label(values, "topic"),
        integer(label(values, "partition")),
        node=node(label(values, "node-id", "node_id")),
    )
    return Identity(label(values, "service", "application", "app"), host, instance, library="java"), subject


def _kind(name: str, fields: Iterable[str]) -> str | None:
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
    for point in points:
        if type(point) is not dict or type(point.get("fields")) is not dict:
            processes.broken += 1
            continue
        name, moment = point.get("name"), epoch(measurement(point.get("timestamp")))
        tags = labels_of(mapping(point.get("tags")))
        add(processes, name if type(name) is str else "", tags, point["fields"], moment)
    return processes.snapshots()


FORMAT = Format("telegraf", "metrics", 30, _recognise, _decode)
