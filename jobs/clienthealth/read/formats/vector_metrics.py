"""Metrics from Vector's Kafka sink (`encoding.codec = "json"` or `native_json`), one series in a record.

The value of an `incremental` counter is the increment since the counter's previous record.
"""

from __future__ import annotations

from typing import Any

from clienthealth.model.samples import Samples
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import mapping, number
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import labels_of, series
from clienthealth.read.logs.times import time_ms

_KINDS = ("absolute", "incremental")
_VALUES = ("gauge", "counter")
_OTHERS = ("set", "distribution", "aggregated_histogram", "aggregated_summary", "sketch")


def _recognise(record: Record) -> bool:
    document = _metric(record)
    return (
        document.get("kind") in _KINDS and "name" in document and any(name in document for name in (*_VALUES, *_OTHERS))
    )


def _metric(record: Record) -> Any:
    document = mapping(record.document)
    return mapping(document.get("metric", document))


def _decode(record: Record) -> list[Snapshot] | None:
    document = _metric(record)
    name, namespace = document.get("name"), document.get("namespace")
    if type(name) is not str:
        return None
    of_client = series(
        f"{namespace}_{name}" if type(namespace) is str else name, labels_of(mapping(document.get("tags")))
    )
    if of_client is None:
        return []
    process, subject, ours = of_client
    samples = Samples(time_ms(document.get("timestamp")), process)
    samples.delta = document.get("kind") == "incremental"
    values = (number(mapping(document.get(kind)).get("value")) for kind in _VALUES if kind in document)
    samples.add(subject, ours, next(values, None))
    return samples.snapshots(whole=False)


FORMAT = Format("vector_metrics", "metrics", 65, _recognise, _decode, interval_ms=15_000)
