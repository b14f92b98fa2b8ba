"""Raw Kafka records as DataFrames, for tests of decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

SAMPLES = Path(__file__).parent / "formats"
#: When the records arrived: hours after the samples, so that none is of the future.
ARRIVED = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
SCHEMA = """key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int,
offset bigint, timestamp timestamp"""


@dataclass(frozen=True)
class Raw:
    """A record before it is decoded. `topic` names it in results."""

    topic: str
    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def raw_records(spark: SparkSession, records: Iterable[Raw]) -> DataFrame:
    """The records as Spark's Kafka source gives them."""
    rows = [
        (
            bytearray(r.key) if r.key is not None else None,
            bytearray(r.value) if r.value is not None else None,
            [(name, bytearray(value.encode())) for name, value in r.headers.items()] or None,
            r.topic,
            0,
            r.offset,
            ARRIVED,
        )
        for r in records
    ]
    return spark.createDataFrame(rows, SCHEMA)


def sample(name: str) -> list[Raw]:
    """A sample file: one record, or one per line of an .ndjson."""
    data = (SAMPLES / name).read_bytes()
    values = data.splitlines() if name.endswith(".ndjson") else [data]
    return [Raw(name, value, offset) for offset, value in enumerate(values)]
