"""Record when each demo client failed, and when its verdicts and alerts came."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clienthealth.model.verdicts import STATUS_ORDER, Status
from deploy.demo.client import DemoClient
from deploy.demo.running import Running
from deploy.demo.webhook import Page


@dataclass
class Course:
    """What happened to one demo client so far. Times are epoch milliseconds.

    `now`             newest status of each mode
    `first`           when each (mode, status) was seen for the first time
    `kinds`           kinds of evidence in the suspected and confirmed verdicts on each mode
    `paged`           time at which the first critical alert of each mode was delivered
    `alerts`          time at which each alert was first delivered; the key is "SEVERITY ALERTNAME"
    `firing`          modes with a critical alert that fires now
    `first_shown_ms`  time at which `client.mode` was first suspected or confirmed, None if never
    `last_shown_ms`   time at which `client.mode` was last suspected or confirmed
    `gaps`            (start, end) of the periods in which `client.mode` was neither suspected nor confirmed
    `events`          number of timeline entries that `take_timeline` has already processed
    """

    client: DemoClient
    running: Running
    now: dict[str, Status] = field(default_factory=dict)
    first: dict[tuple[str, Status], int] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)
    paged: dict[str, int] = field(default_factory=dict)
    alerts: dict[str, int] = field(default_factory=dict)
    firing: set[str] = field(default_factory=set)
    first_shown_ms: int | None = None
    last_shown_ms: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    events: int = 0

    @property
    def is_shown(self) -> bool:
        return _RANK[self.now.get(self.client.mode or "", "unknown")] >= _RANK["suspected"]

    @property
    def worst(self) -> tuple[Status, str]:
        """The client's worst current status, as (status, mode); ("unknown", "") before the first verdict."""
        return max(((status, mode) for mode, status in self.now.items()), key=_order, default=("unknown", ""))

    @property
    def accused(self) -> set[str]:
        """The modes that were ever suspected or confirmed, except `client.mode`."""
        return {mode for mode, status in self.first if _RANK[status] >= _RANK["suspected"]} - {self.client.mode}

    @property
    def wronged(self) -> set[str]:
        """The modes that were wrongly suspected or confirmed.

        If the client has an outage, only confirmed modes count.
        """
        convicted = {mode for mode, status in self.first if status == "confirmed"} - {self.client.mode}
        return convicted if self.client.outage else self.accused

    def take_states(self, states: Sequence[Mapping[str, Any]]) -> list[str]:
        """Process the newest states of all clients. Return a text for each changed status."""
        now = int(time.time() * 1000)
        before, self.now = self.now, {}
        for state in states:
            if not self._is_mine(state["client"]):
                continue
            for verdict in state.get("verdicts") or ():
                mode, status = verdict["mode"], verdict["status"]
                if _RANK[status] > _RANK.get(self.now.get(mode, "unknown"), 0) or mode not in self.now:
                    self.now[mode] = status
                self.first.setdefault((mode, status), now)
                kinds = {evidence["kind"] for evidence in verdict.get("evidence") or ()}
                self.kinds.setdefault(mode, set()).update(kinds if _RANK[status] >= _RANK["suspected"] else ())
        if self.is_shown:
            if self.first_shown_ms is None:
                self.first_shown_ms = now
            elif before and _RANK[before.get(self.client.mode or "", "unknown")] < _RANK["suspected"]:
                self.gaps.append((self.last_shown_ms, now))
            self.last_shown_ms = now
        return [
            f"{mode}: {before.get(mode, 'unknown')} → {status}"
            for mode, status in sorted(self.now.items())
            if status != before.get(mode) and max(_RANK[status], _RANK[before.get(mode, "unknown")]) > _RANK["ok"]
        ]

    def take_timeline(self) -> list[str]:
        """Return the texts in `running.timeline` that begin with ROLL or OUTAGE, and were added since the last call."""
        new = self.running.timeline[self.events :]
        self.events += len(new)
        return [what for _, what in new if what.startswith(("ROLL", "OUTAGE"))]

    def take_page(self, page: Page) -> str | None:
        """Process a delivered alert. Return a text if the alert is about this client, else None."""
        if not self._is_mine(page.labels):
            return None
        mode = page.labels.get("mode", "")
        self.alerts.setdefault(f"{page.labels.get('severity')} {page.labels.get('alertname')}", page.received_ms)
        if page.labels.get("severity") == "critical" and mode:
            if page.status == "firing":
                self.paged.setdefault(mode, page.received_ms)
                self.firing.add(mode)
            else:
                self.firing.discard(mode)
        return f"{page.labels.get('severity')} alert {page.labels.get('alertname')} {page.status}"

    def explains(self, labels: Mapping[str, str]) -> bool:
        """Return whether this client's failure or load explains an alert with these labels."""
        if "group" in labels:
            fails = self.client.mode is not None and labels["group"] == self.client.options.get("c.group.id")
            return fails and labels.get("severity") != "critical"
        is_of_client = self._is_mine(labels) if "instance" in labels else labels.get("service") == self.client.service
        mode = self.client.mode
        by_failure = mode is not None and labels.get("mode", mode) == mode
        by_load = labels.get("severity") != "critical" and labels.get("measurement") in self.client.measurements
        return is_of_client and (by_failure or by_load)

    def after_onset(self, at_ms: int | None) -> float | None:
        """Return the seconds from the onset to `at_ms`; None if either is unknown."""
        onset = self.running.onset_ms
        return None if at_ms is None or onset is None else (at_ms - onset) / 1000

    def as_json(self) -> dict[str, Any]:
        return {
            "client": self.client.name,
            "service": self.client.service,
            "mode": self.client.mode,
            "onset_ms": self.running.onset_ms,
            "now": self.now,
            "first_ms": {f"{mode} {status}": at for (mode, status), at in self.first.items()},
            "evidence": {mode: sorted(kinds) for mode, kinds in self.kinds.items() if kinds},
            "paged_ms": self.paged,
            "alerts_ms": self.alerts,
            "accused_of": sorted(self.accused),
            "counters": self.running.counters,
            "shown_ms": [self.first_shown_ms, self.last_shown_ms],
            "gaps_ms": self.gaps,
            "timeline": self.running.timeline,
        }

    def _is_mine(self, labels: Mapping[str, Any]) -> bool:
        is_of_client = self.client.python or self.running.is_instance(str(labels.get("instance")))
        return labels.get("service") == self.client.service and is_of_client


def unexplained(pages: Sequence[Page], courses: Sequence[Course]) -> list[str]:
    """Return a sentence for each alert without a runbook link, or without an explanation."""
    sentences = []
    for page in pages:
        labels = page.labels
        about = ", ".join(
            f"{name} {labels[name]}" for name in ("service", "instance", "group", "mode") if labels.get(name)
        )
        alert = f"{labels.get('severity')} alert {labels.get('alertname')} ({about or 'of the monitor itself'})"
        if not any(course.explains(labels) for course in courses):
            sentences.append(f"wrong: no failing client explains the {alert}")
        if not page.annotations.get("runbook_url"):
            sentences.append(f"wrong: the {alert} has no link to a runbook")
    return list(dict.fromkeys(sentences))


_RANK: Mapping[str, int] = {status: rank for rank, status in enumerate(STATUS_ORDER)}


def _order(entry: tuple[Status, str]) -> tuple[int, str]:
    return _RANK[entry[0]], entry[1]
