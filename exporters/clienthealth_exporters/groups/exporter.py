"""`kafka-health export groups`: publishes what every consumer group has committed, and how far its partitions go.

One canonical snapshot per group and reading goes to the topic of client metrics; the monitor makes lag of it. Groups
that cannot be read are named in the log when they begin to fail, and nothing is published of them. With `--once` the
groups are read once and printed; with `--json` too, as the snapshots that would be published.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, TopicPartition

from clienthealth.errors import InputError, ServiceError
from clienthealth.platform import kafka
from clienthealth.platform.stopping import told_to_stop
from clienthealth.settings import Settings
from clienthealth_exporters.groups.reader import Group, GroupReader, GroupsReading
from clienthealth_exporters.publish import Publisher

log = logging.getLogger(__name__)

#: After a broker restart the connection is tried again at least this often.
RECONNECT_MS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Once or for ever."""
    parser.add_argument("--once", action="store_true", help="read once, print, publish nothing")
    parser.add_argument("--json", action="store_true", help="with --once: one snapshot per line as JSON")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Publish until SIGTERM or Ctrl-C; with `--once` 0, or 1 if a group could not be read. Raises ServiceError."""
    if args.json and not args.once:
        raise InputError("--json goes with --once")
    if args.once:
        return once(settings, as_json=args.json)
    serve(settings, told_to_stop())
    return 0


def connection(settings: Settings) -> Callable[[], KafkaAdminClient]:
    """How the reader connects, with the timeout and the security of the settings."""
    timeout_ms = round(settings.groups.timeout_seconds * 1000)
    return lambda: kafka.admin(
        settings,
        client_id="kafka-health-groups",
        request_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=timeout_ms,
        reconnect_backoff_max_ms=RECONNECT_MS,
    )


def once(settings: Settings, as_json: bool) -> int:
    """Read once and print."""
    reader = GroupReader(connection(settings), settings.groups)
    try:
        reading = reader.read()
    finally:
        reader.close()
    if as_json:
        for snapshot in Snapshots(settings).of(reading):
            sys.stdout.write(json.dumps(snapshot, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(table(reading))
    for name, reason in sorted(reading.failed_groups.items()):
        sys.stderr.write(f"group {name} could not be read: {reason}\n")
    for tp, reason in sorted(reading.failed_partitions.items()):
        sys.stderr.write(f"the end of {tp.topic}/{tp.partition} could not be read: {reason}\n")
    return 1 if reading.failed_groups or reading.failed_partitions else 0


def serve(settings: Settings, stop: threading.Event) -> None:
    """Read and publish every interval until `stop` is set. Brokers may come and go."""
    exporter = GroupExporter(settings)
    try:
        while not stop.is_set():
            began = time.monotonic()
            exporter.cycle()
            stop.wait(max(0.0, settings.groups.interval_seconds - (time.monotonic() - began)))
    finally:
        exporter.close()


class GroupExporter:
    """Reads all groups and publishes a snapshot of each, again and again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader = GroupReader(connection(settings), settings.groups)
        self._snapshots = Snapshots(settings)
        self._publisher: Publisher | None = None
        self._failing: dict[str, str] = {}
        #: Groups, partitions and whole readings that could not be read, since the start.
        self.failures_total = 0

    def cycle(self) -> int:
        """One reading; returns how many snapshots were published. What fails is logged and counted."""
        try:
            reading = self._reader.read()
            if self._publisher is None:
                self._publisher = Publisher.to(self._settings, "kafka-health-groups")
        except ServiceError as error:
            self._note({"the cluster": str(error)})
            return 0
        self._note(
            {f"group {name}": reason for name, reason in reading.failed_groups.items()}
            | {f"the end of {tp.topic}/{tp.partition}": reason for tp, reason in reading.failed_partitions.items()}
        )
        topic = self._settings.topics.metrics[0]
        published = 0
        for snapshot in self._snapshots.of(reading):
            client = snapshot["client"]
            key = f"{client['service']}|{client['instance']}|{client['client_id']}"
            self._publisher.send(topic, key, snapshot)
            published += 1
        return published

    def close(self) -> None:
        """Deliver what is under way and close all connections."""
        self._reader.close()
        if self._publisher is not None:
            self._publisher.close()

    def _note(self, failing: Mapping[str, str]) -> None:
        """Count failures; log what began and what ceased to fail."""
        self.failures_total += len(failing)
        for what in failing.keys() - self._failing.keys():
            log.warning("%s cannot be read: %s", what, failing[what])
        for what in self._failing.keys() - failing.keys():
            log.info("%s can be read again", what)
        self._failing = dict(failing)


class _Commit(NamedTuple):
    offset: int
    seen_to_change_ms: int | None


class Snapshots:
    """Makes canonical snapshots of readings, and knows since when each commit stands.

    Brokers do not tell when an offset was committed. `commit-timestamp-ms` is the time of the first reading that saw
    it changed; a commit that is older than the exporter has none.
    """

    def __init__(self, settings: Settings) -> None:
        self._service = settings.groups.service
        self._cluster = settings.prometheus.cluster_name
        self._commits: dict[tuple[str, TopicPartition], _Commit] = {}

    def of(self, reading: GroupsReading) -> Iterator[dict[str, Any]]:
        """One snapshot per group."""
        seen: dict[tuple[str, TopicPartition], _Commit] = {}
        for group in reading.groups:
            for tp, offsets in group.offsets.items():
                known = self._commits.get((group.name, tp))
                if known is None or known.offset == offsets.committed:
                    seen[group.name, tp] = known or _Commit(offsets.committed, None)
                else:
                    seen[group.name, tp] = _Commit(offsets.committed, reading.ts_ms)
        # A group that could not be read this time is not forgotten.
        kept = {key: commit for key, commit in self._commits.items() if key[0] in reading.failed_groups}
        self._commits = kept | seen
        return (self._snapshot(group, reading.ts_ms) for group in reading.groups)

    def _snapshot(self, group: Group, ts_ms: int) -> dict[str, Any]:
        return {
            "ts": ts_ms,
            "client": {
                "service": self._service,
                "host": None,
                "instance": self._cluster,
                "client_id": group.name,
                "kind": "group",
                "group": group.name,
                "library": "broker",
                "version": None,
            },
            "metrics": {} if group.members is None else {"members": group.members},
            "topics": [self._topic(group, tp) for tp in group.offsets],
            "config": {"group.state": group.state},
        }

    def _topic(self, group: Group, tp: TopicPartition) -> dict[str, Any]:
        offsets = group.offsets[tp]
        owner = group.owners.get(tp)
        metrics = {
            "committed-offset": offsets.committed,
            "commit-timestamp-ms": self._commits[group.name, tp].seen_to_change_ms,
            "end-offset": offsets.end,
            "start-offset": offsets.start,
        }
        return {
            "topic": tp.topic,
            "partition": tp.partition,
            "thread": None,
            "metrics": {name: value for name, value in metrics.items() if value is not None},
            "member": None if owner is None else owner._asdict(),
        }


def table(reading: GroupsReading) -> Iterator[str]:
    """The reading as lines for a person."""
    layout = "{:<32} {:<10} {:<28} {:>9} {:>12} {:>12} {:>10}  {}\n"
    yield layout.format("GROUP", "STATE", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
    for group in reading.groups:
        for tp, offsets in group.offsets.items():
            owner = group.owners.get(tp)
            yield layout.format(
                group.name,
                group.state,
                tp.topic,
                tp.partition,
                offsets.committed,
                "?" if offsets.end is None else offsets.end,
                "?" if offsets.end is None else max(0, offsets.end - offsets.committed),
                f"{owner.client_id} {owner.host}" if owner else "",
            )
