"""Measure one evaluation of lag without Spark: 2,000 groups × 6 partitions × 90 samples."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence

from clienthealth.measure.lag import Observation, Partition, group_lag
from clienthealth.settings import LagSettings

GROUPS, PARTITIONS, READINGS = 2000, 6, 90
MEMBER = {"client_id": "c", "consumer_id": "c-1", "host": "/10.0.0.1"}


def histories(random_: random.Random) -> Mapping[Partition, Sequence[Observation]]:
    by_partition: dict[Partition, list[Observation]] = {}
    for partition in range(PARTITIONS):
        rate = random_.choice((1.0, 0.97, 0.9))
        for i in range(READINGS):
            end = 1000 * i + random_.randrange(100)
            committed = max(0, round(1000 * i * rate) - random_.randrange(50))
            by_partition.setdefault(("orders", partition), []).append((10_000 * i, committed, end, 0, 10_000 * i))
    return by_partition


def measure() -> str:
    random_ = random.Random(1)
    samples = [histories(random_) for _ in range(20)]
    limits = LagSettings()
    began = time.perf_counter()
    for number in range(GROUPS):
        seen = samples[number % len(samples)]
        group_lag("g", seen, dict.fromkeys(seen, MEMBER), 1.0, limits)
    seconds = time.perf_counter() - began
    return f"lag: {GROUPS * PARTITIONS} partitions × {READINGS} readings judged in {seconds:.2f} s"


if __name__ == "__main__":
    sys.stdout.write(measure() + "\n")
