"""Find a record that crashes the monitor at every attempt to read it. Skip the record, and publish it as a reject.

After a crash, Spark repeats the batch, so one record could end every later process. Each process therefore keeps notes
(the class `Run`) beside the checkpoint. With the notes, the next process counts the crashes in the batch. Some of
Spark's messages, and an exhausted heap, are signs that a record caused a crash. A batch is narrowed after one of these
events:

- three crashes with a sign (DEATHS)
- one crash that an exhausted heap certainly caused
- 20 crashes without a sign (KILLS), such as crashes by `kill -9`

From a narrowed batch, the monitor reads only a sixteenth of the records. If crashes go on, the batch is narrowed again,
down to one record. If the batch has only one record, and one of the events above happens again, the monitor skips the
record. If the batch without the record succeeds, the record becomes a reject.

After the monitor has begun to write a batch's results, the batch is not narrowed. If the batch were narrowed at that
time, later batches would read the left-out records again, and would write the records' results a second time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from uuid import uuid4

import msgspec

from clienthealth.model.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.spark.checkpoint import Checkpoint, Part, Pending

log = logging.getLogger(__name__)

REASON = "fatal"
#: A batch is narrowed after DEATHS crashes with a sign of a record's fault, or after KILLS crashes without a sign. A
#: narrowed batch is narrowed again after one crash with a sign of a record's fault, or after DEATHS crashes without a
#: sign.
DEATHS, KILLS = 3, 20
#: Narrowing leaves 1/GROWTH of a batch's records. After CALM good batches, the limit of records per batch is multiplied
#: by GROWTH.
GROWTH, CALM = 16, 20
#: Parts of Spark's messages. OF_RECORDS: signs of a faulty record. NOT_OF_RECORDS: signs of a cause other than a
#: record.
OF_RECORDS = (
    *("OutOfMemoryError", "MemoryError", "Python worker exited unexpectedly", "Received exception when fetching"),
    *("CorruptRecordException", "InvalidRecordException", "PythonException", "ArithmeticException"),
)
NOT_OF_RECORDS = ("StateError", "ModuleNotFoundError")
RUN, WRITING = "run.json", "writing"


class Run(msgspec.Struct):
    """The notes that a process keeps beside the checkpoint, for the process that starts after it.

    `running`  True from the process's start until the process notes its end; stays True if `fault` is True
    `batch`    number of the batch that was pending at the process's start; -1 if there was none
    `reading`  True once the process has begun to read the pending batch
    `deaths`   number of processes that ended in the pending batch with a sign of a record's fault
    `kills`    number of processes that ended while they read the pending batch, without a sign of a record's fault
    `fault`    True if Spark's message on the failure is a sign of a record's fault
    `limit`    maximum number of records of each kind (metrics, logs) in a batch; 0: the limit in the settings
    `skipped`  (source, topic, partition, offset) of the record that is left out
    `until`    [(topic, partition, end offset)]: where the most recently narrowed batch ended before its narrowing
    `heap`     True if the heap was exhausted
    `owner`    the id of this process
    """

    running: bool = False
    batch: int = -1
    reading: bool = False
    deaths: int = 0
    kills: int = 0
    fault: bool = False
    limit: int = 0
    skipped: tuple[int, str, int, int] | None = None
    until: list[tuple[str, int, int]] = []
    heap: bool = False
    owner: str = ""


class Guard:
    """Read and write a process's notes on its batches, and make its batches smaller after a crash."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        noted = checkpoint.read(RUN)
        self._run = msgspec.json.decode(noted, type=Run) if noted else Run()
        self._calm = 0

    @property
    def limit(self) -> int:
        """The maximum number of records of each kind (metrics, logs) per batch after a crash; 0: as in the settings."""
        return self._run.limit

    def begin(self, certain: bool = False) -> None:
        """Find out how the previous process ended, repair the checkpoint, and write a note that this process runs.

        `certain`: True if the previous process certainly exhausted its heap. Raises ServiceError if the batch that
        ended the previous process contains no record.
        """
        pending, run = self._checkpoint.pending(), self._run
        again = pending is not None and pending.batch == run.batch
        if not again:
            run.skipped = None
            run.deaths, run.kills, run.reading = 0, 0, True
        if pending is None or not run.running or self._checkpoint.read(WRITING) == str(pending.batch):
            run.deaths, run.kills = 0, 0
        elif certain or run.fault or run.reading:
            signed = certain or run.fault
            run.deaths = DEATHS if certain else run.deaths + signed
            run.kills += not signed
            run.heap = run.heap or certain
            self._mend(pending, signed)
        run.batch = -1 if pending is None else pending.batch
        run.running, run.reading, run.fault, run.owner = True, False, False, uuid4().hex
        self._write()

    def reads(self, batch: int) -> None:
        """Write into the notes that this process is about to read the batch."""
        if batch == self._run.batch and not self._run.reading:
            self._run.reading = True
            self._note()

    def owns(self) -> bool:
        """True if no other process has taken over the checkpoint."""
        noted = self._checkpoint.read(RUN)
        return noted is None or msgspec.json.decode(noted, type=Run).owner == self._run.owner

    def writes(self, batch: int) -> Source | None:
        """Write into the notes that the monitor is about to write results of a batch.

        Return the record that the batch leaves out, for a reject; None if the batch leaves out no record.
        """
        self._checkpoint.write(WRITING, str(batch))
        skipped = self._run.skipped
        return None if skipped is None or batch != self._run.batch else Source(*skipped[1:])

    def committed(self, batches: int) -> bool:
        """Count the batches that succeeded since the last call.

        Return True if the query should restart with larger batches.
        """
        run = self._run
        if not run.limit:
            return False
        self._calm += batches
        if batches and (run.skipped is not None or (run.until and not run.heap)):
            positions = self._checkpoint.positions()
            if run.skipped is not None or all(positions.get((t, p), 0) >= end for t, p, end in run.until):
                self.unlimited()
                return True
        if self._calm < CALM:
            return False
        self._restart(run.limit * GROWTH)
        return True

    def unlimited(self) -> None:
        """Remove the limit of records per batch that this guard has set."""
        self._run.until, self._run.heap = [], False
        self._restart(0)

    def _restart(self, limit: int) -> None:
        run = self._run
        run.limit, run.batch, run.deaths, run.kills, run.skipped, self._calm = limit, -1, 0, 0, None, 0
        self._note()

    def ended(self, why: str | None) -> None:
        """Write into the notes how the query ended.

        `why`: Spark's message on the query's failure; None if the process ends normally.
        """
        of_records = any(mark in (why or "") for mark in OF_RECORDS)
        self._run.fault = of_records and not any(mark in (why or "") for mark in NOT_OF_RECORDS)
        self._run.running = self._run.fault
        self._note()

    def _note(self) -> None:
        if self.owns():
            self._write()

    def _write(self) -> None:
        self._checkpoint.write(RUN, msgspec.json.encode(self._run).decode())

    def _mend(self, pending: Pending, signed: bool) -> None:
        run, sizes = self._run, pending.sizes
        total = sum(sizes.values())
        sign = "a record probably caused the end" if signed else "the cause is unknown"
        log.warning("the monitor ended while it read batch %s (%s records); %s", pending.batch, total, sign)
        deaths, kills = (1, DEATHS) if run.limit and total > 1 else (DEATHS, KILLS)
        if run.deaths < deaths and run.kills < kills:
            return
        if not total:
            if run.skipped is not None:
                source, topic, partition, offset = run.skipped
                self._checkpoint.begin_at(pending.batch, (source, topic, partition), offset)
                self._checkpoint.end_at(pending, {(source, topic, partition): offset})
                run.skipped = None
            run.running, run.deaths, run.kills = False, 0, 0
            self._write()
            raise ServiceError(
                "the monitor ends although it reads no record. The messages above give the reason. Check [monitor] "
                "heap_mb and the free memory of this machine"
            )
        if total > 1:
            fewer = narrowed(sizes, random.Random(repr(sorted(pending.begin.items()))))
            self._checkpoint.end_at(pending, {part: pending.begin.get(part, 0) + n for part, n in fewer.items()})
            run.until = [(topic, partition, pending.end[at, topic, partition]) for at, topic, partition in sizes]
            run.limit, run.deaths, run.kills = sum(fewer.values()), 0, 0
            log.warning(
                "the batch is now read in steps of %s records, to find the record that ends the monitor", run.limit
            )
        else:
            (part,) = sizes
            begin = pending.begin.get(part, 0)
            self._checkpoint.begin_at(pending.batch, part, begin + 1)
            self._checkpoint.end_at(pending, {part: begin + 1})
            run.skipped, run.deaths, run.kills = (*part, begin), 0, 0
            log.error("reading record %s of %s/%s ends the monitor: this record is left out", begin, part[1], part[2])


def narrowed(sizes: Mapping[Part, int], choose: random.Random) -> dict[Part, int]:
    """Return how many records to read of each part (topic and partition): a sixteenth of its records, but at least one.

    If each part has one record, half of the parts are chosen at random.
    """
    if max(sizes.values()) > 1:
        return {part: max(1, size // GROWTH) for part, size in sizes.items()}
    return dict.fromkeys(choose.sample(sorted(sizes), len(sizes) // 2), 1)
