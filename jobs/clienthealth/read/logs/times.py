"""Times in whatever way they are written: one table of the ways, and one reading of their parts.

A time may be all of a text (`time_ms`: the field of a record), stand at or near the beginning of a line (`Times`: which
ways a file uses, and what its numbers mean (`11/12/26`: year, month or day first), its lines show), or in the name of
a file. Where no zone is named it is UTC.
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
#: What may stand before the time: brackets, a level, a thread or a logger in brackets.
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

#: Name → how a time is written. Groups are its parts; `a`, `b`, `c`: of a date whose order is not known.
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
#: The same with any words before it: of forms that are nothing but a time wherever they stand.
_ANYWHERE = tuple(
    (name, re.compile(rf"(?P<lead>[^\n]{{0,120}}?{before}){_FORMS[name]}".encode()))
    for name, before in {**dict.fromkeys(("iso", "month day", "date"), r"(?<![\w.:/-])"), "epoch": r"%\d\|"}.items()
)
#: What is all of a text: a field of a record may leave out seconds and zeros.
_WHOLE = (
    re.compile(
        r"(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T ](?P<h>\d\d?):(?P<mi>\d\d?)(?::(?P<s>\d\d?)(?:[.,](?P<f>\d*))?)?"
        r"(?: ?(?P<z>[zZ]|(?:UTC|GMT)?[+-]\d\d(?::?\d\d)?))?",
        re.ASCII,
    ),
    re.compile(_FORMS["compact"], re.ASCII),
)
#: In the name of a file: six digits of a clock, or parted; a date may stand before them.
_IN_NAME = re.compile(
    r"(?<!\d)(?:(?P<y>20\d\d)-?(?P<m>\d\d)-?(?P<d>\d\d)[T_.-]?)?(?P<h>[01]\d|2[0-3])(?P<sep>[-_:.h]?)(?P<mi>[0-5]\d)"
    r"(?P=sep)(?P<s>[0-5]\d)(?!\d)",
    re.ASCII,
)
_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONES = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
_ZONES |= {"CET": 1, "CEST": 2, "EET": 2, "EEST": 3}
_HALF_DAY, _DAY_LONG = timedelta(hours=12), timedelta(days=1)
_CLOCKS_DIFFER = timedelta(minutes=10)
_ORDERS = (("y", "m", "d"), ("d", "m", "y"), ("m", "d", "y"))


def number(text: str | None) -> float | None:
    """A number written as text, None where it is none."""
    digits = (text or "").strip()
    return float(digits) if _NUMBER.fullmatch(digits) else None


def time_ms(written: object) -> int | None:
    """A written time, or a count from 1970, as epoch milliseconds; None where it is none."""
    if not isinstance(written, str) or len(written) > _MAX_TIME:
        return None
    count = number(written)
    return _written(written)[0] if count is None else epoch(count)


def has_zone(written: str) -> bool:
    """Is a written time free of doubt, because it names its zone or counts from 1970?"""
    return number(written) is not None or _written(written)[1]


@lru_cache(maxsize=4_096)  # lines of a storm have the same few times
def _written(text: str) -> tuple[int | None, bool]:
    """The time that is all of a text, and does it name its zone?"""
    match = next((match for pattern in _WHOLE if (match := pattern.fullmatch(text))), None)
    moment = _moment(match.groupdict(), None) if match is not None else None
    return _ms(moment), match is not None and match["z"] is not None


def _ms(moment: datetime | None) -> int | None:
    return millis((moment - _EPOCH) // timedelta(milliseconds=1)) if moment is not None else None


def _moment(parts: Mapping[str, str | None], day: date | None) -> datetime | None:
    """What the parts of a time say. `day`: of a time that says none; None where it is none, or no day is known."""
    said = {name: part for name, part in parts.items() if part}
    six = said.get("hms", "")
    hour, minute, second = six[:2] or said["h"], six[2:4] or said["mi"], six[4:] or said.get("s", "0")
    hours = int(hour) % 12 + (12 if said["ap"] in ("pm", "PM", "Pm", "pM") else 0) if "ap" in said else int(hour)
    micros = int((said.get("f") or said.get("f2") or "")[:6].ljust(6, "0"))
    try:
        if "d" in said:
            month = _MONTHS.get(said.get("mon", "")) or int(said.get("m", "0"))
            year = int(said["y"]) if "y" in said else (day.year if day else datetime.now(UTC).year)
            day = date(year + 2000 if year < 100 else year, month, int(said["d"]))
        clock = time(hours, int(minute), min(int(second), 59), micros, _zone(said.get("z", "")))
        return datetime.combine(day, clock) if day is not None else None
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _zone(text: str) -> tzinfo:
    """The zone that a time names; UTC where it names none, or none that is known."""
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
    """A time in a line: epoch ms (None where it says no day and none is known), and where in the line it stands."""

    ts_ms: int | None
    begin: int
    end: int


@dataclass
class Times:
    """The ways in which a file writes times, the commonest first; empty where no line has one.

    day: of the latest time, for times that do not say it; until: when the file was written last
    order: of the three numbers of a date, which are year, month and day
    """

    forms: list[tuple[str, re.Pattern[bytes]]]
    order: tuple[str, str, str] = ("y", "m", "d")
    day: date | None = None
    last: datetime | None = None
    until: datetime | None = None

    @classmethod
    def learned(cls, sample: Sequence[bytes], file_ms: int | None) -> Times:
        """From the file's lines (without prefixes). `file_ms`: when it was written last."""
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
        """Does any way of writing a time name a day?"""
        return not self.forms or any(name != "time only" for name, _ in self.forms)

    @classmethod
    def all(cls) -> Times:
        """All ways that are known."""
        return cls(list(_AT_BEGIN))

    def begins(self, line: bytes) -> bool:
        """Does an entry begin with this line?"""
        return any(pattern.match(line, 0, 200) for _, pattern in self.forms)

    def stamp(self, line: bytes) -> Stamp | None:
        """The time at the beginning of a line, None where it has none."""
        for _, pattern in self.forms:
            if match := pattern.match(line, 0, 200):
                parts = {name: part.decode("utf-8", "replace") for name, part in match.groupdict().items() if part}
                moment = None if "epoch" in parts else self._followed(parts)
                ms = epoch(float(parts["epoch"])) if "epoch" in parts else _ms(moment)
                if ms is not None or (moment is None and "epoch" not in parts):
                    return Stamp(ms, match.end("lead"), match.end())
        return None

    def _followed(self, parts: dict[str, str]) -> datetime | None:
        """The moment of a time, on the day that the times above it leave where it says none."""
        if "a" in parts:
            parts |= zip(self.order, (parts["a"], parts["b"], parts["c"]), strict=True)
        moment = _moment(parts, self.day)
        if moment is None:
            return None
        self.day = moment.date()
        if "d" in parts:
            self.last = moment
            return moment
        # Past midnight the clock falls back by a day. Nothing in a file is newer than the file.
        if self.last is not None and self.last - moment > _HALF_DAY and not self._is_late(moment + _DAY_LONG):
            moment += _DAY_LONG
        elif self.last is None and self._is_late(moment):
            moment -= _DAY_LONG
        self.day, self.last = moment.date(), moment
        return moment

    def _is_late(self, moment: datetime) -> bool:
        return self.until is not None and moment - self.until > _CLOCKS_DIFFER


def _anywhere(lines: Sequence[bytes]) -> list[tuple[str, re.Pattern[bytes]]]:
    """A form of which most lines have one, whatever stands before it, where no line begins with a time."""
    own = [line for line in lines if line.strip() and not line.startswith((b" ", b"\t", b"Caused by"))]
    for name, pattern in _ANYWHERE:
        if own and 2 * sum(pattern.match(line, 0, 300) is not None for line in own) > len(own):
            return [(name, pattern)]
    return []


def _order(parts: Sequence[tuple[bytes, bytes, bytes]], day: date | None) -> tuple[str, str, str]:
    """What the three numbers of a date mean: the way in which all are dates, the last of them nearest to the file's."""
    best, least = _ORDERS[0], float("inf")
    for order in _ORDERS:
        numbers = [dict(zip(order, map(int, part), strict=True)) for part in parts]
        try:
            days = [date(n["y"] + (2000 if n["y"] < 100 else 0), n["m"], n["d"]) for n in numbers]
        except ValueError:
            continue
        if not days or min(days).year < datetime.fromtimestamp(EARLIEST_MS / 1000, UTC).year:
            continue
        # Entries of one file lie close together: a wrong order makes days of months.
        away = (abs((day - days[-1]).days) if day else 0.0) + (max(days) - min(days)).days
        if away < least:
            best, least = order, away
    return best


class TimeInName(NamedTuple):
    """A time in the name of a file: epoch ms, and does it name the day, too."""

    ts_ms: int
    dated: bool


def time_in_name(file: str, day_ms: int) -> TimeInName | None:
    """The time in the name of a file, as of a dump or a scrape that says none itself; None where there is none.

    `day_ms`: any time of the day that counts where the name has only a clock.
    """
    day = datetime.fromtimestamp(day_ms / 1000, UTC).date()
    for match in reversed([*_IN_NAME.finditer(file.rpartition("/")[2])]):
        if (ms := _ms(_moment(match.groupdict(), day))) is not None:
            return TimeInName(ms, match["d"] is not None)
    return None
