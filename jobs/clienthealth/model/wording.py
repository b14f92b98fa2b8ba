"""Format numbers, times and lists for people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

UNTIMED = "time unknown"


def duration(seconds: float) -> str:
    """Format a duration with its two largest units: `4 min 12 s`, `3 h 5 min`, `2 d 4 h`. Below 0, return `0 s`."""
    left = max(0, round(seconds))
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"


def elapsed(seconds: float) -> str:
    """Format a duration: `0.4 s`, `95 s`, `2 min 5 s`, `1 h 2 min`. Durations below two minutes are in seconds."""
    whole = round(seconds)
    if seconds < 10 and whole != seconds:
        return f"{seconds:.1f} s"
    return f"{whole} s" if whole < 120 else duration(seconds)


def moment(seconds: float | None, now: float | None = None) -> str:
    """Format epoch seconds as date and time in UTC; `UNTIMED` for None, `an impossible time` if out of range.

    The date is left out if it is also the date of `now` (epoch seconds).
    """
    if seconds is None:
        return UNTIMED
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return "an impossible time"
    same_day = now is not None and at.date() == datetime.fromtimestamp(now, UTC).date()
    return at.strftime("%H:%M:%S UTC" if same_day else "%Y-%m-%d %H:%M:%S UTC")


def moment_of(ts_ms: int | None) -> str:
    """Format epoch milliseconds as date and time in UTC; `UNTIMED` for None."""
    return moment(None if ts_ms is None else ts_ms / 1000)


def clock(ts_ms: int | None) -> str:
    """Format epoch milliseconds as a time of day in UTC: `21:04:00`; `--:--:--` for None."""
    return "--:--:--" if ts_ms is None else moment_of(ts_ms)[11:19]


def number(value: float) -> str:
    """Round a number and format it with commas between thousands, and with a real minus sign (U+2212)."""
    return f"{round(value):,}".replace("-", "−")


def count(value: float) -> str:
    """Round a number and format it with narrow no-break spaces between thousands."""
    return f"{round(value):,}".replace(",", "\u202f")


def count_of(value: float, one: str, many: str = "") -> str:
    """Format a count with its noun: `1 record`, `1,200 records`.

    `one`: the noun in the singular. `many`: the plural; by default, the singular with an added s.
    """
    return f"{value:,.0f} {one if value == 1 else many or one + 's'}"


def short(value: float) -> str:
    """Format a count for a narrow table cell: `999`, `1.2k`, `12k`, `3.4M`, `5.0G`."""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def size(value: float) -> str:
    """Format a number of bytes: `512 bytes`, `48 KiB`, `8.3 MiB`."""
    if value < 1024:
        return f"{value:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            break
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


def latency(value: float) -> str:
    """Format a latency given in seconds: `0.13 ms`, `12 ms`, `1.2 s`, `3 min 5 s`."""
    if value < 0.01:
        return f"{value * 1000:.2g} ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)


def percent(ratio: float) -> str:
    """Format a ratio (1 means 100 %) as a percentage: `12 %`, `0.3 %`. Only values below 1 % get a decimal."""
    share = 100 * ratio
    return f"{share:.1f} %" if 0 < share < 1 else f"{share:.0f} %"


def exact_percent(ratio: float, digits: int) -> str:
    """Format a ratio as a percentage with `digits` decimals.

    A ratio below 1 never gives 100 %. A ratio above 0 never gives 0 %; a very small ratio gives, for example,
    `< 0.01 %`.
    """
    text = f"{ratio * 100:.{digits}f}"
    step = 10.0**-digits
    if ratio < 1 and float(text) >= 100:
        text = f"{100 - step:.{digits}f}"
    return f"< {step:.{digits}f} %" if ratio > 0 and float(text) == 0 else f"{text} %"


def by_reason(rulings: Iterable[str]) -> str:
    """Join texts of the form `what (reason)`. Texts with the same reason are merged: `a, b (reason); c (other)`."""
    whats: dict[str, list[str]] = {}
    for ruling in rulings:
        what, _, why = ruling.partition(" (")
        whats.setdefault(why, []).append(what)
    return "; ".join(f"{', '.join(of_one)} ({why}" if why else ", ".join(of_one) for why, of_one in whats.items())


def listing(names: Iterable[str], most: int = 3) -> str:
    """Format a list for a sentence: `a`, `a and b`, `a, b, c and 4 more`. `most`: maximum number of listed names."""
    every = list(names)
    shown = every[:most]
    if len(every) > most:
        return f"{', '.join(shown)} and {len(every) - most} more"
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else "".join(shown)


def quoted(text: str, most: int = 160) -> str:
    """Put the first line of a text in quotation marks. `most`: number of characters to which the line is cut."""
    line = text.strip().split("\n", 1)[0]
    return f'"{line if len(line) <= most else line[: most - 1] + "…"}"'
