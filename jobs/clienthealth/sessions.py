"""Clients that stop reporting: a session lasts while readings come, and ends `gap` after the last one.

The gap is three of the client's reporting intervals, `min_gap_seconds` at least.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.logs.signatures import SIGNATURES
from clienthealth.modes import modes
from clienthealth.records import CLIENT_METRICS
from clienthealth.settings import AbsenceSettings
from clienthealth.windows import observations, process

#: What tells how much a producer still had to deliver, as positions in the values of its readings.
UNDELIVERED = tuple(
    list(CLIENT_METRICS["producer"]).index(name)
    for name in (
        "buffer-total-bytes",
        "buffer-available-bytes",
        "queue-records",
        "record-send-total",
        "record-ack-total",
        "record-error-total",
    )
)


def farewells(events: DataFrame) -> DataFrame:
    """Log events that speak of a client's end → rows of ts, service, place, client_id and event."""
    wanted = sorted(s.id for s in SIGNATURES if s.mode in {m.id for m in modes().values() if m.absence})
    event = F.col("event")
    client_id = F.coalesce(event["client_id"], F.try_element_at(event["captures"], F.lit("client")))
    rows = events.filter(event["signature"].isin(*wanted) & client_id.isNotNull())
    return rows.select("ts", *process(F.col("client")), client_id.alias("client_id"), "event")


def departures(snapshots: DataFrame, farewell: DataFrame, settings: AbsenceSettings) -> DataFrame:
    """Ended sessions, one row per client: the columns of `client_windows`, and `departed_ms`.

    The window holds the last reading alone: what a client had in its buffer when it was last heard of, also where that
    came metric by metric, a record each. In a stream this is an append-mode aggregate: a row comes when the watermark
    has passed the end of the gap.
    """
    gap = F.concat(
        F.greatest(F.lit(settings.min_gap_seconds), F.ceil(F.col("interval_ms") * 3 / 1000)).cast("string"),
        F.lit(" seconds"),
    )
    readings = observations(snapshots.withColumn("gap", gap), keep=("gap",)).withColumn(
        "client_id", F.col("reading.client_id")
    )
    rows = readings.unionByName(
        farewell.withColumn("gap", F.lit(f"{settings.min_gap_seconds} seconds")), allowMissingColumns=True
    )
    ended = rows.groupBy("service", "place", "client_id", F.session_window("ts", F.col("gap")).alias("session")).agg(
        F.max_by("reading", F.when(F.col("reading").isNotNull(), F.col("ts"))).alias("last"),
        F.collect_list("event").alias("events"),
        *(_latest(position).alias(f"left_{position}") for position in UNDELIVERED),
    )
    last = _completed(F.col("last"))
    client = F.struct(
        F.col("service"),
        F.col("place").alias("host"),
        last["instance"].alias("instance"),
        F.col("client_id"),
        *(last[name].alias(name) for name in ("kind", "library", "version", "group")),
    )
    return ended.filter(last.isNotNull()).select(
        client.alias("client"),
        F.unix_millis("session.start").alias("start_ms"),
        F.unix_millis("session.end").alias("end_ms"),
        F.array(last).alias("readings"),
        "events",
        F.array().cast("array<struct<ts_ms:bigint,threads:array<string>,source:string>>").alias("dumps"),
        last["config"].alias("config"),
        last["ts_ms"].alias("departed_ms"),
    )


def _latest(position: int) -> Column:
    """The newest known value at a position of a producer's readings."""
    value = F.get("reading.values", F.lit(position))
    return F.max_by(value, F.when(value.isNotNull() & (F.col("reading.kind") == "producer"), F.col("ts")))


def _completed(last: Column) -> Column:
    """A producer's last reading with what it does not say of the undelivered, as it was said last."""
    known = F.array(*(F.col(f"left_{position}") for position in UNDELIVERED))
    places = F.array(*(F.lit(position) for position in UNDELIVERED))
    said = F.transform(
        last["values"], lambda value, at: F.coalesce(value, F.get(known, F.array_position(places, at) - 1))
    )
    return F.when(last["kind"] == "producer", last.withField("values", said)).otherwise(last)
