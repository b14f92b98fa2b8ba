"""How the lines of a file begin: with what their shippers write before each, and then with a time. Both are learned
from the file's own lines.

Container runtimes, orchestrators and syslog write *prefixes*, up to three before each other, as in a log of
`docker compose logs --timestamps` that went through syslog. A prefix may say who wrote the line (lines of several
writers are then told apart) and when. The *time* of an entry stands at (or near) the beginning of what remains, in
whatever way it is written; which of the known ways a file uses, and what its numbers mean (`11/12/26`: year, month or
day first), the file itself shows.
"""

from __future__ import annotations

import re
from calendar import month_abbr
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from clienthealth.diagnose.attachments.text import utf8
from clienthealth.read.logs import lines

#: Where fewer of the lines that speak of Kafka are understood, they are taken to have no prefix.
_FITS = 0.5
_SAMPLE = 2_000
#: Belongs to the line above: a frame, the value of an option, an exception.
_BELOW = re.compile(rb"\t|\s+(?:at |[\w.]+ = )|at |Caused by|Suppressed|[\w.$]{1,300}(?:Exception|Error)\b")


@dataclass
class Layout:
    """How the lines of a file begin. `shipped`: the prefixes of all; `times`: how what remains of a line says when."""

    shipped: Prefixes
    times: Times

    @classmethod
    def learned(cls, sample: Sequence[bytes], file_ms: int | None) -> Layout:
        """From the file's first lines. `file_ms`: when it was written last.

        A prefix that is none, but how the application begins its own entries, leaves lines that nobody understands.
        """
        layout = cls._with(Prefixes(sample[:_SAMPLE]), sample, file_ms)
        if not layout.shipped or (fit := layout._fit(sample)) >= _FITS:
            return layout
        bare = cls._with(Prefixes([]), sample, file_ms)
        return bare if bare._fit(sample) > fit else layout

    @classmethod
    def _with(cls, shipped: Prefixes, sample: Sequence[bytes], file_ms: int | None) -> Layout:
        return cls(shipped, Times.learned([shipped.strip(line).line for line in sample[:_SAMPLE]], file_ms))

    def _fit(self, sample: Sequence[bytes]) -> float:
        """Of the lines of a sample that speak of Kafka, the share that is understood; 1 where none does."""
        speaking = understood = 0
        for line in sample[:_SAMPLE]:
            stripped, _, time, _ = self.shipped.strip(line)
            if b"afka" not in line or _BELOW.match(stripped):
                continue
            speaking += 1
            stamp = self.times.stamp(stripped)
            at = (stamp.begin, stamp.end) if stamp is not None else (0, 0)
            level = lines.dated_entry(utf8(stripped).decode(), *at).level
            own_line = stamp is not None or (bool(time) and stripped[:1] not in (b" ", b"\t"))
            understood += own_line and (level is not None or not self.times.forms)
        return understood / speaking if speaking else 1.0

    def text(self, line: bytes) -> str:
        """A line without its prefix."""
        return utf8(self.shipped.strip(line).line).decode()

    def time_before(self, numbered: Mapping[int, bytes]) -> Callable[[int], int]:
        """For the number of a line: the time of the nearest line above that has one, 0 where none has.

        `numbered`: the lines of one writer, without prefix, by their numbers
        """
        times = replace(self.times, last=None, until=None)

        def before(at: int) -> int:
            for number in range(at - 1, max(-1, at - 501), -1):
                stamp = times.stamp(numbered[number]) if number in numbered else None
                if stamp is not None and stamp.ts_ms is not None:
                    return stamp.ts_ms
            return 0

        return before


# -- prefixes ---------------------------------------------------------------------------------------------------------

_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_NANOS = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG_TIME = rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
#: Above this share of lines it is a prefix of all; the rest is what a tool says itself (`-- Logs begin at …`).
_PREFIX_SHARE = 0.8
_MOST_PREFIXES = 3
_PREFIX_SAMPLE = 400

#: Name → how the prefix looks. Groups: `key` who wrote the line, `time` when, `part` P where the line goes on.
_PREFIXES: tuple[tuple[str, bytes], ...] = (
    ("CRI", rb"(?P<time>\S{20,40}) std(?:out|err) (?P<part>[FP]) "),
    ("kubectl", rb"\[(?P<key>(?:pod/)?[\w.-]{1,253}/[\w./-]{1,253})\] "),
    (
        "syslog (RFC 5424)",
        rb"(?:\d{1,5} )?<\d{1,3}>1 (?P<time>" + _ISO + rb"|-) (?P<key>\S{1,255} \S{1,48} \S{1,128}) \S{1,32} "
        rb"(?:-|(?:\[[^\]\n]{1,500}\])+) ?(?:\xef\xbb\xbf)?",
    ),
    (
        "syslog",
        rb"(?:<\d{1,3}>)?(?P<time>"
        + _SYSLOG_TIME
        + rb"|"
        + _ISO
        + rb") (?P<key>[\w.:-]{1,255} [^\s:\[\]]{1,64}(?:\[\d+\])?): ?",
    ),
    ("compose", rb"(?P<key>[A-Za-z0-9][\w.-]{0,100}) {0,60}\| ?"),
    ("timestamps", rb"(?P<time>" + _NANOS + rb")(?: |$)"),
    ("severity", rb"<\d{1,3}>(?=\S)"),
)
_TIMED_REST = re.compile(rb"[\[(<]?(?:\d{4}[-/.]\d\d|\d\d[-/:. ]|\d{10}|\{)")
#: What begins with a level has its time from the application as likely as from who shipped it.
_LEVELLED_REST = re.compile(rb"[A-Z]{4,5} ")
#: How the lines of a stack trace, or of a list of options, go on: an application writes no time before them.
_GOES_ON = re.compile(rb"\t|\}|[ ]+(?:at |\.\.\. \d|[\w.]+ = )|Caused by: |Suppressed: ")


class Stripped(NamedTuple):
    """A line without its prefix. `part`: it goes on in the next line."""

    line: bytes
    key: bytes = b""
    time: bytes = b""
    part: bool = False


class Prefixes:
    """The prefixes of a file's lines. `names`: what they are, outermost first; `keys`: who the sample speaks of."""

    def __init__(self, sample: Sequence[bytes]) -> None:
        self.names: list[str] = []
        self.keys: set[bytes] = set()
        self._patterns: list[re.Pattern[bytes]] = []
        lines = [line for line in sample[:_PREFIX_SAMPLE] if line.strip()]
        while len(self._patterns) < _MOST_PREFIXES and (learned := _next_prefix(lines, set(self.names))):
            name, pattern = learned
            self.names.append(name)
            self._patterns.append(pattern)
            rest = []
            for line in lines:
                if match := pattern.match(line):
                    if "key" in pattern.groupindex:
                        self.keys.add(match["key"])
                    if line[match.end() :].strip():
                        rest.append(line[match.end() :])
            lines = rest

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def strip(self, line: bytes) -> Stripped:
        """Take the prefixes off a line, as far as it has them."""
        keys, time, part, at = [], b"", False, 0
        for pattern in self._patterns:
            match = pattern.match(line, at)
            if match is None:
                continue
            at = match.end()
            groups = match.groupdict()
            if groups.get("key"):
                keys.append(groups["key"])
            time = groups.get("time") or time
            part = part or groups.get("part") == b"P"
        return Stripped(line[at:], b" ".join(keys), time, part)


def _next_prefix(lines: Sequence[bytes], learned: set[str]) -> tuple[str, re.Pattern[bytes]] | None:
    for name, expression in _PREFIXES:
        if name in learned:
            continue
        pattern = re.compile(expression)
        matches = [match for line in lines if (match := pattern.match(line))]
        if not matches or len(matches) < _PREFIX_SHARE * len(lines):
            continue
        if name in ("timestamps", "syslog") and not _is_before_lines(name, matches):
            continue
        if name == "compose" and not _is_compose(matches):
            continue
        return name, pattern
    return None


def _is_before_lines(name: str, matches: Sequence[re.Match[bytes]]) -> bool:
    """Is the time one that a tool wrote before whole lines, and not how the application begins its own entries?"""
    rests = [match.string[match.end() :] for match in matches]
    if name == "syslog" and re.match(rb"[A-Z<]", matches[0].string):
        return True
    continued = sum(_GOES_ON.match(rest) is not None for rest in rests)
    timed = sum(_TIMED_REST.match(rest) is not None for rest in rests)
    if name == "syslog":
        timed += sum(_LEVELLED_REST.match(rest) is not None for rest in rests)
    # A journal says host and program of each line: few programs, whatever the lines say.
    few = name == "syslog" and len({match["key"] for match in matches}) <= max(3, len(matches) // 20)
    return bool(few or continued or timed * 2 > len(rests))


def _is_compose(matches: Sequence[re.Match[bytes]]) -> bool:
    """Few writers, whose names are padded to one width (or by one blank: `docker compose` of some versions)."""
    keys = {match["key"] for match in matches}
    levels = {b"INFO", b"WARN", b"ERROR", b"DEBUG", b"TRACE", b"FATAL"}
    bars = {match.group().find(b"|") for match in matches}
    return not keys & levels and len(keys) <= max(2, len(matches) // 3) and len(bars) <= max(1, len(keys))


# -- times ------------------------------------------------------------------------------------------------------------

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
    rb"(?:[ ]?(?P<z>(?:GMT|UTC)?[+-]\d\d:?\d\d|[+-]\d\d\b|Z|UTC|GMT|(?:C|E|P|M)[SDE]S?T\b|"
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
    (
        "date",
        _DAY + _MON + rb" {1,2}(?P<d>\d{1,2}) " + _CLOCK + rb"(?: (?P<z>[A-Z]{2,5}[+:\d-]*|[+-]\d{4}))? (?P<y>\d{4})\b",
    ),
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)
_HALF_DAY, _DAY_LONG = timedelta(hours=12), timedelta(days=1)
_CLOCKS_DIFFER = timedelta(minutes=10)
_ORDERS = (("y", "m", "d"), ("d", "m", "y"), ("m", "d", "y"))


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
    def all(cls) -> Times:
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
                    ms = None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)
                    return Stamp(ms, match.end("lead"), match.end())
        return None

    def _moment(self, name: str, match: re.Match[bytes]) -> datetime | None:
        groups = {key: value.decode("utf-8", "replace") for key, value in match.groupdict().items() if value}
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


#: Six digits of a clock, or parted; a date may stand before them.
_IN_NAME = re.compile(
    r"(?<!\d)(?:(?P<day>20\d\d-?\d\d-?\d\d)[T_.-]?)?(?P<h>[01]\d|2[0-3])(?P<sep>[-_:.h]?)(?P<m>[0-5]\d)(?P=sep)"
    r"(?P<s>[0-5]\d)(?!\d)",
    re.ASCII,
)


class TimeInName(NamedTuple):
    """A time in the name of a file: epoch ms, and does it name the day, too."""

    ts_ms: int
    dated: bool


def time_in_name(file: str, day_ms: int) -> TimeInName | None:
    """The time in the name of a file, as of a dump or a scrape that says none itself; None where there is none.

    `day_ms`: any time of the day that counts where the name has only a clock.
    """
    for match in reversed([*_IN_NAME.finditer(file.rpartition("/")[2])]):
        day = match["day"] or datetime.fromtimestamp(day_ms / 1000, UTC).date().isoformat()
        try:
            clock = datetime.fromisoformat(f"{day.replace('-', '')}T{match['h']}{match['m']}{match['s']}+00:00")
        except ValueError:
            continue
        return TimeInName(int(clock.timestamp() * 1000), match["day"] is not None)
    return None
