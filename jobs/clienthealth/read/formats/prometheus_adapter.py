"""prometheus-kafka-adapter. A record has one sample of Prometheus's remote write; the sample's value is a string.

Let the adapter send only samples that match `{__name__=~"kafka_(producer|consumer)_.*"}`. Samples that do not
match become rejects (`no-metrics`).
"""

from __future__ import annotations

from clienthealth.model.samples import Samples
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import number, text
from clienthealth.read.formats import Format, Record, having
from clienthealth.read.formats._prometheus import label, labels_of, series
from clienthealth.read.logs.times import time_ms


def _decode(record: Record) -> list[Snapshot] | None:
    point = record.document
    labels = point.get("labels") if type(point) is dict else None
    if type(labels) is not dict:
        return None
    name = text(point.get("name")) or label(labels, "__name__")
    if name is None:
        return None
    if (of_client := series(name, labels_of(labels))) is None:
        return []
    process, subject, ours = of_client
    samples = Samples(time_ms(point.get("timestamp")), process)
    samples.add(subject, ours, number(point.get("value")))
    return samples.snapshots(whole=False)


FORMAT = Format(
    "prometheus_adapter", "metrics", 60, having("name", "value", "timestamp", "labels"), _decode, interval_ms=60_000
)
