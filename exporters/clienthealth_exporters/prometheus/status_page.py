"""The status page: every client, the worst first, readable without Grafana, on paper-white, at night and on a phone.

Log text is hostile: whatever comes from a record is escaped where it enters the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from clienthealth.model import wording
from clienthealth.platform.html_page import crumbs, foreign, page
from clienthealth_exporters.prometheus.client_card import View, address, badge, card, identity, status_of
from clienthealth_exporters.prometheus.measurements import measurements
from clienthealth_exporters.prometheus.states import SILENT_SECONDS, State

__all__ = ["View", "client", "missing", "overview"]

REFRESH_SECONDS = 15
MAX_CARDS = 60
MAX_ROWS = 400
_ILL = ("confirmed", "suspected", "lagging")
_WORDS = ("confirmed", "suspected", "lagging", "unknown", "gone", "ok")


def overview(view: View, states: list[State], wanted: str) -> str:
    """All clients whose service, instance or id contains `wanted`."""
    needle = wanted.strip().lower()
    every = _by_status(states)
    found = every if not needle else {status: _matching(those, needle) for status, those in every.items()}
    ill = [state for status in _ILL for state in found[status]]
    body = _head(view) + banner(view) + _counts(every) + _search(wanted)
    if not states:
        body += f'<div class="card empty">{_why_empty(view)}</div>'
    elif not any(found.values()):
        body += f'<div class="card empty">No client matches {foreign(f"“{wanted}”")}.</div>'
    if ill:
        body += "<h2>Needs attention</h2>" + "".join(card(view, state) for state in ill[:MAX_CARDS])
        body += _left_out(len(ill), MAX_CARDS)
    for status, title in (("unknown", "Cannot be judged"), ("gone", "Gone"), ("ok", "Healthy")):
        body += _section(view, found[status], title, is_open=bool(needle))
    footer = (
        f'<footer>Refreshed every {REFRESH_SECONDS} s · <a href="/metrics">metrics</a> · '
        '<a href="/clients.json">JSON</a> · <a href="/runbooks">runbooks</a></footer>'
    )
    return page(_title(every), f"{body}{footer}", REFRESH_SECONDS)


def client(view: View, state: State) -> str:
    """One client."""
    name = state.record.client.client_id or state.key
    return page(f"{name} · Kafka client health", f"{crumbs()}{banner(view)}{card(view, state)}", REFRESH_SECONDS)


def missing(view: View, name: str) -> str:
    """A client that is not, or no longer, known."""
    ttl = wording.duration(view.settings.prometheus.ttl_seconds)
    text = f"Nothing is known of {foreign(name)}: it has been silent for more than {ttl}, or never reported."
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
    found: dict[str, list[State]] = {word: [] for word in _WORDS}
    for state in states:
        found[status_of(state)].append(state)
    return found


def _matching(states: list[State], needle: str) -> list[State]:
    return [state for state in states if needle in f"{state.key} {state.group}".lower()]


def _title(every: Mapping[str, list[State]]) -> str:
    ill = len(every["confirmed"]) + len(every["suspected"])
    return f"({ill}) Kafka client health" if ill else "Kafka client health"


def _counts(every: Mapping[str, list[State]]) -> str:
    items = "".join(f"<li>{badge(word)} <b>{len(found)}</b></li>" for word, found in every.items() if found)
    return f'<ul class="counts">{items}</ul>' if items else ""


def _search(wanted: str) -> str:
    return (
        '<form role="search"><input type="search" name="q" aria-label="Find a client" '
        f'placeholder="service, instance, client id or group" value="{escape(wanted)}"><button>Find</button></form>'
    )


def _why_empty(view: View) -> str:
    if view.trouble:
        return "No client is known yet."
    topics = ", ".join(view.settings.topics.metrics)
    return f"No client has reported. Does anything write to {escape(topics)}, and does the monitor run?"


def _left_out(total: int, shown: int) -> str:
    return f'<p class="muted">{total - shown} more are not shown: use Find.</p>' if total > shown else ""


def _section(view: View, states: list[State], title: str, is_open: bool) -> str:
    if not states:
        return ""
    rows = "".join(_row(view, state) for state in states[:MAX_ROWS])
    return (
        f'<details class="list"{" open" if is_open or len(states) <= 25 else ""}><summary><strong>{title}</strong> '
        f'<span class="muted">{len(states)}</span></summary><table class="clients"><thead><tr><th>client</th>'
        "<th>what and where</th><th>buffer</th><th>callback</th><th>topic queue</th><th>lag</th><th>last seen</th>"
        f"</tr></thead><tbody>{rows}</tbody></table>{_left_out(len(states), MAX_ROWS)}</details>"
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
