"""A review as a page, as text and as JSON: three views of the same numbers."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import clienthealth.review as package
from clienthealth.review import plots, wording
from clienthealth.review.model import Capacity, ClientRow, Review, TopicRow, as_json
from clienthealth.review.period import DAY, Period

QUESTIONS = ("How did we do?", "What went wrong?", "What now?")
SECTIONS = (
    ("objectives", "Objectives"),
    ("actions", "Actions"),
    ("incidents", "Incidents"),
    ("alerts", "Alerts"),
    ("near", "Near misses"),
    ("top", "Clients and topics"),
    ("capacity", "Capacity"),
    ("changes", "Changes"),
    ("quality", "Data quality"),
    ("missing", "Not computed"),
)
RANKINGS = (
    ("unhealthy", "Unhealthy longest", "Minutes"),
    ("buffer", "Fullest buffers", "Peak"),
    ("queue", "Fullest queues", "Peak"),
    ("lag", "Furthest behind", "Records"),
)
BADGES = {
    **{"within budget": "ok", "nearly spent": "warn", "overspent": "bad", "no data": "none"},
    **{"met": "ok", "not known": "warn", "missed": "bad"},
}
#: So many services without an unhealthy minute or a lost record are in the table; the JSON has all.
HEALTHY_SHOWN = 10
FAR = 104


def write(review: Review, folder: Path) -> list[Path]:
    """Write review.html, review.md and review.json; nothing in them tells when or where they were made."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "review.html": html(review),
        "review.md": markdown(review),
        "review.json": json.dumps(as_json(review), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def html(review: Review) -> str:
    """The page. All text from clients is escaped."""
    css = resources.files(package).joinpath("review.css").read_text("utf-8")
    before = f"the {review.period.unit} before"
    return _render(
        "review.html.j2",
        review,
        escape=True,
        css=Markup(css),
        hatch=plots.HATCH,
        burn_down=plots.burn_down(review),
        lines=plots.lines(review),
        timeline=plots.timeline(review),
        axis=plots.axis(review),
        spark=lambda slo: plots.spark(slo, _period_names(review)),
        buffer_plot=plots.distribution("buffers", "Peak buffer use", "client-minute", review.buffers, before),
        lag_plot=plots.distribution("lags", "Lag in records", "group-minute", review.lags, before),
    )


_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def markdown(review: Review) -> str:
    """The text. Names and evidence from clients cannot become markup."""
    return _render("review.md.j2", _escaped(review), escape=False)


def _escaped(value: Any) -> Any:
    """The same with every text in it escaped for Markdown, on one line."""
    if isinstance(value, str):
        return _MARKUP.sub(r"\\\1", re.sub(r"[\r\n\t]+", " ", value))
    if isinstance(value, Mapping):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_escaped(inner) for inner in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: _escaped(getattr(value, f.name)) for f in dataclasses.fields(value)}
        )
    return value


@cache
def _environment(escape: bool) -> Environment:
    env = Environment(
        loader=PackageLoader("clienthealth.review", ""),
        autoescape=escape,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    for name in ("percent", "points", "number", "duration", "minutes", "stretch", "lost", "healthy", "plural", "left"):
        env.filters[name] = getattr(wording, name)
    return env


def _render(template: str, review: Review, escape: bool, **more: Any) -> str:
    healthy = [s for s in review.services if not s.minutes.unhealthy and s.lost.none]
    shown = [s for s in review.services if s.minutes.unhealthy or not s.lost.none] + healthy[:HEALTHY_SHOWN]
    overall = review.overall.minutes
    return (
        _environment(escape)
        .get_template(template)
        .render(
            review=review,
            title=title(review.period),
            questions=list(zip(QUESTIONS, review.headline, strict=True)),
            sections=SECTIONS,
            rankings=RANKINGS,
            badge=BADGES,
            shown_services=shown,
            hidden_services=len(review.services) - len(shown),
            heat=plots.heat(review),
            heat_names=plots.heat_names(review),
            heat_daily=review.period.step(plots.CELLS) >= 1440,
            period_names=_period_names(review),
            incidents=sum(t.incidents for t in review.themes),
            confirmed=sum(t.confirmed for t in review.themes),
            still_open=sum(t.open for t in review.themes),
            checked=any(a.prometheus_seconds is not None for a in review.alerts),
            value=_value,
            weeks_left=_weeks_left,
            unknown_share=overall.unknown / (overall.unknown + overall.observed)
            if overall.unknown + overall.observed
            else None,
            definitions=definitions(),
            **more,
        )
    )


def title(period: Period) -> str:
    """The period in words."""
    if period.is_week and period.label.startswith(f"{period.start.isocalendar()[0]}-W"):
        week = period.start.isocalendar()[1]
        return f"Week {week}: {wording.moment(period.start)[:-6]} to {_day(period)}, all times UTC"
    return f"{wording.moment(period.start)} to {wording.moment(period.end)} {period.end.year}, all times UTC"


def _day(period: Period) -> str:
    last = period.end - DAY
    return f"{last:%a} {last.day} {last:%b %Y}"


def _period_names(review: Review) -> list[str]:
    if review.period.is_week:
        return [f"W{p.start.isocalendar()[1]:02d}" for p in review.periods]
    return [f"{p.start:%H:%M}" if p.minutes < 1440 else f"{p.start.day} {p.start:%b}" for p in review.periods]


def _value(row: ClientRow | TopicRow) -> str:
    return wording.percent(row.value, 0) if row.what in ("buffer", "queue") else wording.number(row.value)


def _weeks_left(row: Capacity) -> str:
    if row.slope is None:
        return wording.NONE
    if row.periods_left is None or row.periods_left > FAR:
        return "not in sight"
    return f"{row.periods_left:.1f}"


def definitions() -> list[tuple[str, str]]:
    """The words and their meanings, from the package's docstring."""
    terms: list[tuple[str, str]] = []
    for line in inspect.cleandoc(package.__doc__ or "").splitlines():
        if match := re.fullmatch(r"(\S[\w -]*?)\s{2,}(\S.*)", line):
            terms.append((match[1], match[2]))
        elif line.startswith("    ") and terms:
            terms[-1] = (terms[-1][0], f"{terms[-1][1]} {line.strip()}")
    return [(word, meaning.replace("`", "")) for word, meaning in terms]
