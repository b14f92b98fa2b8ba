"""Plots as inline SVG, drawn by hand: nothing is loaded, text stays at reading size at any width, colours follow
light and dark. Lengths are in per cent of the plot's width. Every plot says in words what it shows, and no
meaning is in a colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log10

from markupsafe import Markup, escape

from clienthealth.review.coverage import gap_minutes
from clienthealth.review.document import Cell, HeatRow
from clienthealth.review.model import Distribution, Review, Theme
from clienthealth.review.period import DAY, MINUTE, Period
from clienthealth.review.slo import Budget, Minutes, ServiceSlo, total
from clienthealth.review.wording import healthy, left, minutes, percent, plural, short, stretch

ROWS = 12
CELLS = 10
LINES = 4
FLOOR = -1.0

Axis = Sequence[tuple[float, str]]


def _svg(name: str, height: int, title: str, text: str, body: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="plot" width="100%" height="{height}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>'
        f"{''.join(body)}</svg>"
    )


def _at(period: Period, moment: datetime) -> float:
    """Where a moment lies on the axis, in per cent, cut at its ends."""
    share = (moment - period.start) / (period.end - period.start)
    return round(100 * min(max(share, 0.0), 1.0), 3)


def _ticks(period: Period) -> Axis:
    step = timedelta(minutes=period.step(8))
    days = step >= DAY
    ticks, at = [], period.start
    while at < period.end:
        ticks.append((_at(period, at), f"{at:%a} {at.day}" if days else f"{at:%H:%M}"))
        at += step
    return ticks


def _grid(period: Period, top: int, bottom: int) -> Iterator[str]:
    for x, name in _ticks(period):
        yield f'<line class="grid" x1="{x}%" x2="{x}%" y1="{top}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x}%" dx="3" y="{bottom + 14}">{escape(name)}</text>'


def _blind(review: Review, top: int, height: int) -> Iterator[str]:
    """The gaps of the monitor, hatched over the whole height."""
    for gap in review.quality.gaps:
        start, end = _at(review.period, gap.start), _at(review.period, gap.end)
        yield (
            f'<rect class="blind" x="{start}%" width="{round(end - start, 3)}%" y="{top}" height="{height}">'
            f"<title>No data: {escape(stretch(gap.start, gap.end))}</title></rect>"
        )


HATCH = Markup(
    '<svg width="0" height="0" aria-hidden="true" class="defs"><defs>'
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="hatch-ground"/><line x1="0" y1="0" x2="0" y2="6" class="hatch-line"/>'
    "</pattern></defs></svg>"
)


def timeline(review: Review) -> Markup:
    """When what was wrong: a row per cause, a bar per incident; thinner where it was only suspected."""
    rows = (
        Markup("<li><bdi>{}</bdi>{}</li>").format(_name(theme), _track(review, theme, f"theme-{n}"))
        for n, theme in enumerate(review.themes[:ROWS])
    )
    return Markup('<ol class="timeline">{}</ol>').format(Markup("").join(rows))


def axis(review: Review) -> Markup:
    """The time axis below the timeline; the times are in words elsewhere."""
    names = "".join(
        f'<text class="tick" x="{x}%" dx="3" y="13">{escape(name)}</text>' for x, name in _ticks(review.period)
    )
    return Markup(f'<svg class="plot" width="100%" height="18" aria-hidden="true">{names}</svg>')


def _track(review: Review, theme: Theme, name: str) -> Markup:
    height, middle = 20, 10
    body = [f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="{height}"/>' for x, _ in _ticks(review.period)]
    body += _blind(review, 0, height)
    for incident in theme.listed:
        left_end, right = _at(review.period, incident.start), _at(review.period, incident.stop or review.period.end)
        sure = right if incident.sure is None else _at(review.period, incident.sure)
        tip = f"{incident.service} {incident.client_id}: {stretch(incident.start, incident.stop)}"
        if sure > left_end or incident.sure is None:
            body.append(_bar("suspected", left_end, sure, middle, tip))
        if incident.sure is not None:
            body.append(_bar("confirmed", sure, right, middle, tip))
    words = f"{plural(theme.incidents, 'incident')}, {theme.confirmed} confirmed, {stretch(theme.start, theme.stop)}"
    return _svg(name, height, _name(theme), words, body)


def _bar(kind: str, start: float, end: float, y: int, tip: str) -> str:
    title = f"<title>{escape(tip)}</title>"
    return f'<line class="bar {kind}" x1="{start}%" x2="{end}%" y1="{y}" y2="{y}">{title}</line>'


def _name(theme: Theme) -> str:
    return ", ".join(part for part in (theme.title, theme.cause, theme.topic) if part)


@dataclass(frozen=True)
class Line:
    """One line of the burn-down: share of the budget left after each slot."""

    name: str
    state: str
    left: Sequence[float]


def lines(review: Review) -> list[Line]:
    """All services together, and those that spent most."""
    spenders = [s for s in review.services if s.minutes.unhealthy][:LINES]
    every = [review.overall, *(spenders if len(review.services) > 1 else [])]
    slots = -(-review.period.minutes // review.slot_minutes)
    return [
        Line(
            slo.service or ("All services" if slo is review.overall else "(no name)"),
            slo.budget.state,
            _left(slo, slots),
        )
        for slo in every
        if slo.budget.spent is not None
    ]


def _left(slo: ServiceSlo, slots: int) -> list[float]:
    rest, left = slo.budget.size, []
    for slot in range(slots):
        rest -= slo.slots.get(slot, Minutes()).unhealthy
        left.append(rest / slo.budget.size)
    return left


def sample_line(position: int) -> Markup:
    """A piece of the burn-down's line at this position, for its key."""
    line = f'<line class="burn line-{position}" x1="0" x2="34" y1="4" y2="4"/>'
    return Markup(f'<svg width="34" height="8" aria-hidden="true">{line}</svg>')


def burn_down(review: Review) -> Markup:
    """How the error budget went: from all of it at the left to what is left at the right."""
    drawn = lines(review)
    lowest = max(min((min(line.left) for line in drawn), default=0.0), FLOOR)
    top, height = 12, 190
    span = 1.0 - min(lowest, 0.0)

    def y(share: float) -> float:
        return round(top + height * (1.0 - max(share, FLOOR)) / span, 2)

    body = [*_blind(review, top, height), *_grid(review.period, top, top + height)]
    for share in (1.0, 0.5, 0.0, -0.5, -1.0):
        if share >= 1.0 - span:
            zero = " zero" if share == 0 else ""
            body.append(f'<line class="grid{zero}" x1="0" x2="100%" y1="{y(share)}" y2="{y(share)}"/>')
            body.append(f'<text class="tick" x="0" dx="4" y="{y(share) - 3}">{left(share)}</text>')
    body.append(f'<svg x="0" y="0" width="100%" height="{top + height}" viewBox="0 0 1000 {top + height}" ')
    body.append('preserveAspectRatio="none">')
    for n, line in reversed(list(enumerate(drawn))):
        last = len(line.left)
        points = [(0.0, y(1.0)), *((round(1000 * (i + 1) / last, 1), y(v)) for i, v in enumerate(line.left))]
        path = " ".join(f"{px:g},{py:g}" for px, py in points)
        body.append(f'<polyline class="burn line-{n}" points="{path}"/>')
    body.append("</svg>")
    words = "; ".join(f"{line.name}: {left(line.left[-1])}" for line in drawn)
    return _svg("burn", top + height + 20, "Error budget left over time", words, body)


def heat_columns(review: Review) -> list[tuple[datetime, datetime]]:
    """The columns of the heat strip: days of a week, shorter steps of a shorter period."""
    step = review.period.step(CELLS) * MINUTE
    columns, at = [], review.period.start
    while at < review.period.end:
        columns.append((at, min(at + step, review.period.end)))
        at += step
    return columns


def heat_names(review: Review) -> list[str]:
    """Their headings."""
    daily = review.period.step(CELLS) >= 1440
    return [f"{start:%a} {start.day}" if daily else f"{start:%H:%M}" for start, _ in heat_columns(review)]


def heat(review: Review) -> list[HeatRow]:
    """Unhealthy client-minutes per service and day, worst services first."""
    columns = heat_columns(review)
    return [
        HeatRow(slo.service or "(no name)", [_cell(review, slo, start, end) for start, end in columns])
        for slo in review.services[:ROWS]
        if slo.minutes.observed or slo.minutes.unknown
    ]


def _cell(review: Review, slo: ServiceSlo, start: datetime, end: datetime) -> Cell:
    first = (start - review.period.start) // MINUTE // review.slot_minutes
    last = -(-((end - review.period.start) // MINUTE) // review.slot_minutes)
    totals = total(slo.slots.get(n, Minutes()) for n in range(first, last))
    blind = gap_minutes(review.quality.gaps, start, end)
    note = f"; nobody watched for {minutes(blind)}" if blind else ""
    if not totals.observed:
        reason = f"{totals.unknown} client-minutes could not be judged" if totals.unknown else "no data"
        return Cell("blind", "?" if totals.unknown else "–", reason + note)
    spent = Budget(totals, slo.target).spent or 0
    kind = "none" if not totals.unhealthy else "much" if spent > 1 else "some"
    words = f"{plural(totals.unhealthy, 'unhealthy client-minute')} of {totals.observed}{note}"
    return Cell(kind, short(totals.unhealthy) + ("*" if blind else ""), words)


def distribution(name: str, title: str, unit: str, counts: Distribution, before: str) -> Markup:
    """Bars per class, lengths on a logarithmic scale, with a mark where the period before was."""
    row, top = 22, 2
    most = max((*counts.now, *counts.before, 1))
    all_now = sum(counts.now)
    body = []
    for n, (label, now, then) in enumerate(zip(counts.classes, counts.now, counts.before, strict=True)):
        y = top + n * row
        share = percent(now / all_now, 1) if all_now and now else "0"
        body.append(f'<text class="tick" x="0" y="{y + 14}">{escape(label)}</text>')
        body.append(f'<rect class="share" x="24%" width="{_length(now, most)}%" y="{y + 3}" height="14" rx="2"/>')
        if then:
            x = round(24 + _length(then, most), 2)
            body.append(f'<line class="then" x1="{x}%" x2="{x}%" y1="{y + 1}" y2="{y + 19}"/>')
        body.append(f'<text class="tick" x="100%" text-anchor="end" y="{y + 14}">{share}</text>')
    words = "; ".join(
        f"{label}: {plural(now, unit)}, {before} {short(then)}"
        for label, now, then in zip(counts.classes, counts.now, counts.before, strict=True)
        if now or then
    )
    return _svg(name, top + row * len(counts.classes) + 4, title, words or "nothing was measured", body)


def _length(count: int, most: int) -> float:
    return round(58 * log10(1 + count) / log10(1 + most), 2)


def spark(slo: ServiceSlo, names: Sequence[str]) -> Markup:
    """The trend of a service's SLI: a bar per period, on the scale of its budget; hollow where nothing is known."""
    body = []
    for n, totals in enumerate(slo.periods):
        spent = Budget(totals, slo.target).spent
        x = n * 15
        if spent is None:
            body.append(f'<rect class="spark empty" x="{x + 1}" y="8" width="10" height="9"/>')
            continue
        height = round(2 + 16 * min(spent, 1.5) / 1.5, 1)
        kind = "much" if spent > 1 else "some" if totals.unhealthy else "none"
        body.append(f'<rect class="spark {kind}" x="{x}" y="{round(18 - height, 1)}" width="12" height="{height}"/>')
    shares = [*(percent(sli) for sli in slo.trend[:-1]), healthy(slo)]
    words = ", ".join(f"{name}: {share}" for name, share in zip(names, shares, strict=True))
    return Markup(
        '<svg class="trend" width="60" height="20" viewBox="0 0 60 20" role="img" '
        f'aria-label="Healthy: {escape(words)}"><title>Healthy: {escape(words)}</title>'
        '<line class="grid zero" x1="0" x2="60" y1="7.3" y2="7.3"/>'
        f"{''.join(body)}</svg>"
    )
