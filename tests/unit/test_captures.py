"""What real collectors and serializers have written (tests/captures), read by us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clienthealth.decode import Decoded, decode_metrics
from clienthealth.model.telemetry import Snapshot
from clienthealth.settings import Settings
from tests.support.fake_registry import Registry, serving
from tests.support.raw_records import Raw

CAPTURES = Path(__file__).resolve().parents[1] / "captures"
#: Days after they were written.
NOW_MS = 1_796_000_000_000


def metrics(path: str, value: bytes | None = None, settings: Settings | None = None) -> Decoded:
    content = (CAPTURES / path).read_bytes() if value is None else value
    return decode_metrics(Raw(path, content).record, settings or Settings(), NOW_MS)


def only(found: Decoded) -> Snapshot:
    assert found.errors == []
    (snapshot,) = found.snapshots
    return snapshot


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_confluents_serializers(name: str) -> None:
    said: dict[str, Any] = json.loads((CAPTURES / "confluent-kafka" / "registry.json").read_text())
    registry = Registry(said["answers"])
    with serving(registry):
        snapshot = only(metrics(f"confluent-kafka/{name}.bin", settings=registry.settings))
    assert (snapshot.client.client_id, snapshot.client.kind, snapshot.ts_ms) == ("p", "producer", 1795200030000)
    assert snapshot.metrics == {"waiting-threads": 2.0}
    # JSON says what it is without its schema.
    assert bool(registry.asked) == (name != "json")
