"""Content of both the page and the text of a review: formatted numbers, figures, rows of tables, and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from clienthealth.model import wording
from clienthealth.model.values import grouped
from clienthealth.model.wording import count_of, listing
from clienthealth.read.logs.also_seen import BY_ID, Trouble
from clienthealth.review.model import BRIEF, Capacity, ClientRow, KnownBugs, Page, Review, TopicRow
from clienthealth.review.period import MINUTE
from clienthealth.review.slo import Range, ServiceSlo, total

NONE = "–"
NB = "\u00a0"
BADGES = {
    **{"within budget": "ok", "nearly spent": "warn", "overspent": "bad", "no data": "none"},
    **{"met": "ok", "not known": "warn", "missed": "bad"},
    **{"ship": "ok", "freeze": "bad"},
    **{"critical": "bad", "warning": "warn", "suspected": "warn"},
}
#: For each ranking of clients: (criterion, heading, heading of the column with the ranked numbers).
RANKINGS = (
    ("unhealthy", "Unhealthy longest", "Minutes"),
    ("buffer", "Fullest buffers", "Peak"),
    ("queue", "Fullest queues", "Peak"),
    ("lag", "Furthest behind", "Records"),
)
#: Maximum rows of each list. The limit for `services` applies only to services without failures and losses.
SHOWN = {"services": 10, "paged": 20, "also": 20, "capacity": 12, "gaps": 20, "clocks": 10, "bugs": 20}
#: If a buffer will be full only after more than FAR periods, the text of the forecast is `not in sight`.
FAR = 104


def percent(ratio: float | None, digits: int = 2) -> str:
    """Return a ratio as text in per cent, with `digits` decimals; a dash for None."""
    return NONE if ratio is None else wording.exact_percent(ratio, digits).replace(" ", NB)


def points(change: float | None) -> str:
    """Return a difference of two ratios as text: percentage points with a sign; a dash for None."""
    if change is None:
        return NONE
    text = f"{abs(change) * 100:.2f}"
    return "±0.00" if float(text) == 0 else f"{'+' if change > 0 else '−'}{text}"


def number(value: float | None) -> str:
    """Return a number as text, rounded to an integer, with separated thousands; a dash for None."""
    return NONE if value is None else wording.number(value)


def some(count: int) -> str:
    """Return a count as text; '' for 0, so that other counts stand out in their column."""
    return number(count) if count else ""


def duration(seconds: float | None) -> str:
    """Return a duration as text in its two largest units, such as `3 h 20 min`; a dash for None."""
    return NONE if seconds is None else wording.duration(seconds).replace(" ", NB)


def left(share: float | None) -> str:
    """Return the remaining share of a budget as text, such as `20 % over` if `share` is negative; a dash for None."""
    if share is None:
        return NONE
    return f"{percent(share, 0)} left" if share >= 0 else f"{percent(-share, 0)} over"


def minutes(count: float) -> str:
    """Return a duration of `count` minutes as text."""
    return duration(count * 60)


def moment(at: datetime | None) -> str:
    """Return a UTC time as text, with the day of the week; a dash for None."""
    return NONE if at is None else f"{at:%a} {at.day} {at:%b %H:%M}"


def stretch(start: datetime, stop: datetime | None, else_word: str = "still open") -> str:
    """Return a span of time as text. The text names the end's day only if the span ends on another day.

    `else_word`: the text for an end that is None.
    """
    if stop is None:
        return f"{moment(start)} – {else_word}"
    end = f"{stop:%H:%M}" if stop.date() == start.date() else moment(stop)
    return f"{moment(start)} – {end}"


def lost(records: Range | None, in_bytes: Range | None = None) -> str:
    """Return a loss as text: a range of records or, if records were not counted, of bytes.

    `records` and `in_bytes` are None if unknown. If both are unknown, the text is a dash.
    """
    if in_bytes is not None and records in (None, (0, None)):
        return f"{_range(*in_bytes)} bytes"
    return NONE if records is None else _range(*records)


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"at least {number(low)}" if low else "not counted"
    return number(high) if low == high else f"{number(low)} to {number(high)}"


def healthy(slo: ServiceSlo) -> str:
    """Return a service's healthy share as text. If records may have been lost, 100 % becomes `< 100 %`."""
    lossy = slo.minutes.sli == 1 and not slo.lost.none
    return f"<{NB}{percent(1.0)}" if lossy else percent(slo.minutes.sli)


class Figure(NamedTuple):
    """A number at the top of a review. `note`: the number's target, or details about the number."""

    name: str
    value: str
    note: str


class Team(NamedTuple):
    """A team's services and pages (alerts that called a person). `name` is '' for services without a team.

    `missed`  the services that overspent the error budget of the reviewed period
    `frozen`  the services that overspent the error budget of all periods together, so that only changes for reliability
              are allowed
    """

    name: str
    services: int
    missed: tuple[str, ...]
    frozen: tuple[str, ...]
    pages: Sequence[Page]


def list_figures(review: Review) -> Iterator[Figure]:
    """Yield the numbers at the top of the review."""
    overall, quality, budget = review.overall, review.quality, review.overall.budget
    counts = ("incidents", "confirmed", "open")
    incidents, confirmed, open_ = (number(sum(getattr(theme, name) for theme in review.themes)) for name in counts)
    yield Figure("Healthy client-minutes", healthy(overall), f"target {percent(review.target)}")
    rest = left(None if budget.spent is None else 1 - budget.spent)
    yield Figure("Error budget", rest, f"{number(budget.left)} of {number(budget.size)} client-minutes")
    target = f"target {number(review.lost_records_target)}: {overall.lost.state}"
    yield Figure("Records lost", lost(overall.lost.records), target)
    yield Figure("Incidents", incidents, f"{confirmed} confirmed, {open_} still open")
    if review.pages is not None:
        night, idle = number(count_at_night(review.pages)), count_idle(review.pages)
        yield Figure("Pages", number(len(review.pages)), f"{night} at night, {number(idle)} needed no action")
        allowed = review.needless_pages_target
        state = "within" if idle <= allowed else "beyond"
        yield Figure("Noise budget", f"{number(idle)} of {number(allowed)}", f"needless pages, {state} the target")
    yield Figure("Clients", number(overall.clients), f"{number(overall.minutes.observed)} client-minutes")
    gaps = f"{minutes(quality.gap_minutes)} without records" if quality.gap_minutes else "no gap"
    yield Figure("Watched", percent(quality.watched / quality.minutes, 1), gaps)


def count_at_night(pages: Sequence[Page]) -> int:
    """Return how many pages came at night."""
    return sum(page.night is not None for page in pages)


def count_idle(pages: Sequence[Page]) -> int:
    """Return how many pages called a person although no action was needed."""
    return sum(page.needed_nobody for page in pages)


def shown_services(review: Review) -> list[ServiceSlo]:
    """Return the services to show: all that were unhealthy or may have lost records, then at most ten others."""
    groups = grouped(review.services, lambda slo: bool(slo.minutes.unhealthy or not slo.lost.none))
    return groups[True] + groups[False][: SHOWN["services"]]


def list_teams(review: Review) -> list[Team]:
    """Return one entry per team, the team with the worst service first; [] if no service has an owner."""
    owned = grouped(review.services, lambda slo: slo.owner.team if slo.owner else "")
    if not any(owned):
        return []
    pages, rows = grouped(review.pages or (), lambda page: page.service), []
    for team, slos in owned.items():
        missed = tuple(slo.service for slo in slos if slo.budget.state == "overspent")
        frozen = tuple(slo.service for slo in slos if slo.decision == "freeze")
        of_team = [page for slo in slos for page in pages.get(slo.service, ())]
        rows.append(Team(team, len(slos), missed, frozen, of_team))
    return rows


def teams_of(review: Review) -> dict[str, str]:
    """Return the owning team of each service that has an owner."""
    return {slo.service: slo.owner.team for slo in review.services if slo.owner}


def list_known_bugs(review: Review) -> list[tuple[str, KnownBugs]]:
    """Return (owning team, row) for each row of `review.fleet.known_bugs`, sorted by team.

    The team is '' if the row's service has no owner.
    """
    team = teams_of(review)
    return sorted(((team.get(row.service, ""), row) for row in review.fleet.known_bugs), key=lambda item: item[0])


def list_paged(review: Review) -> list[tuple[str, list[Page]]]:
    """Return (service, the service's pages) for each service with pages, the service with the most pages first.

    A page for many services has service ''.
    """
    by_service = grouped(review.pages or (), lambda page: page.service)
    return sorted(by_service.items(), key=lambda item: (-len(item[1]), item[0]))


def describe_pages(review: Review) -> str:
    """Describe how often people were paged, when, and how often no action was needed."""
    if review.pages is None:
        return "This environment opens tickets only ([prometheus] ticket_only): nobody was paged."
    if not review.pages:
        return "Nobody was paged."
    nights = Counter(page.night for page in review.pages if page.night)
    at_night, (begin, end) = sum(nights.values()), review.night_hours
    words = f"{count_of(len(review.pages), 'page')}, {at_night} at night ({begin:02d}:00 to {end:02d}:00)"
    if at_night and review.period.minutes >= 1440:
        night, most = max(nights.items(), key=lambda item: (item[1], item[0]))
        average = f"{at_night / (review.period.minutes / 1440):.1f} per night"
        words += f": {average}, at most {most} (the night that ended on {night:%a} {night.day} {night:%b})"
    if not (idle := count_idle(review.pages)):
        return (
            f"{words}. Each page needed action, because it did not end within {BRIEF // MINUTE} minutes, or because "
            "records may have been lost."
        )
    within = f"within {BRIEF // MINUTE} minutes, and no record was lost"
    return f"{words}. {number(idle)} ended {within}: no action was needed."


def describe_watch(review: Review) -> str:
    """Describe the share of the period that was watched, and the share of client-minutes that could not be judged."""
    quality, overall = review.quality, review.overall.minutes
    every = overall.unknown + overall.observed
    gaps = "No record arrived in the gaps below. In a gap, a client counts as neither healthy nor unhealthy."
    sentences = [
        f"Records arrived in {minutes(quality.watched)} of {minutes(quality.minutes)} "
        f"({percent(quality.watched / quality.minutes, 1)}).",
        gaps if quality.gaps else "There was no gap.",
        f"{number(quality.unknown)} client-minutes ({percent(overall.unknown / every if every else None, 1)}) "
        "could not be judged, and count as neither healthy nor unhealthy.",
    ]
    if overall.partial:
        share = percent(overall.partial / overall.observed, 1)
        sentences.append(
            f"In {number(overall.partial)} client-minutes ({share}), no failure was found, but some failure modes "
            "could not be judged. These client-minutes count as healthy. The status "
            "page shows which evidence is missing. Often, the log or the thread dumps are missing."
        )
    return " ".join(sentences)


def compared_with(review: Review) -> str:
    """Describe the earlier periods with which the review is compared, such as `the 3 weeks before`."""
    count, unit = sum(1 for m in review.overall.periods[:-1] if m.observed), review.period.unit
    return f"the {unit} before" if count == 1 else f"the {count or len(review.periods) - 1} {unit}s before"


def describe_changes(review: Review) -> str:
    """Explain the columns `Changes` and `Trend` in the table of services."""
    spans = f"{len(review.periods)} {review.period.unit}s"
    return (
        f"Changes: a service may be changed until its error budget of the last {spans} is overspent. With an "
        "overspent error budget, only changes that make the service more reliable are allowed. "
        f"Trend: one bar per {review.period.unit}, oldest first. A bar is the spent share of that "
        f"{review.period.unit}'s error budget; the dotted line is the whole budget. The number "
        f"beside the bars is the change of the healthy share against {compared_with(review)}, in percentage points."
    )


def list_silent(review: Review) -> list[str]:
    """Return the sorted ids of the failure modes for which no alert fired in the reviewed period."""
    return sorted({mode for mode, _ in review.never_fired} - {alert.mode for alert in review.alerts})


def list_known_issues(review: Review) -> list[Trouble]:
    """Return the known issues that the review shows in its list `Also seen`, each once."""
    shown = dict.fromkeys(seen.what for seen in review.also_seen[: SHOWN["also"]])
    return [BY_ID[what] for what in shown if what in BY_ID]


def measured(row: ClientRow | TopicRow) -> str:
    """Return, as text, the number by which a client or topic is ranked."""
    return percent(row.value, 0) if row.what in ("buffer", "queue") else number(row.value)


def periods_left(row: Capacity) -> str:
    """Return, as text, after how many periods a service's buffers will be full.

    The text is a dash if too few periods are known. The text is `not in sight` if buffer use does not rise, or if
    buffers will be full only after more than 104 periods (FAR).
    """
    if row.slope is None:
        return NONE
    return "not in sight" if row.periods_left is None or row.periods_left > FAR else f"{row.periods_left:.1f}"


def trend_of(slo: ServiceSlo) -> list[str]:
    """Return the healthy share of each period as text, oldest first."""
    return [*(percent(sli) for sli in slo.trend[:-1]), healthy(slo)]


#: Smallest change of the healthy share that the headline calls better or worse.
LEVEL = 0.00005
#: The headline asks for the cause of a gap of at least LONG_GAP minutes. Short gaps are normal if clients send rarely.
LONG_GAP = 60


def headline(review: Review) -> tuple[str, str, str]:
    """Return three sentences, which answer the review's QUESTIONS in their order."""
    return _how(review), _wrong(review), _next(review)


def _how(review: Review) -> str:
    overall, unit = review.overall, review.period.unit
    if overall.budget.spent is None:
        return f"No client was observed this {unit}, so the clients' health is unknown{_lost(review)}."
    missed = [s for s in review.services if s.budget.state == "overspent"]
    observed = [s for s in review.services if s.minutes.observed]
    services = count_of(len(observed), "service")
    targets = {s.target for s in observed} or {review.target}
    target = f"the target of {percent(targets.pop())}" if len(targets) == 1 else "their targets"
    if missed:
        names = listing([f"{s.service or '(no name)'} ({percent(s.minutes.sli)})" for s in missed])
        verdict = f"{len(missed)} of {services} missed {target}: {names}"
    else:
        every = "the only service" if len(observed) == 1 else f"all {services}"
        verdict = f"{every} met {target}{'' if overall.lost.met else ' in client-minutes'}"
    change, earlier = overall.change, compared_with(review)
    sli = percent(total(overall.periods[:-1]).sli)
    if change is None:
        trend = f" (the first {unit}, so there is no trend yet)"
    elif abs(change) < LEVEL:
        trend = f", level with {earlier} ({sli})"
    else:
        trend = f", {'better' if change > 0 else 'worse'} than {earlier} ({sli}, {points(change)} points)"
    spent = overall.budget.spent
    rest = f", {percent(1 - spent, 0)} is left" if spent <= 1 else ""
    return (
        f"Clients were healthy {healthy(overall)} of their observed time{trend}; "
        f"{percent(spent, 0)} of the {unit}'s error budget is spent{rest}; "
        f"{verdict}{_lost(review)}."
    )


def _lost(review: Review) -> str:
    overall = review.overall.lost
    if overall.none:
        return ""
    losses = listing([f"{s.service or '(no name)'} {lost(s.lost.records)}" for s in review.services if not s.lost.none])
    target = number(review.lost_records_target)
    return f"; records lost: {lost(overall.records)} (target {target}, {overall.state}): {losses}"


def _wrong(review: Review) -> str:
    unit, gap = review.period.unit, review.quality.gap_minutes
    blind = ""
    if gap:
        share = percent(gap / review.quality.minutes, 1)
        blind = f"; in {minutes(gap)} ({share} of the {unit}), no record arrived, so nothing is known of that time"
    if not review.themes:
        return f"No failure was found this {unit}{blind}."
    worst, rest = review.themes[0], len(review.themes) - 1
    about = f"“{worst.title}”{f' ({worst.cause})' if worst.cause else ''}"
    owners = f" of {listing(_owned(review, worst.services))}" if worst.services else ""
    certainty = "confirmed" if worst.confirmed == worst.incidents else f"{worst.confirmed} confirmed"
    count = count_of(worst.incidents, "incident")
    sentence = (
        f"The worst was {about}: {count} ({certainty}) on {count_of(worst.clients, 'client')}{owners}, "
        f"{duration(worst.seconds)} in all, found after a median of {duration(worst.detect)}"
    )
    others = f"; {count_of(rest, 'other cause')} {'is' if rest == 1 else 'are'} listed below" if rest else ""
    return f"{sentence}{others}{blind}."


def _owned(review: Review, services: Sequence[str]) -> list[str]:
    team = teams_of(review)
    return [f"{name or '(no name)'}{f' ({team[name]})' if name in team else ''}" for name in services]


def _overdue(review: Review) -> list[str]:
    return [
        f"“{action.title}” ({action.owner}, {count_of(action.overdue_days, 'day')})"
        for action in review.actions
        if action.overdue_days
    ]


def _needless(review: Review) -> str:
    idle = [page for page in review.pages or () if page.needed_nobody]
    if len(idle) <= review.needless_pages_target and not count_at_night(idle):
        return ""
    counts = Counter(page.service or "many at once" for page in idle).most_common()
    pages, night = count_of(len(idle), "page"), count_at_night(idle)
    at_night = f" ({night} at night)" if night else ""
    return f"see why {pages}{at_night} needed no action: {listing([f'{name} ({count})' for name, count in counts], 3)}"


def _next(review: Review) -> str:
    overdue, open_now = _overdue(review), [t for t in review.themes if t.open]
    frozen = [s.service for s in review.services if s.long_budget.state == "overspent"]
    missed = [s.service for s in review.services if s.budget.state == "overspent" and s.service not in frozen]
    todo = []
    if open_now:
        todo.append(f"end the open failures ({listing([f'“{t.title}”' for t in open_now], 2)})")
    if overdue:
        todo.append(f"finish the overdue actions: {listing(overdue, 2)}")
    if frozen:
        weeks = f"the last {len(review.periods)} {review.period.unit}s"
        services = listing(_owned(review, frozen))
        todo.append(f"put reliability first in {services}: the budget for {weeks} is overspent")
    elif review.themes and not open_now:
        todo.append(f"agree on one action against “{review.themes[0].title}”")
    if missed:
        todo.append(f"find out what spent the {review.period.unit}'s budget of {listing(_owned(review, missed))}")
    if losing := [s.service for s in review.services if not s.lost.met]:
        todo.append(f"send again the records that {listing(_owned(review, losing))} lost, if their source has them")
    if needless := _needless(review):
        todo.append(needless)
    longest = max(review.quality.gaps, key=lambda gap: gap.minutes, default=None)
    if longest and longest.minutes >= LONG_GAP:
        span = stretch(longest.start, longest.end)
        todo.append(f"find out why no record arrived for {minutes(longest.minutes)} ({span})")
    return f"To do: {'; '.join(todo)}." if todo else "Nothing needs a decision today."
