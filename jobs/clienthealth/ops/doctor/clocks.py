"""Checks of clocks: the times that clients tell in their readings, against ours.

Kafka's own time of a record is no help: it is that of whoever sent it, often a collector, and a client with a wrong
clock tells its wrong time within the record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from clienthealth.model.telemetry import RawRecord
from clienthealth.ops.doctor import Finding
from clienthealth.read.decode import decode_metrics
from clienthealth.settings import Settings
from clienthealth.settings.fields import LARGEST

ABOUT = "clock"
#: A reading's time may be a little before or after ours; more shifts windows.
SKEW_WARNING_SECONDS = 5.0
#: A reading was sent so much later than its own time: its client's clock is behind, or its collector holds it back.
DELAY_WARNING_SECONDS = 30.0
NAMED = 3


class ReadingClock(NamedTuple):
    """What a reading says of time: whose it is, its own time against ours, and against Kafka's (seconds, + ahead)."""

    client: str
    ahead: float
    behind_sent: float


def clocks_agree(settings: Settings, topic: str, records: Sequence[RawRecord]) -> Iterator[Finding]:
    """The newest readings of a topic: none may be from the future, and none much older than its record."""
    if not records:
        yield Finding(ABOUT, "skipped", f"{topic} has no records yet, so clocks cannot be compared.")
        return
    reading_clocks = list(_reading_clocks(settings, records, time.time()))
    if not reading_clocks:
        yield Finding(ABOUT, "skipped", f"None of the newest {len(records)} records of {topic} tells a reading's time.")
        return
    yield from judged(topic, reading_clocks, settings.monitor.future_seconds)


def judged(topic: str, reading_clocks: Iterable[ReadingClock], future_seconds: float) -> Iterator[Finding]:
    """What the times of readings say of their clients' clocks."""
    ahead: dict[str, float] = {}
    behind: dict[str, float] = {}
    for reading in reading_clocks:
        ahead[reading.client] = max(reading.ahead, ahead.get(reading.client, reading.ahead))
        behind[reading.client] = min(reading.behind_sent, behind.get(reading.client, reading.behind_sent))
    rejected = {client: by for client, by in ahead.items() if by > future_seconds}
    early = {client: by for client, by in ahead.items() if SKEW_WARNING_SECONDS < by <= future_seconds}
    late = {client: by for client, by in behind.items() if by > DELAY_WARNING_SECONDS}
    if rejected:
        yield Finding(
            ABOUT,
            "failed",
            f"Readings on {topic} tell a time in the future, and are rejected: {_worst(rejected)}. Mend the clocks of "
            "these clients, or of this machine.",
        )
    if early:
        text = f"Readings on {topic} tell a time in the future: {_worst(early)}. Compare clocks."
        yield Finding(ABOUT, "warning", text)
    if late:
        yield Finding(
            ABOUT,
            "warning",
            f"Readings on {topic} are older than their records: {_worst(late)}. The clocks of these clients are "
            "behind, or a collector holds readings back.",
        )
    if not (rejected or early or late):
        newest = max(0.0, -max(ahead.values()))
        yield Finding(
            ABOUT, "ok", f"The newest reading on {topic} is {newest:.0f} s old by our clock, none is from the future."
        )


def _worst(skews: dict[str, float]) -> str:
    order = sorted(skews.items(), key=lambda item: -item[1])
    named = ", ".join(f"{client} by {by:.0f} s" for client, by in order[:NAMED])
    return named + (f" and {len(order) - NAMED} clients more" if len(order) > NAMED else "")


def _reading_clocks(settings: Settings, records: Iterable[RawRecord], now: float) -> Iterator[ReadingClock]:
    anytime = replace(settings, monitor=replace(settings.monitor, future_seconds=LARGEST))
    for record in records:
        for snapshot in decode_metrics(record, anytime, int(now * 1000)).snapshots:
            if snapshot.ts_ms is not None:
                who = snapshot.client
                name = "/".join(part for part in (who.service, who.instance, who.client_id) if part)
                yield ReadingClock(name, snapshot.ts_ms / 1000 - now, (record.ts_ms - snapshot.ts_ms) / 1000)
