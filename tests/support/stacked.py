"""Combine the windows of many clients in one matrix, as the monitor does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from clienthealth.measure.client_window import ClientWindow, about
from clienthealth.measure.packed import Parts
from clienthealth.measure.view import Rows, Windows


def stacked(windows: Sequence[ClientWindow]) -> Windows:
    """Return one table for all windows. All clients must be of one kind. Overlapping windows share rows."""
    one = [rows.table for rows in _clients(windows)]
    at = np.cumsum([0, *(len(w.ts) for w in one)])
    spans = iter(_spans(windows))
    bounds = [(at[client] + lo, at[client] + hi) for client, lo, hi in spans]
    return Windows(
        windows[0].client.kind,
        Rows(np.concatenate([w.ts for w in one]), np.concatenate([w.values for w in one]), *_joined(one)),
        np.array([lo for lo, _ in bounds], np.int64),
        np.array([hi for _, hi in bounds], np.int64),
        list(map(about, windows)).__getitem__,
    )


def _follows(before: ClientWindow, window: ClientWindow) -> bool:
    shared = [reading for reading in before.readings if window.readings and reading.ts_ms >= window.readings[0].ts_ms]
    return bool(shared) and before.client == window.client and tuple(shared) == window.readings[: len(shared)]


def _clients(windows: Sequence[ClientWindow]) -> list[ClientWindow]:
    client_windows: list[ClientWindow] = []
    for before, window in zip([None, *windows[:-1]], windows, strict=True):
        if before is not None and _follows(before, window):
            new = tuple(r for r in window.readings if r.ts_ms > client_windows[-1].readings[-1].ts_ms)
            client_windows[-1] = dataclasses.replace(client_windows[-1], readings=client_windows[-1].readings + new)
        else:
            client_windows.append(window)
    return client_windows


def _spans(windows: Sequence[ClientWindow]) -> list[tuple[int, int, int]]:
    spans: list[tuple[int, int, int]] = []
    for before, window in zip([None, *windows[:-1]], windows, strict=True):
        if before is not None and _follows(before, window):
            client, lo, _ = spans[-1]
            lo += sum(reading.ts_ms < window.readings[0].ts_ms for reading in before.readings)
            spans.append((client, lo, lo + len(window.readings)))
        else:
            spans.append((spans[-1][0] + 1 if spans else 0, 0, len(window.readings)))
    return spans


def _joined(windows: Sequence[Windows]) -> tuple[Parts, Sequence[str]]:
    names = list(dict.fromkeys(name for w in windows for name in w.names))
    index = [np.array([names.index(name) for name in w.names] + [-1], np.int64) for w in windows]
    begins = np.cumsum([0, *(len(w.ts) for w in windows)])
    parts = [
        dataclasses.replace(w.parts, row=w.parts.row + begin, topic=at[w.parts.topic], thread=at[w.parts.thread])
        for w, begin, at in zip(windows, begins, index, strict=False)
    ]
    return Parts.joined(parts), names
