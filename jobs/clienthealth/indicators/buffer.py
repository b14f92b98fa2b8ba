"""Buffer exhaustion: how full a producer's buffer is, who waits for it, and when it will be full.

Java producers tell bytes (`buffer-total-bytes`, `buffer-available-bytes`); librdkafka has a limit on bytes and one
on records, and the fuller of the two counts. kafka-python 3 has no limit, so its buffer is never full: all that can be
said is how many records are not acknowledged yet, which our reporter counts.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats._expr import let
from clienthealth.windows import WindowColumns

#: The column that `used_ratios` is kept in, so that what is derived from it is computed once.
USED = "used_ratios"


def used_ratios(w: WindowColumns) -> Column:
    """The used share of the buffer (0 to 1) at each reading, null where unknown (array<double>)."""
    by_bytes = F.zip_with(
        w.values("buffer-available-bytes"),
        w.values("buffer-total-bytes"),
        lambda available, total: F.when(total > 0, _clamped(1 - available / total)),
    )
    by_records = F.zip_with(
        w.values("queue-records"),
        w.values("queue-records-limit"),
        lambda count, limit: F.when(limit > 0, _clamped(count / limit)),
    )
    return F.zip_with(by_bytes, by_records, lambda a, b: F.greatest(a, b))


def buffer_used_ratio(w: WindowColumns) -> Column:
    """struct<last, max> of the used share, null where the client does not tell it."""
    known = F.filter(USED, lambda ratio: ratio.isNotNull())
    return F.when(F.size(known) > 0, F.struct(F.element_at(known, -1).alias("last"), F.array_max(known).alias("max")))


def buffer(w: WindowColumns) -> Column:
    """struct of total and available bytes, waiting threads, wait ratio, exhausted and queued records, time to full."""
    return F.when(
        w.kind == "producer",
        F.struct(
            w.last("buffer-total-bytes").alias("total_bytes"),
            w.last("buffer-available-bytes").alias("available_bytes"),
            w.last("waiting-threads").alias("waiting_threads"),
            w.last("bufferpool-wait-ratio").alias("wait_ratio"),
            w.last("buffer-exhausted-total").alias("exhausted_records_total"),
            w.last("queue-records").alias("queued_records"),
            seconds_to_full(w).alias("seconds_to_full"),
        ),
    )


def seconds_to_full(w: WindowColumns) -> Column:
    """Seconds until the buffer is full at the window's least-squares slope; null while it does not fill up."""
    points = F.filter(
        F.zip_with("readings", USED, lambda r, used: F.struct((r["ts_ms"] / 1000.0).alias("t"), used.alias("used"))),
        lambda p: p["used"].isNotNull(),
    )
    return let(points, lambda points: F.when(F.size(points) >= 3, let(_sums(points), lambda s: _until_full(points, s))))


def _sums(points: Column) -> Column:
    """struct of the sums of t, u, t², t·u over the points, with t from the first point on."""
    origin = F.get(points, F.lit(0))["t"]

    def added(acc: Column, point: Column) -> Column:
        t, u = point["t"] - origin, point["used"]
        parts = {"t": t, "u": u, "tt": t * t, "tu": t * u}
        return F.struct(*((acc[name] + part).alias(name) for name, part in parts.items()))

    return F.aggregate(points, F.struct(*(F.lit(0.0).alias(name) for name in ("t", "u", "tt", "tu"))), added)


def _until_full(points: Column, s: Column) -> Column:
    n = F.size(points)
    denominator = n * s["tt"] - s["t"] * s["t"]
    slope = (n * s["tu"] - s["t"] * s["u"]) / denominator
    return F.when(denominator > 0, F.when(slope > 1e-6, (1 - F.element_at(points, -1)["used"]) / slope))


def _clamped(ratio: Column) -> Column:
    # greatest and least pass over nulls: without the condition an unknown ratio would become 0.
    return F.when(ratio.isNotNull(), F.greatest(F.lit(0.0), F.least(F.lit(1.0), ratio)))
