"""Collect the incidents of a review, with their evidence and links, grouped by theme (mode, cause and topic)."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from clienthealth.configuration.installation import dashboard_uid, fixed_labels, runbooks
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes
from clienthealth.review import incident_rows
from clienthealth.review.model import Incident, Page, Theme, of_row
from clienthealth.review.period import DAY, Period, utc
from clienthealth.review.slo import Range
from clienthealth.settings import LinkSettings, ReviewSettings, Settings
from clienthealth.spark.history import CLIENT_KEY

MARGIN = timedelta(minutes=15)


@dataclass(frozen=True)
class Links:
    """Makes the links in a review to dashboards and runbooks."""

    settings: LinkSettings
    period: Period
    cluster: str = ""

    def dashboard(self, mode: str, service: str, client_id: str, start: datetime, stop: datetime | None) -> str:
        """Return a link that opens a mode's dashboard for one client at the time of an incident.

        Returns '' if `[links] dashboards` is not set.
        """
        if not self.settings.dashboards:
            return ""
        query = {
            "from": _ms(start - MARGIN),
            "to": _ms((stop or self.period.end) + MARGIN),
            **({"var-cluster": self.cluster} if self.cluster else {}),
            "var-service": service,
            "var-client_id": client_id,
        }
        return f"{self.settings.dashboards.rstrip('/')}/d/{dashboard_uid(f'mode-{mode}')}?{urlencode(query)}"

    def runbook(self, mode: str) -> str:
        """Return a link to the runbook of a failure mode."""
        return f"{runbooks(self.settings)}/{mode}"


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


LISTED_PER_THEME = 8
LISTED_CLEARED = 10
EVIDENCE = 3
EVIDENCE_LENGTH = 300
#: SQL condition: the incident is a suspicion that ended unconfirmed.
CLEARED = "last = 'closed' and sure is null"


def themes(touching: DataFrame, links: Links) -> list[Theme]:
    """Return all themes. Themes with a confirmed incident come before themes without a confirmed incident.

    Of two themes of the same kind, the theme with the longer total duration comes first.
    """
    longest = incident_rows.longest(touching, LISTED_PER_THEME).orderBy(*incident_rows.THEME, "rank").collect()
    listed = grouped((row.asDict() for row in longest), _theme_of)
    result = []
    for row in (row.asDict() for row in incident_rows.themes(touching).collect()):
        mode = modes().get(row["mode"])
        of_theme = Verdict(row["mode"], "confirmed", detail={"cause": row["cause"] or ""})
        explained = mode.explanation(of_theme, None) if mode else None
        title, action = (explained.title, explained.remedy) if explained else (row["mode"], "")
        shown = tuple(_incident(one, links) for one in listed[_theme_of(row)])
        runbook = links.runbook(row["mode"])
        result.append(of_row(Theme, row, title=title, action=action, listed=shown, runbook=runbook))
    return sorted(result, key=lambda t: (not t.confirmed, -t.seconds, t.mode, t.cause, t.topic))


def lost_by_service(touching: DataFrame) -> dict[str, Range]:
    """Return (minimum, maximum) of the lost records for each service that lost, or may have lost, records."""
    rows = incident_rows.losses(touching).collect()
    return {row["service"] or "": (row["lost_records_0"], row["lost_records_1"]) for row in rows}


def _theme_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in incident_rows.THEME)


def _incident(row: Mapping[str, Any], links: Links) -> Incident:
    evidence: dict[str, str] = {}
    for fact in json.loads(row["evidence"] or "[]"):
        source, words = fact.get("source"), str(fact.get("text", ""))
        where = f" ({source['topic']}-{source['partition']}@{source['offset']})" if source else ""
        if len(words) > EVIDENCE_LENGTH:
            words = words[: EVIDENCE_LENGTH - 1] + "…"
        evidence.setdefault(fact["kind"], f"{fact['kind']}: {words}{where}")
    one = of_row(Incident, row, evidence=tuple(evidence.values())[:EVIDENCE], link="")
    link = links.dashboard(one.mode, one.service, one.client_id, one.start, one.stop)
    return dataclasses.replace(one, link=link)


def counts(touching: DataFrame) -> Row:
    """Return how many incidents were `withdrawn`, and how many suspicions ended unconfirmed (`cleared`)."""
    row = touching.select(
        F.count_if(F.col("last") == "withdrawn").alias("withdrawn"), F.count_if(F.expr(CLEARED)).alias("cleared")
    ).first()
    assert row is not None
    return row


def cleared(touching: DataFrame, links: Links) -> list[Incident]:
    """Return the ten earliest (LISTED_CLEARED) of the suspicions that ended unconfirmed."""
    rows = touching.filter(CLEARED).orderBy("start", *CLIENT_KEY, "mode").limit(LISTED_CLEARED)
    return [_incident(row.asDict(), links) for row in rows.collect()]


#: How long (s) an alert fires after its condition has ended.
HOLD_SECONDS = 300
#: If at least FLEET_SERVICES services begin to fail within FLEET_WITHIN, they give a single page.
FLEET_SERVICES, FLEET_WITHIN = 10, timedelta(minutes=10)


def pages(touching: DataFrame, period: Period, settings: Settings) -> list[Page] | None:
    """Return the pages that began in the period, oldest first; None if this installation only opens tickets."""
    if opens_tickets_only(settings):
        return None
    rows = incident_rows.pages(touching, period, HOLD_SECONDS).orderBy("start", "service", "mode").collect()
    return of_fleet([of_row(Page, row.asDict(), night=night_of(row["start"], settings.review)) for row in rows])


def opens_tickets_only(settings: Settings) -> bool:
    """True if no alert calls a person, because `[prometheus] ticket_only` matches a label of the installation."""
    labels = fixed_labels(settings)
    return any(re.fullmatch(quiet, labels.get(name, "")) for name, quiet in settings.prometheus.ticket_only.items())


def of_fleet(single: Sequence[Page]) -> list[Page]:
    """If pages of at least ten services began within ten minutes, merge these pages into one with the service ''.

    `single` and the result are in order of time.
    """
    storms: list[list[int]] = []
    first = 0
    for last, page in enumerate(single):
        while page.start - single[first].start > FLEET_WITHIN:
            first += 1
        if storms and page.start - single[storms[-1][-1]].start <= FLEET_WITHIN:
            storms[-1].append(last)
        elif len({other.service for other in single[first : last + 1]}) >= FLEET_SERVICES:
            storms.append([*range(first, last + 1)])
    in_storm = {n for storm in storms for n in storm}
    alone = [page for n, page in enumerate(single) if n not in in_storm]
    for pages in ([single[n] for n in storm] for storm in storms):
        stops = [page.stop for page in pages if page.stop is not None]
        of_all = dataclasses.replace(
            pages[0],
            service="",
            mode=", ".join(sorted({page.mode for page in pages})),
            stop=max(stops) if len(stops) == len(pages) else None,
            clients=sum(page.clients for page in pages),
            loses=any(page.loses for page in pages),
        )
        alone.append(of_all)
    return sorted(alone, key=lambda page: (page.start, page.service, page.mode))


def night_of(epoch_seconds: int, settings: ReviewSettings) -> date | None:
    """If this time is at night, return the date (UTC) on which that night ends; None in daytime."""
    moment = utc(epoch_seconds)
    begin, end = settings.night_from_hour, settings.night_to_hour
    if begin <= end:
        return moment.date() if begin <= moment.hour < end else None
    if moment.hour >= begin:
        return moment.date() + DAY
    return moment.date() if moment.hour < end else None
