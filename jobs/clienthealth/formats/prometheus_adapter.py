"""prometheus-kafka-adapter: one sample of Prometheus's remote write per record, its value a string.

Names in three dialects (naming.py): Micrometer, the JMX exporter's default, Confluent's kafka_client.yml. Other
samples of the same topic are no matter of ours: they are rejected as `no-metrics`; better have the adapter match
`{__name__=~"kafka_(producer|consumer)_.*"}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clienthealth import naming
from clienthealth.formats import Format, Record, Snapshot
from clienthealth.formats._samples import Process
from clienthealth.formats._values import integer, iso_millis, number, present, text

_NAMES = naming.spellings(naming.micrometer, naming.jmx_exporter)
_KINDS = {"kafka_producer_": "producer", "kafka_consumer_": "consumer"}
_PORT = re.compile(r":\d+$")


def _recognise(record: Record) -> bool:
    said = record.document
    return type(said) is dict and "name" in said and "value" in said and "timestamp" in said and "labels" in said


def _decode(record: Record) -> list[Snapshot] | None:
    point = record.document
    labels = point.get("labels") if type(point) is dict else None
    if type(labels) is not dict:
        return None
    name = text(point.get("name")) or _label(labels, "__name__")
    if name is None:
        return None
    # Both prefixes have the same length.
    kind = _KINDS.get(name[: len("kafka_producer_")])
    if kind is None:
        return []
    instance = _label(labels, "instance")
    process = Process(
        iso_millis(point.get("timestamp")),
        service=_label(labels, "service", "application", "app", "job"),
        host=_label(labels, "host", "pod") or (_PORT.sub("", instance) if instance else None),
        instance=instance,
        library="java",
        version=_label(labels, "kafka_version"),
    )
    client_id = _label(labels, "client_id", "clientId", "client.id")
    partition = integer(labels.get("partition"))
    process.add(client_id, kind, _NAMES.get(name), number(point.get("value")), _label(labels, "topic"), partition)
    return process.snapshots()


def _label(labels: Mapping[str, Any], *names: str) -> str | None:
    """The value of the first of the labels that is there."""
    for name in names:
        if name in labels and (said := present(labels[name])) is not None:
            return said
    return None


FORMAT = Format("prometheus_adapter", "metrics", 60, _recognise, _decode, interval_ms=60_000)
