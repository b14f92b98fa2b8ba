"""A consumer group from outside: its members, the lag of each partition, and who does not commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from clienthealth.diagnose.outcome import HEALTHY, NOT_JUDGED, UNHEALTHY
from clienthealth.diagnose.watch.session import Session
from clienthealth.measure.lag_state import FINE
from clienthealth.model.errors import ServiceError
from clienthealth.model.health_record import HealthRecord
from clienthealth.settings import Settings
from clienthealth_exporters.groups.exporter import WATCHED_SECONDS, only, readings


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
    own = only(settings, group)
    session, begin = Session(own), time.monotonic()
    with closing(readings(own, group)) as snapshots_of_readings:
        for snapshots in snapshots_of_readings:
            for snapshot in snapshots:
                session.send(own.topics.metrics[0], "", snapshot)
            session.step(int(time.time() * 1000))
            if session.faults:
                raise ServiceError(f"group '{group}' could not be judged: {session.faults[0]}")
            (record,) = session.newest.values()
            show(record)
            left = WATCHED_SECONDS if seconds is None else min(WATCHED_SECONDS, begin + seconds - time.monotonic())
            if left <= 0 or stop.wait(left):
                break
    return record


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
