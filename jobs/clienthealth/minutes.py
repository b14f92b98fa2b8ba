"""The history's minutes: what was published of a client in each minute, as one final row.

Read from the monitor's own output: a window that covers a whole minute is published again and again while it fills,
and the last record of it is the minute's. Measured against a merge per batch and against rows per update: the output
topic is a hundredth of the input, and an append-mode aggregate writes each minute once, exactly.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.records import UNHEALTHY
from clienthealth.sinks.history import MINUTES, SCHEMA_VERSION

HEALTH = """
    window_start bigint, window_end bigint, samples int, worst string, departed boolean,
    client struct<service:string,host:string,instance:string,client_id:string,kind:string,library:string,
                  version:string,`group`:string>,
    indicators struct<
        buffer_used_ratio:struct<max:double>,
        callback_seconds:struct<avg:double,source:string>,
        queues:array<struct<topic:string,used_ratio:double>>,
        lag:array<struct<topic:string,records:bigint,seconds:double,state:string>>,
        `group`:struct<status:string>>,
    verdicts array<struct<mode:string,status:string>>
"""


def minutes(records: DataFrame, window_seconds: int) -> DataFrame:
    """Records of `client-health` (a Kafka stream or batch) → rows of the table `minutes`.

    Clients are counted in the minute that their newest window ends in or covers; consumer groups in the minute of
    their reading. Records of clients that have gone are left out: they report nothing.
    """
    state = F.from_json(F.col("value").cast("string"), HEALTH).alias("state")
    rows = records.filter("value is not null").select(state, F.col("offset")).select("state.*", "offset")
    is_group = F.col("client.kind") == "group"
    moment = F.when(is_group, F.col("window_end")).otherwise(F.col("window_end") - window_seconds * 1000)
    rows = rows.filter(~F.coalesce(F.col("departed"), F.lit(False))).withColumn(
        "ts", F.timestamp_millis(moment.cast("long"))
    )
    if rows.isStreaming:
        rows = rows.withWatermark("ts", f"{window_seconds} seconds")
    kept = F.struct("samples", "worst", "client", "indicators", "verdicts")
    final = rows.groupBy(
        F.window("ts", "1 minute").alias("minute"),
        *(F.col(f"client.{name}").alias(name) for name in ("service", "instance", "client_id")),
    ).agg(F.max_by(kept, F.struct("window_end", "offset")).alias("last"))
    return final.select(*_row())


def _row() -> list[Column]:
    last, client, found = F.col("last"), F.col("last.client"), F.col("last.indicators")
    fullest = F.array_max(F.transform(found["queues"], lambda q: F.struct(q["used_ratio"], q["topic"])))
    behind = F.array_max(F.transform(found["lag"], lambda p: F.struct(p["records"], p["seconds"], p["topic"])))
    values = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "day": F.to_date("minute.start"),
        "minute": F.col("minute.start"),
        **{name: client[name] for name in ("service", "host", "instance", "client_id", "kind", "group")},
        "library": client["library"],
        "version": client["version"],
        "samples": last["samples"],
        "status": last["worst"],
        "modes": F.filter(last["verdicts"], lambda v: v["status"].isin(*UNHEALTHY)),
        "buffer_used_ratio_max": found["buffer_used_ratio"]["max"],
        "callback_seconds_avg": found["callback_seconds"]["avg"],
        "callback_source": found["callback_seconds"]["source"],
        "queue_used_ratio_max": fullest["used_ratio"],
        "queue_topic": fullest["topic"],
        "lag_records": behind["records"],
        "lag_seconds": behind["seconds"],
        "lag_topic": behind["topic"],
        "lag_state": found["group"]["status"],
    }
    return [values[field.name].cast(field.dataType).alias(field.name) for field in MINUTES]
