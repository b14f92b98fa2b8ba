"""The product's own JSON form of a snapshot: all exporters write it, and `formats.canonical` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clienthealth.model.clients import Client
from clienthealth.model.telemetry import Identity, Snapshot

_NAMES = Client.__struct_fields__


def snapshot(
    client: Client | Identity,
    ts_ms: int,
    metrics: Mapping[str, Any],
    topics: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return one client's metrics at one moment (epoch ms) as JSON. Unknown parts of the client's identity are null.

    metrics  by names of CLIENT_METRICS
    topics   one per topic, partition or thread: `topic`, `partition`, `thread`, `metrics`; in groups also `member`
    """
    return {
        "ts": ts_ms,
        "client": {name: getattr(client, name) or None for name in _NAMES},
        "metrics": dict(metrics),
        "topics": list(topics),
        "config": dict(config or {}),
    }


def written(reported: Snapshot) -> dict[str, Any]:
    """Return a snapshot of a client (not of a group) in the product's own JSON form."""
    topics = [
        {"topic": one.topic, "partition": one.partition, "thread": one.thread, "metrics": one.metrics}
        for one in reported.topics
    ]
    return snapshot(reported.client, reported.ts_ms or 0, reported.metrics, topics, reported.config)


def key(of_snapshot: Mapping[str, Any]) -> str:
    """Return the Kafka record's key for a snapshot in this JSON form: `Client.key` of the snapshot's client."""
    client = of_snapshot["client"]
    return Client(client["service"] or "", "", client["instance"] or "", client["client_id"] or "").key
