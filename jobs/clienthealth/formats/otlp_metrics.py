"""OTLP metrics as JSON: KIP-714 pushes through a broker's plugin, and the OpenTelemetry Java agent.

What they mean stands in `_otlp.py`. Numbers may be strings. Histograms and summaries are passed over, resources
without Kafka metrics too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.formats import Format, Record
from clienthealth.formats._otlp import AGENT_INTERVAL_MS, Points, Sample, metric, resource_of, sample
from clienthealth.formats._samples import unusable
from clienthealth.model.telemetry import Snapshot
from clienthealth.model.values import known, mapping, millis, number, text
from clienthealth.settings import IdentitySettings

DELTA = (1, "1", "AGGREGATION_TEMPORALITY_DELTA")

_NO_ATTRIBUTES: Mapping[str, str] = {}


def _recognise(record: Record) -> bool:
    return type(record.document) is dict and "resourceMetrics" in record.document


def _decode(record: Record) -> list[Snapshot] | None:
    resources = mapping(record.document).get("resourceMetrics")
    if type(resources) is not list:
        return None
    found: list[Snapshot] = []
    broken = 0
    for resource in resources:
        scopes = mapping(resource).get("scopeMetrics")
        if type(scopes) is not list:
            broken += 1
            continue
        readable = [scope["metrics"] for scope in scopes if _is_readable(scope)]
        broken += len(readable) < len(scopes)
        attributes = _attributes(mapping(mapping(resource).get("resource")).get("attributes"))
        found += _points(readable, attributes, record.identity).snapshots()
    return [*found, *(unusable() for _ in range(broken))]


def _is_readable(scope: Any) -> bool:
    """Has it a list of metrics, each an object? (Some write null for none.)"""
    metrics = mapping(scope).get("metrics")
    return type(metrics) is list and all(type(metric) is dict or metric is None for metric in metrics)


def _attributes(listed: Any) -> Mapping[str, str]:
    """Attributes by name, values as text; those without a value, or with a list or object, are left out."""
    if type(listed) is not list:
        return _NO_ATTRIBUTES
    found = {}
    for one in listed:
        if type(one) is dict and type(value := one.get("value")) is dict and type(name := one.get("key")) is str:
            said = value.get("stringValue")
            if type(said) is not str:
                said = _scalar(value)
            if said:
                found[name] = said
    return found


def _scalar(value: Mapping[str, Any]) -> str | None:
    """An attribute's value that is no text, as text."""
    for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
        if kind in value:
            return text(value[kind])
    return None


def _points(scopes: list[list[Any]], attributes: Mapping[str, str], identity: IdentitySettings) -> Points:
    found = Points(resource_of(attributes, identity))
    # Most points of a record share their times.
    last_end: Any = None
    last_begin: Any = None
    for metrics in scopes:
        for said in metrics:
            name = said.get("name") if said is not None else None
            of = metric(name) if type(name) is str else None
            if of is None:
                continue
            total = said.get("sum")
            delta = type(total) is dict and total.get("aggregationTemporality") in DELTA
            points = _data_points(total)
            if points is None:
                points = _data_points(said.get("gauge"))
            if not points:
                continue
            found.of(of.kip714, delta)
            bare = Sample(None, of.kind, of.name)
            for point in points:
                if type(point) is not dict:
                    continue
                if (end := point.get("timeUnixNano")) != last_end:
                    last_end = end
                    found.ended(_moment(end))
                if delta and (begin := point.get("startTimeUnixNano")) != last_begin:
                    last_begin = begin
                    found.counts_since(_moment(begin))
                listed = point.get("attributes")
                found.add(sample(of, _attributes(listed), identity.otlp_client_id) if listed else bare, _value(point))
    return found


def _moment(nanos: Any) -> int | None:
    """A time in nanoseconds, perhaps written as text, as epoch milliseconds."""
    said = number(nanos)
    return millis(said / 1e6) if said is not None else None


def _data_points(said: Any) -> list[Any] | None:
    points = said.get("dataPoints") if type(said) is dict else None
    return points if type(points) is list else None


def _value(point: Mapping[str, Any]) -> float | None:
    value = point.get("asDouble")
    if type(value) is float:
        return known(value)
    return number(value if value is not None else point.get("asInt"))


FORMAT = Format("otlp_metrics", "metrics", 5, _recognise, _decode, interval_ms=AGENT_INTERVAL_MS)
