"""When a thread dump is worth taking."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.indicators.queue import CHUNKS
from clienthealth.model.metrics import QUEUE_DEFAULTS
from clienthealth.model.readings import Reading
from clienthealth.model.values import option
from clienthealth.modes._two_readings import TwoReadings
from clienthealth.modes.cross_topic_blocking.rules import Thresholds


def worth_a_dump(readings: TwoReadings, thresholds: Thresholds) -> Iterator[str]:
    """A queue of the Scala consumer stays full while another one is empty."""
    if readings.before is None:
        return
    limit = option(readings.config.get(CHUNKS)) or QUEUE_DEFAULTS[CHUNKS]
    chunks, before = _fullest(readings.now), _fullest(readings.before)
    stuck = [topic for topic, queue in chunks.items() if min(queue, before.get(topic, 0.0)) >= limit]
    starving = [topic for topic, queue in chunks.items() if queue == 0]
    if stuck and starving:
        yield f"the queue of {', '.join(stuck)} is full while {', '.join(starving)} got nothing"


def _fullest(reading: Reading) -> dict[str, float]:
    """Chunks in the fullest queue of each topic."""
    by_topic: dict[str, float] = {}
    for part in reading.topics:
        if (chunks := part.metrics.get("queue-chunks")) is not None:
            by_topic[part.topic] = max(chunks, by_topic.get(part.topic, 0.0))
    return by_topic
