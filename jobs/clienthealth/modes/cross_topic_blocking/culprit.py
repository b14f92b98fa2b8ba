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
from typing import NamedTuple

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
    shares = {topic: [away / moved_by[topic] for away, moved_by in long] for topic in moved}
    varies = sorted((max(of_topic) / min(of_topic) - 1, topic) for topic, of_topic in shares.items())
    (least, topic), (next_least, _) = varies[:2]
    return topic if least <= most_variation and next_least > 2 * least + most_variation else None


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


class Alone(NamedTuple):
    """The only topic in which the application gets on, over these readings, its records, and who starves meanwhile."""

    topic: str
    first: Reading
    last: Reading
    records: float
    starved: Sequence[str]

    @property
    def seconds(self) -> float:
        """For how long."""
        return (self.last.ts_ms - self.first.ts_ms) / 1000


def handled_alone(readings: Sequence[Reading], since_ms: int) -> Alone | None:
    """What the application did last, at most since `since_ms`, from when on nothing was fetched.

    Topics starve whose records wait, and those in which it got on before: where nothing is fetched, a lag is that of
    the last fetch. None where it gets on in no topic or several, or where no other one starves.
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
    # It may have got the topic meanwhile, or have lost it.
    (first, before), *_, (last, now) = [one for one in positioned[begin:] if topic in one[1]]
    waiting = {t.topic for t in last.topics if (t.metrics.get("records-lag") or 0) > 0}
    starved = sorted((waiting | moved(positioned[0][1], before).keys()) - handled)
    return Alone(topic, first, last, now[topic] - before[topic], starved) if starved else None


def moved(before: Mapping[str, float], now: Mapping[str, float]) -> Mapping[str, float]:
    """Records by topic of which the application took some in between."""
    return {topic: now[topic] - before[topic] for topic in now if now[topic] > before.get(topic, now[topic])}


def positions(reading: Reading, metric: str = "records-lead") -> dict[str, float]:
    """How far the application has got in each topic, from some beginning that does not change."""
    by_topic: dict[str, float] = {}
    for topic in reading.topics:
        value = topic.metrics.get(metric)
        if value is not None and topic.partition is not None:
            by_topic[topic.topic] = by_topic.get(topic.topic, 0.0) + value
    return by_topic
