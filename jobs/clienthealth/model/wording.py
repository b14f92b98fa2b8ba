"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(seconds: float) -> str:
    """The two largest units: `4 min 12 s`, `3 h 5 min`, `2 d 4 h`."""
    left = max(0, round(seconds))
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"


def moment(seconds: float, now: float) -> str:
    """A time of day in UTC, with the date where it is not today's."""
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return "an impossible time"
    same_day = at.date() == datetime.fromtimestamp(now, UTC).date()
    return at.strftime("%H:%M:%S UTC" if same_day else "%Y-%m-%d %H:%M:%S UTC")


def count(value: float) -> str:
    """A whole number with separators of thousands."""
    return f"{round(value):,}".replace(",", "\u202f")


def count_of(number: int, one: str, many: str = "") -> str:
    """A count with its noun, for terminals: `1 record`, `1,200 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short_seconds(value: float) -> str:
    """A latency: `0.13 ms`, `12 ms`, `1.2 s`, `3 min 5 s`."""
    if value < 0.01:
        return f"{value * 1000:.2g} ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)


def percent(ratio: float) -> str:
    """A share as a whole percentage."""
    return f"{ratio * 100:.0f} %"
