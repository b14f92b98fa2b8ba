"""What the status page shows of one client: its verdicts with their evidence, and the four measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from clienthealth.model import wording
from clienthealth.model.health_record import HealthRecord, amount, number
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.modes import modes
from clienthealth.platform.html_page import foreign
from clienthealth.settings import Settings
from clienthealth.settings.links import runbooks
from clienthealth_exporters.prometheus.limits import LIMITS
from clienthealth_exporters.prometheus.measurements import Measurement, measurements
from clienthealth_exporters.prometheus.states import LAG_ALARMS, State

#: What the states of a group's lag mean (reference: Burrow's names).
LAG_WORDS = {
    "WARN": "The group reads more slowly than its topics grow.",
    "STALL": "The group commits the same offset again and again while records wait.",
    "STOP": "The group has stopped committing while records wait.",
    "REWIND": "The group's committed offset has gone back: records are read again.",
}
MAX_EVIDENCE = 12
MAX_PARTITIONS = 25
#: A shape per status, so that nobody has to tell colours apart.
_SHAPES = {
    "confirmed": '<path d="M6 0 12 6 6 12 0 6z" fill="var(--bad)"/>',
    "suspected": '<path d="M6 .8 11.6 11H.4z" fill="var(--warn)" stroke="var(--warn-edge)"/>',
    "lagging": '<path d="M.7 .7h10.6v10.6H.7z" fill="var(--warn)" stroke="var(--warn-edge)"/>',
    "unknown": '<circle cx="6" cy="6" r="4.6" fill="none" stroke="var(--none)" stroke-width="2" stroke-dasharray="2"/>',
    "ok": '<circle cx="6" cy="6" r="5.2" fill="var(--ok)"/>',
    "gone": '<path d="M2 2l8 8M10 2l-8 8" fill="none" stroke="var(--none)" stroke-width="2"/>',
}


@dataclass(frozen=True)
class View:
    """What a page needs besides the clients. Times in epoch seconds; `trouble`: why the state cannot be trusted."""

    settings: Settings
    now: float
    trouble: str | None
    newest: float | None


def status_of(state: State) -> str:
    """The word for a client: confirmed, suspected, lagging (groups), unknown, ok or gone."""
    if state.urgency >= 30:
        return "confirmed"
    if state.urgency >= 20:
        return "suspected"
    if state.urgency > 10:
        return "lagging"
    if state.departed:
        return "gone"
    return "unknown" if state.urgency == 10 else "ok"


def badge(status: str, text: str | None = None) -> str:
    """Shape and word of a status."""
    shape = f'<svg class="shape" viewBox="0 0 12 12" aria-hidden="true">{_SHAPES[status]}</svg>'
    return f'<span class="badge {status}">{shape}{escape(text or status)}</span>'


def address(record: HealthRecord) -> str:
    """The page of one client."""
    client = record.client
    query = {"service": client.service, "instance": client.instance, "client_id": client.client_id}
    return escape(f"/client?{urlencode(query, errors='replace')}")


def identity(record: HealthRecord) -> str:
    """What the client is and where it runs, in one line."""
    client = record.client
    library = " ".join(part for part in (client.library, client.version) if part)
    host = client.host if client.instance.startswith(client.host) and client.host else ""
    parts = (client.kind, library, client.instance if host else f"{client.host} {client.instance}".strip())
    group = f"group {client.group}" if client.group and client.kind != "group" else ""
    return " · ".join(foreign(part) for part in (*parts, group) if part)


def card(view: View, state: State) -> str:
    """A client in full."""
    record = state.record
    client = record.client
    unhealthy = [v for v in record.verdicts if v.unhealthy]
    status = status_of(state)
    group_state = record.text("group", "status")
    seen = wording.moment(state.seen, view.now)
    word = f"{status}: {group_state}" if status == "lagging" else status
    return (
        f'<article class="card {status}"><div class="who"><h3><a href="{address(record)}">{foreign(client.service)} '
        f'<span class="muted">/</span> {foreign(client.client_id or "(process)")}</a></h3>{badge(status, word)}</div>'
        f'<div class="small muted">{identity(record)} · last seen {seen}{" · gone" if state.departed else ""}</div>'
        + "".join(_verdict(view, verdict) for verdict in sorted(unhealthy, key=lambda v: v.status))
        + (_lagging(view, group_state) if status == "lagging" and group_state else "")
        + _others(record)
        + _measures(record)
        + _partitions(record)
        + "</article>"
    )


def _verdict(view: View, verdict: Verdict) -> str:
    mode = modes().get(verdict.mode)
    since = amount(verdict.since_ms)
    when = (
        f"since {wording.moment(since / 1000, view.now)}, for {wording.duration(view.now - since / 1000)}"
        if since is not None
        else "since an unknown time"
    )
    evidence = "".join(_evidence(view, fact) for fact in verdict.evidence[:MAX_EVIDENCE])
    more = len(verdict.evidence) - MAX_EVIDENCE
    detail = " · ".join(foreign(f"{key}: {_plain(value)}") for key, value in verdict.detail.items())
    links = [f'<a href="{escape(runbook_url(view.settings, verdict.mode))}">Runbook</a>']
    if view.settings.links.dashboards:
        links.append(f'<a href="{escape(view.settings.links.dashboards)}">Dashboards</a>')
    return (
        f'<section class="verdict {verdict.status}"><div class="who"><strong>'
        f"{foreign(mode.title if mode else verdict.mode)}</strong>{badge(verdict.status)}</div>"
        f'<div class="small">{escape(when)}</div>'
        + (f"<p>{escape(mode.summary)}</p>" if mode else "")
        + (f'<p class="small muted">{detail}</p>' if detail else "")
        + (f"<ol>{evidence}</ol>" if evidence else "")
        + (f'<p class="small muted">and {more} more</p>' if more > 0 else "")
        + (f'<p><span class="todo">What to do:</span> {escape(mode.action)}</p>' if mode else "")
        + f"<p>{' · '.join(links)}</p></section>"
    )


def _lagging(view: View, state: str) -> str:
    link = escape(runbook_url(view.settings, "consumer-lag"))
    return f'<p>{escape(LAG_WORDS[state])} <a href="{link}">Runbook</a></p>'


def runbook_url(settings: Settings, name: str) -> str:
    """Where the runbook of a mode is: the configured place, else this server."""
    return f"{runbooks(settings.links, status_page='')}/{quote(name)}"


def _evidence(view: View, fact: Evidence) -> str:
    ts = amount(fact.ts_ms)
    at = f'<span class="muted">{wording.moment(ts / 1000, view.now)}</span> ' if ts is not None else ""
    source = fact.source
    record = f"{source.topic}/{source.partition}@{source.offset}" if source else ""
    position = f' <span class="small muted mono">{foreign(record)}</span>' if record else ""
    return f'<li><span class="tag">{foreign(str(fact.kind))}</span> {at}{foreign(str(fact.text))}{position}</li>'


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _others(record: HealthRecord) -> str:
    fine = [v.mode for v in record.verdicts if v.status == "ok"]
    blind = [f"{v.mode} ({v.reason})" if v.reason else v.mode for v in record.verdicts if v.status == "unknown"]
    parts = [f"{badge('ok')} {foreign(', '.join(fine))}"] if fine else []
    parts += [f"{badge('unknown')} {foreign(', '.join(blind))}"] if blind else []
    return f'<p class="small">{"<br>".join(parts)}</p>' if parts else ""


def _measures(record: HealthRecord) -> str:
    boxes = "".join(_box(measured) for measured in measurements(record) if measured.applies)
    return "" if record.departed else f'<div class="measures">{boxes}</div>'


def _box(measured: Measurement) -> str:
    css_class = "value" if measured.value else "value unknown"
    value = f'<div class="{css_class}">{foreign(measured.text)}</div>'
    note = f'<div class="small muted">{foreign(measured.note)}</div>'
    return f'<div class="measure"><div class="name">{measured.name}</div>{value}{_bar(measured)}{note}</div>'


def _bar(measured: Measurement) -> str:
    if measured.ratio is None:
        return ""
    full, filling = LIMITS.buffer_full_ratio, LIMITS.buffer_used_ratio
    level = "bad" if measured.ratio >= full else "warn" if measured.ratio >= filling else "ok"
    width = round(min(1.0, measured.ratio) * 100)
    return f'<div class="bar"><i class="{level}" style="width:{width}%"></i></div>'


def _partitions(record: HealthRecord) -> str:
    def order(row: Mapping[str, Any]) -> tuple[bool, float]:
        return row.get("state") in LAG_ALARMS, number(row.get("records")) or 0

    rows = sorted(record.rows("lag"), key=order, reverse=True)
    if not rows:
        return ""
    body = "".join(_partition(row) for row in rows[:MAX_PARTITIONS])
    left = f'<p class="small muted">and {len(rows) - MAX_PARTITIONS} more</p>' if len(rows) > MAX_PARTITIONS else ""
    return (
        f'<details><summary class="small">{wording.count_of(len(rows), "partition")}</summary>'
        '<div class="scroll"><table><thead><tr>'
        "<th>partition</th><th>state</th><th>lag</th><th>age</th><th>member</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div>{left}</details>"
    )


def _partition(row: Mapping[str, Any]) -> str:
    records, seconds, member = amount(row.get("records")), amount(row.get("seconds")), row.get("member")
    name = str(member.get("client_id") or "") if isinstance(member, Mapping) else ""
    cells = (
        f"{row['topic']}-{row.get('partition')}",
        str(row.get("state") or "UNKNOWN"),
        "unknown" if records is None else wording.count(records),
        "" if seconds is None else wording.duration(seconds),
        name,
    )
    return f"<tr>{''.join(f'<td>{foreign(cell)}</td>' for cell in cells)}</tr>"
