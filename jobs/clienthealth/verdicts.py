"""Client windows → one row per client: its measurements, and what the native filters say of each failure mode.

All native. What a filter calls harmless never reaches Python; what it suspects keeps its windows for the judges.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.health import SCHEMA
from clienthealth.indicators.buffer import USED, buffer, buffer_used_ratio, used_ratios
from clienthealth.indicators.callback import STRETCHES, callback_seconds, io_thread_busy_ratio, stretches
from clienthealth.indicators.queue import queues
from clienthealth.indicators.records_lag import LAG_POINTS, lag_points, records_lag
from clienthealth.judging import thresholds
from clienthealth.modes import MIN_READINGS, modes
from clienthealth.settings import LagSettings, Settings
from clienthealth.windows import WindowColumns

QUIET = "array<struct<mode:string,status:string,reason:string>>"

#: The measurements of a client as they are published; every field is null where unknown.
INDICATORS = """struct<
    buffer_used_ratio:struct<last:double,max:double>,
    buffer:struct<total_bytes:double,available_bytes:double,waiting_threads:double,wait_ratio:double,
                  exhausted_records_total:double,queued_records:double,seconds_to_full:double>,
    callback_seconds:struct<avg:double,max:double,p99:double,source:string>,
    io_thread_busy_ratio:double,
    queue_time_seconds:struct<avg:double,max:double>,
    request_latency_seconds:struct<avg:double,max:double>,
    reply_queue:double,
    last_poll_age_seconds:double,
    poll_idle_ratio:double,
    queues:array<struct<topic:string,used_ratio:double,records:double>>,
    lag:array<struct<topic:string,partition:int,records:bigint,seconds:double,quality:string,state:string,
                     paused:boolean>>>"""


def measured(windows: DataFrame, settings: Settings) -> DataFrame:
    """Adds key, samples, indicators, `suspected` (modes to be judged) and `quiet` (verdicts on the others)."""
    w = WindowColumns()
    suspected, quiet = [], []
    for mode in modes().values():
        if mode.absence:
            continue
        limits = thresholds(mode, settings.modes)
        applies = w.kind.isin(*sorted(mode.kinds))
        suspect = applies & F.coalesce(mode.suspects(w, limits), F.lit(True))
        few = F.when(w.samples < MIN_READINGS, F.lit(f"fewer than {MIN_READINGS} readings"))
        reason = F.coalesce(few, mode.blind(w, limits))
        suspected.append(F.when(suspect, F.lit(mode.id)))
        quiet.append(
            F.when(
                applies & ~suspect,
                F.struct(
                    F.lit(mode.id).alias("mode"),
                    F.when(reason.isNull(), "ok").otherwise("unknown").alias("status"),
                    reason.alias("reason"),
                ),
            )
        )
    client = F.col("client")
    columns: list[Column | str] = [
        F.concat_ws("|", client["service"], client["instance"], client["client_id"]).alias("key"),
        *windows.columns,
        w.samples.alias("samples"),
        indicators(w, settings.lag).alias("indicators"),
        F.array_compact(F.array(*suspected)).cast("array<string>").alias("suspected"),
        F.array_compact(F.array(*quiet)).cast(QUIET).alias("quiet"),
    ]
    derived = {STRETCHES: stretches(w), USED: used_ratios(w), LAG_POINTS: lag_points()}
    return w.with_series(windows).withColumns(derived).select(*columns)


def indicators(w: WindowColumns, lag: LagSettings) -> Column:
    """The measurements of a window (INDICATORS)."""
    producer, consumer = w.kind == "producer", w.kind == "consumer"

    def milliseconds(name: str) -> Column:
        return F.struct((w.last(f"{name}-avg") / 1000).alias("avg"), (w.max(f"{name}-max") / 1000).alias("max"))

    return F.struct(
        buffer_used_ratio(w).alias("buffer_used_ratio"),
        buffer(w).alias("buffer"),
        callback_seconds(w).alias("callback_seconds"),
        F.when(producer, io_thread_busy_ratio(w)).alias("io_thread_busy_ratio"),
        F.when(producer, milliseconds("record-queue-time")).alias("queue_time_seconds"),
        F.when(producer, milliseconds("request-latency")).alias("request_latency_seconds"),
        w.last("reply-queue").alias("reply_queue"),
        F.when(consumer, w.last("last-poll-seconds-ago")).alias("last_poll_age_seconds"),
        F.when(consumer, w.last("poll-idle-ratio-avg")).alias("poll_idle_ratio"),
        queues(w).alias("queues"),
        records_lag(w, lag).alias("lag"),
    ).cast(INDICATORS)


def per_client(rows: DataFrame) -> DataFrame:
    """One row per client: `newest` (what is published of it) and `windows` (all its windows of this batch).

    The newest window that has enough readings speaks for the client. The readings themselves stay only where a mode
    suspects them.
    """
    rank = F.struct((F.col("samples") >= MIN_READINGS).alias("enough"), F.col("end_ms"))
    newest = F.struct("client", "start_ms", "end_ms", "samples", "indicators", "quiet")
    suspect = F.size("suspected") > 0
    kept = ("readings", "events", "dumps", "config")
    window = F.struct(
        "end_ms", "start_ms", "suspected", "quiet", *(F.when(suspect, F.col(name)).alias(name) for name in kept)
    )
    last_ms = F.max(F.try_element_at("readings", F.lit(-1))["ts_ms"])
    return rows.groupBy("key").agg(
        F.max_by(newest, rank).alias("newest"), F.collect_list(window).alias("windows"), last_ms.alias("last_ms")
    )


def record(newest: Column, verdicts: Column, worst: Column, last_seen: Column) -> Column:
    """The JSON of a client's state on the topic `client-health`."""
    return F.to_json(
        F.struct(
            F.lit(SCHEMA).alias("schema"),
            newest["start_ms"].alias("window_start"),
            newest["end_ms"].alias("window_end"),
            newest["client"].alias("client"),
            newest["samples"].alias("samples"),
            newest["indicators"].alias("indicators"),
            verdicts.alias("verdicts"),
            worst.alias("worst"),
            last_seen.alias("last_seen"),
        )
    )


def quiet_records(clients: DataFrame) -> DataFrame:
    """Clients that no mode suspects → key and value of their records."""
    newest = F.col("newest")
    quiet = newest["quiet"]
    worst = F.when(F.exists(quiet, lambda v: v["status"] == "ok"), "ok").otherwise("unknown")
    return clients.select(F.col("key"), record(newest, quiet, worst, F.col("last_ms")).alias("value"))
