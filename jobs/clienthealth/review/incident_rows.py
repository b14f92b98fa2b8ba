"""Turn the changes in the table `verdicts` into one row per incident.

An incident is a failure (mode) of one client, from the change `opened` to the change `closed`, `withdrawn` or `moved`.
Changes after the review's end are ignored. Columns with times are in epoch seconds:

`start`     when the failure began: the column `since`, or the time of the first change if `since` is null
`found`     when the monitor gave its first verdict (wall-clock time)
`sure`      when the failure was confirmed (event time)
`found_at`  when the failure was confirmed (wall-clock time)
`stop`      the end; null if the incident is still open at the review's end
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clienthealth.modes import modes
from clienthealth.review.period import Period
from clienthealth.spark.history import CLIENT_KEY

INCIDENT_KEY = (*CLIENT_KEY, "mode")
#: Incidents with equal values in these columns form one theme.
THEME = ("mode", "cause", "topic")
#: The bounds of a loss: (unit, n); n is 0 for the lower bound, and 1 for the upper bound.
LOST = tuple((what, n) for what in ("records", "bytes") for n in (0, 1))
LOSING = tuple(mode.id for mode in modes().values() if mode.loses)
#: An incident flaps if the client's previous incident of the same mode ended less than FLAP_SECONDS earlier.
FLAP_SECONDS = 1800


def incidents(verdicts: DataFrame, until: datetime) -> DataFrame:
    """Return one row per incident, from the changes before the time `until`."""
    order = Window.partitionBy(*INCIDENT_KEY).orderBy("observed", "ts")
    changes = verdicts.filter(F.col("ts") < F.lit(until)).withColumn(
        "number", F.count_if(F.col("change") == "opened").over(order)
    )
    newest = F.struct("observed", "ts")
    over = F.col("change").isin("closed", "withdrawn", "moved")
    grouped = changes.groupBy(*INCIDENT_KEY, "number").agg(
        *(F.max(name).alias(name) for name in ("host", "library", "version")),
        F.unix_seconds(F.min(F.coalesce("since", "ts"))).alias("start"),
        F.unix_seconds(F.min("observed")).alias("found"),
        F.unix_seconds(F.min(F.when(F.col("status") == "confirmed", F.col("ts")))).alias("sure"),
        F.unix_seconds(F.min(F.when(F.col("status") == "confirmed", F.col("observed")))).alias("found_at"),
        F.unix_seconds(F.max(F.when(over, F.col("ts")))).alias("stop"),
        F.max_by("change", newest).alias("last"),
        F.max_by("detail", newest).alias("detail"),
        F.max_by("evidence", newest).alias("evidence"),
    )
    silent = F.when(F.col("mode").isin(*LOSING), F.lit(0))
    counted = (_detail("lost_records[0]").cast("long"), _detail("records_expired").cast("long"))
    lost = {("records", 0): F.coalesce(*counted, silent)}
    before = F.lag("stop").over(Window.partitionBy(*INCIDENT_KEY).orderBy("number"))
    return grouped.select(
        *grouped.columns,
        F.greatest(F.col("found") - F.col("start"), F.lit(0)).alias("detect"),
        F.when(F.col("stop").isNotNull(), F.greatest(F.col("stop") - F.col("found"), F.lit(0))).alias("clear"),
        _detail("cause").alias("cause"),
        F.coalesce(_detail("culprit"), _detail("topic")).alias("topic"),
        *(lost.get((what, n), _detail(f"lost_{what}[{n}]").cast("long")).alias(f"lost_{what}_{n}") for what, n in LOST),
        F.coalesce(F.col("start") - before < FLAP_SECONDS, F.lit(False)).alias("flaps"),
    )


def _detail(name: str) -> Column:
    return F.get_json_object("detail", f"$.{name}")


def _epoch(moment: datetime) -> Column:
    return F.lit(int(moment.timestamp())).cast("long")


def _inside(period: Period) -> Column:
    until = F.least(F.coalesce("stop", _epoch(period.end)), _epoch(period.end))
    return F.greatest(until - F.greatest(F.col("start"), _epoch(period.start)), F.lit(0))


def touching(all_incidents: DataFrame, period: Period) -> DataFrame:
    """Return the incidents that were open in a period, including withdrawn and moved incidents.

    The column `seconds` is how long an incident was open in the period.
    """
    return all_incidents.filter(touches(period)).withColumn("seconds", _inside(period))


def touches(period: Period) -> Column:
    """Return a condition that is true for incidents that were open in the period."""
    began = F.col("start") < _epoch(period.end)
    return began & (F.coalesce("stop", _epoch(period.end)) >= _epoch(period.start))


def real(touching: DataFrame) -> DataFrame:
    """Return all incidents except those that were withdrawn or moved to another client."""
    return touching.filter("last not in ('withdrawn', 'moved')")


def themes(touching: DataFrame) -> DataFrame:
    """Return one row per theme (mode, cause and topic), with sums, counts and medians of the theme's incidents.

    `touching`: the incidents that the function `touching` returns. Withdrawn and moved incidents are left out.
    """
    return (
        real(touching)
        .groupBy(*THEME)
        .agg(
            F.count("*").alias("incidents"),
            F.count("sure").alias("confirmed"),
            F.count_if(F.col("stop").isNull()).alias("open"),
            F.count_distinct(*CLIENT_KEY).alias("clients"),
            F.array_sort(F.collect_set("service")).alias("services"),
            F.min("start").alias("start"),
            F.when(F.count("*") == F.count("stop"), F.max("stop")).alias("stop"),
            F.sum("seconds").alias("seconds"),
            F.percentile("detect", 0.5).alias("detect"),
            F.percentile("clear", 0.5).alias("clear"),
            *_sums(),
        )
    )


def losses(touching: DataFrame) -> DataFrame:
    """Return the bounds of the loss (`lost_*`) for each `service` that lost, or may have lost, records."""
    return real(touching).filter("lost_records_0 is not null").groupBy("service").agg(*_sums())


def _sums() -> list[Column]:
    """Return the sums of the columns `lost_*`.

    `lost_records_1` is null if the maximum number of lost records is unknown. Both columns `lost_bytes_*` are null if
    the maximum number of lost bytes is unknown.
    """
    lose = F.count("lost_records_0")
    records = F.when(lose == F.count("lost_records_1"), F.sum("lost_records_1"))
    has_bytes = lose == F.count("lost_bytes_1")
    return [
        F.sum("lost_records_0").alias("lost_records_0"),
        records.alias("lost_records_1"),
        *(F.when(has_bytes, F.sum(f"lost_bytes_{n}")).alias(f"lost_bytes_{n}") for n in (0, 1)),
    ]


def longest(touching: DataFrame, most: int) -> DataFrame:
    """Return the most important incidents of each theme (mode, cause and topic). The column `rank` has the order.

    Confirmed incidents come before unconfirmed incidents. Of two confirmed or two unconfirmed incidents, the longer
    incident comes first. `most`: maximum number of incidents per theme.
    """
    order = Window.partitionBy(*THEME).orderBy(
        F.col("sure").isNull(), F.desc("seconds"), "start", *CLIENT_KEY, "number"
    )
    return real(touching).withColumn("rank", F.row_number().over(order)).filter(F.col("rank") <= most)


def alerts(touching: DataFrame, period: Period) -> DataFrame:
    """Return one row per `mode` and `severity` of alerts.

    The other columns are the fields of `model.Alert`.
    """
    incidents_ = real(touching)
    kept = (*INCIDENT_KEY, "flaps")
    ticket = incidents_.filter("sure is null or sure > start").select(
        *kept, _severity("suspected").alias("severity"), "start", F.coalesce("sure", "stop").alias("stop")
    )
    page = incidents_.filter("sure is not null").select(
        *kept, _severity("confirmed").alias("severity"), F.col("sure").alias("start"), "stop"
    )
    touches = F.coalesce("stop", _epoch(period.end)) >= _epoch(period.start)
    return (
        ticket.unionByName(page)
        .filter(touches)
        .groupBy("mode", "severity")
        .agg(
            F.count("*").alias("count"),
            F.count_distinct(*CLIENT_KEY).alias("clients"),
            F.count_if("flaps").alias("flaps"),
            F.sum(_inside(period)).alias("seconds"),
            F.percentile(F.col("stop") - F.col("start"), 0.5).alias("clear"),
        )
    )


def _severity(status: Literal["confirmed", "suspected"]) -> Column:
    """Return the severity of a mode's alert.

    For an unknown mode, the severity of a confirmed failure is critical, and the severity of a suspected failure is
    warning.
    """
    alertings = {mode.id: mode.confirmed if status == "confirmed" else mode.suspected for mode in modes().values()}
    known = F.create_map(*(F.lit(text) for mode, alerting in alertings.items() for text in (mode, alerting.severity)))
    return F.coalesce(known[F.col("mode")], F.lit("critical" if status == "confirmed" else "warning"))


def pages(touching: DataFrame, period: Period, hold: int) -> DataFrame:
    """Return the pages (alerts that call a person) that began in the period, one row per page.

    A page is for one service and one mode. The page lasts while a client of the service has a confirmed failure of the
    mode. A pause of at most `hold` seconds between two failures does not end the page. Withdrawn incidents are
    included, because they called a person.
    """
    rang = touching.filter("last <> 'moved' and found_at is not null and (stop is null or stop > found_at)")
    rang = rang.filter(_severity("confirmed") == "critical")
    earlier = Window.partitionBy("service", "mode").orderBy("found_at", *CLIENT_KEY, "number")
    until = F.max(F.coalesce("stop", F.lit(2**62))).over(earlier.rowsBetween(Window.unboundedPreceding, -1))
    fresh = F.coalesce(F.col("found_at") > until + hold, F.lit(True))
    return (
        rang.withColumn("fresh", fresh)
        .withColumn("page", F.count_if("fresh").over(earlier))
        .groupBy("service", "mode", "page")
        .agg(
            F.min("found_at").alias("start"),
            F.when(F.count("*") == F.count("stop"), F.max("stop")).alias("stop"),
            F.count_distinct(*CLIENT_KEY).alias("clients"),
            (F.count("lost_records_0") > 0).alias("loses"),
        )
        .filter(F.col("start").between(_epoch(period.start), _epoch(period.end) - 1))
    )
