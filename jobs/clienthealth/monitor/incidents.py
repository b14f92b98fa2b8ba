"""From verdicts on windows to incidents: when a fault opened, what it rests on, when it was over.

A window sees a minute; an incident lasts. Open incidents are part of the state of a bucket of processes, so a restart
repeats nothing and forgets nothing.
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

#: `moved`: an incident turns out to be of a client whose process had no client's name, or which had another instance;
#: that takes it over.
Change = Literal["opened", "escalated", "closed", "withdrawn", "moved"]


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident. `seen_ms`: end of the last window that showed it, by the client's own clock.

    `offset_ms`: how much the clock of all is ahead of the client's own. `heard_ms`: when a client that reports no
    metrics, or its process, was heard of last, by its own clock; 0 where that is not known. `forgiven_ms`: for how long
    nobody was heard of since `seen_ms`: nothing could show it then. `departed_ms`: the last reading of a client that
    reported and does so no more, by its own clock, else 0; `alone`: no other client of its name was on its host then.
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
    """That a client reports no more; see OpenIncident."""

    departed_ms: int
    heard_ms: int
    offset_ms: int
    alone: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an incident, as the history keeps it. `ts_ms`: event time of the change."""

    client: Client
    verdict: Verdict
    previous: Status
    change: Change
    ts_ms: int


def change_row(change: Transition) -> bytes:
    """What the history keeps of a change, as JSON: columns of its table of verdicts, times in epoch ms."""
    verdict = change.verdict
    row = {
        **msgspec.structs.asdict(change.client),
        "ts": change.ts_ms,
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
    """The book of open incidents, by client key and mode.

    While an incident is open its status never eases: a window may lack the dump that confirmed it. It closes on
    evidence of recovery or of its client's end (`monitor/recovery.py` decides), never for want of proof. A fault
    that can only be seen in a client's absence is withdrawn when the client comes back.
    """

    def __init__(self, opened: Iterable[OpenIncident] = ()) -> None:
        self._open: dict[str, dict[str, OpenIncident]] = {}
        self.reopen(opened)

    def reopen(self, opened: Iterable[OpenIncident]) -> None:
        """Take in incidents that are open already."""
        for incident in opened:
            self._open.setdefault(incident.client.key, {})[incident.verdict.mode] = incident

    @property
    def all(self) -> Iterator[OpenIncident]:
        """All open incidents."""
        return (incident for of_client in self._open.values() for incident in of_client.values())

    def of_client(self, key: str) -> Mapping[str, OpenIncident]:
        """The open incidents of a client, by mode."""
        return self._open.get(key, {})

    def verdicts(self, key: str) -> dict[str, Verdict]:
        """The verdicts of a client's open incidents, by mode."""
        return {mode: incident.verdict for mode, incident in self.of_client(key).items()}

    def judged(
        self,
        client: Client,
        verdicts: Iterable[Verdict],
        end_ms: int,
        offset_ms: int = 0,
        recovered: Callable[[str], bool] | None = None,
    ) -> list[Transition]:
        """Take in the verdicts on the windows of a client that end at `end_ms`; tell what changed.

        `offset_ms`: how much the clock of all is ahead of the client's own. `recovered`: is there evidence that the
        fault of this mode is over? It is asked where the verdict is ok, also of a window that showed the fault while it
        was not full yet. Without it a later window that is ok is enough.
        """
        changes = []
        for verdict in verdicts:
            incident = self.of_client(client.key).get(verdict.mode)
            if verdict.unhealthy:
                changes += self._enter(client, verdict, incident, end_ms, offset_ms)
            elif incident and verdict.status == "ok":
                if recovered is None:
                    over = end_ms > incident.seen_ms
                else:
                    over = end_ms >= incident.seen_ms and recovered(verdict.mode)
                if over:
                    changes.append(self._close(incident, "closed", end_ms))
        return changes

    def _enter(
        self, client: Client, verdict: Verdict, incident: OpenIncident | None, end_ms: int, offset_ms: int
    ) -> list[Transition]:
        of_client = self._open.setdefault(client.key, {})
        if incident is None:
            of_client[verdict.mode] = OpenIncident(client, verdict, end_ms, offset_ms)
            return [Transition(client, verdict, "ok", "opened", verdict.since_ms or end_ms)]
        before = incident.verdict
        escalates = before.status == "suspected" and verdict.status == "confirmed"
        newest = verdict if escalates or verdict.status == before.status else before
        onsets = [v.since_ms for v in (before, verdict) if v.since_ms is not None]
        counts = united((*gone_on_with(before, incident.seen_ms), *verdict.counts))
        now = dataclasses.replace(
            newest,
            since_ms=min(onsets) if onsets else None,
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

    def returned(self, key: str, mode: str, ts_ms: int) -> list[Transition]:
        """A client that was thought gone reported again at `ts_ms`: what its absence seemed to say is withdrawn."""
        incident = self.of_client(key).get(mode)
        return [self._close(incident, "withdrawn", ts_ms)] if incident and ts_ms > incident.seen_ms else []

    def departed(self, key: str, mode: str, departure: Departure, lost: Mapping[str, Any]) -> None:
        """Enter that a client reports no more. `lost`: what it may have lost, as `detail` has it."""
        incident = self.of_client(key).get(mode)
        if incident is not None:
            verdict = dataclasses.replace(incident.verdict, detail={**incident.verdict.detail, **lost})
            heard_ms = max(incident.heard_ms, departure.heard_ms)
            now = {**departure._asdict(), "heard_ms": heard_ms, "verdict": verdict}
            self._open[key][mode] = dataclasses.replace(incident, **now)

    def ended(self, key: str, mode: str, ts_ms: int) -> list[Transition]:
        """A client has gone: what it suffered from is over."""
        incident = self.of_client(key).get(mode)
        return [self._close(incident, "closed", ts_ms)] if incident else []

    def explained(self, key: str, mode: str, ts_ms: int) -> list[Transition]:
        """Another fault of the client explains an incident: a mere suspicion was none of its own."""
        incident = self.of_client(key).get(mode)
        if incident is None:
            return []
        return [self._close(incident, "withdrawn" if incident.verdict.status == "suspected" else "closed", ts_ms)]

    def moved(self, incident: OpenIncident, client: Client) -> list[Transition]:
        """An incident of a nameless process turns out to be of a client; what is known of both becomes one."""
        return [
            self._close(incident, "moved", incident.seen_ms),
            *self._enter(
                client,
                incident.verdict,
                self.of_client(client.key).get(incident.verdict.mode),
                incident.seen_ms,
                incident.offset_ms,
            ),
        ]

    def seen(self, key: str, mode: str, ts_ms: int) -> None:
        """A symptom of an open incident showed at `ts_ms`, whatever it proves."""
        incident = self.of_client(key).get(mode)
        if incident and ts_ms > incident.seen_ms:
            self._open[key][mode] = dataclasses.replace(incident, seen_ms=ts_ms, forgiven_ms=0)

    def heard(self, key: str, ts_ms: int, offset_ms: int) -> None:
        """A client that reports no metrics, or its process, was heard of at `ts_ms`; see OpenIncident."""
        for mode, incident in self.of_client(key).items():
            if ts_ms > incident.heard_ms:
                self._open[key][mode] = dataclasses.replace(incident, heard_ms=ts_ms, offset_ms=offset_ms)

    def forgive(self, silent_ms: int) -> None:
        """Nothing was heard of anybody for so long: it does not count as silence of those that have incidents."""
        self.reopen(
            [
                dataclasses.replace(i, offset_ms=i.offset_ms + silent_ms, forgiven_ms=i.forgiven_ms + silent_ms)
                for i in self.all
            ]
        )

    def expired(
        self, is_over: Callable[[OpenIncident], bool], ended_ms: Callable[[OpenIncident], int]
    ) -> list[Transition]:
        """Close what `is_over` says so of. `ended_ms`: when it was over, by the client's own clock."""
        old = [incident for incident in self.all if is_over(incident)]
        return [self._close(incident, "closed", ended_ms(incident)) for incident in old]

    def _close(self, incident: OpenIncident, change: Change, ts_ms: int) -> Transition:
        key = incident.client.key
        del self._open[key][incident.verdict.mode]
        if not self._open[key]:
            del self._open[key]
        over = dataclasses.replace(incident.verdict, status="ok")
        return Transition(incident.client, over, incident.verdict.status, change, ts_ms)
