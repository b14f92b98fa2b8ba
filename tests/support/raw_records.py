"""Make raw Kafka records for tests of decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from clienthealth.model.readings import Source
from clienthealth.model.telemetry import RawRecord

SAMPLES = Path(__file__).resolve().parents[1] / "formats"
#: All records arrive hours after the timestamps in the sample files.
ARRIVED = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
ARRIVED_MS = int(ARRIVED.timestamp() * 1000)


@dataclass(frozen=True)
class Raw:
    topic: str
    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def record(self) -> RawRecord:
        headers = {name: value.encode() for name, value in self.headers.items()}
        return RawRecord(self.value, Source(self.topic, 0, self.offset), ARRIVED_MS, self.key, headers)


def sample(name: str) -> list[Raw]:
    data = (SAMPLES / name).read_bytes()
    values = data.splitlines() if name.endswith(".ndjson") else [data]
    return [Raw(name, value, offset) for offset, value in enumerate(values)]
