"""Numbers as people read them; page and text use the same words, so they show the same numbers."""

from __future__ import annotations

from datetime import datetime

from clienthealth.model import wording
from clienthealth.review.slo import Range, ServiceSlo

NONE = "–"
#: Between a number and its unit: they stay on one line.
NB = "\u00a0"


def percent(ratio: float | None, digits: int = 2) -> str:
    """A ratio in per cent."""
    return NONE if ratio is None else wording.exact_percent(ratio, digits).replace(" ", NB)


def points(change: float | None) -> str:
    """A difference of two ratios, in percentage points, with its sign."""
    if change is None:
        return NONE
    text = f"{abs(change) * 100:.2f}"
    return "±0.00" if float(text) == 0 else f"{'+' if change > 0 else '−'}{text}"


def number(value: float | None) -> str:
    """A count, thousands apart; fractions are rounded to the nearest."""
    return NONE if value is None else wording.number(value)


def some(count: int) -> str:
    """A count beside others; nothing where it is none, so that those that count are seen."""
    return number(count) if count else ""


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return NONE
    return wording.duration(seconds).replace(" ", NB)


def left(share: float | None) -> str:
    """What is left of a budget, or by how much it is overspent."""
    if share is None:
        return NONE
    return f"{percent(share, 0)} left" if share >= 0 else f"{percent(-share, 0)} over"


def minutes(count: float) -> str:
    """A length of time given in minutes."""
    return duration(count * 60)


def moment(at: datetime | None) -> str:
    """A time, UTC, with its day of the week."""
    return NONE if at is None else f"{at:%a} {at.day} {at:%b %H:%M}"


def stretch(start: datetime, stop: datetime | None, else_word: str = "still open") -> str:
    """From when to when; the day of the end only where it is another."""
    if stop is None:
        return f"{moment(start)} – {else_word}"
    end = f"{stop:%H:%M}" if stop.date() == start.date() else moment(stop)
    return f"{moment(start)} – {end}"


def lost(records: Range | None, in_bytes: Range | None = None) -> str:
    """What was lost, as a range; bytes only where records were not counted."""
    if in_bytes is not None and records in (None, (0, None)):
        return f"{_range(*in_bytes)} bytes"
    return NONE if records is None else _range(*records)


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"at least {number(low)}" if low else "not counted"
    return number(high) if low == high else f"{number(low)} to {number(high)}"


def healthy(slo: ServiceSlo) -> str:
    """The healthy share of a service's minutes; below 100 % where all were healthy but records are, or may be, lost."""
    return f"<{NB}{percent(1.0)}" if slo.well_but_for_losses else percent(slo.minutes.sli)
