"""Verdicts on windows: a gate over those of all clients, and the judges for those that it does not let pass.

The gate asks thousands of windows at once what their metrics show; the judge asks one window the same, and looks at
its log lines and thread dumps too. Windows that have lines or dumps always go to the judge. Everything here is pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.view import Windows
from clienthealth.model.verdicts import STATUS_ORDER, Count, Evidence, EvidenceKind, Verdict
from clienthealth.modes import FEW, FailureMode, LiveMode, Mode, T, modes
from clienthealth.monitor.adjust import BY_NAME, REPEATS, Context, adjust, repeats

#: So many half minutes of an incident are kept apart; what is older no window reaches any more.
KEPT_SLOTS = 64
#: What the settings say of the thresholds, by mode and name.
Overrides = Mapping[str, Mapping[str, float]]
NOTHING_MORE = Context()


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
    again = repeats(w)
    reasons = mode.gate.reasons(w, mode.thresholds)
    reasons[again] = REPEATS
    return mode.gate.suspects(w, mode.thresholds) & ~again, reasons.tolist()


def verdict(mode: FailureMode[T], window: ClientWindow, known: Context = NOTHING_MORE) -> Verdict:
    """The full judgement of one window. `known`: what else is known of the client."""
    context = dataclasses.replace(known, mode=mode, window=window)
    (adjusted,) = adjust("window", [mode.judge(window, mode.thresholds)], context)
    return adjusted


def judge_windows(windows: Sequence[ClientWindow], overrides: Overrides, absence: bool = False) -> list[Verdict]:
    """The verdicts of all modes that can befall the client, each the worst over its windows."""
    kind = windows[-1].client.kind
    return [
        merged([verdict(mode, window) for window in windows])
        for mode in in_force(overrides).values()
        if kind in mode.kinds and mode.absence == absence
    ]


def silenced(window: ClientWindow, overrides: Overrides) -> list[Verdict]:
    """What it says of a client that it reports no more, by the modes whose fault can silence it."""
    verdicts = (
        (mode, mode.silence(window, mode.thresholds))
        for mode in live_modes(window.client.kind, overrides)
        if mode.silence is not None
    )
    return [
        BY_NAME["alibis"].apply(silent, Context(mode=mode, window=window))
        for mode, silent in verdicts
        if silent is not None
    ]


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts of one mode on overlapping windows as one: the worst holds, since the earliest onset of that fault.

    A window that cannot be judged does not outweigh one that can, nor one with too few readings another one's reason;
    but where there is evidence that something may be wrong, the newest word holds. Evidence is what the windows of the
    worst status rest on, each fact once; numbers are those of all of them (`detail_of`).
    """
    worst = max(verdicts, key=lambda v: STATUS_ORDER.index(v.status))
    if worst.status in ("ok", "unknown"):
        known = (v for v in reversed(verdicts) if v.reason != FEW)
        return next((v for v in reversed(verdicts) if v.status == "ok" or v.evidence), next(known, verdicts[-1]))
    unhealthy = [v for v in verdicts if v.unhealthy]
    latest = [v for v in unhealthy if v.status == worst.status][-1]
    onsets = [v.since_ms for v in unhealthy if v.since_ms is not None]
    counts = united(count for v in unhealthy for count in v.counts)
    # The lines that tell why are as old as the wait that has just ended: the newest window may not hold them any more.
    # What a line or a dump names outranks what numbers alone suggest.
    named = [v for v in unhealthy if any(e.kind != "metric" for e in v.evidence)]
    causes = [cause for v in (*(named or unhealthy), *([] if named else [latest])) if (cause := v.detail.get("cause"))]
    mode = modes().get(latest.mode)
    assumed = {cause.id for cause in mode.causes if cause.assumed} if mode else set()
    cause = next((cause for cause in reversed(causes) if cause not in assumed), causes[-1] if causes else None)
    same = [v.detail for v in unhealthy if v.detail.get("cause") in (None, cause, *assumed)]
    why = {"cause": cause} if cause else {}
    return dataclasses.replace(
        latest,
        since_ms=min(onsets) if onsets else None,
        detail=detail_of(latest.mode, [*same, {**latest.detail, **why}], counts),
        evidence=evidence_of(e for v in unhealthy for e in v.evidence),
        counts=counts,
    )


def detail_of(mode_id: str, details: Sequence[Mapping[str, Any]], counts: Iterable[Count]) -> dict[str, Any]:
    """The details of one fault out of those of its windows, the newest last: each as its newest window has it.

    Of sums and peaks the greatest holds, and what was counted over all windows; what is momentary only the newest says.
    """
    mode, newest = modes().get(mode_id), details[-1]
    detail = {name: value for of_window in details for name, value in of_window.items()}
    if mode is None:
        return detail
    for name in mode.momentary - newest.keys():
        detail.pop(name, None)
    for name in (mode.sums | mode.peaks) & detail.keys():
        detail[name] = max(of_window[name] for of_window in details if name in of_window)
    for count in counts:
        detail[count.name] = max(detail.get(count.name, 0), round(count.total))
    return detail


def united(counts: Iterable[Count]) -> tuple[Count, ...]:
    """What overlapping windows counted of one fault: of each half minute what that window did which saw most of it."""
    whole: dict[tuple[str, str], Count] = {}
    for count in counts:
        before = whole.setdefault((count.name, count.kind), count)
        if before is not count:
            since = max(before.settled_ms, count.settled_ms)
            slots = {
                slot: max(before.slots.get(slot, 0.0), count.slots.get(slot, 0.0))
                for slot in sorted({*before.slots, *count.slots})
                if slot >= since
            }
            settled = max(before.settled, count.settled)
            whole[count.name, count.kind] = Count(count.name, count.kind, slots, settled, since)
    # Of the newest half minutes each is kept, of those before them the sum.
    for key, count in whole.items():
        times = sorted(count.slots)
        old, kept = times[:-KEPT_SLOTS], times[-KEPT_SLOTS:]
        if old:
            settled = count.settled + sum(count.slots[slot] for slot in old)
            newest = {slot: count.slots[slot] for slot in kept}
            whole[key] = dataclasses.replace(count, slots=newest, settled=settled, settled_ms=kept[0])
    return tuple(whole.values())


def gone_on_with(verdict: Verdict, seen_ms: int) -> tuple[Count, ...]:
    """What was counted of an incident until `seen_ms`, also where only its sums are known (from the history)."""
    counted = {count.name for count in verdict.counts}
    mode = modes().get(verdict.mode)
    sums = (mode.sums if mode else frozenset()) & verdict.detail.keys() - counted
    kinds: tuple[EvidenceKind, ...] = ("log", "metric")
    return verdict.counts + tuple(
        Count(name, kind, {}, float(verdict.detail[name]), seen_ms) for name in sorted(sums) for kind in kinds
    )


def evidence_of(facts: Iterable[Evidence], per_kind: int = 3) -> tuple[Evidence, ...]:
    """Facts in order of time, each once: of every kind the first and the newest ones, `per_kind` at most."""
    unique = sorted({(e.kind, e.text): e for e in facts}.values(), key=lambda e: e.ts_ms)
    kept: list[Evidence] = []
    for kind in dict.fromkeys(e.kind for e in unique):
        of_kind = [e for e in unique if e.kind == kind]
        kept += of_kind if len(of_kind) <= per_kind else [of_kind[0], *of_kind[-(per_kind - 1) :]]
    return tuple(sorted(kept, key=lambda e: e.ts_ms))
