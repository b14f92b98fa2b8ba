"""Compute clients' measurements for records of the topic `client-health` and for the history's table `minutes`.

Unknown measurements are left out. A rate is unknown if its counter fell, as after a client's restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clienthealth.measure.columns import Bools, Floats, Ints, begins, ranks, unknown
from clienthealth.measure.producer import (
    buffer,
    buffer_used_ratio,
    callback_seconds,
    callback_source,
    io_thread_busy_ratio,
    stalls,
)
from clienthealth.measure.queue import queue_entries, queues, topic_rate_entries
from clienthealth.measure.records_lag import lag_entries, lags
from clienthealth.measure.view import Windows
from clienthealth.settings import LagSettings

#: (values, flags), with one value and one flag per window. The flag of a known value is True. If all values are known,
#: the flags are None.
Column: TypeAlias = tuple[Sequence[Any], Bools | None]


#: The counters that are published unchanged, in the field `totals`, by kind of client.
COUNTERS: Mapping[str, Sequence[str]] = {
    "producer": ("record-send-total", "record-error-total", "record-retry-total", "failed-authentication-total"),
    "consumer": ("records-consumed-total", "rebalance-total", "failed-authentication-total"),
}


def client_indicators(w: Windows, lag: LagSettings) -> list[dict[str, Any]]:
    """Return the measurements of each window as a JSON object. Braces list the keys of an inner object.

    Producers
      buffer {see `producer.buffer`}, buffer_used_ratio {last, max}, undelivered_seconds (0 if no record waits),
      queue_time_seconds {avg, max}, callback_seconds {avg, max, p99, source (how avg was found)},
      io_thread_busy_ratio, select_rate, request_latency_seconds {avg, max}, slowest_broker {id, latency_seconds},
      record_send_rate, record_error_rate, record_retry_rate, batch_size_bytes, compression_ratio, metadata_age_seconds
    Consumers
      last_poll_age_seconds, last_heartbeat_age_seconds, poll_idle_ratio, rebalance_rate, rebalance_seconds,
      commit_latency_seconds {avg, max}, records_consumed_rate
    Producers and consumers, but not the old Scala consumer
      connections, failed_authentication_rate, totals {see COUNTERS}
    All clients
      reply_queue, throttle_seconds, queues (a list), lag (a list), topic_rates (a list that is left out if empty)

    Rates are per second. Unknown measurements are absent.
    """
    columns: dict[str, Column] = {}
    if w.kind == "producer":
        ratio = buffer_used_ratio(w)
        columns["buffer_used_ratio"] = _mappings(len(w), ratio), ~np.isnan(ratio["max"])
        columns["buffer"] = _mappings(len(w), buffer(w)), None
        columns["callback_seconds"] = _mappings(len(w), callback_seconds(w), source=callback_source(w).tolist()), None
        columns["io_thread_busy_ratio"] = _numbers(io_thread_busy_ratio(w))
        columns["queue_time_seconds"] = _mappings(len(w), _milliseconds(w, "record-queue-time")), None
        columns["request_latency_seconds"] = _mappings(len(w), _milliseconds(w, "request-latency")), None
        for total in ("record-send-total", "record-error-total", "record-retry-total"):
            columns[f"{total[:-6].replace('-', '_')}_rate"] = _numbers(per_second(w, total))
        columns["batch_size_bytes"] = _numbers(_positive(w.last("batch-size-avg")))
        columns["compression_ratio"] = _numbers(_positive(w.last("compression-rate-avg")))
        selects = per_second(w, "select-total")
        columns["select_rate"] = _numbers(np.where(np.isnan(selects), w.last("select-rate"), selects))
        columns["undelivered_seconds"] = _numbers(np.where(stalls(w).since < 0, np.nan, stalls(w).seconds))
        columns["metadata_age_seconds"] = _numbers(w.last("metadata-age"))
        slowest_seconds = w.last("slowest-node-latency-avg") / 1000
        columns["slowest_broker"] = _partly(len(w), {"id": w.last("slowest-node"), "latency_seconds": slowest_seconds})
    if w.kind in ("producer", "consumer"):
        columns["connections"] = _numbers(w.last("connection-count"))
        columns["failed_authentication_rate"] = _numbers(per_second(w, "failed-authentication-total"))
        columns["totals"] = _totals(w)
    columns["reply_queue"] = _numbers(w.last("reply-queue"))
    throttled = "produce-throttle-time-avg" if w.kind == "producer" else "fetch-throttle-time-avg"
    columns["throttle_seconds"] = _numbers(w.last(throttled) / 1000)
    if w.kind == "consumer":
        columns["last_poll_age_seconds"] = _numbers(w.last("last-poll-seconds-ago"))
        columns["last_heartbeat_age_seconds"] = _numbers(w.last("last-heartbeat-seconds-ago"))
        columns["poll_idle_ratio"] = _numbers(w.last("poll-idle-ratio-avg"))
        columns["records_consumed_rate"] = _numbers(per_second(w, "records-consumed-total"))
        columns["rebalance_rate"] = _numbers(per_second(w, "rebalance-total"))
        columns["rebalance_seconds"] = _numbers(w.max("rebalance-latency-max") / 1000)
        columns["commit_latency_seconds"] = _partly(len(w), _milliseconds(w, "commit-latency"))
    rates = topic_rate_entries(w)
    columns["topic_rates"] = rates, np.array([bool(entries) for entries in rates], np.bool_)
    return _rows(len(w), columns | {"queues": (queue_entries(w), None), "lag": (lag_entries(w, lag), None)})


def minute_figures(w: Windows) -> list[dict[str, Any]]:
    """Return, for each window, values for the history's table `minutes`. Unknown values are left out.

    `buffer_used_ratio_max`                    the greatest used share of the buffer (0 to 1)
    `callback_seconds_avg`, `callback_source`  the average time of a callback, and how it was found
    `queue_used_ratio_max`, `queue_topic`      used share and topic of the fullest queue
    `lag_records`, `lag_topic`                 lag and topic of the partition with the greatest lag
    `lag_seconds`                              0 if `lag_records` is 0, else unknown, because clients do not report lag
                                               in seconds
    """
    producer, of_topics, of_partitions = w.kind == "producer", queues(w), lags(w)
    share = np.clip(of_topics.share, 0.0, 1.0)
    queue_ratio, queue_topic = _greatest(w, of_topics.window, share, of_topics.topic)
    records = np.where(of_partitions.blind, np.nan, np.trunc(of_partitions.records))
    lag_records, lag_topic = _greatest(w, of_partitions.window, records, of_partitions.topic)
    columns = {
        "buffer_used_ratio_max": buffer_used_ratio(w)["max"] if producer else unknown(len(w)),
        "callback_seconds_avg": callback_seconds(w)["avg"] if producer else unknown(len(w)),
        "callback_source": callback_source(w) if producer else np.full(len(w), np.nan, np.object_),
        "queue_used_ratio_max": queue_ratio,
        "queue_topic": queue_topic,
        "lag_records": lag_records,
        "lag_seconds": np.where(lag_records == 0, 0.0, np.nan),
        "lag_topic": lag_topic,
    }
    return _rows(len(w), {name: (column.tolist(), column == column) for name, column in columns.items()})


def per_second(w: Windows, total: str) -> Floats:
    """Return the rate (per second) of the counter `total` in each window.

    The rate is NaN with fewer than two known values, or after a reset (the last value is below the first).
    """
    column, grown = w.column(total), w.grown(total)
    first, last = column.first_row(w.lo, w.hi), column.last_row(w.lo, w.hi)
    seconds = (w.ts[last] - w.ts[first]) / 1000 if len(w.ts) else np.zeros(len(w))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((grown >= 0) & (seconds > 0), grown / seconds, np.nan)


def _totals(w: Windows) -> Column:
    """Return the last values of each window's counters; unknown if the client reports only increments."""
    totals = {name[:-6].replace("-", "_"): w.last(name) for name in COUNTERS[w.kind or ""]}
    from_start = [client.whole for client in w.about()]
    return _partly(len(w), {name: np.where(from_start, values, np.nan) for name, values in totals.items()})


def _positive(values: Floats) -> Floats:
    """Replace values ≤ 0 by NaN: old Java clients report averages of 0 before the first batch."""
    return np.where(values > 0, values, np.nan)


def _milliseconds(w: Windows, name: str) -> Mapping[str, Floats]:
    return {"avg": w.last(f"{name}-avg") / 1000, "max": w.max(f"{name}-max") / 1000}


def _mappings(size: int, numbers: Mapping[str, Floats], **texts: Sequence[str]) -> list[dict[str, Any]]:
    columns = {name: _numbers(values) for name, values in numbers.items()}
    return _rows(size, columns | {name: (values, None) for name, values in texts.items()})


def _partly(size: int, numbers: Mapping[str, Floats]) -> Column:
    any_known: Bools = np.logical_or.reduce([~np.isnan(values) for values in numbers.values()])
    return _mappings(size, numbers), any_known


def _numbers(values: Floats) -> Column:
    reported = ~np.isnan(values)
    return (values.tolist() if reported.any() else (), reported)


def _rows(size: int, columns: Mapping[str, Column]) -> list[dict[str, Any]]:
    reported = {name: column for name, column in columns.items() if column[1] is None or column[1].any()}
    row = dict.fromkeys(reported)
    rows: list[dict[str, Any]] = [row.copy() for _ in range(size)]
    for name, (values, present) in reported.items():
        for window_row, value in zip(rows, values, strict=True):
            window_row[name] = value
        if present is not None:
            for at in np.flatnonzero(~present).tolist():
                del rows[at][name]
    return rows


def _greatest(w: Windows, window: Ints, values: Floats, topic: Ints) -> tuple[Floats, NDArray[np.object_]]:
    """Return each window's greatest value (NaN without values), and the name of the topic with this value."""
    number, name = unknown(len(w)), np.full(len(w), np.nan, np.object_)
    if len(window):
        order = np.lexsort((ranks(w.names)[topic], np.nan_to_num(values, nan=-1.0), window))
        last = order[np.append(begins(window[order])[1:], True)]
        number[window[last]], name[window[last]] = values[last], np.array(w.names, np.object_)[topic[last]]
    return number, name
