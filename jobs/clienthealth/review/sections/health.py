"""How well clients were: the figures at the top, the objectives, and the actions that were agreed on."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from clienthealth.model.wording import count_of
from clienthealth.review import plots
from clienthealth.review.actions import Action
from clienthealth.review.document import (
    Badge,
    Block,
    Bullets,
    Code,
    Column,
    Drawn,
    Figure,
    Heading,
    Heat,
    Inline,
    Link,
    Name,
    Paragraph,
    Picture,
    Section,
    Seen,
    Soft,
    Table,
)
from clienthealth.review.model import Review
from clienthealth.review.period import period_names
from clienthealth.review.sections.naming import names, service
from clienthealth.review.slo import ServiceSlo
from clienthealth.review.wording import healthy, left, lost, minutes, number, percent, points, some

BADGES = {
    **{"within budget": "ok", "nearly spent": "warn", "overspent": "bad", "no data": "none"},
    **{"met": "ok", "not known": "warn", "missed": "bad"},
    **{"ship": "ok", "freeze": "bad"},
}
#: So many services without an unhealthy minute or a lost record are in the table; the JSON has all.
HEALTHY_SHOWN = 10
#: A box in the colour of what a key explains.
SWATCH = Markup('<i class="{}"></i>')


def figures(review: Review) -> list[Figure]:
    """The numbers at the top."""
    overall, quality = review.overall, review.quality
    budget = overall.budget
    open_, confirmed = (sum(getattr(theme, name) for theme in review.themes) for name in ("open", "confirmed"))
    return [
        Figure("Healthy client-minutes", healthy(overall), f"target {percent(review.target)}"),
        Figure(
            "Error budget left",
            percent(None if budget.spent is None else 1 - budget.spent, 0),
            f"{number(budget.left)} of {number(budget.size)} client-minutes",
        ),
        Figure(
            "Records lost",
            lost(overall.lost.records),
            f"target {number(review.lost_records_target)}: {overall.lost.state}",
        ),
        Figure(
            "Incidents",
            number(sum(theme.incidents for theme in review.themes)),
            f"{number(confirmed)} confirmed, {number(open_)} still open",
        ),
        *_pages(review),
        Figure("Clients", number(overall.clients), f"{number(overall.minutes.observed)} client-minutes"),
        Figure(
            "Watched",
            percent(quality.watched / quality.minutes, 1),
            f"{minutes(quality.gap_minutes)} without data" if quality.gap_minutes else "no gap",
        ),
    ]


def _pages(review: Review) -> Iterator[Figure]:
    if review.pages is not None:
        night = sum(page.night is not None for page in review.pages)
        idle = sum(page.needed_nobody for page in review.pages)
        yield Figure("Pages", number(len(review.pages)), f"{number(night)} at night, {number(idle)} needed nobody")


def objectives(review: Review) -> Section:
    """What was aimed at, what was reached, by whom, and when it was missed."""
    return Section("objectives", "Objectives", [*_objectives(review)])


def _objectives(review: Review) -> Iterator[Block]:
    overall = review.overall
    if not overall.minutes.observed:
        nothing = f"No client reported anything that can be judged in this {review.period.unit}."
        yield Paragraph(f"{nothing} This is not health, it is the absence of data.")
    if not review.services:
        return
    yield Table(
        (Column("Objective"), Column("Target", number=True), Column("Reached", number=True), Column("State")),
        (
            ("Healthy client-minutes", percent(review.target), healthy(overall), _badge(overall.budget.state)),
            (
                "Records lost, each service",
                number(review.lost_records_target),
                lost(overall.lost.records),
                _badge(overall.lost.state),
            ),
        ),
    )
    yield from _services(review)
    yield from _by_time(review)
    yield from _burn_down(review)


def _services(review: Review) -> Iterator[Block]:
    unit, count = review.period.unit, len(review.periods)
    ill = [slo for slo in review.services if slo.minutes.unhealthy or not slo.lost.none]
    well = [slo for slo in review.services if not slo.minutes.unhealthy and slo.lost.none]
    shown = ill + well[:HEALTHY_SHOWN]
    hidden = len(review.services) - len(shown)
    owned = any(slo.owner for slo in review.services)
    own_targets = any(slo.target != review.target for slo in review.services)
    columns = (
        Column("Service"),
        *([Column("Team")] if owned else []),
        Column("Healthy", number=True),
        *([Column("Target", number=True)] if own_targets else []),
        Column("Budget"),
        Column("Spent", number=True),
        Column("Left, client-minutes", number=True, label="Left"),
        Column("Unhealthy", number=True),
        Column("Records lost"),
        Column(f"Spent in {count} {unit}s", number=True),
        Column("Changes"),
        Column("Trend"),
    )
    rows = [_service_row(review, "All services", review.overall, owned, own_targets)]
    rows += [_service_row(review, service(slo.service), slo, owned, own_targets) for slo in shown]
    caption = "Share of observed client-minutes that were healthy"
    yield from _teams(review)
    target = "" if own_targets else f"; target {percent(review.target)}"
    yield Table(columns, rows, f"{caption}{target}. Worst first.")
    if hidden:
        more = f"{count_of(hidden, 'more service')} without an unhealthy client-minute or a lost record"
        yield Paragraph(f"{more} {'is' if hidden == 1 else 'are'} left out here; review.json has all.", note=True)
    yield Paragraph(
        f"Changes: a service ships while its budget of {count} {unit}s lasts; once it is overspent they freeze, "
        "but for those that make it reliable. "
        f"Trend: spent budget of the last {count} {unit}s, oldest first, the dotted line is all of it; the number is "
        "the change of the healthy share in percentage points.",
        note=True,
    )


def _teams(review: Review) -> Iterator[Block]:
    """By team: how many services, which of them missed their target or must freeze, and how often it was called."""
    by_team: dict[str, list[ServiceSlo]] = {}
    for slo in review.services:
        by_team.setdefault(slo.owner.team if slo.owner else "", []).append(slo)
    if not any(by_team):
        return
    called = review.pages is not None
    columns = [Column("Team"), Column("Services", number=True), Column("Missed the target"), Column("Freeze")]
    columns += [Column("Pages", number=True), Column("Needed nobody", number=True)] if called else []
    rows: list[tuple[Inline, ...]] = []
    for team, slos in by_team.items():
        pages = [page for page in review.pages or () if page.service in {slo.service for slo in slos}]
        missed = tuple(slo.service for slo in slos if slo.budget.state == "overspent")
        frozen = tuple(slo.service for slo in slos if slo.decision == "freeze")
        row = (Name(team) if team else Soft("nobody"), number(len(slos)), names(missed), names(frozen))
        idle = sum(page.needed_nobody for page in pages)
        rows.append((*row, *((some(len(pages)), some(idle)) if called else ())))
    yield Table(columns, rows, "Of the pages of many services at once each team has had none.")


def _service_row(review: Review, name: Inline, slo: ServiceSlo, owned: bool, own_targets: bool) -> tuple[Inline, ...]:
    shares = [*(percent(sli) for sli in slo.trend[:-1]), healthy(slo)]
    trend = Picture(plots.spark(slo, period_names(review.period, review.periods)), ", ".join(shares))
    return (
        name,
        *([Name(slo.owner.team) if slo.owner else ""] if owned else []),
        healthy(slo),
        *([percent(slo.target)] if own_targets else []),
        state_of_budget(slo),
        percent(slo.budget.spent, 0),
        number(slo.budget.left),
        number(slo.minutes.unhealthy),
        state_of_losses(slo),
        percent(slo.long_budget.spent, 0),
        _badge(slo.decision) if slo.service else "",
        (trend, " ", Soft(points(slo.change))),
    )


def state_of_budget(slo: ServiceSlo) -> Inline:
    """How far an error budget is spent, in words."""
    return _badge(slo.budget.state)


def state_of_losses(slo: ServiceSlo) -> Inline:
    """How many records were lost, and where that speaks against the objective, that it does."""
    records = lost(slo.lost.records)
    return (records,) if slo.lost.met else (records, " ", _badge(slo.lost.state))


def _badge(state: str) -> Badge:
    return Badge(BADGES[state], state)


def _by_time(review: Review) -> Iterator[Block]:
    rows = plots.heat(review)
    if not rows:
        return
    daily = review.period.step(plots.CELLS) >= 1440
    yield Heading(f"Unhealthy client-minutes per service and {'day' if daily else 'time'}")
    yield Heat(plots.heat_names(review), rows)
    yield Bullets(
        (
            Seen((_swatch("none"), "0: none")),
            Seen((_swatch("some"), "within the target")),
            Seen((_swatch("much"), "bold: beyond the target")),
            (_swatch("blind"), "–: no data, ?: not judged"),
            "*: not watched all the time",
        ),
        "key",
    )


def _swatch(kind: str) -> Picture:
    return Picture(SWATCH.format(kind))


def _burn_down(review: Review) -> Iterator[Block]:
    lines = plots.lines(review)
    if not lines:
        return
    yield Heading("Error budget left")
    yield Drawn(plots.burn_down(review))
    key: list[Inline] = [
        (Picture(plots.sample_line(n)), Name(line.name), f": {left(line.left[-1])}") for n, line in enumerate(lines)
    ]
    if review.quality.gaps:
        key.append(Seen((_swatch("blind"), "nobody watched")))
    yield Bullets(key, "key")


def actions(review: Review) -> Section:
    """What earlier reviews agreed on."""
    block: Block
    if review.actions:
        columns = (Column("Action"), Column("Owner"), Column("Due"), Column("State"))
        block = Table(columns, [_action(action) for action in review.actions])
    elif review.actions_file:
        block = Paragraph(f"None is open, and none was done this {review.period.unit}.")
    else:
        fields = (Code("title"), ", ", Code("owner"), ", ", Code("due"))
        advice = ("Put what the meeting decides there: ", Code("[[action]]"), " with ", *fields, ".")
        block = Paragraph(("There is no ", Code("actions.toml"), " beside the reports yet. ", *advice))
    return Section("actions", "Actions carried over", [block], short="Actions")


def _action(action: Action) -> tuple[Inline, ...]:
    if action.overdue_days:
        state = Badge("bad", f"overdue by {count_of(action.overdue_days, 'day')}")
    else:
        done = action.state == "done"
        state = Badge("ok" if done else "none", f"done {action.done}" if done else action.state)
    return Link(action.title, action.link), action.owner, str(action.due), state
