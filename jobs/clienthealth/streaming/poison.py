"""A record that ends the monitor whenever it is read is found, skipped and becomes a reject; all others are read.

A batch that was planned is repeated after a crash with the same records, so one record that exhausts the heap would end
every process that reads it, for ever. Each process leaves a note beside the checkpoint that it runs and, before the
first result of a batch is written, which batch that is. Whoever starts next finds by them what ended the one before:

- the same batch three times, before any result of it: only a sixteenth of it is read at a time, and of what ends the
  monitor again a sixteenth, down to one record. What is read well is committed as ever. Where the heap was exhausted
  once is enough: nobody has killed it.
- one record three times: it is left out. The batch that it was to be in is run without any record: only when that
  succeeds was it the record's fault, and only then does it go to the rejects, with its place.

Once a record is left out, all else is read at full speed again; likewise once all that had ended the monitor is read
well, as then it was killed. Only where the heap was exhausted and no record is to blame, it was too much at a time.

Nothing is read twice or lost but that record: ends of batches are moved only as long as nothing of them is written.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from uuid import uuid4

import msgspec

from clienthealth.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.streaming.checkpoint import Checkpoint, Part, Pending

log = logging.getLogger(__name__)

REASON = "fatal"
#: How often something must end the monitor before it is taken for the cause: anybody's kill -9 can hit a batch of a
#: backlog twice, which takes long.
DEATHS = 3
#: Of what ended the monitor so much is read at a time; after so many batches without an accident this much more.
SHARE, CALM = 16, 20
#: Marks of what a fault of a record looks like where Spark lives to tell; all else is a fault of the surroundings.
OF_RECORDS = (
    *("OutOfMemoryError", "MemoryError", "Python worker exited unexpectedly", "Received exception when fetching"),
    *("CorruptRecordException", "InvalidRecordException", "PythonException", "ArithmeticException"),
)
NOT_OF_RECORDS = ("StateError", "ModuleNotFoundError")
RUN, WRITING = "run.json", "writing"


class Run(msgspec.Struct):
    """What a process notes of itself beside the checkpoint.

    running  it has not ended in order
    batch    the pending batch that it began with, and how many processes that batch has ended in a row
    limit    so many records of each topic are read in a batch; 0: as many as the settings say
    skipped  the record that is left out, as (source, topic, partition, offset)
    until    where that ends which ended the monitor last, as (topic, partition, offset); `heap`: it exhausted the heap
    owner    which process this is
    """

    running: bool = False
    batch: int = -1
    deaths: int = 0
    limit: int = 0
    skipped: tuple[int, str, int, int] | None = None
    until: list[tuple[str, int, int]] = []
    heap: bool = False
    owner: str = ""


class Guard:
    """Stands between the checkpoint and the processes that work on it. One for each process."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        noted = checkpoint.read(RUN)
        self._run = msgspec.json.decode(noted, type=Run) if noted else Run()
        self._calm = 0

    @property
    def limit(self) -> int:
        """So many records of each topic may be read in a batch; 0: as many as the settings say."""
        return self._run.limit

    def begin(self, certain: bool = False) -> None:
        """Find out how the process before ended, mend the checkpoint, and note that this one runs.

        `certain`: its heap was exhausted; nobody has killed it, so once is enough. Raises ServiceError where the
        monitor ends without any record being read.
        """
        pending, run = self._checkpoint.pending(), self._run
        if pending is None or pending.batch != run.batch:
            run.skipped = None  # it was published with the batch that was pending then
        if pending is None or not run.running or self._checkpoint.read(WRITING) == str(pending.batch):
            run.deaths = 0
        else:
            run.deaths = DEATHS if certain else run.deaths + 1 if run.batch == pending.batch else 1
            run.heap = run.heap or certain
            self._mend(pending)
        run.batch = -1 if pending is None else pending.batch
        run.running, run.owner = True, uuid4().hex
        self._write()

    def owns(self) -> bool:
        """Has no other process begun to work on the checkpoint since, as where this one hung and was taken for dead."""
        noted = self._checkpoint.read(RUN)
        return noted is None or msgspec.json.decode(noted, type=Run).owner == self._run.owner

    def writes(self, batch: int) -> Source | None:
        """Note that the results of a batch are about to be written; the record that it must tell of as rejected."""
        self._checkpoint.write(WRITING, str(batch))
        skipped = self._run.skipped
        return None if skipped is None or batch != self._run.batch else Source(*skipped[1:])

    def committed(self, batches: int) -> bool:
        """So many batches went well; is more to be read at a time from now on (by a query that is started anew)?"""
        run = self._run
        if not run.limit:
            return False
        self._calm += batches
        if batches and (run.skipped is not None or (run.until and not run.heap and self._passed())):
            self.unlimited()
            return True
        if self._calm < CALM:
            return False
        run.limit, run.batch, run.deaths, run.skipped, self._calm = run.limit * SHARE, -1, 0, None, 0
        self._note()
        return True

    def _passed(self) -> bool:
        """Is all committed that had ended the monitor?"""
        positions = self._checkpoint.positions()
        return all(positions.get((topic, partition), 0) >= end for topic, partition, end in self._run.until)

    def unlimited(self) -> None:
        """Read as much as the settings say."""
        run = self._run
        run.limit, run.batch, run.deaths, run.skipped, self._calm = 0, -1, 0, None, 0
        run.until, run.heap = [], False
        self._note()

    def ended(self, why: str | None) -> None:
        """The process ends in order, or its query has failed and Spark tells why."""
        if why is None or any(mark in why for mark in NOT_OF_RECORDS) or not any(mark in why for mark in OF_RECORDS):
            self._run.running = False
            self._note()

    def _note(self) -> None:
        if self.owns():
            self._write()

    def _write(self) -> None:
        self._checkpoint.write(RUN, msgspec.json.encode(self._run).decode())

    def _mend(self, pending: Pending) -> None:
        run, sizes = self._run, pending.sizes
        total = sum(sizes.values())
        log.warning("batch %s of %s records has ended the monitor", pending.batch, total)
        if run.deaths < DEATHS and (total <= 1 or not run.limit):
            return
        if not total:
            self._acquitted(pending)
        elif total > 1:
            fewer = narrowed(sizes, random.Random(repr(sorted(pending.begin.items()))))
            self._checkpoint.end_at(pending, {part: pending.begin.get(part, 0) + n for part, n in fewer.items()})
            run.until = [(topic, partition, pending.end[at, topic, partition]) for at, topic, partition in sizes]
            run.limit, run.deaths = sum(fewer.values()), 0
            log.warning("it is read in steps of %s records now, to find the one that does it", run.limit)
        else:
            (part,) = sizes
            begin = pending.begin.get(part, 0)
            self._checkpoint.begin_at(pending.batch, part, begin + 1)
            self._checkpoint.end_at(pending, {part: begin + 1})
            run.skipped, run.deaths = (*part, begin), 0
            log.error("record %s of %s/%s ends the monitor when it is read: it is left out", begin, part[1], part[2])

    def _acquitted(self, pending: Pending) -> None:
        run = self._run
        if run.skipped is not None:
            source, topic, partition, offset = run.skipped
            self._checkpoint.begin_at(pending.batch, (source, topic, partition), offset)
            self._checkpoint.end_at(pending, {(source, topic, partition): offset})
            run.skipped = None
        run.running, run.deaths = False, 0
        self._write()
        raise ServiceError(
            "the monitor ends even where it reads no record, so no record is to blame: look above for the reason, "
            "and at [monitor] heap_mb and the memory that this machine has left"
        )


def narrowed(sizes: Mapping[Part, int], choose: random.Random) -> dict[Part, int]:
    """Fewer records: a share of each part, or where each has but one, half of the parts."""
    if max(sizes.values()) > 1:
        return {part: max(1, size // SHARE) for part, size in sizes.items()}
    return dict.fromkeys(choose.sample(sorted(sizes), len(sizes) // 2), 1)
