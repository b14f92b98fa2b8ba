"""Callback latency: how long a producer's callbacks hold up its I/O thread.

No Java client publishes it. An instrumented client does (`callback-time-*`: measured). Else it is derived: callbacks
run on the I/O thread, outside the selector, so over stretches in which `select-total` moved

    busy = 1 − (Δ io-time-ns-total + Δ io-wait-time-ns-total) / Δt
    seconds per record = busy × Δt / Δ record-send-total

A select in progress has not been counted, so single stretches are wrong in both directions; the sum over a window is
not. Measured against a callback that sleeps 0.100 s: 0.1035 s.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.windows import WindowColumns

#: The column that `stretches` is kept in, so that what is derived from it is computed once.
STRETCHES = "stretches"


def io_thread_busy_ratio(w: WindowColumns) -> Column:
    """The share of time (0 to 1) that the I/O thread spent outside the selector; null where it cannot be known.

    A thread that never came back to the selector in the whole window, with work waiting, was busy all the time.
    """
    moved = _moved()
    elapsed_ns = _total(moved, lambda s: s["dt_ms"] * 1e6)
    in_selector = _total(moved, lambda s: s["selector_ns"])
    ratio = F.greatest(F.lit(0.0), F.least(F.lit(1.0), 1 - in_selector / elapsed_ns))
    work_waits = (w.last("buffer-available-bytes") < w.last("buffer-total-bytes")) | (w.last("waiting-threads") > 0)
    stuck = (F.size(STRETCHES) >= 2) & (F.size(moved) == 0) & work_waits
    return F.when(elapsed_ns > 0, ratio).when(stuck, F.lit(1.0))


def callback_seconds(w: WindowColumns) -> Column:
    """struct<avg, max, p99, source>: seconds per callback, and whether they were measured, derived or are unknown."""
    measured = w.known("callback-time-avg")
    moved = _moved()
    records = _total(moved, lambda s: s["records"])
    busy_seconds = io_thread_busy_ratio(w) * _total(moved, lambda s: s["dt_ms"]) / 1000
    derived = F.when(records > 0, busy_seconds / records)
    return F.when(
        w.kind == "producer",
        F.struct(
            F.when(measured, w.last("callback-time-avg") / 1000).otherwise(derived).alias("avg"),
            (w.max("callback-time-max") / 1000).alias("max"),
            (w.last("callback-time-p99") / 1000).alias("p99"),
            F.when(measured, "measured").when(derived.isNotNull(), "derived").otherwise("unknown").alias("source"),
        ),
    )


def stretches(w: WindowColumns) -> Column:
    """From reading to reading: dt_ms, selects, selector_ns and records; without those where a counter was reset."""
    points = F.arrays_zip(
        F.transform("readings", lambda r: r["ts_ms"]).alias("ts_ms"),
        w.values("select-total").alias("selects"),
        w.values("io-time-ns-total").alias("io"),
        w.values("io-wait-time-ns-total").alias("wait"),
        w.values("record-send-total").alias("records"),
    )
    between = F.zip_with(
        F.slice(points, 2, 1_000_000),
        points,
        lambda b, a: F.struct(
            (b["ts_ms"] - a["ts_ms"]).cast("double").alias("dt_ms"),
            (b["selects"] - a["selects"]).alias("selects"),
            (b["io"] + b["wait"] - a["io"] - a["wait"]).alias("selector_ns"),
            F.greatest(F.lit(0.0), b["records"] - a["records"]).alias("records"),
        ),
    )
    return F.filter(between, lambda s: s["selects"].isNotNull() & s["selector_ns"].isNotNull() & (s["selects"] >= 0))


def _moved() -> Column:
    return F.filter(STRETCHES, lambda s: (s["selects"] > 0) & (s["dt_ms"] > 0))


def _total(stretches: Column, term: object) -> Column:
    return F.aggregate(stretches, F.lit(0.0), lambda acc, s: acc + F.coalesce(term(s), F.lit(0.0)))  # type: ignore[operator]
