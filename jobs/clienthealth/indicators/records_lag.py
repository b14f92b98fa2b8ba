"""The lag that a consumer tells itself (`records-lag`), also where it never commits.

A consumer learns how far its partitions go while it fetches. One that no longer does (an old Scala consumer whose queue
is full goes on telling 0) does not know its lag. Where it fetches and consumes nothing, its lag stands still and says
nothing: UNKNOWN, never OK. Else the state is the trend of the lag: WARN where it climbs steadily (Theil–Sen, as for
groups) and is more than the partition's share of ten seconds of what the client consumes.
"""

from __future__ import annotations

from fnmatch import translate

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats import TOPIC_METRIC_NAMES
from clienthealth.formats._expr import let
from clienthealth.indicators.lag_state import COMMITS, FALLING_SHARE
from clienthealth.modes import MIN_READINGS
from clienthealth.settings import LagSettings
from clienthealth.windows import WindowColumns

#: The column that `lag_points` is kept in, so that what is derived from it is computed once.
LAG_POINTS = "lag_points"

#: A lag that is read in this time at the present pace is no backlog.
BACKLOG_SECONDS = 10.0


def lag_points() -> Column:
    """array<struct<topic, partition, ts_ms, records, paused>> of all readings, in this order."""

    def points(reading: Column) -> Column:
        known = F.filter(reading["topics"], lambda t: t["partition"].isNotNull() & (_of(t, "records-lag") >= 0))
        return F.transform(
            known,
            lambda t: F.struct(
                t["topic"].alias("topic"),
                t["partition"].alias("partition"),
                reading["ts_ms"].alias("ts_ms"),
                _of(t, "records-lag").alias("records"),
                F.coalesce(_of(t, "paused") > 0, F.lit(False)).alias("paused"),
            ),
        )

    spoken = F.filter("readings", lambda r: r["topics"].isNotNull())
    return F.array_sort(F.flatten(F.transform(spoken, points)))


def records_lag(w: WindowColumns, limits: LagSettings) -> Column:
    """array<struct<topic, partition, records, seconds, quality, state, paused>>, the partitions of the last reading.

    `quality` is that of the records; the seconds are known only where there is no lag. Nothing is known of a client
    that has not fetched over its last MIN_READINGS readings.
    """
    points = F.col(LAG_POINTS)
    numbered = F.transform(points, lambda p, i: F.struct(p.alias("p"), i.alias("i")))
    newest = F.filter(numbered, lambda n: n["p"]["ts_ms"] == F.try_element_at("readings", F.lit(-1))["ts_ms"])
    consumed = w.last("records-consumed-total") - w.first("records-consumed-total")
    rate = w.last("records-consumed-rate")
    fetches = F.when(w.kind == "legacy-consumer", w.known_values("fetch-requests-total")).otherwise(
        w.known_values("fetch-total")
    )
    blind = F.coalesce(
        F.try_element_at(fetches, F.lit(-1)) == F.try_element_at(fetches, F.lit(-MIN_READINGS)), F.lit(False)
    )
    stands = F.coalesce(consumed <= 0, rate <= 0, F.lit(False))
    backlog = BACKLOG_SECONDS * F.coalesce(rate, F.lit(0.0)) / F.size(newest)
    client = F.col("client")
    group = F.coalesce(client["group"], client["client_id"])

    def one(p: Column, series: Column) -> Column:
        fine = p["records"] <= allowed_lag(group, p["topic"], limits)
        unreadable = stands | p["paused"] | (F.size(series) < MIN_READINGS)
        behind = (p["records"] > backlog) & climbs(series, limits.dead_band_per_second)
        return F.struct(
            p["topic"].alias("topic"),
            p["partition"].alias("partition"),
            F.when(~blind, p["records"].cast("long")).alias("records"),
            F.when(~blind & (p["records"] == 0), F.lit(0.0)).alias("seconds"),
            F.when(blind, "unknown").otherwise("exact").alias("quality"),
            F.when(blind, "UNKNOWN")
            .when(fine, "OK")
            .when(unreadable, "UNKNOWN")
            .when(behind, "WARN")
            .otherwise("OK")
            .alias("state"),
            p["paused"].alias("paused"),
        )

    def series(n: Column) -> Column:
        before = F.slice(points, F.greatest(F.lit(1), n["i"] + 2 - COMMITS), F.least(F.lit(COMMITS), n["i"] + 1))
        return F.filter(before, lambda p: (p["topic"] == n["p"]["topic"]) & (p["partition"] == n["p"]["partition"]))

    return F.transform(newest, lambda n: let(series(n), lambda found: one(n["p"], found)))


def climbs(series: Column, dead_band: float) -> Column:
    """`lag_state.climbs` of points with `ts_ms` and `records`, natively."""

    def slopes(a: Column) -> Column:
        later = F.filter(series, lambda b: b["ts_ms"] > a["ts_ms"])
        return F.transform(later, lambda b: 1000 * (b["records"] - a["records"]) / (b["ts_ms"] - a["ts_ms"]))

    def verdict(ordered: Column) -> Column:
        size = F.size(ordered)
        median = (F.get(ordered, _floor((size - 1) / 2)) + F.get(ordered, _floor(size / 2))) / 2
        return F.coalesce((median > dead_band) & (F.get(ordered, _floor(size * FALLING_SHARE)) > 0), F.lit(False))

    return let(F.array_sort(F.flatten(F.transform(series, slopes))), verdict)


def allowed_lag(group: Column, topic: Column, limits: LagSettings) -> Column:
    """`lag.allowed_lag` natively: the records of lag that are fine, by the first pattern that matches."""
    found = F.lit(0)
    for pattern, records in reversed(limits.allowed_lag.items()):
        expression = f"^{translate(pattern)}"
        matches = group.rlike(expression) | F.concat(group, F.lit("/"), topic).rlike(expression)
        found = F.when(matches, records).otherwise(found)
    return found


def _floor(value: Column) -> Column:
    return F.floor(value).cast("int")


def _of(topic: Column, name: str) -> Column:
    return F.get(topic["values"], F.lit(TOPIC_METRIC_NAMES.index(name)))
