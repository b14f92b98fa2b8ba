"""The monitor's own JSON form of a snapshot: all exporters write it, and `formats.canonical` reads it."""

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
    """Return one client's metrics at one moment (epoch ms) as a JSON object. Unknown fields of the client are null.

    `metrics`  values by the names in CLIENT_METRICS
    `topics`   one object per topic, partition or thread, with the fields `topic`, `partition`, `thread` and `metrics`;
               objects of a consumer group also have the field `member`
    `config`   the client's options by name
    """
    return {
        "ts": ts_ms,
        "client": {name: getattr(client, name) or None for name in _NAMES},
        "metrics": dict(metrics),
        "topics": list(topics),
        "config": dict(config or {}),
    }


def written(reported: Snapshot) -> dict[str, Any]:
    """Return a client's snapshot in the JSON form that all exporters write; an unknown time becomes 0.

    The fields `interval_ms`, `delta` and `member` are left out.
    """
    topics = [
        {"topic": one.topic, "partition": one.partition, "thread": one.thread, "metrics": one.metrics}
        for one in reported.topics
    ]
    return snapshot(reported.client, reported.ts_ms or 0, reported.metrics, topics, reported.config)


def key(of_snapshot: Mapping[str, Any]) -> str:
    """Return the key of the Kafka record that carries a snapshot: the `Client.key` of the snapshot's client."""
    client = of_snapshot["client"]
    return Client(client["service"] or "", "", client["instance"] or "", client["client_id"] or "").key
