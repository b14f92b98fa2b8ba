"""`kafka-health export groups`: publish the committed offsets of all groups, and the offsets of their partitions.

A *reading* is one pass over those groups of a cluster that are due (see `reader.Pace`).
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from clienthealth.configuration import load
from clienthealth.model import canonical
from clienthealth.model.clients import Client
from clienthealth.model.errors import InputError, ServiceError, SettingsError
from clienthealth.platform import kafka
from clienthealth.platform.stopping import stop_event
from clienthealth.settings import Settings
from clienthealth_exporters.groups.reader import GroupReader, GroupsReading, Member
from clienthealth_exporters.publish import Publisher

log = logging.getLogger(__name__)

RECONNECT_MS = 1000
DELIVERY_SECONDS = 1.0
WATCHED_SECONDS = 2.0
WATCHED_MEMBERS_SECONDS = 10.0
LEFT_OUT = "cluster %s: the settings `include` and `exclude` in [groups] leave out %d groups"


class Cluster(NamedTuple):
    """A cluster with groups to read."""

    name: str
    settings: Settings

    def reader(self) -> GroupReader:
        return GroupReader(connection(self.settings), self.settings.groups)

    def snapshots(self) -> Snapshots:
        return Snapshots(self.name, self.settings.groups.service)


def clusters(settings: Settings) -> list[Cluster]:
    """Return the cluster in [kafka], then the further clusters in `[groups] clusters`.

    Raises SettingsError if two clusters have the same name, or if a cluster's settings are wrong.
    """
    all_clusters = [Cluster(settings.prometheus.cluster_name, settings)]
    for name, file in settings.groups.clusters.items():
        if any(name == cluster.name for cluster in all_clusters):
            raise SettingsError(
                f"[groups] clusters: '{name}' is already the name of the cluster in [kafka]; choose another "
                "name, or change [prometheus] cluster_name"
            )
        all_clusters.append(Cluster(name, load(file, environ={})))
    return all_clusters


def only(settings: Settings, group: str) -> Settings:
    """Return settings for reading only one group: its offsets every 2 s, and its members every 10 s."""
    groups = replace(
        settings.groups,
        include=re.escape(group),
        exclude="",
        interval_seconds=WATCHED_SECONDS,
        idle_interval_seconds=WATCHED_SECONDS,
        members_interval_seconds=WATCHED_MEMBERS_SECONDS,
    )
    return replace(settings, groups=groups)


def readings(settings: Settings, group: str) -> Generator[list[dict[str, Any]], None, None]:
    """Yield a list with the group's snapshot at each reading. The list is empty if the reading skips the group.

    Raises InputError if there is no such group. Raises ServiceError if the group cannot be read.
    """
    cluster = Cluster(settings.prometheus.cluster_name, settings)
    snapshots = cluster.snapshots()
    with closing(cluster.reader()) as reader:
        while True:
            reading = reader.read()
            if group in reading.failed_groups:
                raise ServiceError(f"group '{group}' could not be read: {reading.failed_groups[group]}")
            if group not in reading.names:
                for tp, why in reading.failed_partitions.items():
                    if tp.topic == kafka.OFFSETS_TOPIC:
                        raise ServiceError(
                            f"group '{group}' was not found, but its offsets may be in {tp.topic}/{tp.partition}, "
                            f"which cannot be read: {why}"
                        )
                raise InputError(
                    f"there is no consumer group '{group}': list all groups with 'kafka-health export groups --once'"
                )
            yield list(snapshots.from_reading(reading))


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Publish until SIGTERM or Ctrl-C, and return 0.

    With `--once`, print one reading of each cluster. Then return 1 if a group or partition could not be read, else 0.
    Raises InputError for `--json` without `--once`.
    """
    if args.json and not args.once:
        raise InputError("--json needs --once")
    if args.once:
        return max([once(cluster, as_json=args.json) for cluster in clusters(settings)])
    serve(settings, stop_event())
    return 0


def connection(settings: Settings) -> Callable[[], KafkaAdminClient]:
    """Return a function that opens an admin connection with the settings' timeout and security."""
    timeout_ms = round(settings.groups.timeout_seconds * 1000)
    return lambda: kafka.admin(
        settings,
        client_id="kafka-health-groups",
        request_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=timeout_ms,
        reconnect_backoff_max_ms=RECONNECT_MS,
    )


def once(cluster: Cluster, as_json: bool) -> int:
    """Read a cluster once and print its groups. Return 1 if a group or partition could not be read, else 0.

    Raises ServiceError if no group can be read.
    """
    with closing(cluster.reader()) as reader:
        reading = reader.read()
    if as_json:
        for snapshot in cluster.snapshots().from_reading(reading):
            sys.stdout.write(json.dumps(snapshot, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(table(reading))
    if reading.left_out:
        sys.stderr.write(LEFT_OUT % (cluster.name, reading.left_out) + "\n")
    for what, why in reading.failures.items():
        sys.stderr.write(f"{what} could not be read: {why}\n")
    return 1 if reading.failures else 0


def serve(settings: Settings, stop: threading.Event) -> None:
    """Publish the groups of all clusters until `stop` is set, even while brokers fail."""
    all_clusters = clusters(settings)
    with ThreadPoolExecutor(len(all_clusters), "cluster") as threads:
        for _, each in all_clusters:
            often = each.groups.interval_seconds
            log.info("consumer groups of %s are read every %g s", each.kafka.bootstrap_servers, often)
        tasks = [threads.submit(GroupExporter(settings, cluster).run, stop) for cluster in all_clusters]
        wait(tasks, return_when=FIRST_EXCEPTION)
        stop.set()
    for task in tasks:
        task.result()


def next_reading(now: float, interval: float, lead: float) -> float:
    """Return the time (epoch s) of the next reading: the first time after `now` that is `lead` seconds before a batch.

    The monitor's batches begin at multiples of `interval` (s). If `lead` is at least `interval`, return `now`.
    """
    return now if lead >= interval else ((now + lead) // interval + 1) * interval - lead


class GroupExporter:
    """Read the groups of a cluster continuously, and publish their snapshots."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster.name
        self._reader = cluster.reader()
        self._snapshots = cluster.snapshots()
        self._publisher: Publisher | None = None
        self._failing: dict[str, str] = {}
        self.interval_seconds = cluster.settings.groups.interval_seconds
        self.failures_total = 0

    def run(self, stop: threading.Event) -> None:
        """Read and publish the groups until `stop` is set."""
        try:
            while not stop.is_set():
                began = time.time()
                self.cycle()
                now = time.time()
                stop.wait(next_reading(now, self.interval_seconds, now - began + DELIVERY_SECONDS) - now)
        finally:
            self.close()

    def cycle(self) -> int:
        """Read the groups once and publish them. Return the number of published snapshots."""
        try:
            reading = self._reader.read()
            if self._publisher is None:
                self._publisher = Publisher.to(self._settings, "kafka-health-groups")
                if reading.left_out:
                    log.info(LEFT_OUT, self._cluster, reading.left_out)
        except ServiceError as error:
            self._note({"the cluster": str(error)})
            return 0
        self._note(reading.failures)
        published = 0
        for snapshot in self._snapshots.from_reading(reading):
            self._publisher.send(self._settings.topics.metrics[0], canonical.key(snapshot), snapshot)
            published += 1
        return published

    def close(self) -> None:
        """Close all connections, after delivering the records in flight."""
        self._reader.close()
        if self._publisher is not None:
            self._publisher.close()

    def _note(self, failing: Mapping[str, str]) -> None:
        """Count the present failures, and log each failure that begins or ends.

        `failing`: maps what could not be read (a group, the end of a partition, the cluster) to the reason.
        """
        self.failures_total += len(failing)
        for what in failing.keys() - self._failing.keys():
            log.warning("cluster %s: %s cannot be read: %s", self._cluster, what, failing[what])
        for what in self._failing.keys() - failing.keys():
            log.info("cluster %s: %s can be read again", self._cluster, what)
        self._failing = dict(failing)


def table(reading: GroupsReading) -> Iterator[str]:
    """Yield the lines of a table of partitions, and of members without partitions."""
    layout = "{:<32} {:<9} {:<19} {:<28} {:>9} {:>12} {:>12} {:>10}  {}\n"
    yield layout.format("GROUP", "TYPE", "STATE", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
    for group in reading.groups:
        rows: list[tuple[object, ...]] = []
        for tp, (committed, end, _) in group.offsets.items():
            lag = ("?", "?") if end is None else (end, max(0, end - committed))
            rows.append((*tp, committed, *lag, _in_words(group.owners.get(tp))))
        owning = {owner for tp, owner in group.owners.items() if tp in group.offsets}
        rows += [("-",) * 5 + (_in_words(member),) for member in group.members or () if member not in owning]
        for row in rows or [("-",) * 5 + ("?" if group.members is None else "",)]:
            yield layout.format(group.name, group.type, group.state, *row)


def _in_words(member: Member | None) -> str:
    epoch = f" epoch {member.epoch}" if member and member.epoch is not None else ""
    return f"{member.client_id} {member.host}{epoch}" if member else ""


class _Commit(NamedTuple):
    offset: int
    seen_to_change_ms: int | None


@dataclass
class Snapshots:
    """Turn readings of one cluster into snapshots of its groups, and add the times of commits.

    Brokers do not report when a group committed. Instead, `commit-timestamp-ms` is the time of the reading that first
    showed the group's newest offset. `commit-timestamp-ms` is absent as long as all readings show the same offset.
    """

    cluster: str
    service: str
    _commits: dict[str, dict[TopicPartition, _Commit]] = field(default_factory=dict)

    def from_reading(self, reading: GroupsReading) -> Iterator[dict[str, Any]]:
        """Yield one snapshot per group that was read."""
        for name in self._commits.keys() - reading.names:
            del self._commits[name]
        for group in reading.groups:
            before = self._commits.get(group.name, {})
            commits = self._commits[group.name] = {}
            topics = []
            for tp, (offset, end, start) in group.offsets.items():
                known = before.get(tp, _Commit(offset, None))
                commits[tp] = commit = known if known.offset == offset else _Commit(offset, reading.ts_ms)
                owner = group.owners.get(tp)
                of_topic = {
                    "committed-offset": commit.offset,
                    "commit-timestamp-ms": commit.seen_to_change_ms,
                    "end-offset": end,
                    "start-offset": start,
                }
                metrics = {name: value for name, value in of_topic.items() if value is not None}
                member = None if owner is None else owner._asdict()
                topics.append({**tp._asdict(), "thread": None, "metrics": metrics, "member": member})
            client = Client(self.service, "", self.cluster, group.name, "group", "broker", group.type, group.name)
            of_group = {} if group.members is None else {"members": len(group.members)}
            yield canonical.snapshot(client, reading.ts_ms, of_group, topics, {"group.state": group.state})
