"""Read times that are written as text, in the formats of the table `_FORMS`.

A time without a zone is read as UTC.
"""

from __future__ import annotations

import re
from calendar import month_abbr
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from clienthealth.model.values import EARLIEST_MS, epoch, millis

_MAX_TIME = 64
_SAMPLE = 2_000
_NUMBER = re.compile(r"[+-]?(?:\d{1,400}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,4})?", re.ASCII)

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|FINE|FINER|FINEST|CONFIG)"
_LEAD = (
    rf"(?P<lead>[ \t]{{0,12}}(?:(?:\[?{_LEVEL}\]?[ \t:|,-]{{1,8}}|\[[^\[\]\n]{{1,100}}\][ \t]{{1,4}}"
    r"|\{[^{}\n]{1,100}\}[ \t]{1,4}){1,3}|[A-Z](?=\d{4} )|(?:time|ts|timestamp|date|t)=|%?\d\|(?=\d{10}\.))?"
    r"[\[(<\"']{0,2})"
)
_FRACTION = r"(?:[.,:](?P<f>\d{1,9}))?"
_CLOCK = rf"(?P<h>\d{{1,2}}):(?P<mi>\d\d):(?P<s>\d\d){_FRACTION}(?:[ ]?(?P<ap>[AaPp][Mm])\b)?"
_ZONE = (
    r"(?:[ ]?(?P<z>(?:GMT|UTC)?[+-]\d\d:?\d\d|[+-]\d\d\b|Z|UTC|GMT|(?:C|E|P|M)[SDE]S?T\b|"
    r"[A-Z][a-z]+/[A-Z][A-Za-z_]+))?"
)
_MON = r"(?P<mon>[A-Z][a-z]{2})[a-z]{0,6}\.?"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_SIX = r"(?P<hms>\d{6})(?:[.,](?P<f2>\d{1,9}))?"

#: Time formats. The groups `a`, `b` and `c` are a date's numbers in unknown order.
_FORMS: Mapping[str, str] = {
    "iso": rf"(?P<y>\d{{4}})[-/.](?P<m>\d\d)[-/.](?P<d>\d\d)[T _-]{_CLOCK}{_ZONE}",
    "compact": rf"(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)[T _-]?(?:{_CLOCK}|{_SIX}){_ZONE}",
    "day month": rf"{_DAY}(?P<d>\d{{1,2}})[ /-]{_MON}[ /-](?P<y>\d{{4}})[ :,T]{{1,2}}{_CLOCK}{_ZONE}",
    "month day": rf"{_DAY}{_MON} {{1,2}}(?P<d>\d{{1,2}}),? (?P<y>\d{{4}}),?(?: @)? {_CLOCK}{_ZONE}",
    "date": rf"{_DAY}{_MON} {{1,2}}(?P<d>\d{{1,2}}) {_CLOCK}(?: (?P<z>[A-Z]{{2,5}}[+:\d-]*|[+-]\d{{4}}))?"
    r" (?P<y>\d{4})\b",
    "month day, no year": rf"{_MON} {{1,2}}(?P<d>\d{{1,2}}) {_CLOCK}{_ZONE}",
    "parts": rf"(?P<a>\d{{1,2}})(?P<sep>[/.-])(?P<b>\d{{1,2}})(?P=sep)(?P<c>\d{{4}}|\d\d)[ T,-]{{1,2}}{_CLOCK}{_ZONE}",
    "glog": rf"(?P<m>\d\d)(?P<d>\d\d) {_CLOCK}",
    "epoch": r"(?P<epoch>1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?)(?![\d.])",
    "time only": rf"{_CLOCK}{_ZONE}(?![\d:/])",
}
_AT_BEGIN = tuple((name, re.compile(f"{_LEAD}{form}".encode())) for name, form in _FORMS.items())
_ANYWHERE = tuple(
    (name, re.compile(rf"(?P<lead>[^\n]{{0,120}}?{before}){_FORMS[name]}".encode()))
    for name, before in {**dict.fromkeys(("iso", "month day", "date"), r"(?<![\w.:/-])"), "epoch": r"%\d\|"}.items()
)
_WHOLE = (
    re.compile(
        r"(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T ](?P<h>\d\d?):(?P<mi>\d\d?)(?::(?P<s>\d\d?)(?:[.,](?P<f>\d*))?)?"
        r"(?: ?(?P<z>[zZ]|(?:UTC|GMT)?[+-]\d\d(?::?\d\d)?))?",
        re.ASCII,
    ),
    re.compile(_FORMS["compact"], re.ASCII),
)
_IN_NAME = re.compile(
    r"(?<!\d)(?:(?P<y>20\d\d)-?(?P<m>\d\d)-?(?P<d>\d\d)[T_.-]?)?(?P<h>[01]\d|2[0-3])(?P<sep>[-_:.h]?)(?P<mi>[0-5]\d)"
    r"(?P=sep)(?P<s>[0-5]\d)(?!\d)",
    re.ASCII,
)
_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONES = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
_ZONES |= {"CET": 1, "CEST": 2, "EET": 2, "EEST": 3}
_HALF_DAY, _DAY_LONG, _HALF_YEAR = timedelta(hours=12), timedelta(days=1), timedelta(days=182)
_CLOCKS_DIFFER = timedelta(minutes=10)
_ORDERS = (("y", "m", "d"), ("d", "m", "y"), ("m", "d", "y"))


def number(text: str | None) -> float | None:
    """Return the value of a text that consists only of a number; None for any other text."""
    digits = (text or "").strip()
    return float(digits) if _NUMBER.fullmatch(digits) else None


def time_ms(written: object) -> int | None:
    """Return the time in a text as epoch milliseconds; None if the text is no plausible time.

    The text is a date and time, or a number of s, ms, µs or ns since 1970.
    """
    if not isinstance(written, str) or len(written) > _MAX_TIME:
        return None
    count = number(written)
    return _written(written)[0] if count is None else epoch(count)


def has_zone(written: str) -> bool:
    """True if a written time names its zone, or is an epoch time (a number)."""
    return number(written) is not None or _written(written)[1]


#: Most time zones differ from UTC by a multiple of half an hour, and all by at most 14 hours.
ZONE_MS, MOST_ZONES, SOON_MS = 1_800_000, 28, 10_000


def zone_between(written_ms: int, there_ms: int) -> int | None:
    """Return the offset (ms) which, added to a time without a zone, gives UTC; None if unknown.

    `written_ms`: the time, read as UTC. `there_ms`: when the text arrived (epoch ms). The offset is
    `there_ms - written_ms`, rounded to a multiple of half an hour. If rounding changes the value by more than SOON_MS,
    the text may have arrived late, so the offset is unknown.
    """
    away = there_ms - written_ms
    zone = round(away / ZONE_MS) * ZONE_MS
    return zone if abs(away - zone) <= SOON_MS and abs(zone) <= MOST_ZONES * ZONE_MS else None


@lru_cache(maxsize=4_096)  # A burst of lines has only a few different times.
def _written(text: str) -> tuple[int | None, bool]:
    """Return (time in epoch ms or None, True if the text names a zone)."""
    match = next((match for pattern in _WHOLE if (match := pattern.fullmatch(text))), None)
    moment = _moment(match.groupdict(), None) if match is not None else None
    return _ms(moment), match is not None and match["z"] is not None


def _ms(moment: datetime | None) -> int | None:
    return millis((moment - _EPOCH) // timedelta(milliseconds=1)) if moment is not None else None


def _moment(parts: Mapping[str, str | None], day: date | None) -> datetime | None:
    found = {name: part for name, part in parts.items() if part}
    six = found.get("hms", "")
    hour, minute, second = six[:2] or found["h"], six[2:4] or found["mi"], six[4:] or found.get("s", "0")
    hours = int(hour) % 12 + (12 if found["ap"] in ("pm", "PM", "Pm", "pM") else 0) if "ap" in found else int(hour)
    micros = int((found.get("f") or found.get("f2") or "")[:6].ljust(6, "0"))
    try:
        if "d" in found:
            month = _MONTHS.get(found.get("mon", "")) or int(found.get("m", "0"))
            # If a date has no year, choose the latest year for which the date is at most one day after `day`.
            latest = (day or datetime.now(UTC).date()) + timedelta(days=1)
            year = (
                int(found["y"]) if "y" in found else latest.year - ((month, int(found["d"])) > latest.timetuple()[1:3])
            )
            day = date(year + 2000 if year < 100 else year, month, int(found["d"]))
        clock = time(hours, int(minute), min(int(second), 59), micros, _zone(found.get("z", "")))
        return datetime.combine(day, clock) if day is not None else None
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _zone(text: str) -> tzinfo:
    name = text.strip().removeprefix("GMT").removeprefix("UTC")
    if name in ("", "Z", "z"):
        return UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "").ljust(4, "0")
        ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
        return timezone(-ahead if name[0] == "-" else ahead) if ahead < timedelta(hours=19) else UTC
    if name in _ZONES:
        return timezone(timedelta(hours=_ZONES[name]))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


class Stamp(NamedTuple):
    """A time in a line: epoch ms (None if the date is unknown), at the position `line[begin:end]`."""

    ts_ms: int | None
    begin: int
    end: int


@dataclass
class Times:
    """Reads the times at the beginning of a file's lines, in the order of the lines.

    `forms`     (name, pattern) of the file's time formats, the most frequent first
    `order`     the order of year, month and day in a date of three numbers
    `day`       the date of the last time that was read, for times without a date
    `last`      the last time that was read
    `zoned`     True if any time so far had a zone or was an epoch time
    `ahead_ms`  offset (ms) from UTC of the last time that was read; positive east of UTC
    `until`     when the file was last modified; None if unknown
    """

    forms: list[tuple[str, re.Pattern[bytes]]]
    order: tuple[str, str, str] = ("y", "m", "d")
    day: date | None = None
    last: datetime | None = None
    zoned: bool = False
    ahead_ms: int = 0
    until: datetime | None = None

    @classmethod
    def learned(cls, sample: Sequence[bytes], file_ms: int | None) -> Times:
        """Return an instance with the time formats that occur in `sample`, some lines of a file.

        `file_ms`: the file's last modification (epoch ms); None if unknown.
        """
        counts: dict[str, int] = {}
        parts = []
        for line in sample[:_SAMPLE]:
            for name, pattern in _AT_BEGIN:
                if match := pattern.match(line, 0, 200):
                    counts[name] = counts.get(name, 0) + 1
                    if name == "parts":
                        parts.append((match["a"], match["b"], match["c"]))
                    break
        forms = sorted((form for form in _AT_BEGIN if form[0] in counts), key=lambda form: -counts[form[0]])
        forms = forms or _anywhere(sample[:_SAMPLE])
        day = datetime.fromtimestamp(file_ms / 1000, UTC) if file_ms else None
        return cls(forms, _order(parts, day.date() if day else None), day.date() if day else None, until=day)

    @property
    def dated(self) -> bool:
        """True if any format contains a date, or if no format is known."""
        return not self.forms or any(name != "time only" for name, _ in self.forms)

    @classmethod
    def all(cls) -> Times:
        """Return an instance that tries all known time formats."""
        return cls(list(_AT_BEGIN))

    @classmethod
    def anywhere(cls) -> Times:
        """Return an instance for times that need not be at the beginning of a line.

        Only formats that cannot be confused with other text are tried.
        """
        return cls(list(_ANYWHERE))

    def begins(self, line: bytes) -> bool:
        """True if this line begins with a time, and thus begins an entry."""
        return any(pattern.match(line, 0, 200) for _, pattern in self.forms)

    def stamp(self, line: bytes) -> Stamp | None:
        """Return the time at a line's beginning; None if no format fits. Call `stamp` for the file's lines in order."""
        for _, pattern in self.forms:
            if match := pattern.match(line, 0, 200):
                parts = {name: part.decode("utf-8", "replace") for name, part in match.groupdict().items() if part}
                self.zoned = self.zoned or "epoch" in parts or "z" in parts
                moment = None if "epoch" in parts else self._followed(parts)
                ms = epoch(float(parts["epoch"])) if "epoch" in parts else _ms(moment)
                if ms is not None or (moment is None and "epoch" not in parts):
                    return Stamp(ms, match.end("lead"), match.end())
        return None

    def _followed(self, parts: dict[str, str]) -> datetime | None:
        """Return the time from the groups of a match; None for an impossible time."""
        if "a" in parts:
            parts |= zip(self.order, (parts["a"], parts["b"], parts["c"]), strict=True)
        # A log may pause for months, so a date without a year gets the year that is nearest to the last line's date.
        day = self.day + _HALF_YEAR if self.day is not None and self.last is not None and "d" in parts else self.day
        if (moment := _moment(parts, day)) is None:
            return None
        self.ahead_ms = round((moment.utcoffset() or timedelta()) / timedelta(milliseconds=1))
        self.day = moment.date()
        if "d" in parts:
            self.last = moment
            return moment
        # If the time of day jumps back by more than half a day, midnight has passed.
        if self.last is not None and self.last - moment > _HALF_DAY and not self._is_late(moment + _DAY_LONG):
            moment += _DAY_LONG
        elif self.last is None and self._is_late(moment):
            moment -= _DAY_LONG
        self.day, self.last = moment.date(), moment
        return moment

    def _is_late(self, moment: datetime) -> bool:
        return self.until is not None and moment - self.until > _CLOCKS_DIFFER


def _anywhere(lines: Sequence[bytes]) -> list[tuple[str, re.Pattern[bytes]]]:
    """Return the first format of _ANYWHERE that fits more than half of the lines, as a list; [] if no format fits."""
    own = [line for line in lines if line.strip() and not line.startswith((b" ", b"\t", b"Caused by"))]
    for name, pattern in _ANYWHERE:
        if own and 2 * sum(pattern.match(line, 0, 300) is not None for line in own) > len(own):
            return [(name, pattern)]
    return []


def _order(parts: Sequence[tuple[bytes, bytes, bytes]], day: date | None) -> tuple[str, str, str]:
    """Return the order of year, month and day that brings the dates in `parts` closest to `day` and to each other."""
    best, least = _ORDERS[0], float("inf")
    for order in _ORDERS:
        numbers = [dict(zip(order, map(int, part), strict=True)) for part in parts]
        try:
            days = [date(n["y"] + (2000 if n["y"] < 100 else 0), n["m"], n["d"]) for n in numbers]
        except ValueError:
            continue
        if not days or min(days).year < datetime.fromtimestamp(EARLIEST_MS / 1000, UTC).year:
            continue
        # A file's entries are close in time; a wrong order of year, month and day spreads their dates.
        away = (abs((day - days[-1]).days) if day else 0.0) + (max(days) - min(days)).days
        if away < least:
            best, least = order, away
    return best


class TimeInName(NamedTuple):
    """A time (epoch ms) in the name of a file. `dated`: True if the name also contains the date."""

    ts_ms: int
    dated: bool


def time_in_name(file: str, day_ms: int) -> TimeInName | None:
    """Return the time in a file's name, or the rightmost of several times; None if the name contains no time.

    `day_ms`: if the name contains no date, the date of this time (epoch ms) is used.
    """
    day = datetime.fromtimestamp(day_ms / 1000, UTC).date()
    for match in reversed([*_IN_NAME.finditer(file.rpartition("/")[2])]):
        if (ms := _ms(_moment(match.groupdict(), day))) is not None:
            return TimeInName(ms, match["d"] is not None)
    return None
