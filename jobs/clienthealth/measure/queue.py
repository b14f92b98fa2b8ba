"""Measure how full a client's queues of records are, per topic.

A full queue shows that the topic's records are processed (consumer) or delivered (producer) too slowly.

- The old Scala consumer has one queue per consuming thread, with at most `queued.max.message.chunks` chunks.
- A librdkafka consumer prefetches records up to `queued.min.messages`, and bytes up to `queued.max.messages.kbytes`.
- A librdkafka producer has one limit for all its topics: a topic's share is its queued records divided by this limit.
- The Java consumer has no queue per topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clienthealth.measure.columns import Floats, Ints, begins, spread
from clienthealth.measure.view import Windows, per_windows
from clienthealth.model.metrics import QUEUE_DEFAULTS

CHUNKS, RECORDS, KBYTES = "queued.max.message.chunks", "queued.min.messages", "queued.max.messages.kbytes"


@dataclass(frozen=True)
class Queues:
    """The queues in each window's last sample, one element per topic with a known queue.

    Elements are sorted by window. The elements of one window are in the order of the topics in its last sample.

    `window`   index of the window in the `Windows` object
    `topic`    index of the topic's name in `Windows.names`
    `share`    used share of the queue's limit; more than 1 if the limit is exceeded
    `records`  queued records, NaN if not reported
    `lag`      the greatest `records-lag` of the topic's partitions, NaN if not reported
    """

    window: Ints
    topic: Ints
    share: Floats
    records: Floats
    lag: Floats


@per_windows
def queues(w: Windows) -> Queues:
    """Return how full each topic's queue of records is in the last sample of each window."""
    reporting = np.flatnonzero(w.last_knows("queue-records", "queue-bytes", "queue-chunks"))
    if not len(reporting):
        none, unknown = np.zeros(0, np.int64), np.zeros(0)
        return Queues(none, none, unknown, unknown, unknown)
    begin, end = w.last_parts()
    part, which = spread(begin[reporting], end[reporting])
    topic = w.parts.topic[part]
    order = np.lexsort((topic, which))
    starts = np.flatnonzero(begins(which[order], topic[order]))
    first = order[starts]
    window = reporting[which[first]]

    def most(name: str) -> Floats:
        return np.fmax.reduceat(w.of_topics(name)[part[order]], starts)

    def summed(name: str) -> Floats:
        values = w.of_topics(name)[part[order]]
        reported = np.add.reduceat(~np.isnan(values), starts, dtype=np.int64)
        return np.where(reported > 0, np.add.reduceat(np.nan_to_num(values), starts), np.nan)

    records = summed("queue-records")
    with np.errstate(divide="ignore", invalid="ignore"):
        share = _finite(most("queue-chunks") / limits(w, CHUNKS, reporting)[which[first]])
        if w.kind == "producer":
            share = np.fmax(share, _finite(records / w.last("queue-records-limit")[window]))
        else:
            share = np.fmax(share, _finite(most("queue-records") / limits(w, RECORDS, reporting)[which[first]]))
            kbytes = limits(w, KBYTES, reporting)[which[first]]
            share = np.fmax(share, _finite(summed("queue-bytes") / (kbytes * 1024)))
    shown = np.argsort(first, kind="stable")
    shown = shown[~np.isnan(share[shown])]
    return Queues(window[shown], topic[first[shown]], share[shown], records[shown], most("records-lag")[shown])


def limits(w: Windows, option: str, windows: Ints) -> Floats:
    """Return, for each window, the value of a client option that limits a queue. `option`: CHUNKS, RECORDS or KBYTES.

    The option's default replaces a missing or invalid value.
    """
    configured = w.option(option, windows)
    return np.where(np.isnan(configured), QUEUE_DEFAULTS[option], configured)


def _finite(ratio: Floats) -> Floats:
    """Replace infinite ratios by NaN: a limit of 0 means that the queue has no limit."""
    return np.where(np.isinf(ratio), np.nan, ratio)


def queue_entries(w: Windows) -> list[list[dict[str, Any]]]:
    """Return, for each window, a list of JSON objects: the queues in the window's last sample.

    Fields: `topic`, `used_ratio` (0 to 1) and, if reported, `records`.
    """
    of_topics = queues(w)
    entries: list[list[dict[str, Any]]] = [[] for _ in range(len(w))]
    ratios, names = np.clip(of_topics.share, 0.0, 1.0).tolist(), w.names
    rows = zip(of_topics.window.tolist(), of_topics.topic.tolist(), ratios, of_topics.records.tolist(), strict=True)
    for window, topic, ratio, records in rows:
        entry = {"topic": names[topic], "used_ratio": ratio}
        entries[window].append(entry if records != records else {**entry, "records": records})
    return entries


def topic_rate_entries(w: Windows) -> list[list[dict[str, Any]]]:
    """Return, for each window, a list of JSON objects with `topic` and `consumed_rate` (records per second).

    The list is empty unless the client consumes several topics. A rate is the growth of a topic's counter, per second.
    """
    entries: list[list[dict[str, Any]]] = [[] for _ in range(len(w))]
    if w.kind == "producer" or not len(w.ts):
        return entries
    total = np.fmax(w.of_topics("records-consumed-total"), w.of_topics("messages-total"))
    several = np.flatnonzero((w.samples > 1) & w.has_topics)
    first, last = (_topic_sums(w, total, rows) for rows in (w.lo[several], w.hi[several] - 1))
    seconds = (w.ts[w.hi[several] - 1] - w.ts[w.lo[several]]) / 1000
    for at, before, after, elapsed in zip(several.tolist(), first, last, seconds.tolist(), strict=True):
        grown = {topic: after[topic] - before[topic] for topic in sorted(before.keys() & after.keys())}
        if len(grown) > 1 and elapsed > 0:
            rates = {w.names[topic]: records / elapsed for topic, records in grown.items() if records >= 0}
            entries[at] = [{"topic": topic, "consumed_rate": rate} for topic, rate in rates.items()]
    return entries


def _topic_sums(w: Windows, values: Floats, rows: Ints) -> list[dict[int, float]]:
    sums: list[dict[int, float]] = []
    for begin, end in zip(w.part_begin[rows].tolist(), w.part_begin[rows + 1].tolist(), strict=True):
        by_topic: dict[int, float] = {}
        for topic, value in zip(w.parts.topic[begin:end].tolist(), values[begin:end].tolist(), strict=True):
            if value == value:
                by_topic[topic] = by_topic.get(topic, 0.0) + value
        sums.append(by_topic)
    return sums
