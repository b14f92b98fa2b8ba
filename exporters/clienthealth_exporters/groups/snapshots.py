"""From readings of consumer groups to canonical snapshots of them, and since when each commit stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition

from clienthealth.model import canonical
from clienthealth.model.clients import Client
from clienthealth_exporters.groups.reader import Group, GroupsReading


class _Commit(NamedTuple):
    offset: int
    seen_to_change_ms: int | None


class Snapshots:
    """Makes canonical snapshots of readings of one cluster, and knows since when each commit stands.

    Brokers do not tell when an offset was committed. `commit-timestamp-ms` is the time of the first reading that saw
    it changed; a commit that is older than the exporter has none.
    """

    def __init__(self, cluster: str, service: str) -> None:
        self._cluster = cluster
        self._service = service
        self._commits: dict[str, dict[TopicPartition, _Commit]] = {}

    def from_reading(self, reading: GroupsReading) -> Iterator[dict[str, Any]]:
        """One snapshot per group that was read."""
        for name in self._commits.keys() - reading.names:
            del self._commits[name]
        for group in reading.groups:
            before = self._commits.get(group.name, {})
            commits = {
                tp: _commit(before.get(tp), offsets.committed, reading.ts_ms) for tp, offsets in group.offsets.items()
            }
            self._commits[group.name] = commits
            yield self._snapshot(group, commits, reading.ts_ms)

    def _snapshot(self, group: Group, commits: Mapping[TopicPartition, _Commit], ts_ms: int) -> dict[str, Any]:
        who = Client(self._service, "", self._cluster, group.name, "group", "broker", group=group.name)
        metrics = {} if group.members is None else {"members": group.members}
        topics = [_topic(group, tp, commit) for tp, commit in commits.items()]
        return canonical.snapshot(who, ts_ms, metrics, topics, {"group.state": group.state})


def _commit(before: _Commit | None, offset: int, ts_ms: int) -> _Commit:
    if before is None:
        return _Commit(offset, None)
    return before if before.offset == offset else _Commit(offset, ts_ms)


def _topic(group: Group, tp: TopicPartition, commit: _Commit) -> dict[str, Any]:
    _, end, start = group.offsets[tp]
    owner = group.owners.get(tp)
    metrics = {"committed-offset": commit.offset}
    if commit.seen_to_change_ms is not None:
        metrics["commit-timestamp-ms"] = commit.seen_to_change_ms
    if end is not None:
        metrics["end-offset"] = end
    if start is not None:
        metrics["start-offset"] = start
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "thread": None,
        "metrics": metrics,
        "member": None if owner is None else owner._asdict(),
    }
