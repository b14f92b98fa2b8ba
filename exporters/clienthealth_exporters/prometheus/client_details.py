"""Prepare the data that only a client's own page shows, such as plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from clienthealth.model import wording
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth.model.values import option
from clienthealth.platform.html_page import curves, element, grid, line, tick
from clienthealth.platform.html_page import plot as svg_plot
from clienthealth.read.logs.also_seen import MEASURED, lint
from clienthealth_exporters.prometheus.client_card import View
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, PLOTTED, Track
from clienthealth_exporters.prometheus.states import State

#: Heights in pixels: of a plot, and of the row of times below it.
_HEIGHT, _AXIS = 56, 18
_QUARTER_SECONDS = 900
#: A line in a plot ends if more than this time lies between two samples.
_GAP_SECONDS = 180.0
Point = tuple[float, float | None]

_WORDS: dict[str, Callable[[float], str]] = {
    "Buffer": wording.percent,
    "Callback": wording.latency,
    "Topic queue": wording.percent,
    "Lag": lambda value: f"{wording.count(value)} records",
}


def details(view: View, state: State, track: Track | None) -> dict[str, Any]:
    """Return the variables that only the template client.html.j2 needs."""
    record, drawn = state.record, None
    if track is not None:
        plots = (plot(name, track.series(name, view.now - HOUR_SECONDS), view.now) for name in PLOTTED)
        drawn = [of_hour for of_hour in plots if of_hour]
    lasting = ((v, since) for v in record.verdicts if v.unhealthy and (since := amount(v.since_ms)) is not None)
    incidents = [(since / 1000, f"{v.mode}: still {v.status}") for v, since in lasting]
    incidents += [(change.at, f"{change.mode}: {change.status}") for change in (track.changes() if track else ())]
    client = record.client
    evidence = [f"{client.service} / {client.client_id} on {client.instance}, {wording.moment(view.now, view.now)}"]
    for verdict in record.verdicts:
        if verdict.unhealthy:
            evidence.append(f"{verdict.mode}: {verdict.status} {json.dumps(dict(verdict.detail))}")
            for fact in verdict.evidence:
                position = f" [{fact.source.topic}/{fact.source.partition}@{fact.source.offset}]" if fact.source else ""
                evidence.append(f"- {fact.kind} {fact.ts_ms}: {fact.text}{position}")
            evidence += [f"- ruled out: {other}" for other in verdict.ruled_out]
            evidence += [f"- not ruled out: {other}" for other in verdict.not_ruled_out]
    dumps = [fact for verdict in record.verdicts for fact in verdict.evidence if fact.kind == "thread-dump"]
    return {
        "plots": drawn,
        "incidents": sorted(incidents, reverse=True),
        "dumps": sorted(dumps, key=lambda fact: -(amount(fact.ts_ms) or 0)),
        "options": sorted(record.config.items()),
        "advice": lint({**record.config, **_measured(record)}, record.client.kind),
        "known": list(_known(record)),
        "evidence": "\n".join(evidence) if len(evidence) > 1 else "",
    }


def _measured(record: HealthRecord) -> dict[str, str]:
    """Return the measurements that `lint` compares with the client's options. Each key has the prefix MEASURED."""
    figures = {"buffer_used_ratio": record.value("buffer_used_ratio", "last")}
    figures["waiting_threads"] = record.value("buffer", "waiting_threads")
    idle, rate = record.value("poll_idle_ratio"), record.value("records_consumed_rate")
    most = option(record.config.get("max.poll.records"))
    if idle is not None and rate and most:
        figures["full_poll_ms"] = 1000 * most * (1 - idle) / rate
    return {f"{MEASURED}{name}": f"{value:g}" for name, value in figures.items() if value is not None}


def _known(record: HealthRecord) -> Iterator[tuple[str, str]]:
    client = record.client
    library = f"{client.library or ''} {client.version or ''}".strip()
    known = [("service", client.service), ("client id", client.client_id), ("kind", client.kind), ("library", library)]
    known += [("host", client.host), ("instance", client.instance), ("group", client.group)]
    yield from ((name, value) for name, value in known if value)
    yield "readings in its window", str(record.samples)
    yield from ((name, json.dumps(one)) for name, one in record.indicators.items() if not isinstance(one, list))


def plot(name: str, points: Sequence[Point], now: float) -> Markup | None:
    """Return an SVG plot of a measurement over the last hour, with a caption; None if every value is unknown.

    `points`: (epoch seconds, value or None), in order of time.
    """
    values = [value for _, value in points if value is not None]
    if not values:
        return None
    words = _WORDS[name]
    top = 1.0 if name in ("Buffer", "Topic queue") else max(*values, 1e-9) * 1.05
    span = f"{words(min(values))} to {words(max(values))}"
    summary = f"{name}, last hour: {span}, last {words(values[-1])}, {len(values)} readings"
    # A gap between samples, or an unknown value, ends a line.
    stretches: list[list[tuple[float, float]]] = [[]]
    last = 0.0
    for at, value in points:
        if value is None or at - last > _GAP_SECONDS:
            stretches.append([])
        if value is not None:
            stretches[-1].append((_across(at, now), round(1 + (_HEIGHT - 2) * (1 - min(1.0, value / top)), 1)))
        last = at
    quarters = range(int(now - now % _QUARTER_SECONDS), int(now) - HOUR_SECONDS, -_QUARTER_SECONDS)
    times = [(round(_across(end, now), 2), f"{datetime.fromtimestamp(end, UTC):%H:%M}") for end in quarters]
    body = [
        *grid(times, 0, _HEIGHT),
        *(line("grid", "0", "100%", y, y) for y in (0.5, _HEIGHT - 0.5)),
        tick(words(top), x=2, y=12),
        curves(_HEIGHT, [("curve", stretch) for stretch in stretches if len(stretch) > 1]),
        *(element("circle", cx=f"{x:.2f}%", cy=y, r=1.5) for alone in stretches if len(alone) == 1 for x, y in alone),
    ]
    drawn = svg_plot(_HEIGHT + _AXIS, name, summary, body)
    return element("figure", drawn, element("figcaption", summary, class_="small"))


def _across(at: float, now: float) -> float:
    return 100 * (1 - min(1.0, max(0.0, (now - at) / HOUR_SECONDS)))
