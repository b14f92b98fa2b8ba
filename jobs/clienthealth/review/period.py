"""The period that a review covers: [start, end) in UTC, in whole minutes. The default is the last full ISO week."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from clienthealth.model.errors import InputError

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
WEEK = timedelta(weeks=1)

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2 * 1440, 7 * 1440, 14 * 1440, 28 * 1440)


@dataclass(frozen=True)
class Period:
    """A span of time from `start` up to but not including `end`.

    `start` and `end` are aware datetimes in UTC, on whole minutes.
    """

    start: datetime
    end: datetime

    @property
    def minutes(self) -> int:
        """The length of the period in minutes."""
        return (self.end - self.start) // MINUTE

    @property
    def is_week(self) -> bool:
        """True if the period is seven days long."""
        return self.end - self.start == WEEK

    @property
    def unit(self) -> str:
        """The word for the period in sentences: `week` for seven days, else `period`."""
        return "week" if self.is_week else "period"

    @property
    def label(self) -> str:
        """The name of the period and of its folder: 2026-W46, 2026-11, 2026-Q4, or the first and last day or time."""
        if self.is_week and self.start.isoweekday() == 1 and self.start.time() == datetime.min.time():
            year, week, _ = self.start.isocalendar()
            return f"{year}-W{week:02d}"
        first = self.start == _midnight(self.start.date().replace(day=1))
        for months, name in ((1, f"{self.start:%Y-%m}"), (3, f"{self.start:%Y}-Q{self.start.month // 3 + 1}")):
            named = first and self.start.month % months == 1 % months
            if named and self.end == _midnight(_months_later(self.start, months)):
                return name
        if self.start.time() == self.end.time() == datetime.min.time():
            return f"{self.start:%Y-%m-%d}_{self.end - DAY:%Y-%m-%d}"
        return f"{self.start:%Y-%m-%dT%H%MZ}_{self.end:%Y-%m-%dT%H%MZ}"

    def before(self, count: int) -> Period:
        """Return the period of the same length that lies `count` lengths before this period."""
        shift = count * (self.end - self.start)
        return Period(self.start - shift, self.end - shift)

    def until(self, now: datetime) -> Period:
        """Return the part of the period before the end of the current minute.

        Raises InputError if the period begins after `now`.
        """
        if self.start > now:
            raise InputError(f"the period begins in the future ({self.start:%Y-%m-%d %H:%M} UTC)")
        return Period(self.start, min(self.end, now.replace(second=0, microsecond=0) + MINUTE))

    def step(self, most: int) -> int:
        """Return the length (minutes) of the parts into which the period is divided. The last part may be shorter.

        `most`: maximum number of parts. The length is the shortest of STEPS that gives at most `most` parts. If all of
        STEPS give more parts, the length is a multiple of the last of STEPS.
        """
        longest = -(-self.minutes // (most * STEPS[-1])) * STEPS[-1]
        return next((step for step in STEPS if step * most >= self.minutes), longest)


def period(begin: str | None, end: str | None, week: str | None, now: datetime) -> Period:
    """Return the period that the options --from (`begin`), --to (`end`) and --week (`week`) select.

    All options take an ISO week (2026-W46). `begin` and `end` also take a month (2026-11), a quarter (2026-Q4), a date
    or a time (2026-11-16T08:30, UTC). The period includes the week, month, quarter or date in `end`. Without `end`, a
    week, month or quarter in `begin` is the whole period, and a date or time in `begin` starts a period of seven days.
    Without `begin`, the period begins seven days before it ends. Without both options, the period is the last full ISO
    week before `now`. Raises InputError if an option is wrong or the period is empty.
    """
    if week is not None:
        if begin is not None or end is not None:
            raise InputError("--week cannot be combined with --from or --to")
        return _checked(*_bounds(week, "--week"))
    if begin is None and end is None:
        monday = datetime.combine(now.date() - timedelta(days=now.isoweekday() - 1), datetime.min.time(), UTC)
        return Period(monday - WEEK, monday)
    start = None if begin is None else _bounds(begin, "--from")
    stop = None if end is None else _bounds(end, "--to")
    if start is None:
        assert stop is not None
        return _checked(stop[1] - WEEK, stop[1])
    if stop is None:
        return _checked(start[0], max(start[1], start[0] + WEEK))
    return _checked(start[0], stop[1])


def _checked(start: datetime, end: datetime) -> Period:
    if end <= start:
        raise InputError(f"the period must end ({end:%Y-%m-%d %H:%M}) after it begins ({start:%Y-%m-%d %H:%M})")
    return Period(start, end)


def _bounds(text: str, option: str) -> tuple[datetime, datetime]:
    """Return the start and the end (exclusive) of the week, quarter, month or day that `text` names.

    If `text` is a time, the start is this time, rounded down to the minute, and the end is this time, rounded up.
    """
    try:
        if match := re.fullmatch(r"(\d{4})-?W(\d{2})", text):
            monday = _midnight(date.fromisocalendar(int(match[1]), int(match[2]), 1))
            return monday, monday + WEEK
        if match := re.fullmatch(r"(\d{4})-(?:Q([1-4])|(\d{2}))", text):
            year, quarter, month = (int(part or 0) for part in match.groups())
            first = _midnight(date(year, month or 3 * quarter - 2, 1))
            return first, _midnight(_months_later(first, 1 if month else 3))
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = _midnight(date.fromisoformat(text))
            return day, day + DAY
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{option} {text!r}: expected an ISO week (2026-W46), a month (2026-11), a quarter (2026-Q4), a date "
            "(2026-11-09) or a time (2026-11-09T08:30)"
        ) from error
    moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    floor = moment.replace(second=0, microsecond=0)
    return floor, floor if floor == moment else floor + MINUTE


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, 1)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)


def history_of(newest: Period, count: int) -> Sequence[Period]:
    """Return `count` periods of equal length, oldest first; the last one is `newest`."""
    return [newest.before(n) for n in reversed(range(count))]


def period_names(newest: Period, periods: Sequence[Period]) -> list[str]:
    """Return the periods' short names for headings: `W46` for weeks, otherwise the start of the period."""
    if newest.is_week:
        return [f"W{p.start.isocalendar()[1]:02d}" for p in periods]
    return [f"{p.start:%H:%M}" if p.minutes < 1440 else f"{p.start.day} {p.start:%b}" for p in periods]


def utc(epoch_seconds: int) -> datetime:
    """Return epoch seconds as an aware datetime in UTC.

    Spark's queries return epoch seconds, because PySpark would convert Spark's timestamps to naive local times.
    """
    return datetime.fromtimestamp(epoch_seconds, UTC)
