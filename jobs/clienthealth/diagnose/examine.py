"""Read and judge attachments of any kind in one step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from clienthealth.diagnose.attachments.opening import Input, Opener
from clienthealth.diagnose.attachments.reading import Progress, Reader
from clienthealth.diagnose.diagnosis import diagnose
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.model.errors import InputError
from clienthealth.monitor.adjust import APART_MS
from clienthealth.read.recordings import Recorded
from clienthealth.settings import Settings

#: Maximum size of a record (bytes). A dump of thousands of threads is one record.
MAX_RECORD_BYTES = 1 << 27
DAY_MS = 86_400_000
#: The time in a file's name counts as wrong if it is more than NEAR_MS before or after all other data of the process.
NEAR_MS = 1_800_000
Attached = tuple[tuple[str, str], Input]


def examine(
    paths: Sequence[Path], settings: Settings, stdin: IO[bytes] | None = None, progress: Progress | None = None
) -> Diagnosis:
    """Judge all clients in the files and folders `paths`. The path `-` means standard input.

    `progress` is called after each read, with the input's name, the number of bytes read so far, and the input's size
    (None if unknown). Raises InputError if a path does not exist, or if the paths contain no file.
    """
    now_ms = int(time.time() * 1000)
    generous = replace(settings, monitor=replace(settings.monitor, max_record_bytes=MAX_RECORD_BYTES))
    with Opener(stdin) as opener:

        def records() -> Iterator[Recorded]:
            undated: dict[tuple[str, str], int] = {}
            of_a_clock: list[tuple[Attached, list[Recorded]]] = []
            dated: list[Attached] = []
            of_no_time: list[tuple[Attached, Recorded]] = []
            for stream in opener.streams(paths):
                waiting: list[Recorded] = []
                for record in Reader(stream, generous, now_ms, progress, undated).records():
                    if record.timed != "own":
                        of_no_time.append(((stream.process, stream.input), record))
                    elif stream.input.dated:
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
            for (process, _), record in of_no_time:
                yield apart(process, record, dated)

        diagnosis = diagnose(records(), generous, opener.inputs)
    if not diagnosis.inputs:
        raise InputError(f"nothing to read in {', '.join(map(str, paths))}")
    return diagnosis


def of_their_day(identified: Attached, records: Sequence[Recorded], dated: Sequence[Attached]) -> Iterator[Recorded]:
    """Yield an attachment's records, which have only times of day. If the date is known, add it to the records' times.

    The date comes from the file's name, else from the `dated` attachments of the same process.
    """
    process, attached = identified
    spans = [other.span_ms for of_other, other in dated if of_other == process and other.span_ms is not None]
    shift = 0
    if spans and attached.span_ms is not None:
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        if attached.named != "day":
            shift = round((first + last - sum(attached.span_ms)) / 2 / DAY_MS) * DAY_MS
        attached.dated = True
        attached.shift(shift)
        if attached.named and not first - NEAR_MS <= attached.span_ms[0] <= last + NEAR_MS:
            # The time in the file's name may be in another zone, so never judge these records together with dated ones.
            attached.timed, attached.start_ms, attached.end_ms = False, None, None
            shift -= APART_MS
            attached.cannot_read("the time in the file's name is far from all other data")
    elif attached.named == "day":
        attached.dated = True
    for record in records:
        content = record.content
        if content is not None and content.ts_ms is not None:
            content.ts_ms += shift
        yield replace(record, ts_ms=record.ts_ms + shift if record.ts_ms else 0)


def apart(process: tuple[str, str], record: Recorded, dated: Sequence[Attached]) -> Recorded:
    """Return an undated record with a time ten days (APART_MS) before the dated data of its process."""
    starts = [other.start_ms for of_other, other in dated if of_other == process and other.start_ms is not None]
    return replace(record, ts_ms=min(starts) - APART_MS) if starts and record.ts_ms else record
