"""Below a client's card: its last hour, incidents, dumps and options, what is known of it, and all of it to copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clienthealth.model import wording
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth.model.verdicts import Evidence
from clienthealth_exporters.prometheus.client_card import View
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, PLOTTED, Track
from clienthealth_exporters.prometheus.plots import plot
from clienthealth_exporters.prometheus.states import State


def details(view: View, state: State, track: Track | None) -> dict[str, Any]:
    """What a client's own page has that the overview has not, by the names of its template."""
    record = state.record
    plots = None
    if track is not None:
        series = {name: track.series(name, view.now - HOUR_SECONDS) for name in PLOTTED}
        plots = [drawn for name, points in series.items() if (drawn := plot(name, points, view.now))]
    return {
        "plots": plots,
        "incidents": sorted(_incidents(record, track), reverse=True),
        "dumps": sorted(_facts(record, "thread-dump"), key=lambda fact: -(amount(fact.ts_ms) or 0)),
        # Of those that a judgement looks at; what it does not tell has the library's default, or another.
        "options": list(record.config.items()),
        "known": list(_known(record)),
        "evidence": _evidence(view, record),
    }


def _incidents(record: HealthRecord, track: Track | None) -> Iterator[tuple[float, str]]:
    """What lasts, from the record; what came and went, as far as the exporter has seen it."""
    for verdict in record.verdicts:
        if verdict.unhealthy and (since := amount(verdict.since_ms)) is not None:
            yield since / 1000, f"{verdict.mode}: {verdict.status}, and still is"
    for change in track.changes() if track else ():
        yield change.at, f"{change.mode}: {change.status}"


def _facts(record: HealthRecord, kind: str) -> list[Evidence]:
    return [fact for verdict in record.verdicts for fact in verdict.evidence if fact.kind == kind]


def _known(record: HealthRecord) -> Iterator[tuple[str, str]]:
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
    yield from ((name, str(value)) for name, value in who.items() if value)
    for name, value in record.indicators.items():
        if not isinstance(value, list):
            yield name, json.dumps(value)


def _evidence(view: View, record: HealthRecord) -> str:
    """The evidence as text, for a ticket: a button where scripts run, else to be marked by hand."""
    client = record.client
    lines = [f"{client.service} / {client.client_id} on {client.instance}, {wording.moment(view.now, view.now)}"]
    for verdict in record.verdicts:
        if verdict.unhealthy:
            lines.append(f"{verdict.mode}: {verdict.status} {json.dumps(dict(verdict.detail))}")
            for fact in verdict.evidence:
                position = f" [{fact.source.topic}/{fact.source.partition}@{fact.source.offset}]" if fact.source else ""
                lines.append(f"- {fact.kind} {fact.ts_ms}: {fact.text}{position}")
    return "\n".join(lines) if len(lines) > 1 else ""
