"""Judgement: a gate over the windows of all clients, and the judges for those that it does not let pass.

The gate asks thousands of windows at once what their metrics show; the judge asks one window the same, and looks at
its log lines and thread dumps too. Windows that have lines or dumps always go to the judge. Everything here is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clienthealth.model.readings import ClientWindow
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Status, Verdict
from clienthealth.modes import FailureMode, modes
from clienthealth.windows.view import Windows


def thresholds(mode: FailureMode, overrides: Mapping[str, Mapping[str, float]]) -> Any:
    """The thresholds in force: the mode's own, with what the settings say otherwise."""
    return dataclasses.replace(mode.thresholds, **overrides.get(mode.id, {}))


def gate(mode: FailureMode, w: Windows, limits: Any) -> tuple[NDArray[np.bool_], list[str]]:
    """Which windows of clients that the mode can befall must be judged, and why the others are `unknown` ('': `ok`).

    Speaks of metrics only. `limits`: the mode's thresholds in force. Raises ValueError for a mode that is judged when
    a client has gone.
    """
    if mode.gate is None:
        raise ValueError(f"{mode.id} is judged when a client has gone, not by its windows")
    return mode.gate.suspected(w, limits), mode.gate.reasons(w, limits).tolist()


def verdict(mode: FailureMode, window: ClientWindow, now_ms: int, limits: Any) -> Verdict:
    """The full judgement of one window. `limits`: the mode's thresholds in force."""
    return mode.judge(window, now_ms, limits)


def judge_windows(
    windows: Sequence[ClientWindow], overrides: Mapping[str, Mapping[str, float]], now_ms: int, absence: bool = False
) -> list[Verdict]:
    """The verdicts of all modes that can befall the client, each the worst over its windows."""
    client = windows[-1].client
    verdicts = []
    for mode in modes().values():
        if client.kind in mode.kinds and mode.absence == absence:
            limits = thresholds(mode, overrides)
            verdicts.append(merged([verdict(mode, window, now_ms, limits) for window in windows]))
    return explained(verdicts)


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts of one mode on overlapping windows as one: the worst holds, since the earliest onset of that fault.

    A window that cannot be judged does not outweigh one that can; but where there is evidence that something may be
    wrong, the newest word holds. Evidence is what the windows of the worst status rest on, each fact once.
    """
    worst = max(verdicts, key=lambda v: STATUS_ORDER.index(v.status))
    if worst.status in ("ok", "unknown"):
        return next((v for v in reversed(verdicts) if v.status == "ok" or v.evidence), verdicts[-1])
    found = [v for v in verdicts if v.unhealthy]
    latest = [v for v in found if v.status == worst.status][-1]
    onsets = [v.since_ms for v in found if v.since_ms is not None]
    return dataclasses.replace(
        latest,
        since_ms=min(onsets) if onsets else None,
        detail=_detail(found, latest),
        evidence=evidence_of(e for v in found for e in v.evidence),
    )


def explained(verdicts: Sequence[Verdict], found: Mapping[str, Status] | None = None) -> list[Verdict]:
    """Verdicts of one moment, without those that another mode explains (`FailureMode.explains`): one failure, one word.

    What is surer than its explanation stays. `found`: the status of modes that are known to be there, whatever this
    moment shows.
    """
    there = dict(found or {})
    there |= {v.mode: v.status for v in verdicts if v.unhealthy and there.get(v.mode) != "confirmed"}
    by = {other: mode for mode in sorted(there) for other in modes()[mode].explains}
    return [
        Verdict(v.mode, "unknown", reason=f"what it shows is explained by {by[v.mode]}")
        if v.mode in by and v.status != "unknown" and _as_sure(there[by[v.mode]], v.status)
        else v
        for v in verdicts
    ]


def _as_sure(status: Status, other: Status) -> bool:
    return STATUS_ORDER.index(status) >= STATUS_ORDER.index(other)


def _detail(found: Sequence[Verdict], latest: Verdict) -> dict[str, Any]:
    """What is known of the fault, the newest word of each thing, from all that name the same cause or none."""
    cause = latest.detail.get("cause") or next((c for v in reversed(found) if (c := v.detail.get("cause"))), None)
    same = [v for v in found if v.detail.get("cause") in (None, cause)]
    return {name: value for v in (*same, latest) for name, value in v.detail.items()}


def evidence_of(facts: Iterable[Evidence], per_kind: int = 3) -> tuple[Evidence, ...]:
    """Facts in order of time, each once: of every kind the first and the newest ones, `per_kind` at most."""
    unique = sorted({(e.kind, e.text): e for e in facts}.values(), key=lambda e: e.ts_ms)
    kept: list[Evidence] = []
    for kind in dict.fromkeys(e.kind for e in unique):
        of_kind = [e for e in unique if e.kind == kind]
        kept += of_kind if len(of_kind) <= per_kind else [of_kind[0], *of_kind[-(per_kind - 1) :]]
    return tuple(sorted(kept, key=lambda e: e.ts_ms))
