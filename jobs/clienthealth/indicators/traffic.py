"""What the client's own metrics say of its dealings with the brokers: they make no verdict, but people ask for them.

Counts become rates of the window. So they mean the same for clients that count from their start and for those that
count from one reading to the next, and a client that restarts makes no step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clienthealth.windows.columns import Floats
from clienthealth.windows.view import Windows


def per_second(w: Windows, total: str) -> Floats:
    """How fast a total rose from its first to its last reading; NaN where it has fewer than two, or was reset."""
    column, grown = w.column(total), w.grown(total)
    first, last = column.first_row(w.lo, w.hi), column.last_row(w.lo, w.hi)
    seconds = (w.ts[last] - w.ts[first]) / 1000 if len(w.ts) else np.zeros(len(w))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((grown >= 0) & (seconds > 0), grown / seconds, np.nan)


def throttle_seconds(w: Windows) -> Floats:
    """The average time for which brokers held answers back because the client exceeds its quota."""
    return w.last("produce-throttle-time-avg" if w.kind == "producer" else "fetch-throttle-time-avg") / 1000


def batch_size_bytes(w: Windows) -> Floats:
    """The average size of the batches sent; clients before 1.0 say 0 where they sent none."""
    size = w.last("batch-size-avg")
    return np.where(size > 0, size, np.nan)


def compression_ratio(w: Windows) -> Floats:
    """What is left of the batches sent when compressed, 1 without compression; clients that sent none may say 0."""
    ratio = w.last("compression-rate-avg")
    return np.where(ratio > 0, ratio, np.nan)


def slowest_broker(w: Windows) -> Mapping[str, Floats]:
    """The broker whose average answer took longest: its id, and how long (s)."""
    return {"id": w.last("slowest-node"), "latency_seconds": w.last("slowest-node-latency-avg") / 1000}


def commit_latency_seconds(w: Windows) -> Mapping[str, Floats]:
    """How long commits of offsets took: the last average, and the longest."""
    return {"avg": w.last("commit-latency-avg") / 1000, "max": w.max("commit-latency-max") / 1000}


def rebalance_seconds(w: Windows) -> Floats:
    """How long the longest rebalance of late took."""
    return w.max("rebalance-latency-max") / 1000
