"""OTLP metrics as JSON: KIP-714 pushes through a broker's plugin, and the OpenTelemetry Java agent.

What they mean stands in `_otlp.py`. Numbers may be strings. Histograms and summaries are passed over, resources
without Kafka metrics too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.formats import Format, Record
from clienthealth.formats._otlp import AGENT_INTERVAL_MS, Points, Sample, metric, resource_of, sample
from clienthealth.model.samples import unusable
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import mapping, measurement, millis, number, text
from clienthealth.settings import IdentitySettings

DELTA = (1, "1", "AGGREGATION_TEMPORALITY_DELTA")

_NO_ATTRIBUTES: Mapping[str, str] = {}


def _recognise(record: Record) -> bool:
    return type(record.document) is dict and "resourceMetrics" in record.document


def _decode(record: Record) -> list[Snapshot] | None:
    resources = mapping(record.document).get("resourceMetrics")
    if type(resources) is not list:
        return None
    snapshots: list[Snapshot] = []
    broken = 0
    for resource in resources:
        scopes = mapping(resource).get("scopeMetrics")
        if type(scopes) is not list:
            broken += 1
            continue
        readable = [scope["metrics"] for scope in scopes if _is_readable(scope)]
        broken += len(readable) < len(scopes)
        attributes = _attributes(mapping(mapping(resource).get("resource")).get("attributes"))
        snapshots += _points(readable, attributes, record.identity).snapshots()
    return [*snapshots, *(unusable() for _ in range(broken))]


def _is_readable(scope: Any) -> bool:
    """Has it a list of metrics, each an object? (Some write null for none.)"""
    metrics = mapping(scope).get("metrics")
    return type(metrics) is list and all(type(metric) is dict or metric is None for metric in metrics)


def _attributes(listed: Any) -> Mapping[str, str]:
    """Attributes by name, values as text; those without a value, or with a list or object, are left out."""
    if type(listed) is not list:
        return _NO_ATTRIBUTES
    by_name = {}
    for one in listed:
        if type(one) is dict and type(value := one.get("value")) is dict and type(name := one.get("key")) is str:
            as_text = value.get("stringValue")
            if type(as_text) is not str:
                as_text = _scalar(value)
            if as_text:
                by_name[name] = as_text
    return by_name


def _scalar(value: Mapping[str, Any]) -> str | None:
    """An attribute's value that is no text, as text."""
    for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
        if kind in value:
            return text(value[kind])
    return None


def _points(scopes: list[list[Any]], attributes: Mapping[str, str], identity: IdentitySettings) -> Points:
    collected = Points(resource_of(attributes, identity))
    # Most points of a record share their times.
    last_end: Any = None
    last_begin: Any = None
    for metrics in scopes:
        for one in metrics:
            name = one.get("name") if one is not None else None
            described = metric(name) if type(name) is str else None
            if described is None:
                continue
            total = one.get("sum")
            delta = type(total) is dict and total.get("aggregationTemporality") in DELTA
            points = _data_points(total)
            if points is None:
                points = _data_points(one.get("gauge"))
            if not points:
                continue
            collected.has_points_of(described.kip714, delta)
            bare = Sample(None, described.kind, described.name)
            for point in points:
                if type(point) is not dict:
                    continue
                if (end := point.get("timeUnixNano")) != last_end:
                    last_end = end
                    collected.ended(_moment(end))
                if delta and (begin := point.get("startTimeUnixNano")) != last_begin:
                    last_begin = begin
                    collected.counts_since(_moment(begin))
                listed = point.get("attributes")
                collected.add(
                    sample(described, _attributes(listed), identity.otlp_client_id) if listed else bare, _value(point)
                )
    return collected


def _moment(nanos: Any) -> int | None:
    """A time in nanoseconds, perhaps written as text, as epoch milliseconds."""
    since_1970 = number(nanos)
    return millis(since_1970 / 1e6) if since_1970 is not None else None


def _data_points(aggregation: Any) -> list[Any] | None:
    points = aggregation.get("dataPoints") if type(aggregation) is dict else None
    return points if type(points) is list else None


def _value(point: Mapping[str, Any]) -> float | None:
    value = point.get("asDouble")
    if type(value) is float:
        return measurement(value)
    return number(value if value is not None else point.get("asInt"))


FORMAT = Format("otlp_metrics", "metrics", 5, _recognise, _decode, interval_ms=AGENT_INTERVAL_MS)
