"""The wire form of what we conclude: verdicts and evidence as JSON on the topic `client-health` and in the history."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from clienthealth.model.clients import Client
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Status, Verdict

SCHEMA = 1


def client_json(client: Client) -> dict[str, Any]:
    """The client's identity, unknown parts left out."""
    return {key: value for key, value in dataclasses.asdict(client).items() if value is not None}


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """One fact with the input record that it was read from."""
    source = None if evidence.source is None else dataclasses.asdict(evidence.source)
    return {"kind": evidence.kind, "ts": evidence.ts_ms, "text": evidence.text, "source": source}


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as others read it: onset and evidence only of a failure, a reason only where nothing is known."""
    found: dict[str, Any] = {"mode": verdict.mode, "status": verdict.status}
    if verdict.unhealthy:
        found |= {
            "since": verdict.since_ms,
            "detail": dict(verdict.detail),
            "evidence": [evidence_json(e) for e in verdict.evidence],
        }
    elif verdict.detail:
        found["detail"] = dict(verdict.detail)
    if verdict.reason is not None:
        found["reason"] = verdict.reason
    return found


def verdict_from_json(row: Mapping[str, Any]) -> Verdict:
    """The inverse of `verdict_json`."""
    if len(row) == 2:
        return _bare(row["mode"], row["status"])
    return Verdict(
        mode=row["mode"],
        status=row["status"],
        since_ms=row.get("since"),
        detail=row.get("detail") or {},
        evidence=tuple(evidence_from_json(e) for e in row.get("evidence") or ()),
        reason=row.get("reason"),
    )


@functools.lru_cache(maxsize=1_000)
def _bare(mode: str, status: Status) -> Verdict:
    """A verdict of which no more is to be said, as most are: one object for all clients."""
    return Verdict(mode, status)


def evidence_from_json(row: Mapping[str, Any]) -> Evidence:
    """The inverse of `evidence_json`."""
    source = row.get("source")
    return Evidence(row["kind"], row["ts"], row["text"], None if source is None else Source(**source))


def worst(verdicts: Iterable[Verdict]) -> str:
    """The worst status of some verdicts; unknown where there is none."""
    return max((v.status for v in verdicts), key=STATUS_ORDER.index, default="unknown")
