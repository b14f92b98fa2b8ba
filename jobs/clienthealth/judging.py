"""Judgement: a gate over the windows of all clients, and the judges for those that it does not let pass.

The gate asks thousands of windows at once what their metrics show; the judge asks one window the same, and looks at
its log lines and thread dumps too. Windows that have lines or dumps always go to the judge. Everything here is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clienthealth.model.readings import ClientWindow
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Status, Verdict
from clienthealth.modes import FEW, FailureMode, LiveMode, Mode, T, modes
from clienthealth.windows.columns import Bools
from clienthealth.windows.view import Windows

#: What the settings say of the thresholds, by mode and name.
Overrides = Mapping[str, Mapping[str, float]]


def in_force(overrides: Overrides) -> Mapping[str, Mode]:
    """All modes by id, with the thresholds that the settings say."""
    return {mode.id: mode.with_thresholds(overrides.get(mode.id, {})) for mode in modes().values()}


def live_modes(kind: str | None, overrides: Overrides) -> list[LiveMode[Any]]:
    """The modes in force that can befall a client of this kind while it reports."""
    return [mode for mode in in_force(overrides).values() if isinstance(mode, LiveMode) and kind in mode.kinds]


def gate(mode: LiveMode[T], w: Windows) -> tuple[Bools, list[str]]:
    """Which windows of clients that the mode can befall must be judged, and why the others are `unknown` ('': `ok`).

    Speaks of metrics only.
    """
    return mode.gate.suspects(w, mode.thresholds), mode.gate.reasons(w, mode.thresholds).tolist()


def verdict(mode: FailureMode[T], window: ClientWindow) -> Verdict:
    """The full judgement of one window."""
    return mode.judge(window, mode.thresholds)


def judge_windows(windows: Sequence[ClientWindow], overrides: Overrides, absence: bool = False) -> list[Verdict]:
    """The verdicts of all modes that can befall the client, each the worst over its windows."""
    kind = windows[-1].client.kind
    return explained(
        [
            merged([verdict(mode, window) for window in windows])
            for mode in in_force(overrides).values()
            if kind in mode.kinds and mode.absence == absence
        ]
    )


def silenced(window: ClientWindow, overrides: Overrides) -> list[Verdict]:
    """What it says of a client that it reports no more, by the modes whose fault can silence it."""
    verdicts = (
        mode.silence(window, mode.thresholds)
        for mode in live_modes(window.client.kind, overrides)
        if mode.silence is not None
    )
    return [verdict for verdict in verdicts if verdict is not None]


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts of one mode on overlapping windows as one: the worst holds, since the earliest onset of that fault.

    A window that cannot be judged does not outweigh one that can, nor one with too few readings another one's reason;
    but where there is evidence that something may be
    wrong, the newest word holds. Evidence is what the windows of the worst status rest on, each fact once.
    """
    worst = max(verdicts, key=lambda v: STATUS_ORDER.index(v.status))
    if worst.status in ("ok", "unknown"):
        known = (v for v in reversed(verdicts) if v.reason != FEW)
        return next((v for v in reversed(verdicts) if v.status == "ok" or v.evidence), next(known, verdicts[-1]))
    unhealthy = [v for v in verdicts if v.unhealthy]
    latest = [v for v in unhealthy if v.status == worst.status][-1]
    onsets = [v.since_ms for v in unhealthy if v.since_ms is not None]
    return dataclasses.replace(
        latest,
        since_ms=min(onsets) if onsets else None,
        detail=_detail(unhealthy, latest),
        evidence=evidence_of(e for v in unhealthy for e in v.evidence),
    )


def explained(verdicts: Sequence[Verdict], statuses: Mapping[str, Status] | None = None) -> list[Verdict]:
    """The verdicts of one moment without those that another mode explains: one failure, one verdict.

    A verdict that is surer than its explanation stays. `statuses`: the status, by mode, of the client's open incidents.
    """
    present = dict(statuses or {})
    present |= {v.mode: v.status for v in verdicts if v.unhealthy and present.get(v.mode) != "confirmed"}
    by = {other: mode for mode in sorted(present) for other in modes()[mode].explains}
    return [
        Verdict(v.mode, "unknown", reason=f"what it shows is explained by {by[v.mode]}")
        if v.mode in by and v.status != "unknown" and _as_sure(present[by[v.mode]], v.status)
        else v
        for v in verdicts
    ]


def _as_sure(status: Status, other: Status) -> bool:
    return STATUS_ORDER.index(status) >= STATUS_ORDER.index(other)


def _detail(unhealthy: Sequence[Verdict], latest: Verdict) -> dict[str, Any]:
    """The details of the fault, each as its newest verdict has it, from all verdicts with the same cause or none."""
    cause = latest.detail.get("cause") or next((c for v in reversed(unhealthy) if (c := v.detail.get("cause"))), None)
    same = [v for v in unhealthy if v.detail.get("cause") in (None, cause)]
    return {name: value for v in (*same, latest) for name, value in v.detail.items()}


def evidence_of(facts: Iterable[Evidence], per_kind: int = 3) -> tuple[Evidence, ...]:
    """Facts in order of time, each once: of every kind the first and the newest ones, `per_kind` at most."""
    unique = sorted({(e.kind, e.text): e for e in facts}.values(), key=lambda e: e.ts_ms)
    kept: list[Evidence] = []
    for kind in dict.fromkeys(e.kind for e in unique):
        of_kind = [e for e in unique if e.kind == kind]
        kept += of_kind if len(of_kind) <= per_kind else [of_kind[0], *of_kind[-(per_kind - 1) :]]
    return tuple(sorted(kept, key=lambda e: e.ts_ms))
