"""The status page: a summary of failures, then every client, the worst first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from clienthealth.configuration.installation import RUNBOOKS
from clienthealth.configuration.owners import Owner, Owners
from clienthealth.model import wording
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import modes
from clienthealth.platform.html_page import element
from clienthealth_exporters.prometheus.client_card import View, page
from clienthealth_exporters.prometheus.client_details import details
from clienthealth_exporters.prometheus.filters import MAX_LISTED, MAX_PROPOSED, PAGE_SIZE, Facets, Filters
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, HOURS, History, Track
from clienthealth_exporters.prometheus.states import State

__all__ = ["View", "client", "fleet", "missing", "overview"]

REFRESH_SECONDS = 15
#: Maximum numbers on the status page: unhealthy clients with a full card, causes, services.
FULL_CARDS = 10
MAX_CAUSES = 12
MAX_OWNED = 8
NAMED_SERVICES = 3
#: Minimum number of unhealthy clients for which the status page lists causes and services.
SUMMED_UP_FROM = 3
MAX_SERVICES = 200
MAX_VERSIONS = 60
MAX_SILENT = 100
LEVELS = ((0.0, "ok", ""), (1e-9, "some", "·"), (0.05, "warn", "!"), (0.25, "bad", "‼"))
FOLDER = Path(__file__).parent / "runbooks"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_NAME = re.compile(r"[a-z0-9-]+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ILL = ("confirmed", "suspected", "lagging")
_TITLES = {"unknown": "Cannot be judged", "partial": "No failure in the judged modes", "gone": "Gone", "ok": "Healthy"}
_WORDS = (*_ILL, *_TITLES)


@dataclass(frozen=True)
class Cause:
    """A failure mode and one of its causes, with the number of clients that have this failure.

    `cause`: id of the cause, '' if unknown. `confirmed`, `suspected`: number of clients with this status. `services`:
    the three services with the most clients that have this failure. `more`: number of further services that have
    clients with this failure.
    """

    mode: str
    title: str
    cause: str
    confirmed: int
    suspected: int
    services: list[str]
    more: int


@dataclass(frozen=True)
class Service:
    """A service with unhealthy clients. `ill`: number of unhealthy clients by status."""

    owner: Owner | None
    name: str
    ill: Mapping[str, int]
    total: int


def overview(view: View, states: list[State], facets: Facets, filters: Filters) -> str:
    """Return the status page as HTML: the clients that match the filters, the worst first."""
    every = _by_status(states)
    matching = _by_status(filters.among(states, view.settings, view.owners)) if filters else every
    ordered = [state for those in matching.values() for state in those]
    pages = max(1, -(-len(ordered) // PAGE_SIZE))
    filters = replace(filters, page=min(filters.page, pages))
    shown = _by_status(ordered[(filters.page - 1) * PAGE_SIZE : filters.page * PAGE_SIZE])
    ill = [state for status in _ILL for state in matching[status]]
    summed_up = len(ill) >= SUMMED_UP_FROM and filters.page == 1
    services = _services(ill, ordered, view.owners) if summed_up else []
    teams: dict[str, list[Service]] = {}
    for one in services[:MAX_OWNED]:
        teams.setdefault(one.owner.team if one.owner else "", []).append(one)
    text = [f"“{filters.text}”"] if filters.text else []
    return page(
        "overview.html.j2",
        view=view,
        refresh=REFRESH_SECONDS,
        ill_count=len(every["confirmed"]) + len(every["suspected"]),
        counts=[(status, len(clients)) for status, clients in every.items() if clients],
        facets=facets,
        filters=filters,
        max_listed=MAX_LISTED,
        max_proposed=MAX_PROPOSED,
        sought=", ".join([*text, *(f"{name} {value}" for name, value in filters.chosen.items())]),
        causes=list(_causes(ill))[:MAX_CAUSES] if summed_up else [],
        teams=list(teams.items()),
        owned=bool(view.owners.rows),
        more_services=max(0, len(services) - MAX_OWNED),
        ill=[state for status in _ILL for state in shown[status]],
        full_cards=FULL_CARDS,
        titles=_TITLES,
        shown=shown,
        matching=matching,
        pages=pages,
        total=len(ordered),
    )


def client(view: View, state: State, track: Track | None, note: str = "") -> str:
    """Return one client's page as HTML. `note`: a remark at the top of the page."""
    name = state.client.client_id or state.key
    shown: Mapping[str, Any] = details(view, state, track)
    return page("client.html.j2", view=view, refresh=REFRESH_SECONDS, name=name, state=state, note=note, **shown)


def fleet(view: View, states: list[State], history: History) -> str:
    """Return the page /fleet as HTML: services' health per hour, versions, stale or gone clients."""
    this = int(view.now // HOUR_SECONDS)
    hours = range(this - HOURS + 1, this + 1)
    rows = list(history.services())
    used, unhealthy = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for state in states:
        if state.client.kind != "group":
            program = state.client.library or "", state.client.version or ""
            used[program] += 1
            unhealthy[program] += state.status in ("confirmed", "suspected")
    gone = sorted((state for state in states if state.departed or state.stale), key=lambda state: -state.seen)
    return page(
        "fleet.html.j2",
        view=view,
        refresh=REFRESH_SECONDS,
        hours=hours,
        begun=history.begun,
        filters=Filters(),
        strips=[(service, [_cell(shares.get(hour)) for hour in hours]) for service, shares in rows[:MAX_SERVICES]],
        more_services=len(rows) - MAX_SERVICES,
        versions=[(*program, count, unhealthy[program]) for program, count in used.most_common(MAX_VERSIONS)],
        gone=gone[:MAX_SILENT],
        more_gone=len(gone) - MAX_SILENT,
    )


def missing(view: View, name: str, shard: str) -> str:
    """Return the HTML page for a client without a record. `name`: the client's service, instance and client id.

    `shard`: name of the exporter (shard) that serves the client, '' if none.
    """
    return page("missing.html.j2", view=view, refresh=None, name=name, shard=shard)


def _causes(ill: Iterable[State]) -> Iterator[Cause]:
    """Yield each pair of failure mode and cause. The pair with the most confirmed clients comes first."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    where: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for state in ill:
        for mode, status, cause in state.failures:
            found[mode, cause][status] += 1
            where[mode, cause][state.client.service] += 1
    worst_first = sorted(found.items(), key=lambda item: (-item[1]["confirmed"], -item[1]["suspected"], item[0]))
    for (mode, cause), counts in worst_first:
        services = [service for service, _ in where[mode, cause].most_common(NAMED_SERVICES)]
        more = len(where[mode, cause]) - len(services)
        of_cause = Verdict(mode, "confirmed", detail={"cause": cause})
        title = modes()[mode].explanation(of_cause, None).title if mode in modes() else mode
        yield Cause(mode, title, cause, counts["confirmed"], counts["suspected"], services, more)


def _services(ill: Iterable[State], every: Iterable[State], owners: Owners) -> list[Service]:
    """Return the services with unhealthy clients, the one with the most confirmed failures first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for state in ill:
        counts[state.client.service][state.status] += 1
    total = Counter(state.client.service for state in every)
    services = [Service(owners.owner_of(name), name, by_status, total[name]) for name, by_status in counts.items()]
    return sorted(services, key=lambda one: (*(-one.ill[status] for status in _ILL), one.name))


def _by_status(states: list[State]) -> dict[str, list[State]]:
    by_status: dict[str, list[State]] = {word: [] for word in _WORDS}
    for state in states:
        by_status[state.status].append(state)
    return by_status


def _cell(share: float | None) -> tuple[str, str, str]:
    """Return (colour, sign, text) for an hour's share of unhealthy records (0 to 1; None: unknown)."""
    if share is None:
        return "none", "", ""
    _, level, mark = [row for row in LEVELS if share >= row[0]][-1]
    return level, mark, wording.percent(share)


def runbook_names() -> list[str]:
    """Return the names of all runbooks, sorted: for example `consumer-lag`."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


def runbook(name: str) -> str | None:
    """Return a runbook as an HTML page, None if no runbook has this name."""
    if not _NAME.fullmatch(name) or name not in runbook_names():
        return None
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    links, content = [("Runbooks", f"..{RUNBOOKS}")], Markup(runbook_html(text))
    return page("text.html.j2", refresh=None, title=f"{name} · runbook", content=content, links=links, home="../")


def runbook_index() -> str:
    links = [element("li", element("a", name, href=f".{RUNBOOKS}/{name}")) for name in runbook_names()]
    content = element("h1", "Runbooks") + element("ul", *links)
    return page("text.html.j2", refresh=None, title="Runbooks", content=content, links=(), home="./")


def runbook_html(text: str) -> str:
    """Return Markdown (CommonMark with tables) as HTML."""
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^a-z0-9]+", "-", following.content.lower()).strip("-"))
    written: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return written.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>").rstrip()
