"""Who was called: how often, how often at night, and how often for what was over before anybody could act.

A failure mode that is confirmed pages. Clients of one service that fail alike are one page until all are well; what
comes back within `HOLD_SECONDS` is still the same one, and so are many services that begin to fail together: rules and
routes send them so. An installation whose environment opens tickets only pages nobody.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import DataFrame

from clienthealth.configuration.installation import fixed_labels
from clienthealth.review import incident_rows
from clienthealth.review.model import Page
from clienthealth.review.period import DAY, Period, utc
from clienthealth.settings import ReviewSettings, Settings

#: An alert that fires again so soon has not ended: `keep_firing_for` of the rules on modes.
HOLD_SECONDS = 300
#: So many services that begin to fail within so long are one page of the fleet, as its rule has it.
FLEET_SERVICES, FLEET_WITHIN = 10, timedelta(minutes=10)


def pages(touching: DataFrame, period: Period, settings: Settings) -> list[Page] | None:
    """The pages that began in the period, oldest first; None where this installation opens tickets only."""
    if opens_tickets_only(settings):
        return None
    rows = incident_rows.pages(touching, period, HOLD_SECONDS).orderBy("start", "service", "mode").collect()
    return of_fleet([
        Page(
            row["service"] or "",
            row["mode"],
            utc(row["start"]),
            None if row["stop"] is None else utc(row["stop"]),
            row["clients"],
            row["loses"],
            night_of(row["start"], settings.review),
        )
        for row in rows
    ])  # fmt: skip


def opens_tickets_only(settings: Settings) -> bool:
    """Whether what would page opens a ticket here, as the rules have it."""
    labels = fixed_labels(settings)
    return any(re.fullmatch(quiet, labels.get(name, "")) for name, quiet in settings.prometheus.ticket_only.items())


def of_fleet(single: Sequence[Page]) -> list[Page]:
    """The pages, with those of many services that began together as one, whose service is empty.

    `single`: oldest first. Who begins to fail within `FLEET_WITHIN` of the last of them belongs to them, too.
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
    fleet = [_one([single[n] for n in storm]) for storm in storms]
    return sorted([*alone, *fleet], key=lambda page: (page.start, page.service, page.mode))


def _one(storm: Sequence[Page]) -> Page:
    modes = sorted({page.mode for page in storm})
    stops = [page.stop for page in storm if page.stop is not None]
    return dataclasses.replace(
        storm[0],
        service="",
        mode=", ".join(modes),
        stop=max(stops) if len(stops) == len(storm) else None,
        clients=sum(page.clients for page in storm),
        loses=any(page.loses for page in storm),
    )


def night_of(epoch_seconds: int, settings: ReviewSettings) -> date | None:
    """The day on which the night of a moment ends; None by day. The hours of a night are UTC."""
    moment = utc(epoch_seconds)
    begin, end = settings.night_from_hour, settings.night_to_hour
    if begin <= end:
        return moment.date() if begin <= moment.hour < end else None
    if moment.hour >= begin:
        return moment.date() + DAY
    return moment.date() if moment.hour < end else None
