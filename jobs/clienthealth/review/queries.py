"""Make a review from the history: run the queries, and put their results together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.configuration.installation import fixed_labels
from clienthealth.configuration.owners import read_owners
from clienthealth.modes import modes
from clienthealth.read.logs.also_seen import TROUBLES
from clienthealth.review import capacity, client_minutes, incident_rows, incidents, ranking, slo
from clienthealth.review.actions import carried_over
from clienthealth.review.content import headline
from clienthealth.review.model import Alert, AlsoSeen, Fleet, ModeChange, Quality, Review, of_row
from clienthealth.review.period import WEEK, Period, history_of
from clienthealth.settings import Settings
from clienthealth.spark import history

#: SLOTS: maximum number of points in the chart of the error budget.
SLOTS = 168
REVIEWED = 1


def build(spark: SparkSession, settings: Settings, period: Period, actions_file: Path, root: str) -> Review:
    """Return the review of `period` from the history at `root`.

    Raises InputError if the history or `actions_file` cannot be read, and SettingsError if a file of owners is wrong.
    """
    owners = read_owners(settings.owners.files)
    minutes = history.read(spark, root, "minutes")
    quality = history.read(spark, root, "quality")
    all_incidents = incident_rows.incidents(history.read(spark, root, "verdicts"), period.end)
    periods = history_of(period, slo.PERIODS)
    last_two, step = periods[-2:], period.step(SLOTS)
    per_client, lag = client_minutes.clients(minutes, last_two), client_minutes.lag(minutes, last_two)
    with ExitStack() as cached:
        for frame in (per_client, lag, all_incidents):
            cached.callback(frame.persist().unpersist)
        touching = incident_rows.touching(all_incidents, period)
        overall, services = slo.objectives(
            (row.asDict() for row in client_minutes.statuses(minutes, periods, step).collect()),
            ranking.clients_per_service(per_client, REVIEWED),
            settings.review.slo_target,
            incidents.lost_by_service(touching),
            settings.review.lost_records_target,
            owners,
        )
        review = Review(
            period=period,
            overall=overall,
            services=services,
            periods=periods,
            **_of_settings(settings, period, actions_file),
            **_of_incidents(touching, period, settings),
            **_of_minutes(minutes, periods, lag),
            top_clients=ranking.listed_clients(per_client, lag, REVIEWED),
            top_topics=ranking.top_topics(per_client, lag, incident_rows.real(touching), REVIEWED),
            fleet=ranking.fleet(per_client, REVIEWED) if _reported(overall, -2) else Fleet(),
            changes=_changes(minutes, all_incidents, last_two),
            quality=_quality(quality, minutes, period, overall),
            slot_minutes=step,
            not_computed=[],
        )
    review = dataclasses.replace(review, not_computed=_not_computed(review))
    return dataclasses.replace(review, headline=headline(review))


def _of_settings(settings: Settings, period: Period, actions_file: Path) -> dict[str, Any]:
    review = settings.review
    return {
        "target": review.slo_target,
        "lost_records_target": review.lost_records_target,
        "needless_pages_target": round(review.needless_pages_target * ((period.end - period.start) / WEEK)),
        "actions": carried_over(actions_file, period.end.date(), period.start.date()),
        "actions_file": actions_file.name if actions_file.is_file() else "",
        "cluster": settings.monitor.cluster,
        "environment": fixed_labels(settings).get("env", ""),
        "night_hours": (review.night_from_hour, review.night_to_hour),
    }


def _of_incidents(touching: DataFrame, period: Period, settings: Settings) -> dict[str, Any]:
    links = incidents.Links(settings.links, period, settings.monitor.cluster)
    rows = incident_rows.alerts(touching, period).orderBy("mode", "severity").collect()
    alerts = [of_row(Alert, row.asDict()) for row in rows]
    counts = incidents.counts(touching)
    return {
        "themes": incidents.themes(touching, links),
        "withdrawn": counts["withdrawn"],
        "alerts": alerts,
        "never_fired": never_fired(alerts),
        "cleared": incidents.cleared(touching, links),
        "cleared_count": counts["cleared"],
        "pages": incidents.pages(touching, period, settings),
    }


def _of_minutes(minutes: DataFrame, periods: Sequence[Period], lag: DataFrame) -> dict[str, Any]:
    peaks = [row.asDict() for row in client_minutes.buffers(minutes, periods).collect()]
    return {
        "capacity": capacity.buffers(peaks, slo.PERIODS),
        "buffers": capacity.buffer_distribution(peaks, slo.PERIODS - 1),
        "lag_trends": capacity.lag_trends(lag, REVIEWED),
        "lags": capacity.lag_distribution(lag, REVIEWED),
        "also_seen": also_seen(minutes, periods[-2:]),
    }


def never_fired(alerts: Sequence[Alert]) -> list[tuple[str, str]]:
    """Return (mode, severity) of each alert that did not fire. `alerts`: the alerts that fired."""
    fired = {(alert.mode, alert.severity) for alert in alerts}
    declared = [(mode.id, its.severity) for mode in modes().values() for its in (mode.confirmed, mode.suspected)]
    return [alert for alert in dict.fromkeys(declared) if alert not in fired]


def _changes(minutes: DataFrame, all_incidents: DataFrame, last_two: Sequence[Period]) -> list[ModeChange]:
    touched = [
        F.count_if(incident_rows.touches(period)).alias(name)
        for name, period in zip(("before", "now"), last_two, strict=True)
    ]
    met = Counter[tuple[str, str]]()
    for row in incident_rows.real(all_incidents).groupBy("mode").agg(*touched).collect():
        met.update({(row["mode"], when): row[when] for when in ("before", "now")})
    spent = Counter[tuple[str, int]]()
    for row in client_minutes.failing(minutes, last_two).collect():
        spent[row["mode"], row["period"]] += row["count"]
    titles = {mode: mode for mode, _ in (*met, *spent)} | {mode.id: mode.title for mode in modes().values()}
    return [
        ModeChange(mode, title, met[mode, "now"], met[mode, "before"], spent[mode, 1], spent[mode, 0])
        for mode, title in sorted(titles.items())
    ]


def also_seen(minutes: DataFrame, last_two: Sequence[Period]) -> list[AlsoSeen]:
    """Return the known issues that were seen in the later of two periods (`last_two`).

    Issues found in log lines or measurements come before issues found in clients' options. Among issues of the same
    kind, the issue with the most log lines comes first.
    """
    rows = client_minutes.also_seen(minutes, last_two).collect()
    before = Counter({(row["what"], row["service"]): row["lines"] for row in rows if row["period"] == 0})
    now = [row.asDict() for row in rows if row["period"] == 1]
    reported = [of_row(AlsoSeen, row, lines_before=before[row["what"], row["service"]]) for row in now]
    hints = {trouble.id for trouble in TROUBLES if trouble.hint}
    return sorted(reported, key=lambda seen: (seen.what in hints, -seen.lines, seen.what, seen.service))


def _quality(quality: DataFrame, minutes: DataFrame, period: Period, overall: slo.ServiceSlo) -> Quality:
    rows = client_minutes.per_minute(quality, period)
    watched = sorted({row["at"] for row in rows})
    return Quality(
        minutes=period.minutes,
        gaps=tuple(client_minutes.gaps(period, watched)),
        inputs=tuple(client_minutes.inputs(row.asDict() for row in rows)),
        unknown=overall.minutes.unknown,
        judged=overall.minutes.observed,
        clocks=tuple(client_minutes.clocks(minutes, period)),
    )


def _reported(overall: slo.ServiceSlo, index: int) -> bool:
    minutes = overall.periods[index]
    return bool(minutes.observed or minutes.unknown)


def _not_computed(review: Review) -> list[tuple[str, str]]:
    unit, periods = review.period.unit, f"{review.period.unit}s"
    now, *before = (_reported(review.overall, n) for n in (-1, -2, -3, -4))
    trends = any(row.slope is not None for row in review.capacity)
    late = all(row.late is not None for row in review.quality.inputs)
    few_periods = f"the buffers' peaks are known for fewer than {capacity.LEAST_PERIODS} {periods}"
    reasons = {
        "Anything about clients": "" if now else f"the history has no client-minute of this {unit}",
        f"Trend, and comparison with the {unit} before": "" if any(before) else f"the history begins in this {unit}",
        "New and vanished clients": "" if before[0] else f"the history has no client-minute of the {unit} before",
        f"{periods.capitalize()} until buffers are full": "" if trends else few_periods,
        "Late records": "" if late else "for some input topics, the monitor did not count late records",
        "Time until unread records are deleted": "the history does not hold the retention of topics",
        "Changed thresholds": "the history does not hold the settings of the monitor",
    }
    return [(what, why) for what, why in reasons.items() if why]
