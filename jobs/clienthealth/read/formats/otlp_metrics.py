"""OTLP metrics as JSON, from KIP-714 plugins of brokers and from the OpenTelemetry Java agent.

Numbers may be strings. Histograms and summaries are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from clienthealth.model.samples import Subject, unusable
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import mapping, measurement, millis, number
from clienthealth.read.formats import Format, Record, having
from clienthealth.read.formats._otlp import AGENT_INTERVAL_MS, Points, attributes_of, metric, resource_of, subject_of
from clienthealth.settings import IdentitySettings

DELTA = (1, "1", "AGGREGATION_TEMPORALITY_DELTA")

REMEMBERED = 16_384

Attributes = tuple[tuple[str, str], ...]

_METRICS = frozenset({dict, type(None)})


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
        listed = [mapping(scope).get("metrics") for scope in scopes]
        readable = [one for one in listed if type(one) is list and _METRICS.issuperset(map(type, one))]
        broken += len(readable) < len(scopes)
        attributes = attributes_of(mapping(mapping(resource).get("resource")).get("attributes"))
        points = Points(_resource(tuple(attributes.items()), record.identity))
        _take(readable, points, record.identity.otlp_client_id)
        snapshots += points.snapshots()
    return snapshots + unusable(broken)


@lru_cache(maxsize=REMEMBERED)
def _resource(attributes: Attributes, identity: IdentitySettings) -> Identity:
    return resource_of(dict(attributes), identity)


@lru_cache(maxsize=REMEMBERED)
def _subject(kind: str, attributes: Attributes, ids: tuple[str, ...]) -> Subject:
    return subject_of(kind, dict(attributes), ids)


def _take(scopes: list[list[Any]], into: Points, ids: tuple[str, ...]) -> None:
    own: dict[str, dict[str, float]] = {}
    # Most data points of a record have the same time, so a repeated time is not converted again.
    last_end: Any = None
    last_begin: Any = None
    for metrics in scopes:
        for one in metrics:
            name = one.get("name") if one is not None else None
            described = metric(name) if type(name) is str else None
            if described is None:
                continue
            points, delta = _points(one)
            if not points:
                continue
            kind, ours, kip714, whole = described
            into.pushed, into.delta = into.pushed or kip714, into.delta or delta
            for point in points:
                if type(point) is not dict:
                    continue
                if (end := point.get("timeUnixNano")) != last_end:
                    last_end = end
                    into.ended(_moment(end))
                if delta and (begin := point.get("startTimeUnixNano")) != last_begin:
                    last_begin = begin
                    into.counts_since(_moment(begin))
                value = point.get("asDouble")
                value = (
                    measurement(value)
                    if type(value) is float
                    else number(point.get("asInt") if value is None else value)
                )
                if listed := point.get("attributes"):
                    into.add(_subject(kind, tuple(attributes_of(listed).items()), ids), ours, value)
                    continue
                if (of_client := own.get(kind)) is None:
                    of_client = own[kind] = into.metrics(whole)
                if ours is not None and value is not None and value >= of_client.get(ours, -1.0):
                    of_client[ours] = value


def _points(one: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """Return (data points of a metric, True if the points are deltas of a sum)."""
    total = one.get("sum")
    points, delta = None, False
    if type(total) is dict:
        points, delta = total.get("dataPoints"), total.get("aggregationTemporality") in DELTA
    if type(points) is not list:
        points = mapping(one.get("gauge")).get("dataPoints")
    return (points if type(points) is list else []), delta


def _moment(nanos: Any) -> int | None:
    since_1970 = number(nanos)
    return millis(since_1970 / 1e6) if since_1970 is not None else None


FORMAT = Format("otlp_metrics", "metrics", 5, having("resourceMetrics"), _decode, interval_ms=AGENT_INTERVAL_MS)
