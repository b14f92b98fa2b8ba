"""The sections of a review: what each says of the numbers, in the order in which a meeting goes through them."""

from __future__ import annotations

from clienthealth.review.document import Section
from clienthealth.review.model import Review
from clienthealth.review.sections import data, failures, fleet, health

_SECTIONS = (
    *(health.objectives, health.actions),
    *(failures.incidents, failures.alerts, failures.near_misses, failures.also_seen),
    *(fleet.rankings, fleet.capacity, fleet.changes),
    *(data.quality, data.not_computed),
)


def sections(review: Review) -> list[Section]:
    """All of them."""
    return [section(review) for section in _SECTIONS]
