"""All services at a glance: how they were, hour by hour; which versions of clients are in use; who went silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from clienthealth.model import wording
from clienthealth_exporters.prometheus.client_card import View, status_of
from clienthealth_exporters.prometheus.filters import Filters
from clienthealth_exporters.prometheus.history import HOUR_SECONDS, HOURS, History
from clienthealth_exporters.prometheus.states import State

MAX_SERVICES = 200
MAX_VERSIONS = 60
MAX_SILENT = 100
#: From which unhealthy share on an hour is drawn in which strength; a letter says the same to who sees no colours.
LEVELS = ((0.0, "ok", ""), (1e-9, "some", "·"), (0.05, "warn", "!"), (0.25, "bad", "‼"))


def told(view: View, states: Sequence[State], history: History) -> dict[str, Any]:
    """What the page says, by the names of its template."""
    this = int(view.now // HOUR_SECONDS)
    hours = range(this - HOURS + 1, this + 1)
    rows = list(history.services())
    gone = sorted((state for state in states if state.departed or state.stale), key=lambda state: -state.seen)
    return {
        "hours": hours,
        "begun": history.begun,
        "strips": [
            (
                service,
                Filters(chosen={"service": service} if service else {}).address(),
                [_cell(shares.get(hour)) for hour in hours],
            )
            for service, shares in rows[:MAX_SERVICES]
        ],
        "more_services": len(rows) - MAX_SERVICES,
        "versions": list(_versions(states)),
        "gone": gone[:MAX_SILENT],
        "more_gone": len(gone) - MAX_SILENT,
    }


def _cell(share: float | None) -> tuple[str, str, str]:
    """Strength, letter and words of an hour."""
    if share is None:
        return "none", "", ""
    _, level, mark = [row for row in LEVELS if share >= row[0]][-1]
    return level, mark, wording.percent(share)


def _versions(states: Sequence[State]) -> Iterator[tuple[str, str, str, int, int]]:
    """Library, version, address of its clients, how many there are and how many are unhealthy."""
    clients = [state for state in states if state.client.kind != "group"]
    used = Counter((state.client.library or "", state.client.version or "") for state in clients)
    ill = Counter(
        (state.client.library or "", state.client.version or "")
        for state in clients
        if status_of(state) in ("confirmed", "suspected")
    )
    for (library, version), count in used.most_common(MAX_VERSIONS):
        address = Filters(chosen={"library": library, "version": version}).address()
        yield library, version, address, count, ill[library, version]
