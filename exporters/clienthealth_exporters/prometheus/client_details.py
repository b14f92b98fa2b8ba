"""Below a client's card: its last hour, incidents, dumps and options, what is known of it, and all of it to copy."""

from __future__ import annotations

import json
from html import escape

from clienthealth.model import wording
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth.model.verdicts import Evidence
from clienthealth.platform.html_page import foreign
from clienthealth_exporters.prometheus.client_card import View
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, PLOTTED, Track
from clienthealth_exporters.prometheus.plots import plot
from clienthealth_exporters.prometheus.states import State


def details(view: View, state: State, track: Track | None) -> str:
    """What a client's own page has that the overview has not."""
    record = state.record
    return (
        _plots(view, track)
        + _timeline(view, record, track)
        + _threads(view, record)
        + _configuration(record)
        + _record_table(record)
        + _copy(view, record)
    )


def _plots(view: View, track: Track | None) -> str:
    if track is None:
        return (
            '<p class="muted">Its last hour is not kept: the memory for that is full of clients that are unhealthy.</p>'
        )
    series = {name: track.series(name, view.now - HOUR_SECONDS) for name in PLOTTED}
    plots = "".join(plot(name, points, view.now) for name, points in series.items())
    return f'<h2>Last hour</h2><div class="plots">{plots}</div>' if plots else ""


def _timeline(view: View, record: HealthRecord, track: Track | None) -> str:
    """What lasts, from the record; what came and went, as far as the exporter has seen it."""
    lasting = [
        (since / 1000, f"{verdict.mode}: {verdict.status}, and still is")
        for verdict in record.verdicts
        if verdict.unhealthy and (since := amount(verdict.since_ms)) is not None
    ]
    seen = [(change.at, f"{change.mode}: {change.status}") for change in (track.changes() if track else [])]
    rows = "".join(
        f"<li>{wording.moment(at, view.now)} {foreign(text)}</li>"
        for at, text in sorted([*lasting, *seen], reverse=True)
    )
    return f'<h2>Incidents</h2><ol class="timeline">{rows}</ol>' if rows else ""


def _threads(view: View, record: HealthRecord) -> str:
    """What was read in thread dumps; the dump itself is the record of the input that each names."""
    facts = sorted(_facts(record, "thread-dump"), key=lambda fact: -(amount(fact.ts_ms) or 0))
    items = "".join(f"<li>{_evidence_line(view, fact)}</li>" for fact in facts)
    return f"<h2>Kafka threads in its newest dumps</h2><ul>{items}</ul>" if items else ""


def _configuration(record: HealthRecord) -> str:
    """Its options, of those that a judgement looks at; what it does not tell has the library's default, or another."""
    rows = "".join(
        f'<tr><th scope="row">{foreign(name)}</th><td>{foreign(value)}</td></tr>'
        for name, value in record.config.items()
    )
    return f"<h2>Its configuration, as far as judgement looks at it</h2><table>{rows}</table>" if rows else ""


def _facts(record: HealthRecord, kind: str) -> list[Evidence]:
    return [fact for verdict in record.verdicts for fact in verdict.evidence if fact.kind == kind]


def _evidence_line(view: View, fact: Evidence) -> str:
    ts = amount(fact.ts_ms)
    at = f"{wording.moment(ts / 1000, view.now)} " if ts is not None else ""
    position = f"{fact.source.topic}/{fact.source.partition}@{fact.source.offset}" if fact.source else ""
    return f"{at}{foreign(str(fact.text))} {foreign(position) if position else ''}"


def _record_table(record: HealthRecord) -> str:
    """All that its record says of it besides verdicts: who it is, and every figure."""
    client = record.client
    who = {
        "service": client.service,
        "client id": client.client_id,
        "kind": client.kind,
        "library": f"{client.library or ''} {client.version or ''}".strip(),
        "host": client.host,
        "instance": client.instance,
        "group": client.group,
        "readings in its window": str(record.samples),
    }
    rows = [(name, str(value)) for name, value in who.items() if value]
    for name, value in record.indicators.items():
        if not isinstance(value, list):
            rows.append((name, json.dumps(value)))
    cells = "".join(f'<tr><th scope="row">{foreign(name)}</th><td>{foreign(value)}</td></tr>' for name, value in rows)
    return f'<details id="known"><summary>What is known of it</summary><table>{cells}</table></details>'


def _copy(view: View, record: HealthRecord) -> str:
    """The evidence as text, for a ticket: a button where scripts run, else to be marked by hand."""
    client = record.client
    lines = [f"{client.service} / {client.client_id} on {client.instance}, {wording.moment(view.now, view.now)}"]
    for verdict in record.verdicts:
        if verdict.unhealthy:
            lines.append(f"{verdict.mode}: {verdict.status} {json.dumps(dict(verdict.detail))}")
            for fact in verdict.evidence:
                position = f" [{fact.source.topic}/{fact.source.partition}@{fact.source.offset}]" if fact.source else ""
                lines.append(f"- {fact.kind} {fact.ts_ms}: {fact.text}{position}")
    if len(lines) == 1:
        return ""
    text = escape("\n".join(lines))
    return (
        '<details id="evidence"><summary>The evidence as text</summary>'
        '<button type="button" data-copy="evidence-text" hidden>Copy</button>'
        f'<pre id="evidence-text" tabindex="0"><bdi>{text}</bdi></pre></details>'
    )
