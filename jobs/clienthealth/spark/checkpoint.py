"""The checkpoint of the monitor's Spark query: planned and committed batches, and files that the monitor adds.

Spark writes `offsets/<n>` when it plans batch n, and `commits/<n>` when the batch's results are written. At the next
start, Spark repeats a batch without a commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clienthealth.model.errors import StateError
from clienthealth.settings import MonitorSettings
from clienthealth.spark.files import Files

#: The next offsets to read from one source, by topic and partition.
Offsets = dict[str, dict[str, int]]
#: One partition of a topic in a source: (index of the source in the query, topic, partition).
Part = tuple[int, str, int]
#: A checkpoint stores the value of this Spark option; after a restart, Spark uses the stored value.
PARTITIONS = "spark.sql.shuffle.partitions"
#: FORM: file with the version of the state's format. SOURCES: number of sources. TICKS: index of the tick source.
FORM, SOURCES, TICKS = "form", 3, 2


@dataclass(frozen=True)
class Pending:
    """A batch planned at `planned_ms` (epoch ms) but not committed.

    The batch reads each part (source, topic, partition) from offset `begin` up to `end`.
    """

    batch: int
    begin: Mapping[Part, int]
    end: Mapping[Part, int]
    planned_ms: int = 0

    @property
    def sizes(self) -> Mapping[Part, int]:
        """The number of offsets that the batch reads from each part (source, topic, partition)."""
        sizes = {part: end - self.begin.get(part, 0) for part, end in self.end.items()}
        return {part: size for part, size in sizes.items() if size > 0}


class Checkpoint(Files):
    """The folder (or URL) of a streaming query's checkpoint.

    Methods that read the folder raise StateError if a file is damaged.
    """

    def claim(self, form: int) -> None:
        """Write the version of the state's format (`state.VERSION`) into the checkpoint's folder.

        Raises StateError, and changes nothing, if the checkpoint was written by a later release, or by an earlier
        release with fewer Spark sources.
        """
        noted, newest = self.read(FORM), self.newest
        sources = SOURCES if newest is None else len(self._offsets(newest)[1])
        is_later = int(noted or 1) > form or sources > SOURCES
        if is_later or sources < SOURCES:
            has = f"version {noted} of the state" if sources == SOURCES else f"{sources} sources"
            raise StateError(
                f"the checkpoint was written by {'a later' if is_later else 'an earlier'} release: the checkpoint has "
                f"{has}, and this release has {f'version {form}' if sources == SOURCES else f'{SOURCES} sources'}. Run "
                f"the {'later' if is_later else 'earlier'} release, or set [monitor] checkpoint to a new folder. With "
                "a new folder, the monitor reads the open incidents from the history"
            )
        if noted != str(form):
            self.write(FORM, str(form))

    def begin_ticks(self, now_ms: int) -> None:
        """Move the tick source's start back if ticks are later than `now_ms`: Spark would fail on ticks in the future.

        Ticks can be in the future only if the clock was set back.
        """
        newest = self.newest
        begun = self.read(f"sources/{TICKS}/0")
        if newest is None or begun is None:
            return
        counted_ms = 1000 * int((self.read(f"offsets/{newest}") or "").splitlines()[2 + TICKS])
        if int(begun.split()[1]) + counted_ms > now_ms:
            self.write(f"sources/{TICKS}/0", f"v1\n{now_ms - counted_ms}")

    def pending(self) -> Pending | None:
        """Return the batch that was planned but not committed; None if there is none."""
        batch = self.newest
        if batch is None or batch == self._newest("commits"):
            return None
        (_, about), ends = self._offsets(batch)
        begins = self._offsets(batch - 1)[1] if batch else [self._initial(at) for at in range(len(ends))]
        return Pending(batch, _parts(begins), _parts(ends), int(json.loads(about)["batchTimestampMs"]))

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the next offset to read, by topic and partition; {} before the first batch."""
        pending, newest = self.pending(), self.newest
        parts = pending.begin if pending else {} if newest is None else _parts(self._offsets(newest)[1])
        return {(topic, partition): offset for (_, topic, partition), offset in parts.items()}

    @property
    def newest(self) -> int | None:
        """The number of the newest planned batch; None if there is none."""
        return self._newest("offsets")

    @property
    def query(self) -> str | None:
        """The id of the query that uses the checkpoint; None before the query's first start."""
        about = self.read("metadata")
        return None if about is None else str(json.loads(about)["id"])

    def partitions(self) -> int | None:
        """Return the number of shuffle partitions of the state; None before the first batch."""
        newest = self.newest
        return None if newest is None else int(json.loads(self._offsets(newest)[0][1])["conf"][PARTITIONS])

    def end_at(self, pending: Pending, end: Mapping[Part, int]) -> None:
        """Give the pending batch new end offsets, and leave out parts (source, topic, partition) that are not in `end`.

        Call this method only if no result of the batch has been written.
        """
        head, ends = self._offsets(pending.batch)
        now: list[Offsets] = [{} for _ in ends]
        for (at, topic, partition), offset in {**pending.begin, **end}.items():
            now[at].setdefault(topic, {})[str(partition)] = offset
        self._write_offsets(pending.batch, head, now)
        # Delete the batch's states, because Spark would use them with the new end offsets.
        written = self._files.globStatus(self._path(f"{self._root}/state/*/*/{pending.batch + 1}.*"))
        for status in written or ():
            self._files.delete(status.getPath(), False)

    def begin_at(self, batch: int, part: Part, offset: int) -> None:
        """Change the offset from which a batch reads a part (source, topic, partition)."""
        at, topic, partition = part
        if not batch:
            initial = self._initial(at)
            initial[topic][str(partition)] = offset
            # Spark ignores the first byte of this file.
            self.write(f"sources/{at}/0", f"\0v1\n{json.dumps(initial)}")
            return
        head, ends = self._offsets(batch - 1)
        ends[at].setdefault(topic, {})[str(partition)] = offset
        self._write_offsets(batch - 1, head, ends)

    def _newest(self, kind: str) -> int | None:
        folder = self._path(f"{self._root}/{kind}")
        if not self._files.exists(folder):
            return None
        names = (str(status.getPath().getName()) for status in self._files.listStatus(folder))
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _offsets(self, batch: int) -> tuple[list[str], list[Offsets]]:
        try:
            version, about, *sources = (self.read(f"offsets/{batch}") or "").splitlines()
            return [version, about], [json.loads(source) if source.startswith("{") else {} for source in sources]
        except ValueError as error:
            raise StateError(
                f"the checkpoint's file offsets/{batch} is damaged. Set [monitor] checkpoint to a new folder. With a "
                "new folder, the monitor reads the open incidents from the history"
            ) from error

    def _write_offsets(self, batch: int, head: Sequence[str], ends: Sequence[Offsets]) -> None:
        # The line of a rate source has a number instead of offsets, so it is copied unchanged.
        before = dict(enumerate((self.read(f"offsets/{batch}") or "").splitlines()[len(head) :]))
        lines = [
            json.dumps(offsets) if offsets or before.get(at, "{")[0] == "{" else before[at]
            for at, offsets in enumerate(ends)
        ]
        self.write(f"offsets/{batch}", "\n".join([*head, *lines]))

    def _initial(self, source: int) -> Offsets:
        text = self.read(f"sources/{source}/0")
        return json.loads(text[text.index("{") :]) if text and "{" in text else {}


def _parts(offsets: Sequence[Offsets]) -> dict[Part, int]:
    return {
        (at, topic, int(partition)): offset
        for at, source in enumerate(offsets)
        for topic, partitions in source.items()
        for partition, offset in partitions.items()
    }


#: SPREAD: file with the first value of `shuffle_partitions` for the checkpoint. SEED: seed of Spark's hash.
SPREAD, SEED = "spread", 42
_WORD = 0xFFFFFFFF


def numbers_of(checkpoint: Checkpoint, settings: MonitorSettings) -> Sequence[int]:
    """Return a number for each bucket of processes: the key under which Spark stores the bucket's state.

    The numbers depend on the first value of `shuffle_partitions` for this checkpoint.
    """
    if (noted := checkpoint.read(SPREAD)) is None:
        noted = str(settings.shuffle_partitions)
        checkpoint.write(SPREAD, noted)
    return numbers(settings.buckets, int(noted))


def numbers(buckets: int, partitions: int) -> tuple[int, ...]:
    """Return a number for each bucket, so that Spark spreads the buckets evenly over the partitions.

    With the numbers 0 to 31 and two partitions, Spark's hash would put 12 buckets into one partition, and 20 into the
    other.
    """
    left = [len(range(partition, buckets, partitions)) for partition in range(partitions)]
    chosen: list[int] = []
    number = 0
    while len(chosen) < buckets:
        partition = _hash(number) % partitions
        if left[partition]:
            left[partition] -= 1
            chosen.append(number)
        number += 1
    return tuple(chosen)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _hash(number: int) -> int:
    """Return Spark's hash of a 32-bit integer as a signed number: MurmurHash3_x86_32 with the seed SEED."""
    mixed = number * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    hashed = _rotated(SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return hashed - (hashed >> 31 << 32)
