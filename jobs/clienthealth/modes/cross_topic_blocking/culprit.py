"""Find the topic with a slow handler that keeps a consumer's application away from other topics.

Java. A poll returns records of several topics. If one topic's handler is slow, the time until the next poll is
proportional to the number of this topic's records. The growth of `records-lead` gives the number of records. The
counter `records-consumed-total` cannot give the number, because the counter rises only after the application has taken
all records of a fetch.

librdkafka. All topics may share one queue to the application. If only one topic's position moves while the queue is
full, this topic has the slow handler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from clienthealth.model.readings import Reading


def slow_topic(readings: Sequence[Reading], least_seconds: float, most_variation: float) -> str | None:
    """Return the topic with record counts proportional to the times between polls; None if no topic stands out.

    Only two kinds of polls with records count: the newest one, and those followed by at least `least_seconds` without a
    poll. If only one topic has records in all polls that count, return this topic.

    `readings`        the samples of one client, in order of time
    `least_seconds`   minimum time (s) between two polls; shorter times are left out
    `most_variation`  greatest variation of the slow topic's time per record: (longest - shortest) / shortest
    """
    *over, (_, newest) = [*_stretches(readings)] or [(0.0, {})]
    # `over` lacks the time since the newest poll with records, because that time is still growing.
    long = [stretch for stretch in over if stretch[0] >= least_seconds]
    moved = [topic for topic in newest if all(topic in moved_by for _, moved_by in long)]
    if len(moved) < 2 or len(long) < 2:
        return moved[0] if len(moved) == 1 else None
    per_record = {topic: [away / moved_by[topic] for away, moved_by in long] for topic in moved}
    varies = sorted((max(of_topic) / min(of_topic) - 1, topic) for topic, of_topic in per_record.items())
    (least, topic), (next_least, _) = varies[:2]
    return topic if least <= most_variation and next_least > 2 * least + most_variation else None


def _stretches(readings: Sequence[Reading]) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Yield, for each poll with records, (seconds until the next poll, records by topic)."""
    before: Mapping[str, float] = {}
    moved_by: Mapping[str, float] = {}
    away = 0.0
    for reading in readings:
        ago, at = reading.get("last-poll-seconds-ago"), positions(reading)
        if ago is None or not at:
            continue
        if before and any(at[topic] > before.get(topic, at[topic]) for topic in at):
            if moved_by:
                yield away, moved_by
            moved_by = {topic: at[topic] - before[topic] for topic in at if at[topic] > before.get(topic, at[topic])}
        away = ago
        before = at
    if moved_by:
        yield away, moved_by


class Alone(NamedTuple):
    topic: str
    first: Reading
    last: Reading
    records: float
    starved: Sequence[str]

    @property
    def seconds(self) -> float:
        """Time (s) from sample `first` to sample `last`."""
        return (self.last.ts_ms - self.first.ts_ms) / 1000


def handled_alone(readings: Sequence[Reading], since_ms: int) -> Alone | None:
    """Return the only topic handled in the newest samples if other topics starve, else None.

    The newest samples are the longest series of samples that ends with the last sample, does not begin before
    `since_ms` (epoch ms), and shows moves of at most one topic's position. A topic starves if it has unread records at
    the last sample, or if its position moved only before the newest samples.
    """
    positioned = [(reading, at) for reading in readings if (at := positions(reading, "position"))]
    begin, handled = len(positioned) - 1, set[str]()
    while begin > 0 and positioned[begin - 1][0].ts_ms >= since_ms:
        more = handled | moved(positioned[begin - 1][1], positioned[begin][1]).keys()
        if len(more) > 1:
            break
        handled, begin = more, begin - 1
    if len(handled) != 1:
        return None
    (topic,) = handled
    # The consumer may have gained or lost the topic since `begin`.
    (first, before), *_, (last, now) = [one for one in positioned[begin:] if topic in one[1]]
    waiting = {t.topic for t in last.topics if (t.metrics.get("records-lag") or 0) > 0}
    starved = sorted((waiting | moved(positioned[0][1], before).keys()) - handled)
    return Alone(topic, first, last, now[topic] - before[topic], starved) if starved else None


def moved(before: Mapping[str, float], now: Mapping[str, float]) -> Mapping[str, float]:
    """Return how many records of each topic the application took between two samples. Leave out topics with none."""
    return {topic: now[topic] - before[topic] for topic in now if now[topic] > before.get(topic, now[topic])}


def positions(reading: Reading, metric: str = "records-lead") -> dict[str, float]:
    """Return the application's position in each topic: the sum of its positions in the topic's partitions.

    `metric`: the metric that contains the position, `records-lead` (Java) or `position` (librdkafka).
    """
    by_topic: dict[str, float] = {}
    for topic in reading.topics:
        value = topic.metrics.get(metric)
        if value is not None and topic.partition is not None:
            by_topic[topic.topic] = by_topic.get(topic.topic, 0.0) + value
    return by_topic
