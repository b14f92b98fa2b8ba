"""A consumer group from outside: its members, the lag of each partition, and who does not commit."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from clienthealth.diagnose.outcome import HEALTHY, NOT_JUDGED, UNHEALTHY
from clienthealth.diagnose.watch.session import Session
from clienthealth.measure.lag_state import FINE
from clienthealth.model.errors import InputError, ServiceError
from clienthealth.model.health_record import HealthRecord
from clienthealth.platform.kafka import OFFSETS_TOPIC
from clienthealth.settings import Settings
from clienthealth_exporters.groups.exporter import Cluster
from clienthealth_exporters.groups.reader import GroupsReading

#: Clients commit each 5 s unless they are told otherwise.
INTERVAL_SECONDS = 2.0
MEMBERS_SECONDS = 10.0


def group_settings(settings: Settings, group: str) -> Settings:
    """The settings to read one group alone, each time."""
    groups = replace(
        settings.groups,
        include=re.escape(group),
        exclude="",
        interval_seconds=INTERVAL_SECONDS,
        idle_interval_seconds=INTERVAL_SECONDS,
        members_interval_seconds=MEMBERS_SECONDS,
    )
    return replace(settings, groups=groups)


def watch_group(
    group: str,
    settings: Settings,
    stop: threading.Event,
    seconds: float | None,
    show: Callable[[HealthRecord], None],
) -> HealthRecord:
    """Until `stop` is set or so many seconds are over; the newest state. `show`: called after each reading.

    Raises InputError where there is no such group, ServiceError where it cannot be read.
    """
    own = group_settings(settings, group)
    cluster, session = Cluster(own.prometheus.cluster_name, own), Session(own)
    reader, snapshots = cluster.reader(), cluster.snapshots()
    begin = time.monotonic()
    try:
        while True:
            for snapshot in snapshots.from_reading(_read(reader.read, group)):
                session.send(own.topics.metrics[0], "", snapshot)
            session.step(int(time.time() * 1000))
            if session.faults:
                raise ServiceError(f"group '{group}' could not be judged: {session.faults[0]}")
            (record,) = session.newest.values()
            show(record)
            left = INTERVAL_SECONDS if seconds is None else min(INTERVAL_SECONDS, begin + seconds - time.monotonic())
            if left <= 0 or stop.wait(left):
                return record
    finally:
        reader.close()


def _read(reader: Callable[[], GroupsReading], group: str) -> GroupsReading:
    reading = reader()
    if group in reading.failed_groups:
        raise ServiceError(f"group '{group}' could not be read: {reading.failed_groups[group]}")
    for partition, why in reading.failed_partitions.items():
        if group not in reading.names and partition.topic == OFFSETS_TOPIC:
            raise ServiceError(f"group '{group}' was not found, but {OFFSETS_TOPIC}/{partition.partition} has {why}")
    if group not in reading.names:
        raise InputError(f"there is no consumer group '{group}' (kafka-health export groups --once lists all)")
    return reading


def exit_code(record: HealthRecord) -> int:
    """That of `diagnose`: 0 the lag is fine, 1 it is not, 3 it cannot be told yet."""
    state = record.text("group", "status")
    if state in FINE:
        return HEALTHY
    return NOT_JUDGED if state in (None, "UNKNOWN") else UNHEALTHY


def table(record: HealthRecord, seconds: float) -> list[str]:
    """The group as lines, the partitions that are most behind first. `seconds`: watched so far."""
    members = record.value("group", "members")
    head = f"{record.client.group}: {record.text('group', 'status')}, "
    head += "members unknown" if members is None else f"{members:.0f} members"
    layout = "{:<28} {:>9} {:>12} {:>12} {:>10} {:<8} {}"
    rows = sorted(record.rows("lag"), key=lambda row: -(row.get("records") or 0))
    return [
        f"{head}, watched for {seconds:.0f} s",
        layout.format("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "STATE", "MEMBER"),
        *(
            layout.format(
                row["topic"],
                row["partition"],
                _shown(row.get("committed_offset")),
                _shown(row.get("end_offset")),
                _shown(row.get("records")),
                row.get("state") or "",
                _who(row, seconds),
            )
            for row in rows
        ),
    ]


def _shown(value: object) -> str:
    return "?" if value is None else str(value)


def _who(row: Mapping[str, Any], seconds: float) -> str:
    """The member that has the partition, and whether it commits."""
    member, age = row.get("member"), row.get("commit_age_seconds")
    name = f"{member['client_id']} {member['host']}" if member else "no member"
    if not row.get("records"):
        return name
    return f"{name}: " + (f"committed {age:.0f} s ago" if age is not None else f"no commit seen in {seconds:.0f} s")
