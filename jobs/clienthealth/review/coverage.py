"""Whether anybody watched: what the table `quality` says of a period. A minute without a row is a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from clienthealth.review.client_minutes import within
from clienthealth.review.model import Gap, InputQuality, WrongClock
from clienthealth.review.period import MINUTE, Period, utc
from clienthealth.spark.history import CLIENT_KEY


def per_minute(quality: DataFrame, period: Period) -> Sequence[Row]:
    """What was read of each source topic in each minute: at most 10,080 rows a week and topic.

    Columns `at` (epoch seconds), `source_topic`, `records`, `rejected`, `late` (null where nobody counted).
    """
    minute = F.unix_seconds(F.date_trunc("minute", "minute"))
    return (
        within(quality, period.start, period.end)
        .groupBy(minute.alias("at"), "source_topic")
        .agg(*(F.sum(name).alias(name) for name in ("records", "rejected", "late")))
        .collect()
    )


def inputs(rows: Iterable[Mapping[str, Any]]) -> list[InputQuality]:
    """The sums of each source topic."""
    totals: dict[str, InputQuality] = {}
    for row in rows:
        topic = row["source_topic"]
        so_far = totals.get(topic, InputQuality(topic, 0, 0, None))
        late = so_far.late if row["late"] is None else (so_far.late or 0) + row["late"]
        totals[topic] = InputQuality(topic, so_far.records + row["records"], so_far.rejected + row["rejected"], late)
    return [totals[topic] for topic in sorted(totals)]


def clocks(minutes: DataFrame, period: Period) -> list[WrongClock]:
    """The clients whose clock was off in the period, the worst first."""
    off = within(minutes, period.start, period.end).filter("clock_skew_seconds is not null")
    worst = F.max_by("clock_skew_seconds", F.abs("clock_skew_seconds")).alias("skew_seconds")
    rows = off.groupBy(*CLIENT_KEY).agg(worst, F.count("*").alias("minutes")).collect()
    wrong = [WrongClock(**row.asDict()) for row in rows]
    return sorted(wrong, key=lambda clock: (-abs(clock.skew_seconds), clock.service, clock.instance, clock.client_id))


def gaps(period: Period, minutes: Iterable[int]) -> list[Gap]:
    """The stretches of the period without any of `minutes` (epoch seconds, in order)."""
    unwatched, at = [], period.start
    for minute in map(utc, minutes):
        if minute > at:
            unwatched.append(Gap(at, minute))
        at = minute + MINUTE
    return unwatched + ([Gap(at, period.end)] if at < period.end else [])


def gap_minutes(unwatched: Iterable[Gap], start: datetime, end: datetime) -> int:
    """How many minutes of [start, end) were not watched."""
    zero = timedelta()
    return sum((max(min(g.end, end) - max(g.start, start), zero) for g in unwatched), zero) // MINUTE
