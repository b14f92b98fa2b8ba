"""The filters in the status page's URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlencode

from clienthealth.configuration.owners import Owners
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.client_card import owner_of
from clienthealth_exporters.prometheus.states import State

FIELDS = ("cluster", "team", "service", "mode", "cause", "status", "library", "version")
PAGE_SIZE = 60
#: Maximum number of values in a list.
MAX_LISTED = 40
#: Maximum number of suggestions in a text box.
MAX_PROPOSED = 500
Facets = Mapping[str, Counter[str]]


@dataclass(frozen=True)
class Filters:
    """The filters in the status page's URL.

    `text`: text to find in a client's service, instance, client id or group. `chosen`: maps a field to the value that a
    client must have. `page`: number of the page, from 1.
    """

    text: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    page: int = 1

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Self:
        chosen = {name: text for name in FIELDS if (text := query.get(name, "").strip())}
        number = query.get("page", "")
        page = int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1
        return cls(query.get("q", "").strip(), chosen, max(1, page))

    def __bool__(self) -> bool:
        return bool(self.text or self.chosen)

    def address(self, page: int = 1, **changed: str) -> str:
        """Return the relative URL of a page with these filters. The URL is not escaped for HTML."""
        fields = {"q": self.text, **self.chosen, **changed, "page": str(page) if page > 1 else ""}
        query = urlencode({name: value for name, value in fields.items() if value}, errors="replace")
        return f"./?{query}" if query else "./"

    def among(self, states: Iterable[State], settings: Settings, owners: Owners) -> list[State]:
        """Return the clients that match all filters, in the order given."""
        needle = self.text.lower()
        return [
            state
            for state in states
            if needle in f"{state.key} {state.group}".lower()
            and all(value in _values(name, state, settings, owners) for name, value in self.chosen.items())
        ]


def facets(states: Iterable[State], settings: Settings, owners: Owners) -> Facets:
    """Return, for each field, the number of clients by value."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in FIELDS}
    for state in states:
        for name, counter in counts.items():
            counter.update(_values(name, state, settings, owners))
    return counts


def _values(name: str, state: State, settings: Settings, owners: Owners) -> list[str]:
    client = state.client
    if name == "mode":
        return [mode for mode, _, _ in state.failures]
    if name == "cause":
        return [*{cause: None for _, _, cause in state.failures if cause}]
    if name == "cluster":
        fixed = settings.monitor.cluster or settings.prometheus.cluster_name
        value: str | None = client.instance if client.kind == "group" else fixed
    elif name == "team":
        owner = owner_of(owners, client)
        value = owner.team if owner else None
    else:
        value = state.status if name == "status" else getattr(client, name)
    return [value] if value else []
