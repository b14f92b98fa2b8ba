"""All services at a glance: how they were, hour by hour; which versions of clients are in use; who went silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from clienthealth.model import wording
from clienthealth.platform.html_page import crumbs, foreign
from clienthealth_exporters.prometheus.client_card import View, address, status_of
from clienthealth_exporters.prometheus.filters import Filters
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, HOURS, History
from clienthealth_exporters.prometheus.states import State

MAX_SERVICES = 200
MAX_VERSIONS = 60
MAX_SILENT = 100
#: From which unhealthy share on an hour is drawn in which strength; a letter says the same to who sees no colours.
LEVELS = ((0.0, "ok", ""), (1e-9, "some", "·"), (0.05, "warn", "!"), (0.25, "bad", "‼"))


def body(view: View, states: Sequence[State], history: History) -> str:
    """The page within its frame."""
    return (
        f'{crumbs(("Fleet", "/fleet"))}<main id="fresh"><h1>Fleet</h1>'
        f"{_strips(view, history)}{_versions(states)}{_silent(view, states)}</main>"
    )


def _strips(view: View, history: History) -> str:
    this = int(view.now // HOUR_SECONDS)
    hours = range(this - HOURS + 1, this + 1)
    rows = list(history.services())
    if not rows:
        return '<div class="card empty">No client has been judged yet.</div>'
    head = "".join(
        f'<th scope="col">{hour % 24:02d}</th>' if hour % 3 == 0 or hour == this else "<td></td>" for hour in hours
    )
    strips = "".join(_strip(service, shares, hours) for service, shares in rows[:MAX_SERVICES])
    more = (
        f'<p class="muted">{len(rows) - MAX_SERVICES} more services were healthier.</p>'
        if len(rows) > MAX_SERVICES
        else ""
    )
    begun = f" It began to look at {wording.moment(history.begun, view.now)}." if history.begun else ""
    return (
        "<h2>Services by hour</h2>"
        f'<p class="small muted">Unhealthy share of the readings that were judged, by hour of UTC: · some, ! 5 % and '
        f"more, ‼ 25 % and more; empty: nothing is known. The exporter remembers a day.{escape(begun)}</p>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Services by hour"><table class="heat"><thead><tr>'
        f'<th scope="col">service</th>{head}</tr></thead><tbody>{strips}</tbody></table></div>{more}'
    )


def _strip(service: str, shares: Mapping[int, float], hours: range) -> str:
    link = escape(Filters(chosen={"service": service}).address()) if service else "/"
    cells = "".join(_cell(shares.get(hour)) for hour in hours)
    return f'<tr><th scope="row"><a href="{link}">{foreign(service or "(unknown)")}</a></th>{cells}</tr>'


def _cell(share: float | None) -> str:
    if share is None:
        return '<td class="none"></td>'
    _, level, mark = [row for row in LEVELS if share >= row[0]][-1]
    return f'<td class="{level}" title="{wording.percent(share)}">{mark}</td>'


def _versions(states: Sequence[State]) -> str:
    clients = [state for state in states if state.client.kind != "group"]
    used = Counter((state.client.library or "", state.client.version or "") for state in clients)
    ill = Counter(
        (state.client.library or "", state.client.version or "")
        for state in clients
        if status_of(state) in ("confirmed", "suspected")
    )
    rows = "".join(
        f"<tr><td>{foreign(library or 'unknown')}</td><td>"
        f'<a href="{escape(Filters(chosen={"library": library, "version": version}).address())}">'
        f"{foreign(version or 'unknown')}</a></td><td>{count}</td><td>{ill[library, version] or ''}</td></tr>"
        for (library, version), count in used.most_common(MAX_VERSIONS)
    )
    head = "<tr><th>library</th><th>version</th><th>clients</th><th>unhealthy</th></tr>"
    return (
        f'<h2>Versions in use</h2><div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        if rows
        else ""
    )


def _silent(view: View, states: Sequence[State]) -> str:
    gone = sorted((state for state in states if state.departed or state.stale), key=lambda state: -state.seen)
    rows = "".join(
        f'<tr><td><a href="{address(state.record)}">{foreign(state.client.service)} / '
        f"{foreign(state.client.client_id or '(process)')}</a></td><td>{foreign(state.client.instance)}</td>"
        f"<td>{'has ended' if state.departed else 'is silent'}</td><td>{wording.moment(state.seen, view.now)}</td></tr>"
        for state in gone[:MAX_SILENT]
    )
    kept = wording.duration(view.settings.prometheus.ttl_seconds)
    head = "<tr><th>client</th><th>instance</th><th>it</th><th>last seen</th></tr>"
    table = (
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        if rows
        else f"<p>Nobody, within {kept}.</p>"
    )
    more = f'<p class="muted">{len(gone) - MAX_SILENT} more.</p>' if len(gone) > MAX_SILENT else ""
    return f"<h2>Who went silent</h2>{table}{more}"
