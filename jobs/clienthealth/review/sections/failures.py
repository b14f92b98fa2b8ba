"""What went wrong: the incidents by cause, the alerts that fired for them, and what nearly went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from clienthealth.logs.also_seen import BY_ID
from clienthealth.model.wording import count_of
from clienthealth.review import plots
from clienthealth.review.document import (
    Badge,
    Block,
    Bullets,
    Card,
    Column,
    Drawn,
    Facts,
    Heading,
    Inline,
    Link,
    Name,
    Paragraph,
    Section,
    Strong,
    Table,
)
from clienthealth.review.model import BRIEF, Alert, Incident, Page, Review, Theme
from clienthealth.review.period import MINUTE
from clienthealth.review.sections.naming import client, names
from clienthealth.review.wording import duration, lost, number, percent, some, stretch

#: Services that were paged for, those most often first.
PAGED_SHOWN = 20
#: Rows of trouble that no failure mode is about, most lines first.
ALSO_SHOWN = 20
#: What the bars of the timeline mean.
KEY = Markup(
    '<ul class="key"><li><i class="much"></i>thick: confirmed</li>'
    '<li><i class="some thin"></i>thin: suspected</li>{}</ul>'
)
BLIND = Markup('<li><i class="blind"></i>nobody watched</li>')


def incidents(review: Review) -> Section:
    """The incidents of the period, by cause."""
    return Section("incidents", "Incidents", [*_incidents(review)])


def _incidents(review: Review) -> Iterator[Block]:
    if review.themes:
        yield Drawn(plots.timeline(review))
        yield Drawn(plots.axis(review))
        yield Drawn(KEY.format(BLIND if review.quality.gaps else ""))
    else:
        yield Paragraph("No failure mode was found on any client.")
    for theme in review.themes:
        yield Card([*_theme(theme)])
    if review.withdrawn:
        were = "was" if review.withdrawn == 1 else "were"
        text = f"{count_of(review.withdrawn, 'verdict')} {were} withdrawn, because the client came back."
        yield Paragraph(text, note=True)


def _theme(theme: Theme) -> Iterator[Block]:
    yield Heading(what_failed(theme))
    yield Bullets([*_facts(theme)], "facts")
    yield _listed(theme)
    if theme.more:
        were = "is" if theme.more == 1 else "are"
        yield Paragraph(f"{count_of(theme.more, 'shorter one')} {were} counted above and not listed.", note=True)
    action = f"{theme.action} " if theme.action else ""
    yield Paragraph((action, Link(f"Runbook: {theme.title}", theme.runbook)), note=True)


def what_failed(theme: Theme) -> Inline:
    """What the incidents of a theme have in common, and how many of them go on."""
    title: list[Inline] = [theme.title + (f": {theme.cause}" if theme.cause else "")]
    if theme.topic:
        title += [", topic ", Name(theme.topic)]
    if theme.open:
        title += [" ", Badge("bad", f"{theme.open} still open")]
    return tuple(title)


def _facts(theme: Theme) -> Iterator[Inline]:
    yield Strong(count_of(theme.incidents, "incident")), f", {theme.confirmed} confirmed"
    yield Strong(count_of(theme.clients, "client")), " of ", names(theme.services)
    yield Strong(duration(theme.seconds)), " in all"
    yield "found after ", Strong(duration(theme.detect))
    if theme.clear is not None:
        yield "clear ", Strong(duration(theme.clear)), " later"
    if theme.loses:
        yield "lost: ", Strong(lost(theme.lost_records, theme.lost_bytes))


def _listed(theme: Theme) -> Table:
    columns = [Column("Client"), Column("When")]
    columns += [Column(name, number=True) for name in ("Duration", "To detect", "To clear")]
    columns += [Column("Lost records", number=True)] * theme.loses
    return Table(columns, [_incident(incident, theme.loses) for incident in theme.listed])


def _incident(incident: Incident, loses: bool) -> list[Inline]:
    who, when = client(incident), Link(stretch(incident.start, incident.stop), incident.link)
    if incident.evidence:
        who = who, Facts([Name(fact) for fact in incident.evidence])
    row: list[Inline] = [who, (when,) if incident.sure else (when, " ", Badge("warn", "suspected"))]
    row += [duration(seconds) for seconds in (incident.seconds, incident.detect, incident.clear)]
    return row + [lost(incident.lost_records, incident.lost_bytes)] * loses


def alerts(review: Review) -> Section:
    """What fired, and what never does."""
    return Section("alerts", "Alerts", [*_alerts(review)])


def _alerts(review: Review) -> Iterator[Block]:
    yield from _pages(review)
    if review.alerts:
        checked = any(alert.prometheus_seconds is not None for alert in review.alerts)
        columns = [Column("Failure mode"), Column("Severity")]
        columns += [Column(name, number=True) for name in ("Count", "Clients", "Repeats", "Flapping", "Firing")]
        columns += [Column("Median to clear", number=True)]
        columns += [Column("Firing, Prometheus", number=True)] * checked
        caption = "By our own history: a confirmed failure pages (critical), a suspicion opens a ticket (warning)."
        yield Table(columns, [_alert(alert, checked) for alert in review.alerts], caption)
    else:
        yield Paragraph("No alert fired.")
    if review.measurement_alerts:
        yield Table(
            (Column("Alert"), Column("Severity"), Column("Count", number=True), Column("Firing", number=True)),
            [(a.name, a.severity, str(a.episodes), duration(a.seconds)) for a in review.measurement_alerts],
            "Alerts on measurements and on the monitor, by Prometheus.",
        )
    fired = {alert.mode for alert in review.alerts}
    if silent := sorted({mode for mode, _ in review.never_fired} - fired):
        yield Paragraph(f"Never fired: {', '.join(silent)}.", note=True)


def _pages(review: Review) -> Iterator[Block]:
    """Of pages who got them, when, and which were for nothing."""
    if review.pages is None:
        yield Paragraph("This environment opens tickets only ([prometheus] ticket_only): nobody was paged.")
        return
    if not review.pages:
        yield Paragraph("Nobody was paged.")
        return
    nights = Counter(page.night for page in review.pages if page.night)
    at_night, (begin, end) = sum(nights.values()), review.night_hours
    words = f"{count_of(len(review.pages), 'page')}, {at_night} at night ({begin:02d}:00 to {end:02d}:00)"
    if at_night and review.period.minutes >= 1440:
        night, most = max(nights.items(), key=lambda item: (item[1], item[0]))
        words += f": {at_night / (review.period.minutes / 1440):.1f} per night, at most {most} (night to {night:%a} "
        words += f"{night.day} {night:%b})"
    yield Paragraph(f"{words}. {_needed_nobody(review.pages)}")
    columns = Column("Service"), *(Column(name, number=True) for name in ("Pages", "At night", "Needed nobody"))
    by_service: dict[str, list[Page]] = {}
    for page in review.pages:
        by_service.setdefault(page.service, []).append(page)
    rows = [
        (
            Name(name) if name else "many at once",
            number(len(pages)),
            some(sum(page.night is not None for page in pages)),
            some(sum(page.needed_nobody for page in pages)),
        )
        for name, pages in sorted(by_service.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    yield Table(columns, rows[:PAGED_SHOWN], "Clients of a service that fail alike are one page.")
    if len(rows) > PAGED_SHOWN:
        yield Paragraph(f"and {count_of(len(rows) - PAGED_SHOWN, 'more service')}; review.json has all.", note=True)


def _needed_nobody(pages: Sequence[Page]) -> str:
    count = sum(page.needed_nobody for page in pages)
    if not count:
        return "Each lasted, or lost records: somebody had to act."
    within = f"within {BRIEF // MINUTE} minutes with nothing lost"
    return f"{number(count)} {'was' if count == 1 else 'were'} over {within}: nobody had to act."


def _alert(alert: Alert, checked: bool) -> list[Inline]:
    row: list[Inline] = [alert.mode, Badge("bad" if alert.severity == "critical" else "warn", alert.severity)]
    row += [some(count) for count in (alert.count, alert.clients, alert.repeats, alert.flaps)]
    row += [duration(alert.seconds), duration(alert.clear)]
    return row + [duration(alert.prometheus_seconds)] * checked


def also_seen(review: Review) -> Section:
    """Trouble that no failure mode is about, by the clients' own lines."""
    return Section("also", "Also seen", [*_also_seen(review)] or [Paragraph("No other trouble in their logs.")])


def _also_seen(review: Review) -> Iterator[Block]:
    if not review.also_seen:
        return
    columns = Column("What"), Column("Service"), *(Column(name, number=True) for name in ("Lines", "Clients"))
    rows = [
        (
            BY_ID[seen.what].says if seen.what in BY_ID else seen.what,
            Name(seen.service),
            number(seen.lines),
            number(seen.clients),
            some(seen.lines_before),
        )
        for seen in review.also_seen
    ]
    before = Column(f"Lines, {review.period.unit} before", number=True)
    yield Table((*columns, before), rows[:ALSO_SHOWN], "By the clients' own lines: no verdict, and nobody was paged.")
    if len(rows) > ALSO_SHOWN:
        yield Paragraph(f"and {count_of(len(rows) - ALSO_SHOWN, 'more row')}; review.json has all.", note=True)
    for what in dict.fromkeys(seen.what for seen in review.also_seen[:ALSO_SHOWN] if seen.what in BY_ID):
        trouble = BY_ID[what]
        yield Paragraph(f"{trouble.says[0].upper()}{trouble.says[1:]}: {trouble.sentence} {trouble.action}", note=True)


def near_misses(review: Review) -> Section:
    """What came close to its limit, and suspicions that went away."""
    return Section("near", "Near misses", [*_near_misses(review)] or [Paragraph("None.")])


def _near_misses(review: Review) -> Iterator[Block]:
    if review.near:
        yield Table(
            (Column("Client"), Column("What"), Column("Minutes", number=True), Column("Peak", number=True)),
            [
                (
                    client(row),
                    (row.what, " of topic ", Name(row.topic)) if row.topic else row.what,
                    number(row.minutes),
                    percent(row.value, 0),
                )
                for row in review.near
            ],
            "Within 20 % of the limit in minutes in which nothing was found wrong.",
        )
    if review.cleared:
        yield Table(
            (Column("Client"), Column("Suspected of"), Column("When"), Column("Duration", number=True)),
            [(client(i), i.mode, stretch(i.start, i.stop), duration(i.seconds)) for i in review.cleared],
            f"{count_of(review.cleared_count, 'suspicion')} cleared without being confirmed.",
        )
