"""Merge new samples of a bucket into the kept samples, and drop samples that no window needs.

A client's wrong clock never affects other clients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

import numpy as np

from clienthealth.measure.columns import Bools, Floats, Ints, begins, or_zero, ranks
from clienthealth.measure.packed import Chunk, Parts, Readings
from clienthealth.measure.packer import SKEW_MS
from clienthealth.model.clients import Client
from clienthealth.model.metrics import CLIENT_METRICS, LEAST, TOPIC_METRICS, UNDELIVERED
from clienthealth.monitor.state import BucketState, Clients
from clienthealth.settings import MonitorSettings

T = TypeVar("T")
Identity = tuple[str, str, str, str]
Numbers = dict[Identity, int]

#: A client's index and a time are combined in one sortable number. The lower SHIFT bits are the time (epoch ms).
SHIFT = 48
#: A window lasts for at least INTERVALS reporting intervals. For a longer interval than MAX_INTERVAL_MS,
#: MAX_INTERVAL_MS is used.
INTERVALS = 4
MAX_INTERVAL_MS = 300_000
USUAL_INTERVAL_MS = 15_000
#: After a client's clock was set back, the client's new samples may be late. The monitor accepts a step back of at most
#: SET_BACK_MS when the newest time in the client's samples has not changed for STANDS_MS.
SET_BACK_MS, STANDS_MS = 600_000, 45_000
NEVER_MS, EVER_MS = -(1 << 62), 1 << 62

#: For each kind of client, and for topics, the positions of the counters.
_COUNTERS = {
    of: np.flatnonzero([name.endswith("-total") for name in metrics])
    for of, metrics in {**CLIENT_METRICS, "topic": TOPIC_METRICS}.items()
}
_UNDELIVERED = [list(CLIENT_METRICS["producer"]).index(name) for name in UNDELIVERED]


@dataclass
class Grid:
    """The windows of each client. Windows start at multiples of `slide` (ms), and last for `length` (ms)."""

    slide: Ints
    length: Ints


def take(state: BucketState, chunks: Sequence[Chunk], settings: MonitorSettings, numbers: Numbers) -> int:
    """Merge the chunks' samples into the state, sorted, with one sample per client and time.

    Returns the number of late samples, for which all windows are closed. A window closes when both the client's clock
    and the watermark are `watermark_seconds` past its end. `numbers`: maps the identity of each client to its index in
    the state; new clients are added.
    """
    late = 0
    arrived = [(chunk, chunk.readings) for chunk in chunks]
    entering = [(chunk, new, _numbered(state, chunk.all_clients, numbers)) for chunk, new in arrived if len(new)]
    for chunk, _, numbered in entering:
        np.maximum.at(state.clients.last_seen, numbered, chunk.last_seen)
    _set_back(state, [(numbered[new.client], new.ts) for _, new, numbered in entering])
    horizon, grid = horizons(state, settings), grid_of(state, settings)
    names = defaultdict(count(len(state.names)).__next__, zip(state.names, count(), strict=False))
    readings, parts, rows = [state.readings], [state.parts], len(state.readings)
    for chunk, new, numbered in entering:
        of_topics = chunk.topic_parts
        # An index of -1 in `new.topic` means no name. The last element of `name_at` is -1, so the index -1 selects -1,
        # and stays the same.
        name_at = np.array([*map(names.__getitem__, chunk.names), -1])
        new.client, new.topic = numbered[new.client], name_at[new.topic]
        for config in chunk.configs:
            if config not in state.configs:
                state.configs.append(config)
        new.config = np.array([*map(state.configs.index, chunk.configs), -1])[new.config]
        slide = grid.slide[new.client]
        still_open = new.ts // slide * slide + grid.length[new.client] > horizon[new.client]
        new, of_topics = kept(new, of_topics, still_open)
        late += int((~still_open).sum())
        for table in (new, of_topics):
            known = np.where((table.values >= 0) & (table.values < np.inf), table.values, np.nan)
            table.values = np.where(known < LEAST, 0.0, known)
        of_topics.row = of_topics.row + rows
        of_topics.topic, of_topics.thread = name_at[of_topics.topic], name_at[of_topics.thread]
        readings.append(new)
        parts.append(of_topics)
        rows += len(new)
    state.names = list(names)
    state.readings, state.parts = in_order(Readings.joined(readings), Parts.joined(parts), state.names)
    return late


def _set_back(state: BucketState, new: Iterable[tuple[Ints, Ints]]) -> None:
    """Accept a clock that was set back, because otherwise the client's new samples would be late."""
    clients = state.clients
    newest = np.full(len(clients), NEVER_MS)
    for client, ts in new:
        np.maximum.at(newest, client, ts)
    back = np.where(newest > NEVER_MS, clients.last - newest, 0)
    behind = clients.last_seen - clients.last
    ahead = (behind < -SKEW_MS) & (np.abs(newest - clients.last_seen) <= SKEW_MS)
    stopped = (behind > np.maximum(STANDS_MS, 3 * clients.every)) & (back <= SET_BACK_MS)
    some = (back > SKEW_MS) & (ahead | stopped)
    if some.any():
        clients.last[some] = newest[some]
        client, ts = state.readings.client, state.readings.ts
        keep_readings(state, ~some[client] | (ts <= clients.last[client]))


def _numbered(state: BucketState, all_clients: Sequence[Client], numbers: Numbers) -> Ints:
    numbered = np.empty(len(all_clients), np.int64)
    for position, client in enumerate(all_clients):
        if (number := numbers.get(client.identity)) is None:
            number = numbers[client.identity] = len(state.all_clients)
            state.all_clients.append(client)
        elif state.all_clients[number] != client:
            state.all_clients[number] = client
            # A field of the client has changed, so the record must be published again.
            state.clients.published[number : number + 1] = 0
        numbered[position] = number
    if new := len(state.all_clients) - len(state.clients):
        columns = (np.full(new, value) for value in (EVER_MS, 0, 0, 10_000, 0, -1, 0, 0))
        state.clients = Clients.joined([state.clients, Clients(np.full((new, len(UNDELIVERED)), np.nan), *columns)])
    return numbered


def keys(readings: Readings) -> Ints:
    return (readings.client << SHIFT) | readings.ts


def in_order(readings: Readings, parts: Parts, names: Sequence[str]) -> tuple[Readings, Parts]:
    """Sort samples by client and time.

    Samples of one client with equal times are merged, because some formats have one metric per record. Values
    per topic are sorted and merged by sample, topic name, partition and thread.
    """
    key = keys(readings)
    order = np.argsort(key, kind="stable")
    is_first = begins(key[order])
    readings = readings.at(order)
    if not is_first.all():
        starts = np.flatnonzero(is_first)
        readings = replace(readings.merged(starts), fresh=np.maximum.reduceat(readings.fresh, starts))
    if len(parts):
        new_row = np.empty(len(order), np.int64)
        new_row[order] = np.cumsum(is_first) - 1
        parts.row = new_row[parts.row]
        order = np.lexsort((parts.thread, parts.partition, ranks(names)[parts.topic], parts.row))
        parts = parts.at(order)
        is_first = begins(parts.row, parts.topic, parts.partition, parts.thread)
        if not is_first.all():
            parts = parts.merged(np.flatnonzero(is_first))
    return readings, parts


def renew_clients(state: BucketState) -> None:
    new, clients = state.readings.at(state.readings.fresh > 0), state.clients
    np.minimum.at(clients.first, new.client, new.ts)
    np.maximum.at(clients.last, new.client, new.ts)
    clients.every[new.client] = new.interval
    unwritten = np.unique(new.client[clients.minute[new.client] == 0])
    clients.minute[unwritten] = clients.first[unwritten] // 60_000 * 60_000
    configured = new.config >= 0
    clients.published[new.client[configured & (clients.config[new.client] != new.config)]] = 0
    clients.config[new.client[configured]] = new.config[configured]
    for position, column in enumerate(_UNDELIVERED):
        reported = ~np.isnan(new.values[:, column])
        clients.values[new.client[reported], position] = new.values[reported, column]


def intervals(state: BucketState) -> Floats:
    """Return each client's reporting interval (ms).

    If the reported interval or the mean time between samples exceeds USUAL_INTERVAL_MS (15 s), the median time between
    samples is returned.
    """
    every = state.clients.every.astype(np.float64)
    client, ts = state.readings.client, state.readings.ts
    counts = np.bincount(client, minlength=len(every))
    first = np.searchsorted(client, np.arange(len(every)))
    many = np.flatnonzero(counts >= 3)
    last = first[many] + counts[many] - 1
    mean = (ts[last] - ts[first[many]]) / (counts[many] - 1)
    seldom = np.zeros(len(every), bool)
    seldom[many] = (mean > USUAL_INTERVAL_MS) | (every[many] > USUAL_INTERVAL_MS)
    later = np.flatnonzero((client[1:] == client[:-1]) & seldom[client[1:]]) + 1
    of_client, gaps = client[later], ts[later] - ts[later - 1]
    # Sorting the numbers keeps the order of clients, because the upper bits of each number are the client's index.
    gaps = np.sort((of_client << SHIFT) | gaps) & ((1 << SHIFT) - 1)
    begin = np.flatnonzero(np.diff(of_client, prepend=-1))
    number, count = of_client[begin], np.diff(begin, append=len(of_client))
    every[number] = (gaps[begin + (count - 1) // 2] + gaps[begin + count // 2]) / 2
    return every


def grid_of(state: BucketState, settings: MonitorSettings) -> Grid:
    """Return the slide and the length (ms) of each client's windows.

    The length is `window_seconds`, or more if the client's reporting interval exceeds USUAL_INTERVAL_MS (15 s).
    """
    slide, length = 1000 * settings.slide_seconds, 1000 * settings.window_seconds
    every = np.minimum(intervals(state), MAX_INTERVAL_MS)
    times = np.where(every > USUAL_INTERVAL_MS, np.ceil(INTERVALS * every / length), 1.0).astype(np.int64)
    return Grid(slide * times, length * times)


def horizons(state: BucketState, settings: MonitorSettings) -> Ints:
    """Return, for each client, the time (epoch ms, by its own clock) up to which its windows are closed.

    A closed window gets no new samples.
    """
    last = state.clients.last
    clock = np.minimum(last, state.time_ms) if state.time_ms else last
    return np.where(last > 0, clock - 1000 * settings.watermark_seconds, NEVER_MS)


def evict(state: BucketState, settings: MonitorSettings, grid: Grid) -> None:
    client, ts = state.readings.client, state.readings.ts
    keep_readings(state, ts > (horizons(state, settings) - grid.length)[client])


def keep_readings(state: BucketState, keep: Bools) -> None:
    state.readings, state.parts = kept(state.readings, state.parts, keep)


def kept(readings: Readings, parts: Parts, keep: Bools) -> tuple[Readings, Parts]:
    if keep.all():
        return readings, parts
    parts = parts.at(keep[parts.row])
    return readings.at(keep), replace(parts, row=(np.cumsum(keep) - 1)[parts.row])


def forget(state: BucketState, gone: Iterable[int]) -> None:
    """Drop the clients `gone` and their samples, but keep their incidents and log entries."""
    stays = np.ones(len(state.all_clients), bool)
    stays[list(gone)] = False
    if stays.all():
        return
    keep_readings(state, stays[state.readings.client])
    state.readings.client = (np.cumsum(stays) - 1)[state.readings.client]
    state.clients = state.clients.at(stays)
    state.all_clients = [client for client, stay in zip(state.all_clients, stays.tolist(), strict=True) if stay]


def compact(state: BucketState) -> None:
    readings, parts, clients = state.readings, state.parts, state.clients
    state.names, position = _pointed_to(state.names, readings.topic, parts.topic, parts.thread)
    readings.topic, parts.topic, parts.thread = position[readings.topic], position[parts.topic], position[parts.thread]
    state.configs, position = _pointed_to(state.configs, readings.config, clients.config)
    readings.config, clients.config = position[readings.config], position[clients.config]


def _pointed_to(texts: list[T], *positions: Ints) -> tuple[list[T], Ints]:
    """Return the texts to which `positions` point, and an array with the new index of each text (-1 if dropped)."""
    used = np.zeros(len(texts) + 1, bool)
    for column in positions:
        used[column] = True
    used[-1] = False
    new_position = np.where(used, np.cumsum(used) - 1, -1)
    return [texts[at] for at in np.flatnonzero(used).tolist()], new_position


def totals_added_up(readings: Readings, parts: Parts, all_clients: Sequence[Client]) -> tuple[Readings, Parts]:
    """Return the samples and their values per topic, with totals in place of deltas (OTLP)."""
    of_delta = np.unique(readings.client[readings.delta > 0])
    if not len(of_delta):
        return readings, parts
    values, of_topics, client = readings.values.copy(), parts.values.copy(), readings.client[parts.row]
    for kind in CLIENT_METRICS:
        of_kind = [number for number in of_delta.tolist() if all_clients[number].kind == kind]
        _add_up(values, np.flatnonzero(np.isin(readings.client, of_kind)), _COUNTERS[kind], readings.client)
    rows = np.flatnonzero(np.isin(client, of_delta))
    same = parts.thread, parts.partition, parts.topic, client
    rows = rows[np.lexsort([column[rows] for column in same])]
    _add_up(of_topics, rows, _COUNTERS["topic"], *same)
    return replace(readings, values=values), replace(parts, values=of_topics)


def _add_up(values: Floats, rows: Ints, counters: Ints, *same: Ints) -> None:
    """Replace deltas by totals.

    `rows`      the rows with deltas, in order. Adjacent rows that are equal in all columns `same` are added up
    `counters`  the positions of the deltas in each row
    """
    where = np.ix_(rows, counters)
    deltas = values[where]
    totals = or_zero(deltas)
    begin = np.flatnonzero(begins(*(column[rows] for column in same)))
    position = np.arange(len(rows)) - np.repeat(begin, np.diff(begin, append=len(rows)))
    for number in range(1, position.max(initial=0) + 1):
        later = np.flatnonzero(position == number)
        totals[later] += totals[later - 1]
    values[where] = np.where(np.isnan(deltas), np.nan, totals)


def skew_seconds(state: BucketState, now_ms: int) -> Floats:
    """Return by how many seconds each client's clock is ahead (negative: behind). Deviations up to a minute count as 0.

    `now_ms`: this machine's clock.
    """
    ahead = state.clients.last - np.minimum(state.clients.last_seen, now_ms)
    return np.where(np.abs(ahead) > SKEW_MS, np.round(ahead / 1000), 0.0)


def skew_words(skew_seconds: float) -> str:
    """Return a clock's deviation in words. `skew_seconds`: seconds ahead; negative: behind."""
    if skew_seconds > 0:
        return f"clock ahead by {skew_seconds:.0f} s"
    return f"clock behind by {-skew_seconds:.0f} s, or samples arrive {-skew_seconds:.0f} s late"
