"""Reading and judging in one: whatever people attach, to what was found."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

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
            for stream in opener.streams(paths):
                yield from Reader(stream, generous, now_ms, progress, undated).records()

        diagnosis = diagnose(records(), generous, Tally(opener.inputs))
    if not diagnosis.inputs:
        raise InputError(f"nothing to read in {', '.join(map(str, paths))}")
    untimed = frozenset(topic for attached in diagnosis.inputs if not attached.timed for topic in attached.topics)
    clients = [
        (client, [_without_time(verdict, untimed) for verdict in verdicts]) for client, verdicts in diagnosis.clients
    ]
    return dataclasses.replace(diagnosis, clients=clients)


def _without_time(verdict: Verdict, untimed: frozenset[str]) -> Verdict:
    """The verdict, without an onset where all that it rests on has no time."""
    topics = {fact.source.topic for fact in verdict.evidence if fact.source is not None}
    return dataclasses.replace(verdict, since_ms=None) if topics and topics <= untimed else verdict
