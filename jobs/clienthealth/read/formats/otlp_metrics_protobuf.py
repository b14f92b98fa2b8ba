"""OTLP metrics as protobuf: what the OpenTelemetry Collector's Kafka exporter writes unless told otherwise
(`otlp_proto`), and what brokers forward of KIP-714 telemetry.

What they mean stands in `_otlp.py`, for JSON and protobuf alike. A point with the flag "no recorded value" counts as
one whose value is not known. Kafka's own clients write a resource of its own around every single metric: those that say
the same are one.
"""

from __future__ import annotations

from functools import lru_cache

from clienthealth.model.samples import unusable
from clienthealth.model.telemetry import Snapshot
from clienthealth.read.formats import Format, Record
from clienthealth.read.formats._otlp import AGENT_INTERVAL_MS, Points, Resource, resource_of
from clienthealth.read.formats._otlp_shapes import Shapes
from clienthealth.read.formats._protobuf import REMEMBERED, attributes_of_resource, parsed
from clienthealth.settings import IdentitySettings

_SHAPES = Shapes()


def _recognise(record: Record) -> bool:
    return record.signal == "metrics"


def _decode(record: Record) -> list[Snapshot] | None:
    if record.data is None:
        return None
    try:
        request = parsed("Metrics", record.data)
    except ValueError:
        return None
    taken: dict[bytes, Points] = {}
    broken = 0
    ids = tuple(record.identity.otlp_client_id)
    for resource in request.resources:
        said = resource.resource
        points = taken.get(said) or taken.setdefault(said, Points(_resource(said, record.identity)))
        for scope in resource.scopes:
            try:
                _SHAPES.read(scope, points, ids)
            except ValueError:
                broken += 1
    snapshots = [snapshot for points in taken.values() for snapshot in points.snapshots()]
    return [*snapshots, *(unusable() for _ in range(broken))]


@lru_cache(maxsize=REMEMBERED)
def _resource(data: bytes, identity: IdentitySettings) -> Resource:
    return resource_of(attributes_of_resource(data), identity)


FORMAT = Format("otlp_metrics_protobuf", "metrics", 4, _recognise, _decode, interval_ms=AGENT_INTERVAL_MS, binary=True)
