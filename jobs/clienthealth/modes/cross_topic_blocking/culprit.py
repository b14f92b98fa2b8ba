"""Which topic's handler keeps the application of a consumer away from the records of its other topics.

Java. One poll loop handles the records of all topics, so each time away is the sum of what the handlers took for the
records that the last poll returned. Where one handler is slow, the time away goes with the records of its topic:
their ratio is the same each time, while that of the others varies by factors. Records that a poll returned show in
the position of their partition (`records-lead` grows with it), not in `records-consumed-total`, which moves when a
whole fetch has been handed out.

librdkafka. All topics share one queue to the application, so each reports the length of all of it, and no topic is
fetched while it is full. The application's position moves in the topic that it handles, and in no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clienthealth.model.readings import Reading


def slow_topic(readings: Sequence[Reading], least_seconds: float, most_variation: float) -> str | None:
    """The topic that the times away go with; None where none stands out.

    least_seconds   shorter times away do not count
    most_variation  by how much, as a share, the time away per record of the topic may vary
    """
    *over, (_, newest) = [*_stretches(readings)] or [(0.0, {})]
    # Of the newest one nobody knows yet how long it will be.
    long = [stretch for stretch in over if stretch[0] >= least_seconds]
    moved = [topic for topic in newest if all(topic in moved_by for _, moved_by in long)]
    if len(moved) < 2 or len(long) < 2:
        return moved[0] if len(moved) == 1 else None
    varies = sorted((_variation([away / moved_by[topic] for away, moved_by in long]), topic) for topic in moved)
    (least, topic), (next_least, _) = varies[:2]
    return topic if least <= most_variation and next_least > 2 * least + most_variation else None


def _variation(shares: Sequence[float]) -> float:
    return max(shares) / min(shares) - 1


def _stretches(readings: Sequence[Reading]) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Each time that the application was away, in seconds, and how many records of each topic it had just got."""
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


def handled_alone(readings: Sequence[Reading]) -> tuple[str, float, list[str]] | None:
    """The only topic in which the application gets on, its records a second, and the topics whose records wait.

    None where it gets on in several topics, or where no records of another one wait.
    """
    positioned = [(reading, at) for reading in readings if (at := positions(reading, "position"))]
    if len(positioned) < 2:
        return None
    (first, before), (last, now) = positioned[0], positioned[-1]
    moved = [topic for topic in now if now[topic] > before.get(topic, now[topic])]
    waiting = {t.topic for t in last.topics if (t.metrics.get("records-lag") or 0) > 0}
    starved = sorted(waiting - set(moved))
    if len(moved) != 1 or not starved:
        return None
    return moved[0], 1000 * (now[moved[0]] - before[moved[0]]) / (last.ts_ms - first.ts_ms), starved


def positions(reading: Reading, metric: str = "records-lead") -> dict[str, float]:
    """How far the application has got in each topic, from some beginning that does not change."""
    by_topic: dict[str, float] = {}
    for topic in reading.topics:
        value = topic.metrics.get(metric)
        if value is not None and topic.partition is not None:
            by_topic[topic.topic] = by_topic.get(topic.topic, 0.0) + value
    return by_topic
