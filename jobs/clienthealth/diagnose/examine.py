"""Reading and judging in one: whatever people attach, to what was found."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from clienthealth.attachments.input import Input
from clienthealth.attachments.opening import Opener
from clienthealth.attachments.reading import Progress, Reader
from clienthealth.diagnose import Diagnosis, diagnose
from clienthealth.diagnose.tally import Tally
from clienthealth.errors import InputError
from clienthealth.model.verdicts import Verdict
from clienthealth.recordings import RawRecord
from clienthealth.settings import Settings

#: A thread dump of thousands of threads is one record: files may hold larger ones than topics.
MAX_RECORD_BYTES = 1 << 27
DAY_MS = 86_400_000
#: A dump that is named by its time is taken no further from all else that is known of its process.
NEAR_MS = 1_800_000
#: A process (service and instance), and what was attached of it.
Attached = tuple[tuple[str, str], Input]


def examine(
    paths: Sequence[Path], settings: Settings, stdin: IO[bytes] | None = None, progress: Progress | None = None
) -> Diagnosis:
    """Judge all clients that these files speak of; `-` is standard input.

    `progress`: called as often as something was read, with the input's name, bytes read of it, and its size (None
    where that is not known). Raises InputError for a path that is not there, and where nothing is in any of them.
    """
    now_ms = int(time.time() * 1000)
    monitor = dataclasses.replace(settings.monitor, max_record_bytes=MAX_RECORD_BYTES)
    generous = dataclasses.replace(settings, monitor=monitor)
    with Opener(stdin) as opener:

        def records() -> Iterator[RawRecord]:
            undated: dict[tuple[str, str], int] = {}
            of_a_clock: list[tuple[Attached, list[RawRecord]]] = []
            dated: list[Attached] = []
            for stream in opener.streams(paths):
                waiting: list[RawRecord] = []
                for record in Reader(stream, generous, now_ms, progress, undated).records():
                    if stream.input.dated:
                        yield record
                    else:
                        waiting.append(record)
                attached = stream.process, stream.input
                if waiting:
                    of_a_clock.append((attached, waiting))
                else:
                    dated.append(attached)
            for attached, waiting in of_a_clock:
                yield from of_their_day(attached, waiting, dated)

        diagnosis = diagnose(records(), generous, Tally(opener.inputs))
    if not diagnosis.inputs:
        raise InputError(f"nothing to read in {', '.join(map(str, paths))}")
    untimed = frozenset(
        topic for attached in diagnosis.inputs if not (attached.timed and attached.dated) for topic in attached.topics
    )
    clients = [
        (client, [_without_time(verdict, untimed) for verdict in verdicts]) for client, verdicts in diagnosis.clients
    ]
    return dataclasses.replace(diagnosis, clients=clients)


def of_their_day(of: Attached, records: Sequence[RawRecord], dated: Sequence[Attached]) -> Iterator[RawRecord]:
    """Records whose lines say the time but not the day, on the day that else is known of their process.

    Where nothing else of it says one, the day stays unknown.
    """
    process, attached = of
    spans = [
        (other.start_ms, other.end_ms)
        for of_other, other in dated
        if of_other == process and other.start_ms is not None and other.end_ms is not None
    ]
    shift = 0
    if spans and attached.start_ms is not None and attached.end_ms is not None:
        middle = (min(start for start, _ in spans) + max(end for _, end in spans)) / 2
        shift = round((middle - (attached.start_ms + attached.end_ms) / 2) / DAY_MS) * DAY_MS
        attached.start_ms, attached.end_ms, attached.dated = attached.start_ms + shift, attached.end_ms + shift, True
        first, last = min(start for start, _ in spans) - NEAR_MS, max(end for _, end in spans) + NEAR_MS
        if attached.named and not first <= attached.start_ms <= last:
            # A clock in another zone: its times say only what came first.
            attached.timed, attached.start_ms, attached.end_ms = False, None, None
    for record in records:
        line = record.line
        if line is not None and line.ts_ms is not None:
            line.ts_ms += shift
        yield dataclasses.replace(record, ts_ms=record.ts_ms + shift if record.ts_ms else 0)


def _without_time(verdict: Verdict, untimed: frozenset[str]) -> Verdict:
    """The verdict, without an onset where all that it rests on has no time."""
    topics = {fact.source.topic for fact in verdict.evidence if fact.source is not None}
    return dataclasses.replace(verdict, since_ms=None) if topics and topics <= untimed else verdict
