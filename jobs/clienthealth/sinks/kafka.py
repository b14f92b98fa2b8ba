"""Results as records: the newest state of every client, and what could not be read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.settings import Settings
from clienthealth.sources.kafka import connection


def write(records: DataFrame, settings: Settings, topic: str) -> None:
    """Write rows of key, value and (where there) headers. At least once: a repeated record has the same key."""
    (
        records.write.format("kafka")
        .options(**connection(settings))
        .option("includeHeaders", str("headers" in records.columns).lower())
        .option("topic", topic)
        .save()
    )


def rejects(rejected: DataFrame) -> DataFrame:
    """Rejected records as they arrived, with the reason and where they stood as further headers."""
    raw = F.col("raw")
    added = {
        "reject_reason": F.col("error"),
        "source_topic": raw["topic"],
        "source_partition": raw["partition"].cast("string"),
        "source_offset": raw["offset"].cast("string"),
    }
    headers = F.concat(
        F.coalesce(raw["headers"], F.array().cast("array<struct<key:string,value:binary>>")),
        F.array(*(_header(name, value) for name, value in added.items())),
    )
    return rejected.select(raw["key"].alias("key"), raw["value"].alias("value"), headers.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
