"""Check of formats: can the newest records of the input topics be read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from clienthealth.model.telemetry import RawRecord, Stream
from clienthealth.ops.doctor import Finding, State
from clienthealth.ops.doctor.survey import survey
from clienthealth.settings import Settings

#: What a topic without records means: metrics are what judgement stands on, logs add to it.
_EMPTY: Mapping[Stream, tuple[State, str]] = {
    "metrics": (
        "warning",
        "It has no records yet: nothing can be judged until somebody writes metrics to it.",
    ),
    "logs": ("skipped", "It has no records yet: what logs alone show cannot be judged."),
}


def records_readable(settings: Settings, topic: str, stream: Stream, records: Sequence[RawRecord]) -> Iterator[Finding]:
    """What the records are, and why those are rejected that are. Raises ServiceError: a schema registry is away."""
    result = survey(records, stream, settings, int(time.time() * 1000))
    about = f"topic {topic}"
    if not result.records:
        yield Finding(about, *_EMPTY[stream])
    if result.formats:
        formats = ", ".join(f"{counts.records:,} {name}" for name, counts in result.formats.items())
        yield Finding(about, "ok", f"Of its newest {result.records:,} records can be read: {formats}.")
    for reason, reject in result.rejects.items():
        why = f"{reason}: {reject.detail}" if reject.detail else reason
        first = f"partition {reject.first.partition}, offset {reject.first.offset}"
        yield Finding(
            about,
            "warning" if result.formats else "failed",
            f"{reject.records:,} of its newest {result.records:,} records are rejected as {why} (the first: {first}). "
            f"To look closer: kafka-health formats --topic {topic}",
        )
