"""Telegraf's JSON (`data_format = "json"`): one metric per record, or a batch under `metrics`.

What it says stands in `_telegraf.py`.
"""

from __future__ import annotations

from clienthealth.model.samples import unusable
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import epoch, mapping, measurement
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._prometheus import labels_of
from clienthealth.read.formats._telegraf import Point, Processes


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
