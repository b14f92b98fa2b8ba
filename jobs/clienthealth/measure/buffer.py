"""Buffer exhaustion: how full a producer's buffer is, who waits for it, and when it will be full.

Java producers tell bytes (`buffer-total-bytes`, `buffer-available-bytes`); librdkafka has a limit on bytes and one
on records, and the fuller of the two counts. kafka-python 3 has no limit, so its buffer is never full: all that can be
said is how many records are not acknowledged yet, which our reporter counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clienthealth.measure.columns import Column, Floats
from clienthealth.measure.view import MIN_READINGS, Windows

#: A slope (share of the buffer per second) that is no more than this is none.
LEAST_SLOPE = 1e-6


def used_ratios(w: Windows) -> Column:
    """The used share of the buffer (0 to 1) at each reading."""
    return w.once_for_rows("used_ratios", lambda: Column(_used_ratios(w)))


def _used_ratios(w: Windows) -> Floats:
    total, limit = w.col("buffer-total-bytes"), w.col("queue-records-limit")
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = np.where(total > 0, (total - w.col("buffer-available-bytes")) / total, np.nan)
        by_records = np.where(limit > 0, w.col("queue-records") / limit, np.nan)
    return np.clip(np.fmax(by_bytes, by_records), 0.0, 1.0)


def buffer_used_ratio(w: Windows) -> Mapping[str, Floats]:
    """The last and the greatest used share."""
    used = used_ratios(w)
    return {"last": w.last(used), "max": w.once("used max", lambda: w.max(used))}


def buffer(w: Windows) -> Mapping[str, Floats]:
    """Total and available bytes, waiting threads, wait ratio, exhausted and queued records, time to full (s)."""
    return {
        "total_bytes": w.last("buffer-total-bytes"),
        "available_bytes": w.last("buffer-available-bytes"),
        "waiting_threads": w.last("waiting-threads"),
        "wait_ratio": w.last("bufferpool-wait-ratio"),
        "exhausted_records_total": w.last("buffer-exhausted-total"),
        "queued_records": w.last("queue-records"),
        "seconds_to_full": seconds_to_full(w),
    }


def seconds_to_full(w: Windows) -> Floats:
    """Seconds until the buffer is full at the window's least-squares slope; NaN while it does not fill up."""
    used, seconds = used_ratios(w), np.full(len(w), np.nan)
    # The slope is positive only where some reading shows more than the one before it.
    rising = np.flatnonzero((w.count(used) >= MIN_READINGS) & w.rose(used))
    if len(rising):
        seconds[rising] = _until_full(w.at(rising), used)
    return seconds


def _until_full(w: Windows, used: Column) -> Floats:
    origin = used.first_row(w.lo, w.hi)
    u = used.values[w.rows]
    reported = ~np.isnan(u)
    u = np.where(reported, u, 0.0)
    # From the window's first point on: squares of epoch times would lose their last digits.
    seconds = w.ts / 1000
    t = np.where(reported, seconds[w.rows] - seconds[origin][w.window_of_row], 0.0)
    n = w.count(used)
    sum_t, sum_u, sum_tt, sum_tu = (w.reduced(np.add, terms) for terms in (t, u, t * t, t * u))
    denominator = n * sum_tt - sum_t * sum_t
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * sum_tu - sum_t * sum_u) / denominator
        return np.where((denominator > 0) & (slope > LEAST_SLOPE), (1 - w.last(used)) / slope, np.nan)
