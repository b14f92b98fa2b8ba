"""Measure how full producers' buffers are, and how long producers' callbacks take.

librdkafka limits the bytes and the number of records in its buffer. The used share of librdkafka's buffer is the used
share of the bytes or of the records, whichever is greater. kafka-python 3 does not limit its buffer.

Callback latency is the time for which callbacks hold the I/O thread. If a client does not report `callback-time-*`, two
formulas derive the latency from the time that the thread spends outside Kafka's `Selector`. In the formulas, Δ is a
counter's growth, summed over samples in which `select-total` grew:

    busy = 1 − (Δ io-time-ns-total + Δ io-wait-time-ns-total) / Δt
    seconds per record = busy × Δt / Δ record-send-total

In a test, these formulas gave 0.1035 s for a callback that sleeps for 0.100 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.columns import Bools, Column, Floats, Ints, counted, unknown
from clienthealth.measure.view import MIN_READINGS, Windows, per_rows, per_windows

#: The buffer is filling if its used share (0 to 1) rises by more than LEAST_SLOPE per second.
LEAST_SLOPE = 1e-6


@per_rows
def used_ratios(w: Windows) -> Column:
    """Return the used share of the buffer (0 to 1) at each sample."""
    total, limit = w.col("buffer-total-bytes"), w.col("queue-records-limit")
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = np.where(total > 0, (total - w.col("buffer-available-bytes")) / total, np.nan)
        by_records = np.where(limit > 0, w.col("queue-records") / limit, np.nan)
    return Column(np.clip(np.fmax(by_bytes, by_records), 0.0, 1.0))


def buffer_used_ratio(w: Windows) -> Mapping[str, Floats]:
    """Return the last (`last`) and the greatest (`max`) used share of the buffer (0 to 1) in each window."""
    used = used_ratios(w)
    return {"last": w.last(used), "max": w.once("used max", lambda: w.max(used))}


def buffer(w: Windows) -> Mapping[str, Floats]:
    """Map each published field of the producer's buffer to its last known values, one per window.

    Fields: total_bytes, available_bytes, waiting_threads, wait_ratio (share of time in which threads waited for room),
    exhausted_records_total, queued_records, seconds_to_full.
    """
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
    """Return, for each window, the seconds until the buffer is full; NaN if the buffer is not filling.

    The buffer's used share is extrapolated with its least-squares slope over the window.
    """
    used, seconds = used_ratios(w), unknown(len(w))
    rising = np.flatnonzero((w.count(used) >= MIN_READINGS) & w.rose(used))
    if len(rising):
        w = w.at(rising)
        u = used.values[w.rows]
        reported = ~np.isnan(u)
        u = np.where(reported, u, 0.0)
        # Squares of epoch times would lose precision.
        since, origin = w.ts / 1000, used.first_row(w.lo, w.hi)
        t = np.where(reported, since[w.rows] - since[origin][w.window_of_row], 0.0)
        n = w.count(used)
        sum_t, sum_u, sum_tt, sum_tu = (w.reduced(np.add, terms) for terms in (t, u, t * t, t * u))
        denominator = n * sum_tt - sum_t * sum_t
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (n * sum_tu - sum_t * sum_u) / denominator
            climbs = (denominator > 0) & (slope > LEAST_SLOPE)
            seconds[rising] = np.where(climbs, (1 - w.last(used)) / slope, np.nan)
    return seconds


class _Stretches(NamedTuple):
    """Changes of time and counters since the previous row of `Windows.table`, one element per row.

    A change is 0 if a counter is unknown or was reset, or if `select-total` did not grow. `counted`: number of earlier
    rows with known changes of the selector's counters.
    """

    elapsed_ms: Floats
    selector_ns: Floats
    records: Floats
    counted: Ints


class Busy(NamedTuple):
    """How busy the I/O thread is; one element per window, NaN if unknown.

    `ratio`       share of time (0 to 1) that the I/O thread spends outside Kafka's `Selector`
    `per_record`  seconds that the I/O thread spends outside the `Selector`, divided by the number of sent records
    """

    ratio: Floats
    per_record: Floats


def io_thread_busy_ratio(w: Windows) -> Floats:
    """Return, for each window, the share of time (0 to 1) that the I/O thread spent outside Kafka's `Selector`.

    The share is 1 if records waited and the thread never returned to the selector. The share is NaN if unknown.
    """
    return _busy(w).ratio


def callback_seconds(w: Windows) -> Mapping[str, Floats]:
    """Return the seconds per callback in each window: `avg` (measured, else derived), `max` and `p99` (if measured)."""
    measured = w.last("callback-time-avg") / 1000
    return {
        "avg": np.where(np.isnan(measured), _busy(w).per_record, measured),
        "max": w.max("callback-time-max") / 1000,
        "p99": w.last("callback-time-p99") / 1000,
    }


def callback_source(w: Windows) -> NDArray[np.object_]:
    """Return, for each window, how the average of `callback_seconds` was found: measured, derived or unknown."""
    source = np.full(len(w), "unknown", np.object_)
    source[~np.isnan(_busy(w).per_record)] = "derived"
    source[w.reported("callback-time-avg")] = "measured"
    return source


@per_windows
def _busy(w: Windows) -> Busy:
    if not w.reported("select-total").any():
        return Busy(unknown(len(w)), unknown(len(w)))
    stretches = _stretches(w)
    elapsed_ms, selector_ns, records = (w.total(metric, skip_first=True) for metric in stretches[:3])
    several = stretches.counted[w.hi] - stretches.counted[np.minimum(w.lo + 1, w.hi)] >= 2
    work_waits = (w.last("buffer-available-bytes") < w.last("buffer-total-bytes")) | (w.last("waiting-threads") > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.clip(1 - selector_ns / (elapsed_ms * 1e6), 0.0, 1.0)
        ratio = np.where(elapsed_ms > 0, moved, np.where(several & work_waits, 1.0, np.nan))
        return Busy(ratio, np.where(records > 0, ratio * elapsed_ms / 1000 / records, np.nan))


@per_rows
def _stretches(w: Windows) -> _Stretches:
    selects = _change(w.col("select-total"))
    selector_ns = _change(w.col("io-time-ns-total") + w.col("io-wait-time-ns-total"))
    elapsed_ms = _change(w.ts.astype(np.float64))
    records = np.fmax(_change(w.col("record-send-total")), 0.0)
    countable = ~np.isnan(selector_ns) & (selects >= 0)
    moved = countable & (selects > 0) & (elapsed_ms > 0)
    elapsed_ms, selector_ns, records = (np.where(moved, change, 0.0) for change in (elapsed_ms, selector_ns, records))
    return _Stretches(elapsed_ms, selector_ns, records, counted(countable))


def _change(values: Floats) -> Floats:
    return np.diff(values, prepend=np.nan)


class Stalls(NamedTuple):
    """The time since the producer's latest delivery, one element per window.

    `since`: number of the row (sample) with the latest delivery in the window; -1 if unknown. `seconds`: time from the
    latest delivery to the window's last row; 0 if nothing proves that records waited (see `stalls`).
    """

    since: Ints
    seconds: Floats

    def alone(self, at: int, lo: int) -> Stalls:
        """Return the result for the window with the index `at`, with rows numbered from its first row (`lo`)."""
        since = self.since[at : at + 1]
        return Stalls(np.where(since < 0, since, since - lo), self.seconds[at : at + 1])


@per_rows
def delivered(w: Windows) -> Column:
    """Return the number of delivered (acknowledged) records at each sample; if unknown, sent minus retried records."""
    acknowledged, sent, retried = map(w.col, ("record-ack-total", "record-send-total", "record-retry-total"))
    went = np.where(np.isnan(retried), sent, sent - retried)
    return Column(np.where(np.isnan(acknowledged), went, acknowledged))


@per_rows
def _process_begins(w: Windows) -> Ints:
    """Return, for each sample, the last row up to it with a smaller counter of records than the row before; else 0.

    Such a row is the first sample of a new process with the name of an earlier one.
    """
    fell = (_change(w.col("record-send-total")) < 0) | (_change(w.col("record-ack-total")) < 0)
    begins: Ints = np.maximum.accumulate(np.where(fell, np.arange(len(fell)), 0))
    return begins


@per_rows
def waiting(w: Windows) -> Bools:
    """Return one flag per sample: True if the producer certainly has undelivered records."""
    used = w.col("buffer-total-bytes") - w.col("buffer-available-bytes")
    in_hand: Bools = (used > 0) | (w.col("queue-records") > 0) | (w.col("waiting-threads") > 0)
    return in_hand | ((w.col("requests-in-flight") > 0) & (w.col("record-send-rate") > 0))


@per_rows
def answers(w: Windows) -> Column:
    """Return, for each sample, how often the average request latency has changed since the first sample.

    A change proves that a broker has answered. Some clients round a latency to a multiple of 0.001 ms, so that
    different latencies can become equal. Therefore a multiple of 0.001 ms always counts as a change.
    """
    rows = w.column("request-latency-avg").reported_rows
    latency, changed = w.col("request-latency-avg")[rows], np.zeros(len(w.ts))
    changed[rows[1:]] = (latency[1:] != latency[:-1]) | (latency[1:] * 1000 % 1 == 0)
    return Column(np.cumsum(changed))


def failed_since(w: Windows, since: Ints) -> Bools:
    """Return one flag per window: True if the error rate was 0 at row `since`, and above 0 at the window's end."""
    rate, lo = w.column("record-error-rate"), np.clip(since, w.lo, w.hi)
    risen: Bools = (rate.first(lo, w.hi) == 0) & (rate.last(lo, w.hi) > 0)
    return risen


@per_windows
def stalls(w: Windows) -> Stalls:
    """Return, for each window, the row of the latest delivery, and the seconds that records have waited since then.

    Samples of an earlier process with the same name do not count. The seconds are 0 if the window has fewer than
    MIN_READINGS samples from the latest delivery on, or if a sample after the latest delivery shows no waiting record.
    If the client has no counter of deliveries (kafka-python, Java before 1.0), a broker's answer counts as a delivery.
    Then records also count as waiting if the error rate rose from 0 after this answer.
    """
    if not len(w.ts):
        return Stalls(np.full(len(w), -1), np.zeros(len(w)))
    begins = np.where(w.hi > w.lo, np.maximum(w.lo, _process_begins(w)[w.hi - 1]), w.lo)
    if (begins > w.lo).any():
        w = w.at(np.arange(len(w)))
        w.lo = begins
    counts, progress = w.reported(delivered(w)), delivered(w).values[w.rows]
    if not counts.all():
        answered = np.where(w.reported("request-latency-avg")[w.window_of_row], answers(w).values[w.rows], np.nan)
        progress = np.where(counts[w.window_of_row], progress, answered)
    highest = w.reduced(np.fmax, progress)[w.window_of_row]
    reached = np.where(progress >= highest, w.rows.astype(np.float64), np.nan)
    first = w.reduced(np.fmin, reached)
    counted = ~np.isnan(first)
    since = np.where(counted, first, -1).astype(np.int64)
    calm = Column(np.where(waiting(w), np.nan, 1.0))
    undelivered = (calm.count(np.minimum(since + 1, w.hi), w.hi) == 0) | (~counts & failed_since(w, since))
    stands_still = counted & undelivered & (w.hi - since > MIN_READINGS - 1)
    return Stalls(since, np.where(stands_still, (w.ts[w.last_row] - w.ts[since]) / 1000, 0.0))
