"""Readings of a bucket: what is new joins what is kept, in order; what no window needs any more goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clienthealth.model.metrics import CLIENT_METRICS
from clienthealth.settings import MonitorSettings
from clienthealth.step.state import (
    CLIENT_WIDTH,
    EVERY,
    FIRST,
    HEARD,
    LAST,
    LEFT,
    MINUTE,
    OPTIONS,
    UNDELIVERED,
    BucketState,
)
from clienthealth.windows.packed import (
    CONFIG,
    DELTA,
    FRESH,
    HEAD,
    INTERVAL,
    PART_HEAD,
    PART_PARTITION,
    PART_THREAD,
    PART_TOPIC,
    ROW,
    TOPIC,
    TS,
    WHO,
    Chunk,
    Matrix,
    Who,
)

Ints = NDArray[np.int64]

#: Client and time as one sortable number: times are below 2^48.
SHIFT = 48
#: A window spans so many reporting intervals at least, for intervals up to MAX_INTERVAL_MS.
INTERVALS = 4
MAX_INTERVAL_MS = 300_000
#: An interval up to this is that of the usual window; what clients tell of longer ones is believed after a look at
#: how often they really report.
USUAL_INTERVAL_MS = 15_000

_PRODUCER = list(CLIENT_METRICS["producer"])
_LEFT_COLUMNS = [HEAD + _PRODUCER.index(name) for name in UNDELIVERED]


@dataclass
class Grid:
    """Where the windows of each client lie: they begin at multiples of `slide` and span `length` (ms, per client)."""

    slide: Ints
    length: Ints


def settle(state: BucketState) -> None:
    """Nothing that is kept is new any more."""
    if len(state.rows):
        state.rows[:, FRESH] = 0.0


def take(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings) -> int:
    """Enter the readings of the chunks into the state, sorted, one per instant; the number that came too late.

    Too late is what no window is open for: windows close `watermark_seconds` after their end by the client's own
    clock, or by the clock of all where that is behind.
    """
    late = 0
    horizon = horizons(state, settings)
    grid = grid_of(state, settings)
    numbers = {who.identity: number for number, who in enumerate(state.whos)}
    names = {name: at for at, name in enumerate(state.names)}
    configs: dict[int, int] = {}
    rows, parts, count = [state.rows], [state.parts], len(state.rows)
    for chunk in chunks:
        new = chunk.readings
        if not len(new):
            continue
        new, topic_parts = new.copy(), chunk.topic_parts.copy()
        numbered = _numbered(state, chunk.whos, numbers)
        np.maximum.at(state.clients[:, HEARD], numbered, chunk.heard)
        client = numbered[new[:, WHO].astype(np.int64)]
        new[:, WHO] = client
        name_at = _entered(state.names, chunk.names, names)
        new[:, TOPIC] = name_at[new[:, TOPIC].astype(np.int64)]
        new[:, CONFIG] = _configured(state, chunk.configs, configs)[new[:, CONFIG].astype(np.int64)]
        existing = client < len(horizon)
        number = np.where(existing, client, 0)
        if len(horizon):
            slide, length = grid.slide[number], grid.length[number]
            closed = existing & (new[:, TS] // slide * slide + length <= horizon[number])
        else:
            closed = np.zeros(len(new), bool)
        late += int(closed.sum())
        if len(topic_parts):
            topic_parts[:, PART_TOPIC] = name_at[topic_parts[:, PART_TOPIC].astype(np.int64)]
            thread = topic_parts[:, PART_THREAD].astype(np.int64)
            topic_parts[:, PART_THREAD] = np.where(thread < 0, -1, name_at[np.maximum(thread, 0)])
            topic_parts = topic_parts[~closed[topic_parts[:, ROW].astype(np.int64)]]
            topic_parts[:, ROW] = (np.cumsum(~closed) - 1)[topic_parts[:, ROW].astype(np.int64)] + count
        new = new[~closed]
        metrics = new[:, HEAD:]
        metrics[~((metrics >= 0) & (metrics < np.inf))] = np.nan
        rows.append(new)
        parts.append(topic_parts)
        count += len(new)
    state.rows, state.parts = _in_order(np.concatenate(rows), np.concatenate(parts), state.names)
    return late


def _numbered(state: BucketState, whos: Sequence[Who], numbers: dict[tuple[str, str, str, str], int]) -> Ints:
    """The number of each client in the state; new clients are added, the names of known ones are renewed."""
    numbered = np.empty(len(whos), np.int64)
    new = 0
    for position, who in enumerate(whos):
        number = numbers.get(who.identity)
        if number is None:
            number = numbers[who.identity] = len(state.whos)
            state.whos.append(who)
            new += 1
        elif state.whos[number] != who:
            state.whos[number] = who
        numbered[position] = number
    if new:
        state.clients = np.concatenate([state.clients, _blank(new)])
    return numbered


def _blank(count: int) -> Matrix:
    rows = np.full((count, CLIENT_WIDTH), np.nan)
    rows[:, [LAST, HEARD, MINUTE]] = 0.0
    rows[:, EVERY] = 10_000.0
    rows[:, OPTIONS] = -1.0
    rows[:, FIRST] = np.inf
    return rows


def _entered(texts: list[str], names: Sequence[str], positions: dict[str, int]) -> Ints:
    entered = np.empty(len(names) or 1, np.int64)
    for at, name in enumerate(names):
        position = positions.get(name)
        if position is None:
            position = positions[name] = len(texts)
            texts.append(name)
        entered[at] = position
    return entered


def _configured(state: BucketState, configs: Sequence[dict[str, str]], seen: dict[int, int]) -> NDArray[np.float64]:
    """The position of each configuration; the last element, which position -1 means, is none."""
    configured = np.full(len(configs) + 1, -1.0)
    for at, config in enumerate(configs):
        position = next((p for p, other in enumerate(state.configs) if other == config), None)
        if position is None:
            position = len(state.configs)
            state.configs.append(config)
        configured[at] = position
    return configured


def keys(rows: Matrix) -> Ints:
    """Client and time of each reading as one number that sorts by both."""
    return (rows[:, WHO].astype(np.int64) << SHIFT) | rows[:, TS].astype(np.int64)


def _in_order(rows: Matrix, parts: Matrix, names: Sequence[str]) -> tuple[Matrix, Matrix]:
    """Rows by client and time, one per instant: some formats bring one metric per record, some bring one twice.

    Of what two rows of an instant both know, the one that was first holds.
    """
    order = np.argsort(keys(rows), kind="stable")
    rows = rows[order]
    new_row = np.empty(len(order), np.int64)
    new_row[order] = np.arange(len(order))
    key = keys(rows)
    first = np.append(True, key[1:] != key[:-1])[: len(rows)]
    if not first.all():
        new_row = (np.cumsum(first) - 1)[new_row]
        rows = _merged(rows, np.flatnonzero(first))
    if len(parts):
        parts[:, ROW] = new_row[parts[:, ROW].astype(np.int64)]
        parts = _parts_in_order(parts, names)
    return rows, parts


def _merged(rows: Matrix, starts: Ints) -> Matrix:
    merged = rows[starts]
    ends = np.append(starts[1:], len(rows))
    for at in np.flatnonzero(ends - starts > 1).tolist():
        row = merged[at]
        for other in rows[starts[at] + 1 : ends[at]]:
            gaps = np.isnan(row[HEAD:])
            row[HEAD:][gaps] = other[HEAD:][gaps]
            row[FRESH] = max(row[FRESH], other[FRESH])
            if row[CONFIG] < 0:
                row[CONFIG] = other[CONFIG]
    return merged


def _parts_in_order(parts: Matrix, names: Sequence[str]) -> Matrix:
    """Parts by reading, topic (by name), partition and thread, each once."""
    where = np.nan_to_num(parts[:, :PART_HEAD], nan=-1.0)
    by_name = np.empty(len(names), np.int64)
    by_name[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    topic = by_name[where[:, PART_TOPIC].astype(np.int64)]
    order = np.lexsort((where[:, PART_THREAD], where[:, PART_PARTITION], topic, where[:, ROW]))
    parts, where = parts[order], where[order]
    first = np.append(True, (where[1:] != where[:-1]).any(axis=1))[: len(parts)]
    if first.all():
        return parts
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(parts))
    merged = parts[starts]
    for at in np.flatnonzero(ends - starts > 1).tolist():
        for other in parts[starts[at] + 1 : ends[at]]:
            gaps = np.isnan(merged[at, PART_HEAD:])
            merged[at, PART_HEAD:][gaps] = other[PART_HEAD:][gaps]
    return merged


def renew_clients(state: BucketState) -> None:
    """Bring the table of clients up to what the new readings say."""
    fresh = np.flatnonzero(state.rows[:, FRESH] > 0)
    if not len(fresh):
        return
    rows, table = state.rows[fresh], state.clients
    client = rows[:, WHO].astype(np.int64)
    newest = np.full(len(table), -np.inf)
    np.maximum.at(newest, client, rows[:, TS])
    np.minimum.at(table[:, FIRST], client, rows[:, TS])
    touched = np.unique(client)
    table[touched, LAST] = np.maximum(table[touched, LAST], newest[touched])
    last = np.flatnonzero(np.append(client[1:] != client[:-1], True))
    table[client[last], EVERY] = rows[last, INTERVAL]
    new = touched[table[touched, MINUTE] == 0]
    table[new, MINUTE] = table[new, FIRST] // 60_000 * 60_000
    configured = np.flatnonzero(rows[:, CONFIG] >= 0)
    table[client[configured], OPTIONS] = rows[configured, CONFIG]
    for position, column in enumerate(_LEFT_COLUMNS):
        reported = np.flatnonzero(~np.isnan(rows[:, column]))
        table[client[reported], LEFT + position] = rows[reported, column]


def intervals(state: BucketState) -> NDArray[np.float64]:
    """How often each client reports, in ms: as it says, or where that is seldom, as its readings show."""
    every = state.clients[:, EVERY].copy()
    rows = state.rows
    if not len(rows):
        return every
    client = rows[:, WHO].astype(np.int64)
    counts = np.bincount(client, minlength=len(every))
    first = np.searchsorted(client, np.arange(len(every)))
    many = np.flatnonzero(counts >= 3)
    last = first[many] + counts[many] - 1
    mean = (rows[last, TS] - rows[first[many], TS]) / (counts[many] - 1)
    for at in np.flatnonzero((mean > USUAL_INTERVAL_MS) | (every[many] > USUAL_INTERVAL_MS)).tolist():
        number = many[at]
        times = rows[first[number] : first[number] + counts[number], TS]
        every[number] = float(np.median(np.diff(times)))
    return every


def grid_of(state: BucketState, settings: MonitorSettings) -> Grid:
    """The windows of each client: the usual ones, longer ones for clients that report more seldom."""
    slide, length = 1000 * settings.slide_seconds, 1000 * settings.window_seconds
    every = np.minimum(intervals(state), MAX_INTERVAL_MS)
    times = np.where(every > USUAL_INTERVAL_MS, np.ceil(INTERVALS * every / length), 1.0)
    times = np.maximum(times, 1.0).astype(np.int64)
    return Grid(slide * times, length * times)


def horizons(state: BucketState, settings: MonitorSettings) -> NDArray[np.float64]:
    """The time (epoch ms, the client's own clock) up to which the windows of each client are closed."""
    if not len(state.clients):
        return np.empty(0)
    last = state.clients[:, LAST]
    clock = np.minimum(last, state.time_ms) if state.time_ms else last
    return np.where(last > 0, clock - 1000.0 * settings.watermark_seconds, -np.inf)


def evict(state: BucketState, settings: MonitorSettings, grid: Grid) -> None:
    """Drop the readings that no window needs any more."""
    if not len(state.rows):
        return
    horizon = horizons(state, settings)
    client = state.rows[:, WHO].astype(np.int64)
    keep_rows(state, state.rows[:, TS] + grid.length[client] > horizon[client])


def keep_rows(state: BucketState, keep: NDArray[np.bool_]) -> None:
    """Keep these rows, and what they say of topics."""
    if keep.all():
        return
    new_row = np.cumsum(keep) - 1
    if len(state.parts):
        row = state.parts[:, ROW].astype(np.int64)
        state.parts = state.parts[keep[row]]
        state.parts[:, ROW] = new_row[row[keep[row]]]
    state.rows = state.rows[keep]


def forget(state: BucketState, gone: Iterable[int]) -> None:
    """Drop clients with all that is kept of them but their open incidents."""
    drop = np.zeros(len(state.whos), bool)
    drop[list(gone)] = True
    if not drop.any():
        return
    if len(state.rows):
        keep_rows(state, ~drop[state.rows[:, WHO].astype(np.int64)])
        state.rows[:, WHO] = (np.cumsum(~drop) - 1)[state.rows[:, WHO].astype(np.int64)]
    state.clients = state.clients[~drop]
    state.whos = [who for who, is_gone in zip(state.whos, drop.tolist(), strict=True) if not is_gone]


def compact(state: BucketState) -> None:
    """Drop the texts and configurations that nothing points to any more."""
    used = np.unique(
        np.concatenate([state.rows[:, TOPIC], state.parts[:, PART_TOPIC], state.parts[:, PART_THREAD]]).astype(np.int64)
    )
    used = used[used >= 0]
    if len(used) < len(state.names):
        new_position = np.full(len(state.names) + 1, -1, np.int64)
        new_position[used] = np.arange(len(used))
        state.names = [state.names[at] for at in used.tolist()]
        for matrix, column in ((state.rows, TOPIC), (state.parts, PART_TOPIC), (state.parts, PART_THREAD)):
            matrix[:, column] = new_position[matrix[:, column].astype(np.int64)]
    used_configs = np.unique(np.concatenate([state.rows[:, CONFIG], state.clients[:, OPTIONS]]).astype(np.int64))
    used_configs = used_configs[used_configs >= 0]
    if len(used_configs) < len(state.configs):
        new_position = np.full(len(state.configs) + 1, -1, np.int64)
        new_position[used_configs] = np.arange(len(used_configs))
        state.configs = [state.configs[at] for at in used_configs.tolist()]
        state.rows[:, CONFIG] = new_position[state.rows[:, CONFIG].astype(np.int64)]
        state.clients[:, OPTIONS] = new_position[state.clients[:, OPTIONS].astype(np.int64)]


def totals_added_up(rows: Matrix, whos: Sequence[Who]) -> Matrix:
    """Rows in which totals that count since the reading before (OTLP's delta temporality) count on from the first."""
    client = rows[:, WHO].astype(np.int64)
    of_delta = np.unique(client[rows[:, DELTA] > 0]) if len(rows) else np.empty(0, np.int64)
    if not len(of_delta):
        return rows
    cumulative = rows.copy()
    for number in of_delta.tolist():
        of_client = np.flatnonzero(client == number)
        for position, name in enumerate(CLIENT_METRICS[whos[number].kind]):
            if name.endswith("-total"):
                values = rows[of_client, HEAD + position]
                cumulative[of_client, HEAD + position] = np.where(np.isnan(values), np.nan, np.nancumsum(values))
    return cumulative
