"""The query's checkpoint: planned and committed batches, and the monitor's own notes beside it.

Spark writes `offsets/<n>` when it has planned batch n, and `commits/<n>` when all its results are written. The next
start of the query repeats a batch that was planned and not committed, with the same ends. A part of a source is
(position of the source, topic, partition).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clienthealth.model.errors import StateError
from clienthealth.settings import MonitorSettings
from clienthealth.spark.files import Files

#: Next offset of each source (position), by topic and partition (a decimal number, as in JSON).
Offsets = Sequence[Mapping[str, Mapping[str, int]]]
Part = tuple[int, str, int]
#: Spark's options in each batch, which Spark compares with those of a new start.
PARTITIONS = "spark.sql.shuffle.partitions"
#: The note of the state's form, the number of the query's sources, and the position of the ticks among them.
FORM, SOURCES, TICKS = "form", 3, 2


@dataclass(frozen=True)
class Pending:
    """A batch that was planned (epoch ms) and not committed: it reads from `begin` up to `end`, by part."""

    batch: int
    begin: Mapping[Part, int]
    end: Mapping[Part, int]
    planned_ms: int = 0

    @property
    def sizes(self) -> Mapping[Part, int]:
        """The non-empty parts with their number of offsets."""
        sizes = {part: end - self.begin.get(part, 0) for part, end in self.end.items()}
        return {part: size for part, size in sizes.items() if size > 0}


class Checkpoint(Files):
    """The folder (or URL) of a query's checkpoint. Methods that read it raise StateError if it is unreadable."""

    def claim(self, form: int) -> None:
        """Note the form in which the state is written from now on.

        Raises StateError, before any change, if a later release wrote the checkpoint, or one with fewer sources.
        """
        noted, newest = self.read(FORM), self.newest
        sources = SOURCES if newest is None else len(self._offsets(newest)[1])
        is_later = int(noted or 1) > form or sources > SOURCES
        if is_later or sources < SOURCES:
            has = f"form {noted} of the state" if sources == SOURCES else f"{sources} sources"
            raise StateError(
                f"the checkpoint was written by {'a later' if is_later else 'an earlier'} release (it has {has}, this "
                f"program knows {form if sources == SOURCES else SOURCES}); run that release, or begin anew with "
                "another folder in [monitor] checkpoint: open incidents are taken over from the history"
            )
        if noted != str(form):
            self.write(FORM, str(form))

    def begin_ticks(self, now_ms: int) -> None:
        """Move the begin of the ticks back if it is in the future.

        Spark counts their seconds from the begin of the source, and fails if it has counted beyond `now_ms`, as after a
        clock was set back or on another machine.
        """
        newest = self._newest("offsets")
        begun = self.read(f"sources/{TICKS}/0")
        if newest is None or begun is None:
            return
        counted_ms = 1000 * int((self.read(f"offsets/{newest}") or "").splitlines()[2 + TICKS])
        if int(begun.split()[1]) + counted_ms > now_ms:
            self.write(f"sources/{TICKS}/0", f"v1\n{now_ms - counted_ms}")

    def pending(self) -> Pending | None:
        """Return the batch that will be repeated, None if the newest was committed."""
        batch = self._newest("offsets")
        if batch is None or batch == self._newest("commits"):
            return None
        (_, about), ends = self._offsets(batch)
        begins = self._offsets(batch - 1)[1] if batch else [self._initial(at) for at in range(len(ends))]
        return Pending(batch, _parts(begins), _parts(ends), int(json.loads(about)["batchTimestampMs"]))

    def positions(self) -> dict[tuple[str, int], int]:
        """Return where the query goes on, by topic and partition."""
        pending, newest = self.pending(), self._newest("offsets")
        parts = pending.begin if pending else {} if newest is None else _parts(self._offsets(newest)[1])
        return {(topic, partition): offset for (_, topic, partition), offset in parts.items()}

    @property
    def begun(self) -> bool:
        """True if a batch has been planned."""
        return self.newest is not None

    @property
    def newest(self) -> int | None:
        """The newest planned batch."""
        return self._newest("offsets")

    @property
    def query(self) -> str | None:
        """The id of the checkpoint's query, None before its first start."""
        about = self.read("metadata")
        return None if about is None else str(json.loads(about)["id"])

    def partitions(self) -> int | None:
        """The number of partitions of the state, None before the first batch."""
        newest = self._newest("offsets")
        return None if newest is None else int(json.loads(self._offsets(newest)[0][1])["conf"][PARTITIONS])

    def end_at(self, pending: Pending, end: Mapping[Part, int]) -> None:
        """Move the end of the pending batch, and its other parts to their begin. Nothing of it may be written yet."""
        head, ends = self._offsets(pending.batch)
        now: list[dict[str, dict[str, int]]] = [{} for _ in ends]
        for (at, topic, partition), offset in {**pending.begin, **end}.items():
            now[at].setdefault(topic, {})[str(partition)] = offset
        self._write_offsets(pending.batch, head, now)
        # States of the batch as it was before; Spark would take one as a snapshot for the new batch.
        written = self._files.globStatus(self._path(f"{self._root}/state/*/*/{pending.batch + 1}.*"))
        for status in written or ():
            self._files.delete(status.getPath(), False)

    def begin_at(self, batch: int, part: Part, offset: int) -> None:
        """Move a batch's begin in one part, by moving the end of the batch before it."""
        at, topic, partition = part
        if not batch:
            initial = {t: dict(offsets) for t, offsets in self._initial(at).items()}
            initial[topic][str(partition)] = offset
            # Spark skips the first byte, which is 0 in its own files.
            self.write(f"sources/{at}/0", f"\0v1\n{json.dumps(initial)}")
            return
        head, ends = self._offsets(batch - 1)
        now = [{t: dict(offsets) for t, offsets in source.items()} for source in ends]
        now[at].setdefault(topic, {})[str(partition)] = offset
        self._write_offsets(batch - 1, head, now)

    def _newest(self, kind: str) -> int | None:
        folder = self._path(f"{self._root}/{kind}")
        if not self._files.exists(folder):
            return None
        names = (str(status.getPath().getName()) for status in self._files.listStatus(folder))
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _offsets(self, batch: int) -> tuple[list[str], Offsets]:
        try:
            version, about, *sources = (self.read(f"offsets/{batch}") or "").splitlines()
            return [version, about], [json.loads(source) if source.startswith("{") else {} for source in sources]
        except ValueError as error:
            raise StateError(
                f"offsets/{batch} in the checkpoint is damaged; begin anew with another folder in [monitor] "
                "checkpoint: open incidents are taken over from the history"
            ) from error

    def _write_offsets(self, batch: int, head: Sequence[str], ends: Offsets) -> None:
        # The rate source stores a number instead of JSON offsets; keep it unchanged.
        before = dict(enumerate((self.read(f"offsets/{batch}") or "").splitlines()[len(head) :]))
        lines = [
            json.dumps(offsets) if offsets or before.get(at, "{")[0] == "{" else before[at]
            for at, offsets in enumerate(ends)
        ]
        self.write(f"offsets/{batch}", "\n".join([*head, *lines]))

    def _initial(self, source: int) -> Mapping[str, Mapping[str, int]]:
        text = self.read(f"sources/{source}/0")
        return json.loads(text[text.index("{") :]) if text and "{" in text else {}


def _parts(offsets: Offsets) -> dict[Part, int]:
    return {
        (at, topic, int(partition)): offset
        for at, source in enumerate(offsets)
        for topic, partitions in source.items()
        for partition, offset in partitions.items()
    }


#: The note of the partition count for which the buckets' numbers were chosen; the seed of Spark's hash of a group.
SPREAD, SEED = "spread", 42
_WORD = 0xFFFFFFFF


def numbers_of(checkpoint: Checkpoint, settings: MonitorSettings) -> Sequence[int]:
    """Return Spark's number of each bucket. For a new checkpoint, note how they were chosen.

    They are fixed with the checkpoint, because the state is stored by them.
    """
    noted = checkpoint.read(SPREAD)
    if noted is None:
        noted = str(settings.shuffle_partitions)
        checkpoint.write(SPREAD, noted)
    return numbers(settings.buckets, int(noted))


def numbers(buckets: int, partitions: int) -> tuple[int, ...]:
    """Return a number for each bucket, so that no partition has two buckets more than another.

    Spark puts a group on a partition by a hash of its number. Numbered 0, 1, 2, … 32 buckets fall on two partitions as
    12 and 20, on eight as 1 to 6 each, and most cores wait for one.
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
    """Return Spark's hash of a 32-bit integer, as a signed one: MurmurHash3_x86_32 with the seed SEED.

    Spark's own cannot be called reliably: on a busy machine Py4J sometimes does not find it.
    """
    mixed = number * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    hashed = _rotated(SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return hashed - (hashed >> 31 << 32)
