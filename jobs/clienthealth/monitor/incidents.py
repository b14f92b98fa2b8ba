"""Turn verdicts on windows into incidents. An incident records the begin, end and evidence of a client's fault.

Open incidents are part of a bucket's state, so a restart neither repeats nor loses them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from clienthealth.model.clients import Client
from clienthealth.model.health_record import evidence_json
from clienthealth.model.verdicts import Status, Verdict
from clienthealth.monitor.window_verdicts import detail_of, evidence_of, gone_on_with, united

#: "moved": the incident goes on under the right name and instance of its client.
Change = Literal["opened", "escalated", "closed", "withdrawn", "moved"]


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident. Times are in epoch ms by the client's own clock, durations in ms.

    `seen_ms`      end of the last window that showed the fault
    `offset_ms`    duration: watermark minus the client's own clock
    `heard_ms`     time of the last data of the client or its process; updated only while the client sends no metrics
    `forgiven_ms`  duration since `seen_ms` in which no client sent data
    `departed_ms`  time of the last sample if the client stopped reporting, else 0
    `alone`        True if no other client with the same name was on the host at `departed_ms`
    """

    client: Client
    verdict: Verdict
    seen_ms: int
    offset_ms: int = 0
    heard_ms: int = 0
    forgiven_ms: int = 0
    departed_ms: int = 0
    alone: bool = False


class Departure(NamedTuple):
    """Facts about the departure of a client. The docstring of `OpenIncident` describes the fields."""

    departed_ms: int
    heard_ms: int
    offset_ms: int
    alone: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an incident, for the history. `previous`: the old status. `ts_ms`: event time of the change."""

    client: Client
    verdict: Verdict
    previous: Status
    change: Change
    ts_ms: int


def change_row(change: Transition, observed_ms: int) -> bytes:
    """Return a change of an incident as JSON, with the columns of the history's table `verdicts`.

    `observed_ms`: when the change was judged, by this machine's clock (epoch ms).
    """
    verdict = change.verdict
    row = {
        **msgspec.structs.asdict(change.client),
        "ts": change.ts_ms,
        "observed": observed_ms,
        "mode": verdict.mode,
        "status": verdict.status,
        "previous": change.previous,
        "since": verdict.since_ms,
        "detail": json.dumps(dict(verdict.detail), sort_keys=True),
        "evidence": json.dumps([evidence_json(e) for e in verdict.evidence]),
        "reason": verdict.reason,
        "change": change.change,
    }
    return json.dumps(row).encode()


class Incidents:
    """The open incidents, by client key and mode.

    An open incident never returns from confirmed to suspected, because windows after the confirmation may lack the
    evidence that confirmed the incident, such as a thread dump. An incident closes on evidence of recovery or of the
    client's end, or some time after the client's last data. If only missing data showed the fault, the incident is
    withdrawn when the client reports again.
    """

    def __init__(self, opened: Iterable[OpenIncident] = ()) -> None:
        self._open: dict[str, dict[str, OpenIncident]] = {}
        self.reopen(opened)

    def reopen(self, opened: Iterable[OpenIncident]) -> None:
        """Add open incidents. An added incident replaces the previous incident of the same client and mode."""
        for incident in opened:
            self._open.setdefault(incident.client.key, {})[incident.verdict.mode] = incident

    @property
    def all(self) -> Iterator[OpenIncident]:
        return (incident for of_client in self._open.values() for incident in of_client.values())

    def of_client(self, key: str) -> Mapping[str, OpenIncident]:
        """Return a client's open incidents, by mode."""
        return self._open.get(key, {})

    def verdicts(self, key: str) -> dict[str, Verdict]:
        """Return the verdicts of a client's open incidents, by mode."""
        return {mode: incident.verdict for mode, incident in self.of_client(key).items()}

    def judged(
        self,
        client: Client,
        verdicts: Iterable[Verdict],
        end_ms: int,
        offset_ms: int = 0,
        recovered: Callable[[str], bool] | None = None,
    ) -> list[Transition]:
        """Update a client's incidents from the verdicts on windows that end at `end_ms`. Return the changes.

        If a verdict is `ok` and the fault is over, the incident is closed. `recovered`: takes a mode, and returns True
        if the mode's fault is over. Without `recovered`, a fault is over if `end_ms` is later than the end of the last
        window that showed the fault. `offset_ms`: watermark minus the client's own clock.
        """
        changes = []
        for verdict in verdicts:
            incident = self.of_client(client.key).get(verdict.mode)
            if verdict.unhealthy:
                changes += self._enter(client, verdict, end_ms, offset_ms)
            elif incident and verdict.status == "ok":
                if recovered is None:
                    over = end_ms > incident.seen_ms
                else:
                    over = end_ms >= incident.seen_ms and recovered(verdict.mode)
                if over:
                    changes.append(self.close(incident, "closed", end_ms))
        return changes

    def _enter(self, client: Client, verdict: Verdict, end_ms: int, offset_ms: int) -> list[Transition]:
        of_client = self._open.setdefault(client.key, {})
        if (incident := of_client.get(verdict.mode)) is None:
            of_client[verdict.mode] = OpenIncident(client, verdict, end_ms, offset_ms)
            return [Transition(client, verdict, "ok", "opened", verdict.since_ms or end_ms)]
        before = incident.verdict
        escalates = before.status == "suspected" and verdict.status == "confirmed"
        newest = verdict if escalates or verdict.status == before.status else before
        onsets = [v.since_ms for v in (before, verdict) if v.since_ms is not None]
        counts = united((*gone_on_with(before, incident.seen_ms), *verdict.counts))
        now = dataclasses.replace(
            newest,
            since_ms=min(onsets, default=None),
            detail=detail_of(verdict.mode, [before.detail, newest.detail], counts),
            evidence=evidence_of((*before.evidence, *verdict.evidence)),
            counts=counts,
        )
        of_client[verdict.mode] = dataclasses.replace(
            incident,
            client=client,
            verdict=now,
            seen_ms=max(incident.seen_ms, end_ms),
            offset_ms=offset_ms,
            forgiven_ms=0,
        )
        return [Transition(client, now, before.status, "escalated", end_ms)] if escalates else []

    def departed(self, incident: OpenIncident, departure: Departure, lost: Mapping[str, Any]) -> OpenIncident:
        """Record in an incident that its client has stopped reporting, and return the changed incident.

        `lost`: records and bytes that the client may have lost, for the verdict's `detail`.
        """
        verdict = dataclasses.replace(incident.verdict, detail={**incident.verdict.detail, **lost})
        now = {**departure._asdict(), "heard_ms": max(incident.heard_ms, departure.heard_ms), "verdict": verdict}
        self.reopen([noted := dataclasses.replace(incident, **now)])
        return noted

    def moved(self, incident: OpenIncident, client: Client) -> list[Transition]:
        """Move an incident to the client that it really belongs to, and return the changes.

        If `client` already has an incident of the same mode, the two incidents are merged.
        """
        closed = self.close(incident, "moved", incident.seen_ms)
        return [closed, *self._enter(client, incident.verdict, incident.seen_ms, incident.offset_ms)]

    def seen(self, key: str, mode: str, ts_ms: int) -> None:
        """Prolong a client's incident to `ts_ms`, the end of a window with a symptom."""
        incident = self.of_client(key).get(mode)
        if incident and ts_ms > incident.seen_ms:
            self._open[key][mode] = dataclasses.replace(incident, seen_ms=ts_ms, forgiven_ms=0)

    def sign_of_life(self, key: str, ts_ms: int, offset_ms: int) -> None:
        """Record in `OpenIncident.heard_ms` that the process of a client without metrics was alive at `ts_ms`.

        `offset_ms`: watermark minus the clock (of client or log) that gave `ts_ms`.
        """
        for mode, incident in self.of_client(key).items():
            if ts_ms > incident.heard_ms:
                self._open[key][mode] = dataclasses.replace(incident, heard_ms=ts_ms, offset_ms=offset_ms)

    def discount_outage(self, silent_ms: int) -> None:
        """Extend the time limits of open incidents by a time in which no client sent data."""
        for i in list(self.all):
            offset_ms, forgiven_ms = i.offset_ms + silent_ms, i.forgiven_ms + silent_ms
            self.reopen([dataclasses.replace(i, offset_ms=offset_ms, forgiven_ms=forgiven_ms)])

    def close(self, incident: OpenIncident, change: Change, ts_ms: int) -> Transition:
        """Close an open incident at `ts_ms`, and return this change."""
        key = incident.client.key
        del self._open[key][incident.verdict.mode]
        if not self._open[key]:
            del self._open[key]
        over = dataclasses.replace(incident.verdict, status="ok")
        return Transition(incident.client, over, incident.verdict.status, change, ts_ms)
