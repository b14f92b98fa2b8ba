"""From verdicts on windows to incidents: when a fault opened, what it rests on, when it was over.

A window sees a minute; an incident lasts. The book of open incidents is small (healthy clients have none), lives in
the driver and is read back from the history at start, so a restart repeats nothing and forgets nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from clienthealth.judging import evidence_of
from clienthealth.records import Client, Status, Verdict

Change = Literal["opened", "escalated", "closed", "withdrawn"]


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident. `seen_ms`: end of the last window that showed it, in event time."""

    client: Client
    verdict: Verdict
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an incident, as the history keeps it. `ts_ms`: event time of the change."""

    client: Client
    verdict: Verdict
    previous: Status
    change: Change
    ts_ms: int


Key = tuple[str, str]


class Incidents:
    """The book of open incidents, by client key and mode.

    While an incident is open its status never eases: a window may lack the dump that confirmed it. It closes when all
    live windows of the client are fine, when its client has gone, or when nothing was heard of it for `expiry_ms` of
    event time. A fault that can only be seen in a client's absence is withdrawn when the client comes back.
    """

    def __init__(self, opened: Iterable[OpenIncident] = (), expiry_ms: int = 240_000) -> None:
        self._open: dict[Key, OpenIncident] = {(i.client.key, i.verdict.mode): i for i in opened}
        self._expiry_ms = expiry_ms

    @property
    def clients(self) -> frozenset[str]:
        """The keys of the clients that have an open incident."""
        return frozenset(key for key, _ in self._open)

    def of(self, key: str) -> Mapping[str, OpenIncident]:
        """The open incidents of a client, by mode."""
        return {mode: incident for (client, mode), incident in self._open.items() if client == key}

    def judged(self, client: Client, verdicts: Iterable[Verdict], end_ms: int) -> list[Transition]:
        """Take in the verdicts on the windows of a client that end at `end_ms`; tell what changed."""
        changes = []
        for verdict in verdicts:
            key = (client.key, verdict.mode)
            known = self._open.get(key)
            if verdict.unhealthy:
                changes += self._found(key, client, verdict, known, end_ms)
            elif known and verdict.status == "ok" and end_ms > known.seen_ms:
                changes.append(self._close(key, "closed", end_ms))
        return changes

    def _found(
        self, key: Key, client: Client, verdict: Verdict, known: OpenIncident | None, end_ms: int
    ) -> list[Transition]:
        if known is None:
            self._open[key] = OpenIncident(client, verdict, end_ms)
            return [Transition(client, verdict, "ok", "opened", verdict.since_ms or end_ms)]
        before = known.verdict
        escalates = before.status == "suspected" and verdict.status == "confirmed"
        newest = verdict if escalates or verdict.status == before.status else before
        onsets = [v.since_ms for v in (before, verdict) if v.since_ms is not None]
        now = dataclasses.replace(
            newest,
            since_ms=min(onsets) if onsets else None,
            detail={**before.detail, **newest.detail},
            evidence=evidence_of((*before.evidence, *verdict.evidence)),
        )
        self._open[key] = OpenIncident(client, now, max(known.seen_ms, end_ms))
        return [Transition(client, now, before.status, "escalated", end_ms)] if escalates else []

    def returned(self, key: str, mode: str, ts_ms: int) -> list[Transition]:
        """A client that was thought gone reported again at `ts_ms`: what its absence seemed to say is withdrawn."""
        known = self._open.get((key, mode))
        return [self._close((key, mode), "withdrawn", ts_ms)] if known and ts_ms > known.seen_ms else []

    def departed(self, key: str, ts_ms: int, except_mode: str) -> list[Transition]:
        """A client has gone: what it suffered from is over."""
        return [self._close((key, mode), "closed", ts_ms) for mode in self.of(key) if mode != except_mode]

    def expired(self, now_ms: int) -> list[Transition]:
        """Close what nothing has been heard of for `expiry_ms` (`now_ms`: event time)."""
        old = [key for key, incident in self._open.items() if now_ms - incident.seen_ms > self._expiry_ms]
        return [self._close(key, "closed", now_ms) for key in old]

    def _close(self, key: Key, change: Change, ts_ms: int) -> Transition:
        incident = self._open.pop(key)
        over = dataclasses.replace(incident.verdict, status="ok")
        return Transition(incident.client, over, incident.verdict.status, change, ts_ms)
