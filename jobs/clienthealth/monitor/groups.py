"""Compute the lag of consumer groups from their committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.lag import Observation, Partition, group_lag
from clienthealth.measure.lag_state import FINE
from clienthealth.measure.packed import Chunk, GroupReading
from clienthealth.model.clients import Client
from clienthealth.model.health_record import worst
from clienthealth.model.values import grouped
from clienthealth.monitor.client_verdicts import Content, Record
from clienthealth.monitor.minutes import MINUTE_MS, Row
from clienthealth.monitor.state import BucketState, GroupState
from clienthealth.settings import LagSettings, Settings

Matrix = NDArray[np.int64]
COLUMNS = 6


def take(state: BucketState, chunks: Sequence[Chunk], settings: Settings) -> tuple[list[Record], list[Row]]:
    """Add samples of consumer groups to the state. Return (records, rows of the history).

    Each group with new samples has one record. The row of a minute is returned when no further sample can change it.
    """
    new = grouped((reading for chunk in chunks for reading in chunk.groups), lambda reading: reading.client.home)
    records: list[Record] = []
    minutes: list[Row] = []
    for home, readings in new.items():
        group = state.groups.get(home) or GroupState(readings[0].client)
        _enter(group, readings)
        state.groups.remember(home, group, state.time_ms)
        records.append(_record(group, settings, minutes))
    limit = state.time_ms - 1000 * settings.lag.window_seconds
    for entered_ms, group in state.groups.kept.values():
        silent_ms = state.time_ms - entered_ms + state.idle_ms
        over_ms = group.newest_ms + silent_ms - 1000 * settings.monitor.watermark_seconds - MINUTE_MS
        if group.minute is not None and (group.minute["minute"] <= over_ms or entered_ms < limit):
            minutes.append(group.minute)
            group.unwritten_ms = group.minute["minute"] + MINUTE_MS
            group.minute = None
    return records, minutes


def _enter(group: GroupState, readings: Sequence[GroupReading]) -> None:
    positions = {(topic, number): position for position, (topic, number, _) in enumerate(group.partitions)}
    rows = []
    for reading in sorted(readings, key=lambda r: r.ts_ms):
        for p in reading.partitions:
            if (position := positions.get((p.topic, p.partition))) is None:
                position = positions[p.topic, p.partition] = len(group.partitions)
                group.partitions.append((p.topic, p.partition, p.member))
            elif reading.ts_ms >= group.newest_ms:
                group.partitions[position] = (p.topic, p.partition, p.member)
            numbers = (p.committed, p.end, p.start, p.commit_ms)
            rows.append((reading.ts_ms, position, *(-1 if n is None else n for n in numbers)))
        if reading.ts_ms >= group.newest_ms:
            group.newest_ms, group.members, group.client = reading.ts_ms, reading.members, reading.client
    data = np.concatenate([_observations(group), np.array(rows, np.int64).reshape(-1, COLUMNS)])
    group.data = data[np.argsort(data[:, 0], kind="stable")].tobytes()


def _observations(group: GroupState) -> Matrix:
    return np.frombuffer(group.data, np.int64).reshape(-1, COLUMNS)


def window_start(ts_ms: int, limits: LagSettings) -> int:
    """Return the start of the oldest lag window that contains `ts_ms`."""
    slide, window = 1000 * limits.slide_seconds, 1000 * limits.window_seconds
    return ts_ms // slide * slide + slide - window


def _record(group: GroupState, settings: Settings, minutes: list[Row]) -> Record:
    """Return the group's record, and append finished minutes to `minutes`."""
    data = _observations(group)
    times = np.unique(data[:, 0])
    running = group.minute["minute"] if group.minute else group.unwritten_ms
    lasts = times[np.append(np.diff(times // MINUTE_MS) > 0, True)] if len(times) else times
    for last in [int(t) for t in lasts.tolist() if t // MINUTE_MS * MINUTE_MS >= running] or [group.newest_ms]:
        inside = data[(data[:, 0] >= window_start(last, settings.lag)) & (data[:, 0] <= last)]
        histories, owners = _histories(group, inside, last)
        client, samples = group.client, len(np.unique(inside[:, 0]))
        indicators = group_lag(client.group or client.client_id, histories, owners, group.members, settings.lag)
        row = _minute(client, last, samples, indicators)
        if group.minute is not None and group.minute["minute"] < row["minute"]:
            minutes.append(group.minute)
        group.minute = row if row["minute"] >= group.unwritten_ms else None
    group.data = data[data[:, 0] >= window_start(group.newest_ms, settings.lag)].tobytes()
    content = Content.of([])._replace(worst="ok" if row["lag_state"] in FINE else worst([]))
    return content.record(client, (window_start(last, settings.lag), last), samples, last, indicators)


def _histories(
    group: GroupState, data: Matrix, last_ms: int
) -> tuple[dict[Partition, list[Observation]], dict[Partition, dict[str, Any] | None]]:
    present = np.unique(data[data[:, 0] == last_ms, 1]).tolist()
    data = data[np.argsort(data[:, 1], kind="stable")]
    begins, ends = (np.searchsorted(data[:, 1], present, side).tolist() for side in ("left", "right"))
    by_position: dict[int, list[Observation]] = {}
    for position, begin, end in zip(present, begins, ends, strict=True):
        times, *offsets = (data[begin:end, column] for column in (0, 2, 3, 4, 5))
        columns = [
            [None if number < 0 else number for number in column.tolist()] if (column < 0).any() else column.tolist()
            for column in offsets
        ]
        by_position[position] = list(zip(times.tolist(), *columns, strict=True))
    named = sorted((group.partitions[position][:2], position) for position in present)
    members = {where: group.partitions[position][2] for where, position in named}
    owners = {where: member if member is None else msgspec.structs.asdict(member) for where, member in members.items()}
    return {where: by_position[position] for where, position in named}, owners


def _minute(client: Client, last_ms: int, samples: int, indicators: Mapping[str, Any]) -> Row:
    lags = indicators["lag"]
    behind = max(lags, key=lambda lag: (lag["records"] or -1, lag["seconds"] or -1.0, lag["topic"]), default=None)
    row: Row = {
        "minute": last_ms // MINUTE_MS * MINUTE_MS,
        **msgspec.structs.asdict(client),
        "samples": samples,
        "status": worst([]),
        "modes": [],
        "lag_state": indicators["group"]["status"],
    }
    if behind is not None:
        row |= {f"lag_{name}": behind[name] for name in ("records", "seconds", "topic") if behind[name] is not None}
    return row
