"""Judge windows by the gates and judges of failure modes, and merge verdicts on overlapping windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clienthealth.measure.client_window import ClientWindow
from clienthealth.measure.columns import Bools
from clienthealth.measure.view import Windows
from clienthealth.model.verdicts import STATUS_ORDER, Count, Evidence, EvidenceKind, Verdict
from clienthealth.modes import FEW, FailureMode, LiveMode, Mode, T, modes
from clienthealth.monitor.adjust import BY_NAME, REPEATS, Context, adjust, repeats

#: `Count.slots` keeps only the KEPT_SLOTS newest half minutes. With the default settings, every window is shorter than
#: KEPT_SLOTS half minutes.
KEPT_SLOTS = 64
Overrides = Mapping[str, Mapping[str, float]]
NOTHING_MORE = Context()


def in_force(overrides: Overrides) -> Mapping[str, Mode]:
    """Return all failure modes by id, with the thresholds of the settings (`overrides`)."""
    return {mode.id: mode.with_thresholds(overrides.get(mode.id, {})) for mode in modes().values()}


def live_modes(kind: str | None, overrides: Overrides) -> list[LiveMode[Any]]:
    """Return the modes for a reporting client of this kind, with the thresholds of the settings (`overrides`)."""
    return [mode for mode in in_force(overrides).values() if isinstance(mode, LiveMode) and kind in mode.kinds]


def gate(mode: LiveMode[T], w: Windows) -> tuple[Bools, list[str]]:
    """Return (flags, reasons), one of each per window. A flag is True if a judge must examine the window.

    If the flag is False, the reason decides: the verdict is `ok` if the reason is '', otherwise `unknown`.
    """
    repeated = repeats(w)
    reasons = np.where(repeated, REPEATS, mode.gate.reasons(w, mode.thresholds))
    return mode.gate.suspected(w, mode.thresholds) & ~repeated, reasons.tolist()


def verdict(mode: FailureMode[T], window: ClientWindow, known: Context = NOTHING_MORE) -> Verdict:
    """Judge one window, and apply the adjustments of stage "window" (`adjust.py`).

    `known`: all facts for the adjustments except the mode and the window.
    """
    context = dataclasses.replace(known, mode=mode, window=window)
    (adjusted,) = adjust("window", [mode.judge(window, mode.thresholds)], context)
    return adjusted


def judge_windows(windows: Sequence[ClientWindow], overrides: Overrides, absence: bool = False) -> list[Verdict]:
    """Return one verdict for each mode that applies to a client, merged from all windows.

    `windows`  the windows of one client, in order of time
    `absence`  True for modes that judge a client's end, False for the others
    """
    kind = windows[-1].client.kind
    return [
        merged([verdict(mode, window) for window in windows])
        for mode in in_force(overrides).values()
        if kind in mode.kinds and mode.absence == absence
    ]


def stale_verdicts(window: ClientWindow, overrides: Overrides) -> list[Verdict]:
    """Return verdicts on a client that sends no more samples. Only modes with a function `silence` give a verdict."""
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
    """Merge one mode's verdicts on overlapping windows. The result has the worst status and the earliest onset.

    If no verdict is unhealthy, return the verdict on the newest window with enough samples.
    """
    worst = max(verdicts, key=lambda v: STATUS_ORDER.index(v.status))
    if worst.status in ("ok", "unknown"):
        return next((v for v in reversed(verdicts) if v.reason != FEW), verdicts[-1])
    unhealthy = [v for v in verdicts if v.unhealthy]
    latest = [v for v in unhealthy if v.status == worst.status][-1]
    onsets = [v.since_ms for v in unhealthy if v.since_ms is not None]
    counts = united(count for v in unhealthy for count in v.counts)
    # A cause from evidence other than metrics is more reliable.
    named = [v for v in unhealthy if any(e.kind != "metric" for e in v.evidence)]
    causes = [cause for v in (*(named or unhealthy), *([] if named else [latest])) if (cause := v.detail.get("cause"))]
    mode = modes().get(latest.mode)
    assumed = {cause.id for cause in mode.causes if cause.assumed} if mode else set()
    cause = next((cause for cause in reversed(causes) if cause not in assumed), causes[-1] if causes else None)
    same = [v.detail for v in unhealthy if v.detail.get("cause") in (None, cause, *assumed)]
    if mode and any(count.total > 1 for count in counts):
        cause = next((one.again for one in mode.causes if one.id == cause and one.again), cause)
    why = {"cause": cause} if cause else {}
    return dataclasses.replace(
        latest,
        since_ms=min(onsets, default=None),
        detail=detail_of(latest.mode, [*same, {**latest.detail, **why}], counts),
        evidence=evidence_of(e for v in unhealthy for e in v.evidence),
        counts=counts,
    )


def detail_of(mode_id: str, details: Sequence[Mapping[str, Any]], counts: Iterable[Count]) -> dict[str, Any]:
    """Merge the details of one fault from several windows, given in order of time.

    A key gets the newest value. A key in the mode's `sums` or `peaks` gets the greatest value. A key in `momentary` is
    dropped if the newest window lacks the key. Each `Count` has the name of a key: if the total of the `Count` is
    greater than the key's value, the total replaces the value.
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
    """Merge counts of effects, such as lost records, from overlapping windows.

    Of the counts for the same half minute, only the greatest is kept.
    """
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
    for key, count in whole.items():
        times = sorted(count.slots)
        old, kept = times[:-KEPT_SLOTS], times[-KEPT_SLOTS:]
        if old:
            settled = count.settled + sum(count.slots[slot] for slot in old)
            newest = {slot: count.slots[slot] for slot in kept}
            whole[key] = dataclasses.replace(count, slots=newest, settled=settled, settled_ms=kept[0])
    return tuple(whole.values())


def gone_on_with(verdict: Verdict, seen_ms: int) -> tuple[Count, ...]:
    """Return the `counts` of a verdict, with two new `Count` objects for each sum that has no `Count` yet.

    A sum is a value in the verdict's `detail` under a name in the mode's `sums`. One of the two new `Count` objects has
    the kind "log", and the other one has the kind "metric". Each new `Count` has the sum in its field `settled`, and
    `seen_ms` in its field `settled_ms`.
    """
    counted = {count.name for count in verdict.counts}
    mode = modes().get(verdict.mode)
    sums = (mode.sums if mode else frozenset()) & verdict.detail.keys() - counted
    kinds: tuple[EvidenceKind, ...] = ("log", "metric")
    return verdict.counts + tuple(
        Count(name, kind, {}, float(verdict.detail[name]), seen_ms) for name in sorted(sums) for kind in kinds
    )


def evidence_of(facts: Iterable[Evidence], per_kind: int = 3) -> tuple[Evidence, ...]:
    """Return `facts` in order of time, without duplicates.

    At most `per_kind` facts of each kind are returned: the oldest one and the newest ones.
    """
    unique = sorted({(e.kind, e.text): e for e in facts}.values(), key=lambda e: e.ts_ms)
    kept: list[Evidence] = []
    for kind in dict.fromkeys(e.kind for e in unique):
        of_kind = [e for e in unique if e.kind == kind]
        kept += of_kind if len(of_kind) <= per_kind else [of_kind[0], *of_kind[-(per_kind - 1) :]]
    return tuple(sorted(kept, key=lambda e: e.ts_ms))
