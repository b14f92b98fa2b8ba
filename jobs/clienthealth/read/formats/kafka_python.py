"""kafka-python's `metrics()` as JSON: `{group: {name: value}}`, alone or in an envelope that names the client.

Queue times are documented as milliseconds but are seconds (sender.py, all versions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clienthealth.model.samples import Samples, Subject, node
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import mapping, measurement, millis, number, text
from clienthealth.read.formats import Format, Record
from clienthealth.read.mbeans import NAMES

GROUP = re.compile(
    r"(producer|consumer)-(?:metrics|fetch-manager-metrics|coordinator-metrics|(?:node|topic)-metrics\..+)", re.DOTALL
)

QUEUE_TIME = "record-queue-time-"
#: No record waits in the queue for more than an hour. A queue time above this value is therefore not in seconds, but is
#: read as milliseconds.
LONGEST_QUEUE_SECONDS = 3_600


@lru_cache(maxsize=4096)
def _group(name: str) -> tuple[Subject, Mapping[str, str]] | None:
    """Return (subject, map from kafka-python's names to ours) for a group of metrics; None for an unknown group."""
    if (match := GROUP.fullmatch(name)) is None:
        return None
    mbean_type, _, subject = name.partition(".")
    topic = subject if mbean_type == "producer-topic-metrics" else None
    of_node = node(subject) if mbean_type.endswith("node-metrics") else None
    return Subject(None, match[1], topic, node=of_node), NAMES.get(mbean_type, {})


def _recognise(record: Record) -> bool:
    document = record.document
    return type(document) is dict and (any(map(_group, document)) or any(map(_group, mapping(document.get("metrics")))))


def _decode(record: Record) -> list[Snapshot] | None:
    document = mapping(record.document)
    if any(map(_group, document)):
        samples, groups = Samples(record.ts_ms, Identity(library="kafka-python")), document
    elif type(document.get("metrics")) is dict:
        process = Identity(
            service=text(document.get("service")),
            host=text(document.get("host")),
            instance=text(document.get("instance")),
            client_id=text(document.get("client_id")),
            library="kafka-python",
            version=text(document.get("library_version")),
            group=text(document.get("group_id")),
        )
        samples, groups = Samples(millis(measurement(document.get("ts_ms"))), process), document["metrics"]
    else:
        return None
    for name, metrics in groups.items():
        group = _group(name)
        if group is not None and type(metrics) is dict:
            _read(samples, *group, metrics)
    return samples.snapshots()


def _read(samples: Samples, subject: Subject, names: Mapping[str, str], metrics: Mapping[str, Any]) -> None:
    times = (number(metrics.get(f"{QUEUE_TIME}{what}")) for what in ("avg", "max"))
    queue_factor = 1.0 if any(time is not None and time > LONGEST_QUEUE_SECONDS for time in times) else 1000.0
    if metrics:
        samples.add(subject, None, None)
    for metric, raw in metrics.items():
        if (name := names.get(metric)) is None:
            continue
        value = number(raw)
        maximum = metrics.get(f"{metric[:-4]}-max", 0.0) if metric.endswith("-avg") else 0.0
        if number(maximum) is None:
            # If the maximum is -Infinity or null, nothing was measured, and the average (0) means nothing.
            value = None
        if value is not None and metric.startswith(QUEUE_TIME):
            value *= queue_factor
        samples.add(subject, name, value)


FORMAT = Format("kafka_python", "metrics", 20, _recognise, _decode)
