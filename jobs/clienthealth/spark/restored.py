"""Handle a history that is older or newer than the checkpoint, because one of them was restored or created anew."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.settings import Settings
from clienthealth.spark import history
from clienthealth.spark.checkpoint import Checkpoint
from clienthealth.spark.history import ReplayGuard
from clienthealth.spark.stepping import Quality, by_bucket

log = logging.getLogger(__name__)

#: Files beside the checkpoint. AGAIN describes the rows that may be computed again; WRITTEN contains the number of the
#: newest batch in `quality`.
AGAIN, WRITTEN = "again.json", "written"
#: The monitor writes this file when the state contains all incidents that are open in the history.
OPENED = "opened"
#: The monitor skips repeated rows until LASTING_MS have passed since the history's newest event.
LASTING_MS = 2 * 86_400_000
#: If topics are read again, the reading begins MORE_SECONDS before the history's end, because the history's last
#: minutes may be missing.
MORE_SECONDS = 600


@dataclass(frozen=True)
class Compared:
    """The result of comparing the history with the checkpoint.

    `ends`              the history's newest event time; None if the history is empty, or is neither newer nor older
                        than the checkpoint
    `ahead`             True if the history has newer data than the checkpoint
    `behind`            True if the history lacks data that the checkpoint has read
    `newest_commit_ms`  time of the history's newest commit (epoch ms); 0 without commits
    """

    ends: datetime | None
    ahead: bool = False
    behind: bool = False
    newest_commit_ms: int = 0


def compared(spark: SparkSession, root: str, checkpoint: Checkpoint) -> Compared:
    """Compare the batch numbers in the history's newest commits with the checkpoint."""
    query, newest, written = checkpoint.query, checkpoint.newest, checkpoint.read(WRITTEN)
    if not history.there(spark, root):
        return Compared(None, behind=written is not None)
    of_quality = history.commits(spark, root, "quality")
    named = sorted((*of_quality, *history.commits(spark, root, "minutes")), key=lambda commit: commit[0])
    own = [origin.batch_id for _, origin in of_quality if origin.query_id == query]
    behind = written is not None and int(written) > max(own, default=-1)
    if named:
        commit_ms, origin = named[-1]
        ahead = newest is None or origin.query_id != query or origin.batch_id > newest
    else:
        commit_ms, ahead = 0, newest is None
    ends = history.ends(spark, root) if ahead or behind else None
    return Compared(ends, ahead and ends is not None, behind, commit_ms)


def sentence(state: Compared, settings: Settings, now: datetime) -> str | None:
    checkpoint, root = settings.monitor.checkpoint, settings.monitor.history
    if state.behind:
        if state.ends is None:
            until, back = "is empty", "to the time for which the topics keep records"
        else:
            until = f"ends on {state.ends:%Y-%m-%d at %H:%M} UTC"
            back = f"= {int((now - state.ends).total_seconds()) + MORE_SECONDS}"
        return (
            f"the history in {root} {until}, but the checkpoint in {checkpoint} has read newer records. Reviews lack "
            "the verdicts on these records, and failures that ended meanwhile look open. To judge the data in "
            "the topics again, set [monitor] checkpoint to a new folder, and set [monitor] start_seconds_back "
            f"{back}. No record is counted twice"
        )
    if state.ahead:
        return (
            f"the history in {root} has newer data (until {state.ends:%Y-%m-%d at %H:%M} UTC) than the checkpoint in "
            f"{checkpoint}. The monitor reads the newer data again, and adds no row to the history twice"
        )
    return None


class Restored:
    """Count each row once, even if the monitor computes it again.

    `again`: the rows that may be computed again; None if there are none.
    """

    def __init__(self, spark: SparkSession, settings: Settings, checkpoint: Checkpoint) -> None:
        self._spark, self._root, self._checkpoint = spark, settings.monitor.history, checkpoint
        #: For each (minute, topic): the history's counts that `not_counted` must still subtract from new rows.
        self._held: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        state, now = compared(spark, self._root, checkpoint), datetime.now(UTC)
        if (text := sentence(state, settings, now)) is not None:
            log.log(logging.INFO if checkpoint.newest is None else logging.WARNING, "%s", text)
        if state.ahead and state.ends is not None:
            again = ReplayGuard(int(state.ends.timestamp() * 1000), state.newest_commit_ms)
            checkpoint.write(AGAIN, msgspec.json.encode(again).decode())
        noted = checkpoint.read(AGAIN)
        self.again = msgspec.json.decode(noted, type=ReplayGuard) if noted else None
        if self.again is not None and self.again.until_ms + LASTING_MS <= time.time() * 1000:
            self.again = None

    def not_counted(self, rows: Sequence[Quality]) -> list[Quality]:
        """Subtract from each row the counts that the history already has for the row's minute and topic.

        Rows in which no count remains are left out.
        """
        if self.again is None:
            return [*rows]
        minutes = {row.minute_ms for row in rows if row.minute_ms <= self.again.until_ms}
        if new := minutes - {minute for minute, _ in self._held}:
            # The history's counts must be read before rows are added.
            names = "records", "rejected", "late"
            first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (min(new), max(new)))
            there = (
                history.read(self._spark, self._root, "quality")
                .filter(F.col("day").between(F.lit(first.date()), F.lit(last.date())))
                .groupBy(F.unix_millis("minute").alias("minute"), "source_topic")
                .agg(*(F.sum(name).alias(name) for name in names))
            )
            for known in there.filter(F.col("minute").isin(*new)).collect():
                self._held[known["minute"], known["source_topic"]] = Counter({name: known[name] or 0 for name in names})
            for minute in new:
                self._held.setdefault((minute, ""), Counter())
        left = []
        for row in rows:
            counted = Counter(records=row.records, rejected=row.rejected, late=row.late)
            held = self._held[row.minute_ms, row.topic]
            more = counted - held
            held -= counted
            if more:
                numbers = more["records"], more["rejected"], more["late"]
                left.append(Quality(row.minute_ms, row.topic, *numbers, row.batches))
        return left

    def written(self, batch: int) -> None:
        """Write into a file beside the checkpoint that the table `quality` has rows of this batch."""
        self._checkpoint.write(WRITTEN, str(batch))


class Opened:
    """Incidents that are open in the history, and that a monitor with a new checkpoint continues.

    `by_bucket`: the open incidents by bucket; empty if the query's state has them already.
    """

    def __init__(self, spark: SparkSession, settings: Settings, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._noted = checkpoint.read(OPENED) is not None
        self.by_bucket: Mapping[int, bytes] = {}
        if not self._noted:
            incidents = history.open_incidents(spark, settings.monitor.history)
            self.by_bucket = by_bucket(incidents, settings.monitor.buckets)
        self._missing = set(self.by_bucket)

    def stepped(self, buckets: Iterable[int | None]) -> None:
        """Remember that a batch has put the open incidents of all buckets in `buckets` into the state."""
        self._missing.difference_update(bucket for bucket in buckets if bucket is not None)

    def committed(self) -> None:
        """Write the file OPENED if the state contains all incidents that were open in the history.

        Call this method only when all batches so far are committed.
        """
        if not self._missing and not self._noted:
            self._checkpoint.write(OPENED, "in the state")
            self._noted = True
