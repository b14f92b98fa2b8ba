"""The monitor finds the topic that an application handles while its other topics starve."""

from __future__ import annotations

from clienthealth.model.readings import Reading, TopicReading
from clienthealth.modes.cross_topic_blocking.culprit import handled_alone


def reading(second: int, **positions: float) -> Reading:
    topics = (TopicReading(name, 0, None, {"position": at, "records-lag": 5.0}) for name, at in positions.items())
    return Reading(1000 * second, {}, tuple(topics))


def test_a_topic_counts_as_long_as_the_client_has_it() -> None:
    last = (reading(0, b=1), reading(10, a=1, b=1), reading(20, a=2, b=1), reading(30, a=4, b=1))
    for readings in (last, (*last, reading(40, b=1))):
        alone = handled_alone(readings, 0)
        assert alone is not None
        assert (alone.topic, alone.records, alone.seconds, list(alone.starved)) == ("a", 3, 20, ["b"])
