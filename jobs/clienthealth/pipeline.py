"""The wiring of the monitor, readable from top to bottom: topics → snapshots and events → windows → batches.

Four streaming queries share this code. `clients` judges what clients report, `departures` what their silence means,
`lag` what consumer groups have committed, `rejects` sends on what could not be read and counts what was.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.decode import accepted, decode_logs, decode_metrics
from clienthealth.formats import formats
from clienthealth.logs.events import log_events, worth_decoding
from clienthealth.sessions import departures, farewells
from clienthealth.settings import Settings
from clienthealth.sources.kafka import stream
from clienthealth.verdicts import measured
from clienthealth.windows import client_windows, observations, process_windows, thinned

#: What is kept of a partition's metrics, in this order.
OFFSETS = ("committed-offset", "end-offset", "start-offset", "commit-timestamp-ms")


@dataclass(frozen=True)
class Inputs:
    """What was read, as streams or as batches: decoded metrics, decoded log records, and the events found in these."""

    metrics: DataFrame
    logs: DataFrame
    events: DataFrame


def decoded(metrics: DataFrame, logs: DataFrame, settings: Settings) -> Inputs:
    """Raw records of the two kinds of topics, decoded."""
    records = decode_logs(logs, settings)
    return Inputs(decode_metrics(metrics, settings), records, log_events(accepted(records)))


def topics(spark: SparkSession, settings: Settings) -> Inputs:
    """The input topics as streams. The events are read from a log topic without decoding what cannot hold one."""
    metrics = stream(spark, settings, settings.topics.metrics)
    logs = stream(spark, settings, settings.topics.logs)
    events = log_events(accepted(decode_logs(worth_decoding(logs), settings)))
    return Inputs(decode_metrics(metrics, settings), decode_logs(logs, settings), events)


def group_records(raw: DataFrame, settings: Settings) -> DataFrame:
    """Raw records of metrics, decoded as far as they can speak of consumer groups."""
    return decode_metrics(raw, settings, among=[fmt for fmt in formats("metrics") if fmt.groups])


def clients(inputs: Inputs, settings: Settings) -> DataFrame:
    """The clients' windows, measured, and what the native filters suspect (`verdicts.measured`)."""
    delay = f"{settings.monitor.watermark_seconds} seconds"
    snapshots = accepted(inputs.metrics).filter("client.kind != 'group'")
    rows = observations(_watermarked(snapshots, delay)).unionByName(
        thinned(_watermarked(inputs.events, delay), snapshots.isStreaming), allowMissingColumns=True
    )
    return measured(client_windows(process_windows(rows, settings.monitor)), settings)


def absences(inputs: Inputs, settings: Settings) -> DataFrame:
    """Clients that stopped reporting, as windows with their last reading (`sessions.departures`)."""
    delay = f"{settings.absence.watermark_seconds} seconds"
    snapshots = accepted(inputs.metrics).filter("client.kind != 'group'")
    goodbyes = farewells(inputs.events)
    return departures(_watermarked(snapshots, delay), _watermarked(goodbyes, delay), settings.absence)


def group_readings(records: DataFrame, settings: Settings) -> DataFrame:
    """What consumer groups had committed, collected per group and lag window: `newest` and `readings`.

    State costs what it holds. A reading has numbers only, each partition under its `key`; what the partitions are
    called and who owns them is kept of the newest reading alone. A record of a single partition (Metricbeat sends one
    for each) tells it itself.
    """
    snapshots = accepted(records).filter("client.kind = 'group'")
    rows = _watermarked(snapshots, f"{settings.monitor.watermark_seconds} seconds")
    client = F.col("client")
    window = F.window("ts", f"{settings.lag.window_seconds} seconds", f"{settings.lag.slide_seconds} seconds")

    def key(topic: Column) -> Column:
        return F.xxhash64(topic["topic"], topic["partition"]).alias("key")

    def name(topic: Column) -> Column:
        return F.struct(key(topic), *(topic[part].alias(part) for part in ("topic", "partition", "member")))

    def offsets(topic: Column) -> Column:
        alone = F.when(F.size("topics") == 1, name(topic))
        return F.struct(
            key(topic),
            *(topic["metrics"][metric].cast("long").alias(metric.replace("-", "_")) for metric in OFFSETS),
            alone.alias("name"),
        )

    reading = F.struct("ts_ms", F.transform("topics", offsets).alias("partitions"))
    newest = F.struct(
        "client", F.col("metrics.members").alias("members"), F.transform("topics", name).alias("partitions")
    )
    return rows.groupBy(
        client["service"].alias("service"),
        client["instance"].alias("instance"),
        client["client_id"].alias("client_id"),
        window.alias("window"),
    ).agg(
        F.max("ts_ms").alias("last_ms"),
        F.max_by(newest, "ts_ms").alias("newest"),
        F.collect_list(reading).alias("readings"),
    )


def arrivals(inputs: Inputs) -> DataFrame:
    """Every record of both kinds of topics with what became of it: error (null where it could be read), ts, raw."""
    metrics, logs = (
        rows.select("ts", "error", "raw", F.col("source.topic").alias("source_topic"), "arrived")
        for rows in (inputs.metrics, inputs.logs)
    )
    return metrics.unionByName(logs)


def _watermarked(rows: DataFrame, delay: str) -> DataFrame:
    return rows.withWatermark("ts", delay) if rows.isStreaming else rows
