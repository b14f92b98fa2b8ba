"""OTLP metrics as JSON: KIP-714 pushes through a broker's plugin, and the OpenTelemetry Java agent.

Which attributes name the client, its service, process and host is a setting (`identity`): every plugin has its own.
They are looked for on the data point (the agent's `client-id`), then on the resource. Numbers may be strings. Sums
may be deltas (KIP-714 always): the snapshot's `delta` says so, and the time that they span is the client's interval.
Histograms and summaries are passed over, resources without Kafka metrics too. One snapshot per client and resource, at
the time of its newest data point.

The agent keeps only the finest level of a metric, and a KIP-714 subscription may ask for that level only: what a
client says per topic is then added up (averages and maxima: the largest).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clienthealth import naming
from clienthealth.formats import Format, Record, Snapshot
from clienthealth.formats._samples import Process, unusable
from clienthealth.formats._values import integer, interval, known, mapping, millis, number, text
from clienthealth.settings import IdentitySettings

KIP714 = "org.apache.kafka."
KIP714_INTERVAL_MS, AGENT_INTERVAL_MS = 300_000, 60_000
CLIENT_METRIC = re.compile(r"(?:org\.apache\.)?kafka\.(producer|consumer)\.")
DELTA = (1, "1", "AGGREGATION_TEMPORALITY_DELTA")
#: Attributes of a point that was measured for one broker of several.
NODES = frozenset({"node_id", "node-id", "node.id"})

_NAMES = naming.spellings(naming.kip714, naming.otel_agent)
_NO_ATTRIBUTES: Mapping[str, str] = {}


class _Metric(NamedTuple):
    """What a metric's name says. `name`: ours; `of_nodes`: do we read it where it is of one broker?"""

    kind: str
    name: str | None
    of_nodes: bool
    kip714: bool


@lru_cache(maxsize=4096)
def _metric(spelled: str) -> _Metric | None:
    """A metric's name taken apart, None where it is no Kafka client's."""
    found = CLIENT_METRIC.match(spelled)
    if found is None:
        return None
    name = _NAMES.get(spelled)
    return _Metric(found[1], name, bool(name and name.startswith("request-latency")), spelled.startswith(KIP714))


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
        found += _Points(readable, attributes, record.identity.otlp_client_id).snapshots(attributes, record.identity)
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


def _first(attributes: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The value of the first of the names that is there."""
    for name in names:
        if name in attributes:
            return attributes[name]
    return None


def _moment(nanos: Any) -> int | None:
    """A time in nanoseconds, perhaps written as text, as epoch milliseconds."""
    said = number(nanos)
    return millis(said / 1e6) if said is not None else None


class _Points:
    """The data points of one resource."""

    def __init__(self, scopes: list[list[Any]], attributes: Mapping[str, str], ids: Sequence[str]) -> None:
        self.pushed = self.delta = False
        self.newest: int | None = None
        #: Since when the deltas count.
        self.since: int | None = None
        #: The last times seen, as they are written.
        self._ended: Any = None
        self._began: Any = None
        self._process = Process(None)
        self._ids, self._own_id = ids, _first(attributes, ids)
        for metrics in scopes:
            for said in metrics:
                if said is not None:
                    self._read(said)

    def _read(self, said: Mapping[str, Any]) -> None:
        name = said.get("name")
        metric = _metric(name) if type(name) is str else None
        if metric is None:
            return
        total = said.get("sum")
        delta = type(total) is dict and total.get("aggregationTemporality") in DELTA
        points = _data_points(total)
        if points is None:
            points = _data_points(said.get("gauge"))
        for point in points or ():
            if type(point) is not dict:
                continue
            # Most points of a record share their times.
            if (ended := point.get("timeUnixNano")) != self._ended:
                self._note_end(ended)
            if delta and (began := point.get("startTimeUnixNano")) != self._began:
                self._note_begin(began)
            if listed := point.get("attributes"):
                self._take(metric, point, _attributes(listed))
            else:
                self._process.add(self._own_id, metric.kind, metric.name, _value(point))
            self.pushed = self.pushed or metric.kip714
            self.delta = self.delta or delta

    def _note_end(self, nanos: Any) -> None:
        self._ended = nanos
        moment = _moment(nanos)
        if moment is not None and (self.newest is None or moment > self.newest):
            self.newest = moment

    def _note_begin(self, nanos: Any) -> None:
        self._began = nanos
        moment = _moment(nanos)
        if moment is not None and (self.since is None or moment < self.since):
            self.since = moment

    def _take(self, metric: _Metric, point: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
        of_node = not NODES.isdisjoint(attributes)
        self._process.add(
            _first(attributes, self._ids) or self._own_id,
            metric.kind,
            metric.name if metric.of_nodes or not of_node else None,
            _value(point),
            attributes.get("topic"),
            integer(attributes.get("partition")),
            of_node=of_node,
        )

    def snapshots(self, attributes: Mapping[str, str], identity: IdentitySettings) -> list[Snapshot]:
        """Of a resource with these attributes."""
        span = self.newest - self.since if self.newest is not None and self.since is not None else None
        usual = KIP714_INTERVAL_MS if self.pushed else AGENT_INTERVAL_MS
        process = self._process
        process.ts_ms, process.delta, process.interval_ms = self.newest, self.delta, interval(span, usual)
        process.service = _first(attributes, identity.otlp_service)
        process.host = _first(attributes, identity.otlp_host)
        process.instance = _first(attributes, identity.otlp_instance)
        library = _first(attributes, ("client_software_name", "client.software.name")) or ""
        process.library = "librdkafka" if "librdkafka" in library else "java"
        process.version = _first(attributes, ("client_software_version", "client.software.version"))
        process.group = _first(attributes, ("group_id", "group.id"))
        return process.snapshots(rolled_up=True)


def _data_points(said: Any) -> list[Any] | None:
    points = said.get("dataPoints") if type(said) is dict else None
    return points if type(points) is list else None


def _value(point: Mapping[str, Any]) -> float | None:
    value = point.get("asDouble")
    if type(value) is float:
        return known(value)
    return number(value if value is not None else point.get("asInt"))


FORMAT = Format("otlp_metrics", "metrics", 5, _recognise, _decode, interval_ms=AGENT_INTERVAL_MS)
