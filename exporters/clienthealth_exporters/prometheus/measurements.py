"""The four measurements of a client in words: buffer, callback, topic queue, lag. Unknown is never shown as 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clienthealth.model import wording
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth_exporters.prometheus.history import lag_of


@dataclass(frozen=True)
class Measurement:
    """`value` None: unknown, or (`applies` false) not a matter of this kind of client. `ratio`: how full, if at all."""

    name: str
    value: str | None = None
    note: str = ""
    ratio: float | None = None
    applies: bool = True

    @property
    def text(self) -> str:
        """The value in a few words."""
        return self.value or ("unknown" if self.applies else "–")


def measurements(record: HealthRecord) -> list[Measurement]:
    """All four, in a fixed order."""
    kind = record.client.kind
    readers: tuple[tuple[str, bool, Callable[[str, HealthRecord], Measurement]], ...] = (
        ("Buffer", kind == "producer", _buffer),
        ("Callback", kind == "producer", _callback),
        ("Topic queue", kind != "group", _queue),
        ("Lag", kind != "producer", _lag),
    )
    return [
        measure(name, record) if applies else Measurement(name, applies=False) for name, applies, measure in readers
    ]


def _buffer(name: str, record: HealthRecord) -> Measurement:
    used, queued = amount(record.value("buffer_used_ratio", "last")), amount(record.value("buffer", "queued_records"))
    if used is None:
        # Without a limit (kafka-python 3) there is no ratio.
        return Measurement(name, None if queued is None else f"{wording.count(queued)} records queued")
    waiting, full = record.value("buffer", "waiting_threads"), record.value("buffer", "seconds_to_full")
    notes = (
        f"{wording.count(waiting)} threads wait" if waiting else "",
        f"full in {wording.duration(full)}" if full else "",
    )
    return Measurement(name, f"{wording.percent(used)} used", _joined(notes), used)


def _callback(name: str, record: HealthRecord) -> Measurement:
    average, longest = amount(record.value("callback_seconds", "avg")), amount(record.value("callback_seconds", "max"))
    busy = amount(record.value("io_thread_busy_ratio"))
    source = record.text("callback_seconds", "source")
    notes = (
        source if source and source != "unknown" else "",
        f"max {wording.latency(longest)}" if longest is not None else "",
        f"I/O thread {wording.percent(busy)} busy" if busy is not None else "",
    )
    return Measurement(name, None if average is None else wording.latency(average), _joined(notes))


def _queue(name: str, record: HealthRecord) -> Measurement:
    ratios = [
        (used, row["topic"]) for row in record.rows("queues") if (used := amount(row.get("used_ratio"))) is not None
    ]
    if ratios:
        used, topic = max(ratios)
        return Measurement(name, f"{wording.percent(used)} full", f"{topic}, fullest of {len(ratios)}", used)
    # The Java consumer has no such queue: what waits for it is its lag.
    waiting: dict[str, float] = {}
    for row in record.rows("lag"):
        waiting[row["topic"]] = waiting.get(row["topic"], 0) + (amount(row.get("records")) or 0)
    behind = max(waiting, key=lambda topic: waiting[topic], default="")
    paused = sum(1 for row in record.rows("lag") if row.get("paused") is True)
    idle, poll = record.value("poll_idle_ratio"), amount(record.value("last_poll_age_seconds"))
    notes = (
        f"{behind} furthest behind" if waiting.get(behind) else "",
        f"{wording.count_of(paused, 'partition')} paused" if paused else "",
        f"poll idle {wording.percent(idle)}" if idle is not None else "",
        f"last poll {wording.duration(poll)} ago" if poll is not None else "",
    )
    return Measurement(name, note=_joined(notes))


def _lag(name: str, record: HealthRecord) -> Measurement:
    total = lag_of(record)
    if total is None:
        return Measurement(name)
    known = sum(amount(row.get("records")) is not None for row in record.rows("lag"))
    ages = [age for row in record.rows("lag") if (age := amount(row.get("seconds"))) is not None]
    notes = (
        record.text("group", "status") or "",
        f"oldest {wording.duration(max(ages))}" if ages else "",
        wording.count_of(known, "partition"),
    )
    return Measurement(name, f"{wording.count(total)} records", _joined(notes))


def _joined(notes: Iterable[str]) -> str:
    return ", ".join(note for note in notes if note)
