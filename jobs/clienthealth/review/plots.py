"""Draw the plots of a review, and compute the numbers in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from math import log10

from markupsafe import Markup

from clienthealth.model.wording import count_of, short
from clienthealth.platform.html_page import curves, element, grid, line, plot, tick
from clienthealth.review.client_minutes import gap_minutes
from clienthealth.review.content import left, minutes, percent, stretch, trend_of
from clienthealth.review.model import Distribution, Review, Theme
from clienthealth.review.period import DAY, MINUTE, Period
from clienthealth.review.slo import Budget, Minutes, ServiceSlo, total

ROWS = 12
CELLS = 10
LINES = 4
FLOOR = -1.0


@dataclass(frozen=True)
class Cell:
    """A cell of a heat strip: a service's unhealthy client-minutes in a part of the reviewed period.

    `kind`: `none` (no error budget was spent), `some`, `much` (more than the whole budget was spent) or `blind`
    (nothing was observed). `words` is the tooltip.
    """

    kind: str
    text: str
    words: str


@dataclass(frozen=True)
class HeatRow:
    """A service's row of a heat strip."""

    service: str
    cells: Sequence[Cell]


def _at(period: Period, moment: datetime) -> float:
    """Return a moment's position on the time axis, from 0 to 100 per cent."""
    share = (moment - period.start) / (period.end - period.start)
    return round(100 * min(max(share, 0.0), 1.0), 3)


def _steps(period: Period, most: int) -> list[tuple[datetime, str]]:
    """Divide the period into steps; return (start, name) of each step. `most`: maximum number of steps."""
    step = period.step(most)
    begins = [period.start + minute * MINUTE for minute in range(0, period.minutes, step)]
    return [(at, f"{at:%a} {at.day}" if step >= DAY // MINUTE else f"{at:%H:%M}") for at in begins]


def _ticks(period: Period) -> list[tuple[float, str]]:
    return [(_at(period, at), name) for at, name in _steps(period, 8)]


def _blind(review: Review, top: int, height: int) -> Iterator[Markup]:
    for gap in review.quality.gaps:
        start, end = _at(review.period, gap.start), _at(review.period, gap.end)
        title = element("title", f"No data: {stretch(gap.start, gap.end)}")
        width = f"{round(end - start, 3)}%"
        yield element("rect", title, class_="blind", x=f"{start}%", width=width, y=top, height=height)


def axis(review: Review) -> Markup:
    """Return the time axis below the timeline."""
    names = (tick(name, x=f"{x}%", dx=3, y=13) for x, name in _ticks(review.period))
    return element("svg", *names, class_="plot", width="100%", height=18, aria_hidden="true")


def track(review: Review, theme: Theme) -> Markup:
    """Return a plot over the reviewed period, with a bar for each listed incident of `theme`.

    A bar is thin until the time at which the failure was confirmed, and thick after this time.
    """
    height, middle = 20, 10
    body = [*grid(_ticks(review.period), 0, height, names=False), *_blind(review, 0, height)]
    for incident in theme.listed:
        left_end, right = _at(review.period, incident.start), _at(review.period, incident.stop or review.period.end)
        sure = right if incident.sure is None else _at(review.period, incident.sure)
        tip = f"{incident.service} {incident.client_id}: {stretch(incident.start, incident.stop)}"
        if sure > left_end or incident.sure is None:
            body.append(_bar("suspected", left_end, sure, middle, tip))
        if incident.sure is not None:
            body.append(_bar("confirmed", sure, right, middle, tip))
    words = f"{count_of(theme.incidents, 'incident')}, {theme.confirmed} confirmed, {stretch(theme.start, theme.stop)}"
    return plot(height, name_of(theme), words, body)


def _bar(kind: str, start: float, end: float, y: int, tip: str) -> Markup:
    return line(f"bar {kind}", f"{start}%", f"{end}%", y, y, element("title", tip))


def name_of(theme: Theme) -> str:
    """Return title, cause and topic of a theme, joined by commas. Empty parts are left out."""
    return ", ".join(part for part in (theme.title, theme.cause, theme.topic) if part)


def budget_left(review: Review) -> list[tuple[str, list[float]]]:
    """Return (name, shares) for all services together, then for each of the worst services (at most 4: `LINES`).

    `shares`: remaining share of the error budget after each slot of the period; negative if overspent.
    """
    spenders = [s for s in review.services if s.minutes.unhealthy][:LINES]
    slots = -(-review.period.minutes // review.slot_minutes)
    services = [(s.service or "(no name)", s) for s in spenders] if len(review.services) > 1 else []
    named = [(review.overall.service or "All services", review.overall), *services]
    shares = []
    for name, slo in named:
        if slo.budget.spent is not None:
            spent = accumulate(slo.slots.get(slot, Minutes()).unhealthy for slot in range(slots))
            shares.append((name, [(slo.budget.size - minutes) / slo.budget.size for minutes in spent]))
    return shares


def burn_down(review: Review) -> Markup:
    """Plot how much of the error budget remains during the reviewed period, from 100 % at the period's start."""
    drawn = budget_left(review)
    lowest = max(min((min(shares) for _, shares in drawn), default=0.0), FLOOR)
    top, height = 12, 190
    span = 1.0 - min(lowest, 0.0)

    def y(share: float) -> float:
        return round(top + height * (1.0 - max(share, FLOOR)) / span, 2)

    body = [*_blind(review, top, height), *grid(_ticks(review.period), top, top + height)]
    for share in (1.0, 0.5, 0.0, -0.5, -1.0):
        if share >= 1.0 - span:
            body.append(line("grid zero" if share == 0 else "grid", "0", "100%", y(share), y(share)))
            body.append(tick(left(share), x=0, dx=4, y=y(share) - 3))
    burns = [
        (f"burn line-{n}", [(100 * i / len(shares), y(share)) for i, share in enumerate((1.0, *shares))])
        for n, (_, shares) in reversed(list(enumerate(drawn)))
    ]
    body.append(curves(top + height, burns))
    words = "; ".join(f"{name}: {left(shares[-1])}" for name, shares in drawn)
    return plot(top + height + 20, "Remaining error budget over time", words, body)


def heat_columns(review: Review) -> list[tuple[datetime, datetime]]:
    """Return (start, end) of each column of the heat strip (at most 10: `CELLS`). A week has one column per day."""
    return list(pairwise([*(at for at, _ in _steps(review.period, CELLS)), review.period.end]))


def by_day(review: Review) -> bool:
    """True if a column of the heat strip covers a day or more."""
    return review.period.step(CELLS) >= 1440


def heat_names(review: Review) -> list[str]:
    """Return the headings of the columns of the heat strip."""
    return [name for _, name in _steps(review.period, CELLS)]


def heat(review: Review) -> list[HeatRow]:
    """Return the unhealthy client-minutes per column, for each of the worst services (at most 12: `ROWS`)."""
    rows = []
    for slo in (slo for slo in review.services[:ROWS] if slo.minutes.observed or slo.minutes.unknown):
        cells = []
        for start, end in heat_columns(review):
            first = (start - review.period.start) // MINUTE // review.slot_minutes
            last = -(-((end - review.period.start) // MINUTE) // review.slot_minutes)
            totals = total(slo.slots.get(n, Minutes()) for n in range(first, last))
            blind = gap_minutes(review.quality.gaps, start, end)
            note = f"; no record arrived in {minutes(blind)}" if blind else ""
            if not totals.observed:
                reason = f"{totals.unknown} client-minutes could not be judged" if totals.unknown else "no data"
                cells.append(Cell("blind", "?" if totals.unknown else "–", reason + note))
                continue
            spent = Budget(totals, slo.target).spent or 0
            kind = "none" if not totals.unhealthy else "much" if spent > 1 else "some"
            words = f"{count_of(totals.unhealthy, 'unhealthy client-minute')} of {totals.observed}{note}"
            cells.append(Cell(kind, short(totals.unhealthy) + ("*" if blind else ""), words))
        rows.append(HeatRow(slo.service or "(no name)", cells))
    return rows


def distribution(title: str, unit: str, counts: Distribution, before: str) -> Markup:
    """Return a plot of `counts` with one bar per range of values. The lengths of bars are logarithmic.

    `unit`: a singular noun for what is counted. `before`: a name of the previous period, such as "the week before".
    """
    row, top = 22, 2
    most = max((*counts.now, *counts.before, 1))
    all_now = sum(counts.now)
    body = []
    for n, (label, now, then) in enumerate(zip(counts.classes, counts.now, counts.before, strict=True)):
        y = top + n * row
        share = percent(now / all_now, 1) if all_now and now else "0"
        width = f"{_length(now, most)}%"
        body.append(tick(label, x=0, y=y + 14))
        body.append(element("rect", class_="share", x="24%", width=width, y=y + 3, height=14, rx=2))
        if then:
            x = round(24 + _length(then, most), 2)
            body.append(line("then", f"{x}%", f"{x}%", y + 1, y + 19))
        body.append(tick(share, x="100%", text_anchor="end", y=y + 14))
    words = "; ".join(
        f"{label}: {count_of(now, unit)}, {before} {short(then)}"
        for label, now, then in zip(counts.classes, counts.now, counts.before, strict=True)
        if now or then
    )
    return plot(top + row * len(counts.classes) + 4, title, words or "nothing was measured", body)


def _length(count: int, most: int) -> float:
    return round(58 * log10(1 + count) / log10(1 + most), 2)


def spark(slo: ServiceSlo, names: Sequence[str]) -> Markup:
    """Return the trend of a service, with one bar per period.

    A bar's height is the spent share of the error budget (at most 1.5); a hollow bar means no data. `names`: the names
    of the periods.
    """
    body = []
    for n, totals in enumerate(slo.periods):
        spent = Budget(totals, slo.target).spent
        x = n * 15
        if spent is None:
            body.append(element("rect", class_="spark empty", x=x + 1, y=8, width=10, height=9))
            continue
        height = round(2 + 16 * min(spent, 1.5) / 1.5, 1)
        kind = "much" if spent > 1 else "some" if totals.unhealthy else "none"
        place = {"x": x, "y": round(18 - height, 1), "width": 12, "height": height}
        body.append(element("rect", class_=f"spark {kind}", **place))
    words = ", ".join(f"{name}: {share}" for name, share in zip(names, trend_of(slo), strict=True))
    name = f"Healthy: {words}"
    zero = line("grid zero", "0", "60", 7.3, 7.3)
    return element(
        "svg", element("title", name), zero, *body,
        class_="trend", width=60, height=20, viewBox="0 0 60 20", role="img", aria_label=name,
    )  # fmt: skip
