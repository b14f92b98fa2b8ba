"""Plots as inline SVG: nothing is loaded, text stays at reading size at any width, colours follow
light and dark. Lengths are in per cent of the plot's width. Every plot says in words what it shows, and no
meaning is in a colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log10

from markupsafe import Markup

from clienthealth.model.wording import count_of, short
from clienthealth.platform.html_page import element
from clienthealth.review.coverage import gap_minutes
from clienthealth.review.document import Cell, HeatRow
from clienthealth.review.model import Distribution, Review, Theme
from clienthealth.review.period import DAY, MINUTE, Period
from clienthealth.review.slo import Budget, Minutes, ServiceSlo, total
from clienthealth.review.wording import healthy, left, minutes, percent, stretch

ROWS = 12
CELLS = 10
LINES = 4
FLOOR = -1.0

Axis = Sequence[tuple[float, str]]


def _svg(name: str, height: int, title: str, text: str, body: Iterable[Markup]) -> Markup:
    labels = element("title", title, id=f"{name}-t"), element("desc", text, id=f"{name}-d")
    return element(
        "svg", *labels, *body,
        class_="plot", width="100%", height=height, role="img", aria_labelledby=f"{name}-t {name}-d",
    )  # fmt: skip


def _line(class_: str, x1: str, x2: str, y1: float, y2: float, *content: Markup) -> Markup:
    return element("line", *content, class_=class_, x1=x1, x2=x2, y1=y1, y2=y2)


def _tick(text: str, **where: object) -> Markup:
    return element("text", text, class_="tick", **where)


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


def _grid(period: Period, top: int, bottom: int) -> Iterator[Markup]:
    for x, name in _ticks(period):
        yield _line("grid", f"{x}%", f"{x}%", top, bottom)
        yield _tick(name, x=f"{x}%", dx=3, y=bottom + 14)


def _blind(review: Review, top: int, height: int) -> Iterator[Markup]:
    """The gaps of the monitor, hatched over the whole height."""
    for gap in review.quality.gaps:
        start, end = _at(review.period, gap.start), _at(review.period, gap.end)
        title = element("title", f"No data: {stretch(gap.start, gap.end)}")
        width = f"{round(end - start, 3)}%"
        yield element("rect", title, class_="blind", x=f"{start}%", width=width, y=top, height=height)


HATCH = element(
    "svg",
    element(
        "defs",
        element(
            "pattern",
            element("rect", width=6, height=6, class_="hatch-ground"),
            _line("hatch-line", "0", "0", 0, 6),
            id="hatch",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        ),
    ),
    width=0,
    height=0,
    aria_hidden="true",
    class_="defs",
)


def timeline(review: Review) -> Markup:
    """When what was wrong: a row per cause, a bar per incident; thinner where it was only suspected."""
    rows = (
        element("li", element("bdi", _name(theme)), _track(review, theme, f"theme-{n}"))
        for n, theme in enumerate(review.themes[:ROWS])
    )
    return element("ol", *rows, class_="timeline")


def axis(review: Review) -> Markup:
    """The time axis below the timeline; the times are in words elsewhere."""
    names = (_tick(name, x=f"{x}%", dx=3, y=13) for x, name in _ticks(review.period))
    return element("svg", *names, class_="plot", width="100%", height=18, aria_hidden="true")


def _track(review: Review, theme: Theme, name: str) -> Markup:
    height, middle = 20, 10
    body = [_line("grid", f"{x}%", f"{x}%", 0, height) for x, _ in _ticks(review.period)]
    body += _blind(review, 0, height)
    for incident in theme.listed:
        left_end, right = _at(review.period, incident.start), _at(review.period, incident.stop or review.period.end)
        sure = right if incident.sure is None else _at(review.period, incident.sure)
        tip = f"{incident.service} {incident.client_id}: {stretch(incident.start, incident.stop)}"
        if sure > left_end or incident.sure is None:
            body.append(_bar("suspected", left_end, sure, middle, tip))
        if incident.sure is not None:
            body.append(_bar("confirmed", sure, right, middle, tip))
    words = f"{count_of(theme.incidents, 'incident')}, {theme.confirmed} confirmed, {stretch(theme.start, theme.stop)}"
    return _svg(name, height, _name(theme), words, body)


def _bar(kind: str, start: float, end: float, y: int, tip: str) -> Markup:
    return _line(f"bar {kind}", f"{start}%", f"{end}%", y, y, element("title", tip))


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
    line = _line(f"burn line-{position}", "0", "34", 4, 4)
    return element("svg", line, width=34, height=8, aria_hidden="true")


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
            body.append(_line(f"grid{zero}", "0", "100%", y(share), y(share)))
            body.append(_tick(left(share), x=0, dx=4, y=y(share) - 3))
    burns = []
    for n, line in reversed(list(enumerate(drawn))):
        last = len(line.left)
        points = [(0.0, y(1.0)), *((round(1000 * (i + 1) / last, 1), y(v)) for i, v in enumerate(line.left))]
        path = " ".join(f"{px:g},{py:g}" for px, py in points)
        burns.append(element("polyline", class_=f"burn line-{n}", points=path))
    size, box = {"x": 0, "y": 0, "width": "100%", "height": top + height}, f"0 0 1000 {top + height}"
    body.append(element("svg", *burns, **size, viewBox=box, preserveAspectRatio="none"))
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
    words = f"{count_of(totals.unhealthy, 'unhealthy client-minute')} of {totals.observed}{note}"
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
        width = f"{_length(now, most)}%"
        body.append(_tick(label, x=0, y=y + 14))
        body.append(element("rect", class_="share", x="24%", width=width, y=y + 3, height=14, rx=2))
        if then:
            x = round(24 + _length(then, most), 2)
            body.append(_line("then", f"{x}%", f"{x}%", y + 1, y + 19))
        body.append(_tick(share, x="100%", text_anchor="end", y=y + 14))
    words = "; ".join(
        f"{label}: {count_of(now, unit)}, {before} {short(then)}"
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
            body.append(element("rect", class_="spark empty", x=x + 1, y=8, width=10, height=9))
            continue
        height = round(2 + 16 * min(spent, 1.5) / 1.5, 1)
        kind = "much" if spent > 1 else "some" if totals.unhealthy else "none"
        place = {"x": x, "y": round(18 - height, 1), "width": 12, "height": height}
        body.append(element("rect", class_=f"spark {kind}", **place))
    shares = [*(percent(sli) for sli in slo.trend[:-1]), healthy(slo)]
    words = ", ".join(f"{name}: {share}" for name, share in zip(names, shares, strict=True))
    name = f"Healthy: {words}"
    zero = _line("grid zero", "0", "60", 7.3, 7.3)
    return element(
        "svg", element("title", name), zero, *body,
        class_="trend", width=60, height=20, viewBox="0 0 60 20", role="img", aria_label=name,
    )  # fmt: skip
