"""The numbers by which Spark knows the buckets of processes: chosen so that all partitions have as many of them.

Spark puts a group on a partition by a hash of its number. Numbered 0, 1, 2, … 32 buckets fall on two partitions as 12
and 20, on eight as 1 to 6 each, and most cores wait for one. Numbers are fixed with the checkpoint: state is kept by
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.settings import MonitorSettings
from clienthealth.spark.checkpoint import Checkpoint

#: The note beside a checkpoint: for how many partitions its numbers were chosen.
NOTE = "spread"
_SEED, _WORD = 42, 0xFFFFFFFF


def numbers_of(checkpoint: Checkpoint, settings: MonitorSettings) -> Sequence[int]:
    """The number of each bucket. Notes for a new checkpoint how they were chosen."""
    noted = checkpoint.read(NOTE)
    if noted is None:
        noted = str(settings.shuffle_partitions)
        checkpoint.write(NOTE, noted)
    return numbers(settings.buckets, int(noted))


def numbers(buckets: int, partitions: int) -> tuple[int, ...]:
    """A number for each bucket, such that no partition has two buckets more than another."""
    left = [len(range(partition, buckets, partitions)) for partition in range(partitions)]
    chosen: list[int] = []
    number = 0
    while len(chosen) < buckets:
        partition = partition_of(number, partitions)
        if left[partition]:
            left[partition] -= 1
            chosen.append(number)
        number += 1
    return tuple(chosen)


def partition_of(number: int, partitions: int) -> int:
    """The partition on which Spark puts the group of a number (`int`): Murmur3 of its four bytes, as Spark seeds it."""
    mixed = number * 0xCC9E2D51 & _WORD
    mixed = _rotated(mixed, 15) * 0x1B873593 & _WORD
    mixed = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD
