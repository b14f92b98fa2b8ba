"""Estimate when each service's buffers will be full, and how fast the lag of consumer groups grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from statistics import linear_regression
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clienthealth.review import client_minutes
from clienthealth.review.model import Capacity, Distribution, LagTrend, of_row
from clienthealth.spark.history import CLIENT_KEY

MINUTES_PER_DAY = 1440
#: A slope is calculated only if the percentile is known for at least this number of periods.
LEAST_PERIODS = 3
BUFFER_CLASSES = 10
TOP = 5


def percentile(histogram: Mapping[int, int], share: float) -> int | None:
    """Return a percentile: the smallest value v such that at least `share` (0 to 1) of the items have values up to v.

    `histogram`: maps each value to the number of items with this value. Returns None if the histogram is empty.
    """
    rank, seen = share * sum(histogram.values()), 0
    for value in sorted(histogram):
        seen += histogram[value]
        if seen >= rank:
            return value
    return None


def buffers(rows: Iterable[Mapping[str, Any]], periods: int) -> list[Capacity]:
    """Return how full each service's buffers are. The service with the fewest `periods_left` comes first.

    `rows`: the result of `client_minutes.buffers`. `periods`: number of periods in `rows`.
    """
    counted: dict[str, list[dict[int, int]]] = {}
    for row in rows:
        histograms = counted.setdefault(row["service"] or "", [{} for _ in range(periods)])
        histograms[row["period"]][row["per_mille"]] = row["count"]
    capacities = []
    for service, histograms in counted.items():
        p95 = tuple(None if (p := percentile(h, 0.95)) is None else p / 1000 for h in histograms)
        known = [(x, y) for x, y in enumerate(p95) if y is not None]
        slope = linear_regression(*zip(*known, strict=True)).slope if len(known) >= LEAST_PERIODS else None
        left = (1 - p95[-1]) / slope if slope is not None and slope > 0 and p95[-1] is not None else None
        capacities.append(Capacity(service, p95, slope, left))
    return sorted(
        capacities, key=lambda c: (inf if c.periods_left is None else c.periods_left, -(c.p95[-1] or 0), c.service)
    )


def lag_trends(lag: DataFrame, reviewed: int) -> list[LagTrend]:
    """Return at most TOP (5) groups and consumers, those with the fastest growing lag.

    The lag must grow by at least 1 record a day. `lag`: the result of `client_minutes.lag`. `reviewed`: the value of
    the column `period` for the reviewed period.
    """
    slope = (F.col("n") * F.col("sxy") - F.col("sx") * F.col("sy")) / F.nullif(
        F.col("n") * F.col("sxx") - F.col("sx") * F.col("sx"), F.lit(0.0)
    )
    rows = (
        client_minutes.lag_per_client(lag, reviewed)
        .withColumn("slope", slope * MINUTES_PER_DAY)
        .filter("slope >= 1")
        .orderBy(F.desc("slope"), *CLIENT_KEY)
        .limit(TOP)
        .collect()
    )
    return [of_row(LagTrend, row.asDict(), group=row["group"] or row["client_id"] or "") for row in rows]


def buffer_distribution(rows: Iterable[Mapping[str, Any]], reviewed: int) -> Distribution:
    """Return how many client-minutes had a peak buffer use of 0 to 10 %, 10 to 20 % and so on.

    `rows`: the result of `client_minutes.buffers`. `reviewed`: the value of the column `period` for the reviewed
    period.
    """
    names = (*(f"{n * 10}–{n * 10 + 10} %" for n in range(BUFFER_CLASSES)), "full")
    return _distribution(names, ((row, row["per_mille"] * BUFFER_CLASSES // 1000) for row in rows), reviewed)


def lag_distribution(lag: DataFrame, reviewed: int) -> Distribution:
    """Return how many minutes of groups and consumers had a lag of 0, 1 to 9, 10 to 99 records and so on.

    `lag`: the result of `client_minutes.lag`. `reviewed`: the value of the column `period` for the reviewed period.
    """
    rows = lag.groupBy("period", "class").agg(F.sum("n").alias("count")).collect()
    names = ("0", "1–9", "10–99", "100–999", "1k–10k", "10k–100k", "100k–1M", "1M–10M", "over 10M")
    return _distribution(names, ((row.asDict(), row["class"]) for row in rows), reviewed)


def _distribution(names: Sequence[str], rows: Iterable[tuple[Mapping[str, Any], int]], reviewed: int) -> Distribution:
    counts = Counter[tuple[int, int]]()
    for row, of_class in rows:
        counts[row["period"], of_class] += row["count"]
    now, before = (tuple(counts[period, n] for n in range(len(names))) for period in (reviewed, reviewed - 1))
    return Distribution(tuple(names), now, before)
