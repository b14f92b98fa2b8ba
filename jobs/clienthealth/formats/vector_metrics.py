"""Vector's metrics as its Kafka sink writes them (`encoding.codec = "json"`, or `native_json`): one series per record.

They come of its sources `prometheus_scrape` and `prometheus_remote_write`; what names and tags mean stands in
`_prometheus.py`. Counts may be increments since the last record.
"""

from __future__ import annotations

from typing import Any

from clienthealth.formats import Format, Record
from clienthealth.formats._prometheus import add, labels_of, series
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import iso_millis, mapping, number

_KINDS = ("absolute", "incremental")
_VALUES = ("gauge", "counter")
_OTHERS = ("set", "distribution", "aggregated_histogram", "aggregated_summary", "sketch")


def _recognise(record: Record) -> bool:
    said = _metric(record)
    return said.get("kind") in _KINDS and "name" in said and any(name in said for name in (*_VALUES, *_OTHERS))


def _metric(record: Record) -> Any:
    said = mapping(record.document)
    return mapping(said.get("metric", said))


def _decode(record: Record) -> list[Snapshot] | None:
    said = _metric(record)
    name, namespace = said.get("name"), said.get("namespace")
    if type(name) is not str:
        return None
    found = series(f"{namespace}_{name}" if type(namespace) is str else name, labels_of(mapping(said.get("tags"))))
    if found is None:
        return []
    of, scraped = found
    process = scraped.process(iso_millis(said.get("timestamp")))
    process.delta = said.get("kind") == "incremental"
    values = (number(mapping(said.get(kind)).get("value")) for kind in _VALUES if kind in said)
    add(process, of, next(values, None))
    return process.snapshots()


FORMAT = Format("vector_metrics", "metrics", 65, _recognise, _decode, interval_ms=15_000)
