"""Make the rows of the history's table `minutes`: one row per client and minute.

A minute's row is final, because it is written only when the minute's windows have closed or the client has departed.
The row's failures are the incidents that were open during the minute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from clienthealth.measure.client import minute_figures
from clienthealth.measure.columns import Floats, Ints
from clienthealth.model.values import grouped
from clienthealth.model.verdicts import Status, standing
from clienthealth.modes import modes
from clienthealth.monitor import also_seen
from clienthealth.monitor.bucket import Bucket, Span
from clienthealth.monitor.incidents import Transition
from clienthealth.monitor.readings import SHIFT, horizons, skew_seconds
from clienthealth.monitor.state import BucketState
from clienthealth.monitor.window_verdicts import gate, live_modes, verdict

MINUTE_MS = 60_000

Row = dict[str, Any]


def finished(bucket: Bucket, gone: Sequence[int], changes: Sequence[Transition], now_ms: int) -> list[Row]:
    """Return the rows of the minutes that have finished since the last call.

    `gone`     the departed clients (indices in the state); all minutes of these clients are finished
    `changes`  this step's changes of incidents
    `now_ms`   the time now (epoch ms)
    """
    state = bucket.state
    for change in changes:
        if change.change in ("closed", "withdrawn"):
            key = *change.client.process, change.client.key, change.verdict.mode, change.ts_ms
            state.over.remember(key, change, change.ts_ms)
    if not len(state.all_clients):
        return []
    ends = state.clients.last // MINUTE_MS * MINUTE_MS + MINUTE_MS
    passed = horizons(state, bucket.settings.monitor) + state.idle_ms
    over = np.clip(passed // MINUTE_MS * MINUTE_MS, 0, ends)
    over[gone] = ends[gone]
    number, minute = state.readings.client, state.readings.ts // MINUTE_MS * MINUTE_MS
    due = (minute >= state.clients.minute[number]) & (minute + MINUTE_MS <= over[number])
    rows: list[Row] = []
    numbers: list[int] = []
    if due.any():
        keys = np.unique((number[due] << SHIFT) | minute[due])
        client, begin = keys >> SHIFT, keys & ((1 << SHIFT) - 1)
        off = skew_seconds(state, now_ms)
        closed = grouped((change for _, change in state.over.items()), lambda change: change.client.key)
        for kind, of_kind in bucket.of_kinds.items():
            if (chosen := of_kind[client]).any():
                rows += _of_kind(bucket, closed, kind, client[chosen], begin[chosen], off)
                numbers += client[chosen].tolist()
    departed = set(gone)
    for row, at in zip(rows, numbers, strict=True) if state.also_seen else ():
        ref = state.all_clients[at]
        # A departed client's last row counts all remaining lines of known issues.
        until = math.inf if at in departed and row["minute"] + MINUTE_MS == ends[at] else row["minute"]
        runs = bucket.runs.get(ref.process, ())
        if runs and (also := also_seen.unwritten(runs, ref.client_id, ref.kind or "", until)):
            row["also_seen"] = also
    state.clients.minute = np.maximum(state.clients.minute, over)
    return rows


Closed = Mapping[str, Sequence[Transition]]


def _of_kind(bucket: Bucket, closed: Closed, kind: str, client: Ints, begin: Ints, off: Floats) -> list[Row]:
    end = begin + MINUTE_MS
    lo, hi = bucket.span(client, end - np.maximum(bucket.grid.length[client], MINUTE_MS), end)
    w = bucket.windows(kind, client, lo, hi)
    live = live_modes(kind, bucket.settings.modes)
    gates = [gate(mode, w) for mode in live]
    inside = np.subtract(*reversed(bucket.span(client, begin, end))).tolist()
    columns = [(mode, suspected.tolist(), reasons) for mode, (suspected, reasons) in zip(live, gates, strict=True)]
    rows = []
    each = zip(client.tolist(), begin.tolist(), minute_figures(w), strict=True)
    for at, (number, start, figures) in enumerate(each):
        ref = bucket.state.all_clients[number]
        key = ref.key
        failures = lasting(bucket.state, key, closed.get(key, ()), start, start + MINUTE_MS)
        statuses: list[Status] = [*failures.values()]
        for mode, suspected, reasons in columns:
            if suspected[at] and mode.id not in failures:
                span = Span(start, start + MINUTE_MS, int(lo[at]), int(hi[at]))
                seen = bucket.window(ref, number, span, table=partial(w.alone, at))
                statuses.append("ok" if verdict(mode, seen).status == "ok" else "unknown")
            elif mode.id not in failures:
                statuses.append("unknown" if reasons[at] else "ok")
        row: Row = {
            "minute": start,
            **msgspec.structs.asdict(ref),
            "samples": inside[at],
            "status": standing(statuses),
            "modes": [{"mode": mode, "status": status} for mode, status in sorted(failures.items())],
            **figures,
            **({"clock_skew_seconds": float(off[number])} if off[number] else {}),
        }
        rows.append(row)
    return rows


def lasting(
    state: BucketState, key: str, closed: Sequence[Transition], start_ms: int, end_ms: int
) -> Mapping[str, Status]:
    """Return the newest status of each incident that was open between `start_ms` and `end_ms`, by failure mode.

    Modes about missing data (`absence`) are left out. `closed`: recently closed incidents.
    """
    statuses: dict[str, Status] = {}
    opened = state.incidents.of_client(key)
    if not opened and not closed:
        return statuses
    for mode, incident in opened.items():
        since = incident.verdict.since_ms
        if not modes()[mode].absence and since is not None and since < end_ms:
            statuses[mode] = incident.verdict.status
    for change in closed:
        mode, since = change.verdict.mode, change.verdict.since_ms
        if not modes()[mode].absence and since is not None and since < end_ms and change.ts_ms > start_ms:
            statuses.setdefault(mode, change.previous)
    return statuses
