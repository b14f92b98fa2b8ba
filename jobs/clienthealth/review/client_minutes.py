"""Aggregate the tables `minutes` and `quality` of a period in Spark. Only small results reach the driver.

The parameter `periods` lists adjacent periods of the same length. A minute without a row in `quality` is a gap. Ratios
are cut to thousandths, and lag is cut to whole records, so that only integers are added up. A sum of floating-point
numbers would depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from clienthealth.model.verdicts import UNHEALTHY
from clienthealth.review.model import InputQuality, WrongClock, of_row
from clienthealth.review.period import MINUTE, Period, utc
from clienthealth.spark.history import CLIENT_KEY

#: The highest class of lag. A lag of n digits is in class n; a lag of more than LAG_CLASSES digits is in class
#: LAG_CLASSES.
LAG_CLASSES = 8


def within(rows: DataFrame, start: Any, end: Any) -> DataFrame:
    """Return the rows with a time in [start, end).

    The table is partitioned by day, so the filter on the day spares Spark from reading other days.
    """
    last_day = (end - timedelta(microseconds=1)).date()
    return rows.filter(
        F.col("day").between(F.lit(start.date()), F.lit(last_day))
        & (F.col("minute") >= F.lit(start))
        & (F.col("minute") < F.lit(end))
    )


def _minute_of(period: Period) -> Column:
    return F.expr(f"div(unix_seconds(minute) - {int(period.start.timestamp())}, 60)").cast("int")


def _index(periods: Sequence[Period]) -> Column:
    """Return the index of the period that contains a minute; the oldest period has index 0."""
    return F.floor(_minute_of(periods[0]) / periods[0].minutes).cast("int")


def _clients_only(minutes: DataFrame) -> DataFrame:
    return minutes.filter(~F.col("kind").eqNullSafe("group"))


def statuses(minutes: DataFrame, periods: Sequence[Period], step: int) -> DataFrame:
    """Return the number of client-minutes (`count`) for each `service`, `period` (0: the oldest), `slot` and `status`.

    The last period has slots of `step` minutes; each earlier period is one slot, with the number -1.
    """
    newest = periods[-1]
    rows = _clients_only(within(minutes, periods[0].start, newest.end))
    slot = F.when(F.col("minute") >= F.lit(newest.start), F.floor(_minute_of(newest) / step)).otherwise(-1)
    status = F.when(F.col("status").isin("ok", "partial", *UNHEALTHY), F.col("status")).otherwise("unknown")
    return rows.groupBy(
        "service", _index(periods).alias("period"), slot.cast("int").alias("slot"), status.alias("status")
    ).count()


def failing(minutes: DataFrame, periods: Sequence[Period]) -> DataFrame:
    """Return the number of unhealthy client-minutes (`count`) for each `period`, `mode` and `status` of the mode."""
    rows = _clients_only(within(minutes, periods[0].start, periods[-1].end)).filter(F.col("status").isin(*UNHEALTHY))
    return (
        rows.select(_index(periods).alias("period"), F.explode("modes").alias("found"))
        .groupBy("period", F.col("found.mode").alias("mode"), F.col("found.status").alias("status"))
        .count()
    )


def also_seen(minutes: DataFrame, periods: Sequence[Period]) -> DataFrame:
    """Return, for each known issue (`what`), `service` and `period`, the numbers of log `lines` and of `clients`."""
    rows = _clients_only(within(minutes, periods[0].start, periods[-1].end)).filter("also_seen is not null")
    return (
        rows.select(*CLIENT_KEY, _index(periods).alias("period"), F.explode("also_seen").alias("seen"))
        .groupBy(F.col("seen.what").alias("what"), F.coalesce("service", F.lit("")).alias("service"), "period")
        .agg(F.sum("seen.lines").alias("lines"), F.countDistinct("instance", "client_id").alias("clients"))
    )


def buffers(minutes: DataFrame, periods: Sequence[Period]) -> DataFrame:
    """Return the number of client-minutes (`count`) for each `service`, `period` (0: the oldest) and `per_mille`.

    `per_mille`: highest used share of the buffer in a minute, in thousandths. Minutes with unknown use are left out.
    """
    rows = within(minutes, periods[0].start, periods[-1].end).filter("buffer_used_ratio_max is not null")
    share = F.least(F.floor(F.col("buffer_used_ratio_max") * 1000), F.lit(1000)).cast("int")
    return rows.groupBy("service", _index(periods).alias("period"), share.alias("per_mille")).count()


def clients(minutes: DataFrame, periods: Sequence[Period]) -> DataFrame:
    """Return one row per client, period and `queue_topic` (the topic with the client's fullest queue in a minute).

    Columns: the client's key, `kind`, `host`, `library`, `version`, `period` and `queue_topic`. `suspected` and
    `confirmed`: numbers of minutes with the status of the same name. `buffer` and `queue`: peak use of the client's
    buffer and queue (0 to 1).
    """
    # Group by the text columns first. If the first grouping had to find the maximum of a text column, Spark would sort
    # all rows, and would take six times as long.
    rows = _clients_only(within(minutes, periods[0].start, periods[-1].end))
    key, named = (*CLIENT_KEY, "period", "queue_topic"), ("kind", "host", "library", "version")
    counts, highest = ("suspected", "confirmed"), ("buffer", "queue")
    return (
        rows.withColumn("period", _index(periods))
        .groupBy(*key, *named)
        .agg(
            *(F.count_if(F.col("status").eqNullSafe(status)).alias(status) for status in counts),
            F.max("buffer_used_ratio_max").alias("buffer"),
            F.max("queue_used_ratio_max").alias("queue"),
        )
        .groupBy(*key)
        .agg(*(F.max(name).alias(name) for name in (*named, *highest)), *(F.sum(name).alias(name) for name in counts))
    )


def lag(minutes: DataFrame, periods: Sequence[Period]) -> DataFrame:
    """Return one row per client key (of a group or a consumer), `period` (0: the oldest), `lag_topic` and `class`.

    Class 0 means no lag, and class n means a lag with n digits (class 8: at least 8 digits). Further columns:

    `group`                   name of the consumer group
    `records`, `seconds`      highest lag in records, and highest lag in seconds
    `n`                       number of minutes
    `sx`, `sy`, `sxy`, `sxx`  sums for a regression line (x: minute of the period, y: lag in records), as decimals of 38
                              digits
    """
    rows = within(minutes, periods[0].start, periods[-1].end).filter("lag_records is not null")
    x = (_minute_of(periods[0]) % periods[0].minutes).cast("decimal(18,0)")
    records = F.col("lag_records")
    y = records.cast("decimal(20,0)")
    lag_class = F.when(records <= 0, 0).otherwise(F.least(F.length(records.cast("string")), F.lit(LAG_CLASSES)))
    return rows.groupBy(
        *CLIENT_KEY, _index(periods).alias("period"), "lag_topic", lag_class.cast("int").alias("class")
    ).agg(
        F.max("group").alias("group"),
        F.max("lag_records").alias("records"),
        F.max("lag_seconds").alias("seconds"),
        F.count("*").alias("n"),
        F.sum(x).alias("sx"),
        F.sum(y).alias("sy"),
        F.sum(x * y).alias("sxy"),
        F.sum(x * x).alias("sxx"),
    )


def lag_per_client(lag: DataFrame, reviewed: int) -> DataFrame:
    """Return one row per client key: the client's lag in the reviewed period.

    `lag`: the result of the function `lag`. `reviewed`: number of the reviewed period, from 0. The column `topic`
    contains the topic with the highest lag. The other columns have the same meaning as in the parameter `lag`.
    """
    return (
        lag.filter(F.col("period") == reviewed)
        .groupBy(*CLIENT_KEY)
        .agg(
            F.max_by("lag_topic", F.struct("records", "lag_topic")).alias("topic"),
            *(F.max(name).alias(name) for name in ("group", "records", "seconds")),
            *(F.sum(name).cast("double").alias(name) for name in ("n", "sx", "sy", "sxy", "sxx")),
        )
    )


def per_minute(quality: DataFrame, period: Period) -> Sequence[Row]:
    """Return one row per source topic and minute: at most 10,080 rows per topic and week.

    Columns: `at` (epoch seconds), `source_topic`, and numbers of records (`records`, `rejected`, `late`). `late` is
    null if late records were not counted.
    """
    minute = F.unix_seconds(F.date_trunc("minute", "minute"))
    return (
        within(quality, period.start, period.end)
        .groupBy(minute.alias("at"), "source_topic")
        .agg(*(F.sum(name).alias(name) for name in ("records", "rejected", "late")))
        .collect()
    )


def inputs(rows: Iterable[Mapping[str, Any]]) -> list[InputQuality]:
    """Add up the rows of `per_minute` by source topic; return the sums, sorted by topic."""
    totals: dict[str, InputQuality] = {}
    for row in rows:
        topic = row["source_topic"]
        so_far = totals.get(topic, InputQuality(topic, 0, 0, None))
        late = so_far.late if row["late"] is None else (so_far.late or 0) + row["late"]
        totals[topic] = InputQuality(topic, so_far.records + row["records"], so_far.rejected + row["rejected"], late)
    return [totals[topic] for topic in sorted(totals)]


def clocks(minutes: DataFrame, period: Period) -> list[WrongClock]:
    """Return the clients with a wrong clock in the period, the largest deviation first."""
    off = within(minutes, period.start, period.end).filter("clock_skew_seconds is not null")
    worst = F.max_by("clock_skew_seconds", F.abs("clock_skew_seconds")).alias("skew_seconds")
    rows = off.groupBy(*CLIENT_KEY).agg(worst, F.count("*").alias("minutes")).collect()
    wrong = [of_row(WrongClock, row.asDict()) for row in rows]
    return sorted(wrong, key=lambda clock: (-abs(clock.skew_seconds), clock.service, clock.instance, clock.client_id))


def gaps(period: Period, minutes: Iterable[int]) -> list[Period]:
    """Return the parts of the period that the monitor did not watch.

    `minutes`: start of each watched minute (epoch seconds), in ascending order.
    """
    unwatched, at = [], period.start
    for minute in map(utc, minutes):
        if minute > at:
            unwatched.append(Period(at, minute))
        at = minute + MINUTE
    return unwatched + ([Period(at, period.end)] if at < period.end else [])


def gap_minutes(unwatched: Iterable[Period], start: datetime, end: datetime) -> int:
    """Return the number of unwatched minutes in [start, end). `unwatched`: the result of `gaps`."""
    zero = timedelta()
    return sum((max(min(g.end, end) - max(g.start, start), zero) for g in unwatched), zero) // MINUTE
