"""How the entries of a log begin: with a time, in whatever way it is written. Learned from the file's own lines.

A layout finds the time at (or near) the beginning of a line and reads it. Which of the known ways a file uses, and
what its numbers mean (`11/12/26`: year, month or day first), the file itself shows.
"""

from __future__ import annotations

import re
from calendar import month_abbr
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_LEVEL = rb"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|FINE|FINER|FINEST|CONFIG)"
#: What may stand before the time: brackets, a level, a thread or a logger in brackets.
_LEAD = (
    rb"(?P<lead>[ \t]{0,12}(?:(?:\[?"
    + _LEVEL
    + rb"\]?[ \t:|,-]{1,8}|\[[^\[\]\n]{1,100}\][ \t]{1,4}|\{[^{}\n]{1,100}\}[ \t]{1,4}){1,3}|"
    rb"[A-Z](?=\d{4} )|(?:time|ts|timestamp|date|t)=|%\d\|(?=\d{10}\.))?[\[(<\"']{0,2})"
)
_CLOCK = rb"(?P<h>\d{1,2}):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?(?:[ ]?(?P<ap>[AaPp][Mm])\b)?"
_ZONE = (
    rb"(?:[ ]?(?P<z>Z|UTC|GMT|(?:GMT|UTC)?[+-]\d\d:?\d\d|[+-]\d\d\b|(?:C|E|P|M)[SDE]S?T\b|"
    rb"[A-Z][a-z]+/[A-Z][A-Za-z_]+))?"
)
_MON = rb"(?P<mon>[A-Z][a-z]{2})[a-z]{0,6}\.?"
_DAY = rb"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"

_FORMS: tuple[tuple[str, bytes], ...] = (
    ("iso", rb"(?P<y>\d{4})[-/.](?P<m>\d\d)[-/.](?P<d>\d\d)[T _-]" + _CLOCK + _ZONE),
    (
        "compact",
        rb"(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)[T _-]?(?:"
        + _CLOCK
        + rb"|(?P<hms>\d{6})(?:[.,](?P<f2>\d{1,9}))?)"
        + _ZONE,
    ),
    ("day month", _DAY + rb"(?P<d>\d{1,2})[ /-]" + _MON + rb"[ /-](?P<y>\d{4})[ :,T]{1,2}" + _CLOCK + _ZONE),
    ("month day", _DAY + _MON + rb" {1,2}(?P<d>\d{1,2}),? (?P<y>\d{4}),?(?: @)? " + _CLOCK + _ZONE),
    ("date", _DAY + _MON + rb" {1,2}(?P<d>\d{1,2}) " + _CLOCK + rb"(?: (?P<z>[A-Z]{2,5}|[+-]\d{4}))? (?P<y>\d{4})\b"),
    ("month day, no year", _MON + rb" {1,2}(?P<d>\d{1,2}) " + _CLOCK + _ZONE),
    ("parts", rb"(?P<a>\d{1,2})(?P<sep>[/.-])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{4}|\d\d)[ T,-]{1,2}" + _CLOCK + _ZONE),
    ("glog", rb"(?P<m>\d\d)(?P<d>\d\d) " + _CLOCK),
    ("epoch", rb"(?P<epoch>1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?)(?![\d.])"),
    ("time only", _CLOCK + _ZONE + rb"(?![\d:/])"),
)
_COMPILED = tuple((name, re.compile(_LEAD + form)) for name, form in _FORMS)
#: The same with any words before it: of forms that are nothing but a time wherever they stand.
_ANYWHERE = tuple(
    (name, re.compile(rb"(?P<lead>[^\n]{0,120}?" + before + rb")" + form))
    for name, form in _FORMS
    for before in ((rb"%\d\|",) if name == "epoch" else (rb"(?<![\w.:/-])",))
    if name in ("iso", "month day", "date", "epoch")
)
_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}
_ZONES = {
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "CET": 1,
    "CEST": 2,
    "EET": 2,
    "EEST": 3,
}
_EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)
_SAMPLE = 2_000
_HALF_DAY, _DAY_LONG = timedelta(hours=12), timedelta(days=1)
_CLOCKS_DIFFER = timedelta(minutes=10)
_ORDERS = (("y", "m", "d"), ("d", "m", "y"), ("m", "d", "y"))


class Stamp(NamedTuple):
    """A time in a line: epoch ms (None where it says no day and none is known), and where in the line it stands."""

    ts_ms: int | None
    begin: int
    end: int


@dataclass
class Layouts:
    """The ways in which a file's entries begin, the commonest first; empty where no line has a time.

    day: of the latest time, for times that do not say it; until: when the file was written last
    order: of the three numbers of a date, which are year, month and day
    """

    forms: list[tuple[str, re.Pattern[bytes]]]
    order: tuple[str, str, str] = ("y", "m", "d")
    day: date | None = None
    last: datetime | None = None
    until: datetime | None = None

    @classmethod
    def learned(cls, sample: Sequence[bytes], file_ms: int | None) -> Layouts:
        """From the file's lines (without prefixes). `file_ms`: when it was written last."""
        counts: dict[str, int] = {}
        parts = []
        for line in sample[:_SAMPLE]:
            for name, pattern in _COMPILED:
                if match := pattern.match(line, 0, 200):
                    counts[name] = counts.get(name, 0) + 1
                    if name == "parts":
                        parts.append((match["a"], match["b"], match["c"]))
                    break
        forms = sorted((form for form in _COMPILED if form[0] in counts), key=lambda form: -counts[form[0]])
        forms = forms or _anywhere(sample[:_SAMPLE])
        day = datetime.fromtimestamp(file_ms / 1000, UTC) if file_ms else None
        return cls(forms, _order(parts, day.date() if day else None), day.date() if day else None, until=day)

    @property
    def dated(self) -> bool:
        """Does any way of writing a time name a day?"""
        return not self.forms or any(name != "time only" for name, _ in self.forms)

    @classmethod
    def all(cls) -> Layouts:
        """All ways that are known."""
        return cls(list(_COMPILED))

    def begins(self, line: bytes) -> bool:
        """Does an entry begin with this line?"""
        return any(pattern.match(line, 0, 200) for _, pattern in self.forms)

    def stamp(self, line: bytes) -> Stamp | None:
        """The time at the beginning of a line, None where it has none."""
        for name, pattern in self.forms:
            if match := pattern.match(line, 0, 200):
                moment = self._moment(name, match)
                if moment is None or moment >= _EARLIEST:
                    return Stamp(_ms(moment), match.end("lead"), match.end())
        return None

    def _moment(self, name: str, match: re.Match[bytes]) -> datetime | None:
        groups = {key: value.decode() for key, value in match.groupdict().items() if value is not None}
        if name == "epoch":
            digits, _, fraction = groups["epoch"].partition(".")
            return datetime.fromtimestamp(float(f"{digits[:10]}.{(digits[10:] + fraction) or 0}"), UTC)
        if name == "parts":
            groups.update(zip(self.order, (groups["a"], groups["b"], groups["c"]), strict=True))
        try:
            hour, minute, second = _clock(groups)
            zone = _zone(groups.get("z", ""))
            day = self._day(groups)
            if day is None:
                return None
            micros = int((groups.get("f") or groups.get("f2") or "").ljust(6, "0")[:6])
            moment = datetime(day.year, day.month, day.day, hour, minute, second, micros, zone)
        except ValueError:
            return None
        if "d" not in groups:
            # Past midnight the clock falls back by a day. Nothing in a file is newer than the file.
            if self.last is not None and self.last - moment > _HALF_DAY and not self._is_late(moment + _DAY_LONG):
                moment += _DAY_LONG
            elif self.last is None and self._is_late(moment):
                moment -= _DAY_LONG
            self.day = moment.date()
            self.last = moment
        else:
            self.day, self.last = day, moment
        return moment

    def _is_late(self, moment: datetime) -> bool:
        return self.until is not None and moment - self.until > _CLOCKS_DIFFER

    def _day(self, groups: dict[str, str]) -> date | None:
        if "d" not in groups:
            return self.day
        month = _MONTHS[groups["mon"]] if "mon" in groups and groups["mon"] in _MONTHS else int(groups.get("m", "0"))
        year = int(groups["y"]) if "y" in groups else (self.day.year if self.day else datetime.now(UTC).year)
        return date(year + 2000 if year < 100 else year, month, int(groups["d"]))


def _anywhere(lines: Sequence[bytes]) -> list[tuple[str, re.Pattern[bytes]]]:
    """A form of which most lines have one, whatever stands before it, where no line begins with a time."""
    own = [line for line in lines if line.strip() and not line.startswith((b" ", b"\t", b"Caused by"))]
    for name, pattern in _ANYWHERE:
        if own and 2 * sum(pattern.match(line, 0, 300) is not None for line in own) > len(own):
            return [(name, pattern)]
    return []


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _clock(groups: dict[str, str]) -> tuple[int, int, int]:
    if "hms" in groups:
        return int(groups["hms"][:2]), int(groups["hms"][2:4]), int(groups["hms"][4:])
    hour = int(groups["h"])
    if "ap" in groups:
        hour = hour % 12 + (12 if groups["ap"][0] in "pP" else 0)
    return hour, int(groups["mi"]), min(int(groups["s"]), 59)


@lru_cache(maxsize=64)
def _zone(text: str) -> tzinfo:
    """The zone that a time names; UTC where it names none, or none that is known."""
    name = text.strip().removeprefix("GMT").removeprefix("UTC")
    if name in ("", "Z"):
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


def _order(parts: Sequence[tuple[bytes, bytes, bytes]], day: date | None) -> tuple[str, str, str]:
    """What the three numbers of a date mean: the way in which all are dates, the last of them nearest to the file's."""
    best, least = _ORDERS[0], float("inf")
    for order in _ORDERS:
        dates = [_date(dict(zip(order, map(int, part), strict=True))) for part in parts]
        valid = [day_or_none for day_or_none in dates if day_or_none is not None]
        if not valid or len(valid) < len(dates) or min(valid).year < _EARLIEST.year:
            continue
        last = valid[-1]
        away = abs((day - last).days) if day else 0.0
        # Entries of one file lie close together: a wrong order makes days of months.
        away += (max(valid) - min(valid)).days
        if away < least:
            best, least = order, away
    return best


def _date(numbers: dict[str, int]) -> date | None:
    try:
        return date(numbers["y"] + (2000 if numbers["y"] < 100 else 0), numbers["m"], numbers["d"])
    except ValueError:
        return None
