"""The status page: every client, the worst first, readable without Grafana, on paper-white, at night and on a phone.

Log text is hostile: whatever comes from a record is escaped where it enters the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from clienthealth.model import wording
from clienthealth.platform.html_page import crumbs, foreign, page
from clienthealth_exporters.prometheus import fleet_page
from clienthealth_exporters.prometheus.client_card import View, address, badge, card, identity, status_of
from clienthealth_exporters.prometheus.client_details import details
from clienthealth_exporters.prometheus.filters import PAGE_SIZE, Facets, Filters
from clienthealth_exporters.prometheus.history import History, Track
from clienthealth_exporters.prometheus.measurements import measurements
from clienthealth_exporters.prometheus.states import SILENT_SECONDS, State

__all__ = ["View", "client", "fleet", "missing", "overview", "recalled"]

REFRESH_SECONDS = 15
_ILL = ("confirmed", "suspected", "lagging")
_TITLES = {"unknown": "Cannot be judged", "gone": "Gone", "ok": "Healthy"}
_WORDS = (*_ILL, *_TITLES)


def overview(view: View, states: list[State], facets: Facets, filters: Filters) -> str:
    """A page of the clients that are wanted, the worst first."""
    every = _by_status(states)
    matching = _by_status(filters.among(states, view.settings)) if filters else every
    ordered = [state for those in matching.values() for state in those]
    pages = max(1, -(-len(ordered) // PAGE_SIZE))
    filters = filters.on(min(filters.page, pages))
    shown = _by_status(ordered[(filters.page - 1) * PAGE_SIZE : filters.page * PAGE_SIZE])
    body = _head(view) + facets.form(filters) + '<main id="fresh">' + banner(view) + _counts(every, filters)
    if not states:
        body += f'<div class="card empty">{_why_empty(view)}</div>'
    elif not ordered:
        body += f'<div class="card empty">No client matches {foreign(_sought(filters))}.</div>'
    ill = [state for status in _ILL for state in shown[status]]
    if ill:
        body += "<h2>Needs attention</h2>" + "".join(card(view, state) for state in ill)
    for status, title in _TITLES.items():
        body += _section(view, shown[status], title, len(matching[status]), bool(filters) or filters.page > 1)
    body += _pages(filters, pages, len(ordered)) + "</main>"
    footer = (
        f'<footer>Refreshed every {REFRESH_SECONDS} s<span id="stale" role="status"></span> · '
        '<a href="/fleet">fleet</a> · <a href="/metrics">metrics</a> · <a href="/clients.json">JSON</a> · '
        '<a href="/runbooks">runbooks</a></footer>'
    )
    return page(_title(every), f"{body}{footer}", REFRESH_SECONDS)


def client(view: View, state: State, track: Track | None) -> str:
    """One client, with its last hour."""
    name = state.record.client.client_id or state.key
    body = f'{crumbs()}<main id="fresh">{banner(view)}{card(view, state)}{details(view, state, track)}</main>'
    return page(f"{name} · Kafka client health", body, REFRESH_SECONDS)


def fleet(view: View, states: list[State], history: History) -> str:
    """All services."""
    return page("Fleet · Kafka client health", fleet_page.body(view, states, history), REFRESH_SECONDS)


def recalled(view: View, state: State, track: Track | None, shard: str) -> str:
    """A client that is silent for long, or that another shard serves: its last record, and what that is."""
    if shard:
        where = f"Shard {foreign(shard)} serves it; this is its newest record."
    else:
        where = f"Nothing was heard of it after {wording.moment(state.seen, view.now)}: this is its last record."
    body = f'{crumbs()}<main id="fresh">{banner(view)}<div class="banner">{where}</div>{card(view, state)}'
    name = state.record.client.client_id or state.key
    return page(f"{name} · Kafka client health", f"{body}{details(view, state, track)}</main>", REFRESH_SECONDS)


def missing(view: View, name: str, shard: str) -> str:
    """A client that is not, or no longer, known. `shard`: the other one that would serve it."""
    ttl = wording.duration(view.settings.prometheus.ttl_seconds)
    text = (
        f"{foreign(name)} is served by shard {foreign(shard)}, and nothing is wrong with it: only of those that fail "
        "does this one know more."
        if shard
        else f"Nothing is known of {foreign(name)}: it has been silent for more than {ttl}, or never reported."
    )
    return page("Unknown client", f'{crumbs()}{banner(view)}<div class="card empty">{text}</div>')


def banner(view: View) -> str:
    """A warning where what the page shows may not be what is."""
    reasons = [view.trouble] if view.trouble else []
    if view.newest is not None and view.now - view.newest > SILENT_SECONDS:
        reasons.append(
            f"the newest data is from {wording.moment(view.newest, view.now)}, "
            f"{wording.duration(view.now - view.newest)} ago: the monitor has stopped, or hears nothing"
        )
    if not reasons:
        return ""
    lines = "<br>".join(escape(reason[:1].upper() + reason[1:]) for reason in reasons)
    return (
        '<div class="banner" role="alert"><strong>The monitor is blind.</strong> Do not trust “ok” below.'
        f"<br>{lines}.</div>"
    )


def _head(view: View) -> str:
    age = "no data yet" if view.newest is None else f"newest data {wording.duration(view.now - view.newest)} old"
    return (
        "<header><h1>Kafka client health</h1>"
        f'<span class="small muted">{wording.moment(view.now, view.now)} · {age}</span></header>'
    )


def _by_status(states: list[State]) -> dict[str, list[State]]:
    """The clients by the word for them, each list in the order given."""
    by_status: dict[str, list[State]] = {word: [] for word in _WORDS}
    for state in states:
        by_status[status_of(state)].append(state)
    return by_status


def _title(every: Mapping[str, list[State]]) -> str:
    ill = len(every["confirmed"]) + len(every["suspected"])
    return f"({ill}) Kafka client health" if ill else "Kafka client health"


def _counts(every: Mapping[str, list[State]], filters: Filters) -> str:
    """How many clients there are of each status, each a link to them."""
    items = "".join(
        f'<li><a href="{escape(filters.address(status=word))}">{badge(word)} <b>{len(clients)}</b></a></li>'
        for word, clients in every.items()
        if clients
    )
    return f'<ul class="counts">{items}</ul>' if items else ""


def _sought(filters: Filters) -> str:
    parts = [f"“{filters.text}”"] if filters.text else []
    return ", ".join([*parts, *(f"{name} {value}" for name, value in filters.chosen.items())])


def _pages(filters: Filters, pages: int, total: int) -> str:
    if pages == 1:
        return ""
    previous, following = (escape(filters.address(filters.page + step)) for step in (-1, 1))
    before = f'<a rel="prev" href="{previous}">Previous</a> · ' if filters.page > 1 else ""
    after = f' · <a rel="next" href="{following}">Next</a>' if filters.page < pages else ""
    return f'<nav class="pages" aria-label="Pages">{before}page {filters.page} of {pages}, {total} clients{after}</nav>'


def _why_empty(view: View) -> str:
    if view.trouble:
        return "No client is known yet."
    topics = ", ".join(view.settings.topics.metrics)
    return f"No client has reported. Does anything write to {escape(topics)}, and does the monitor run?"


def _section(view: View, states: list[State], title: str, total: int, is_open: bool) -> str:
    if not states:
        return ""
    rows = "".join(_row(view, state) for state in states)
    return (
        f'<details class="list" id="{title.split()[0].lower()}"{" open" if is_open or len(states) <= 25 else ""}>'
        f'<summary><strong>{title}</strong> <span class="muted">{total}</span></summary>'
        '<table class="clients"><thead><tr><th>client</th>'
        "<th>what and where</th><th>buffer</th><th>callback</th><th>topic queue</th><th>lag</th><th>last seen</th>"
        f"</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _row(view: View, state: State) -> str:
    record = state.record
    name = f"{foreign(record.client.service)} / {foreign(record.client.client_id or '(process)')}"
    cells = "".join(
        f'<td data-name="{measured.name.lower()}">{foreign(measured.text)}</td>' for measured in measurements(record)
    )
    status = status_of(state)
    reasons = {v.reason for v in record.verdicts if v.reason} if status == "unknown" else set()
    why = f"<br>{foreign('; '.join(sorted(map(str, reasons))))}" if reasons else ""
    return (
        f'<tr><td>{badge(status, " ")} <a href="{address(record)}">{name}</a></td>'
        f'<td class="small muted">{identity(record)}{why}</td>{cells}'
        f'<td data-name="last seen">{wording.moment(state.seen, view.now)}</td></tr>'
    )
