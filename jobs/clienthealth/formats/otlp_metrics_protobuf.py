"""OTLP metrics as protobuf: what the OpenTelemetry Collector's Kafka exporter writes unless told otherwise
(`otlp_proto`), and what brokers forward of KIP-714 telemetry.

What they mean stands in `_otlp.py`, for JSON and protobuf alike. A point with the flag "no recorded value" counts as
one whose value is not known.
"""

from __future__ import annotations

from functools import lru_cache

from clienthealth.formats import Format, Record, Snapshot
from clienthealth.formats._otlp import AGENT_INTERVAL_MS, Metric, Points, Sample, metric, sample
from clienthealth.formats._protobuf import (
    REMEMBERED,
    attributes,
    attributes_of,
    parsed,
    point,
    points,
    signal,
    text,
)
from clienthealth.formats._values import known, millis


def _recognise(record: Record) -> bool:
    return record.data is not None and signal(record.data) == "metrics"


def _decode(record: Record) -> list[Snapshot] | None:
    if record.data is None:
        return None
    try:
        request = parsed("Metrics", record.data)
    except ValueError:
        return None
    found: list[Snapshot] = []
    ids = tuple(record.identity.otlp_client_id)
    for resource in request.resources:
        taken = Points(attributes(tuple(resource.resource.attributes)), record.identity)
        last_end = last_start = 0
        for scope in resource.scopes:
            for said in scope.metrics:
                of = _metric(said.name)
                if of is None:
                    continue
                listed, delta = points(said.sum or said.gauge)
                if not listed:
                    continue
                taken.of(of, delta)
                for start, end, value, named in map(point, listed):
                    if end != last_end:
                        last_end = end
                        taken.ended(_moment(end))
                    if delta and start != last_start:
                        last_start = start
                        taken.counts_since(_moment(start))
                    taken.add(_sample(said.name, named, ids), known(value))
        found += taken.snapshots()
    return found


def _moment(nanos: int) -> int | None:
    return millis(nanos / 1e6) if nanos else None


@lru_cache(maxsize=4096)
def _metric(name: bytes) -> Metric | None:
    return metric(text(name))


@lru_cache(maxsize=REMEMBERED)
def _sample(name: bytes, named: bytes, ids: tuple[str, ...]) -> Sample:
    of = metric(text(name))
    assert of is not None
    return sample(of, attributes_of(named), ids)


FORMAT = Format("otlp_metrics_protobuf", "metrics", 4, _recognise, _decode, interval_ms=AGENT_INTERVAL_MS, binary=True)
