"""Convert consumer group samples of tests into the input of the lag computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clienthealth.measure.lag import Observation, Partition, group_lag
from clienthealth.settings import LagSettings

OFFSETS = ("committed_offset", "end_offset", "start_offset", "commit_timestamp_ms")


def lag_of(group: str, readings: Sequence[Mapping[str, Any]], limits: LagSettings) -> dict[str, Any]:
    histories: dict[Partition, list[Observation]] = {}
    for reading in readings:
        for t in reading["topics"]:
            committed, end, start, commit_ts = (t[name] for name in OFFSETS)
            histories.setdefault((t["topic"], t["partition"]), []).append(
                (reading["ts_ms"], committed, end, start, commit_ts)
            )
    owners = {(t["topic"], t["partition"]): t["member"] for t in readings[-1]["topics"]}
    now = {where: histories[where] for where in sorted(owners)}
    return group_lag(group, now, owners, readings[-1]["members"], limits)
