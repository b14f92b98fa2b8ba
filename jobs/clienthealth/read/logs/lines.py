"""Parse log lines in the usual layouts of log4j, logback, Spring Boot, Storm, Python, Kafka's tools and librdkafka.

The lines below an entry's first line (a stack trace, a configuration) are the entry's `stack`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from clienthealth.model.telemetry import Identity, LogLine

_MAX_FIRST_LINE = 32_768
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_TIME = rf"(?:{_DAY}[ T])?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?"
_CONTAINER = r"(?:\S{20,40} std(?:out|err) [FP] )?"
_LEVEL = r"(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|INFORMATION|WARNUNG|SCHWERWIEGEND)"
_THREAD = r"\[ *+([^\]]{0,300})\]"
_LOGGER = r"([^\s:]{1,300})"

_LAYOUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        rf"{_LEVEL} ++(?:\[[^\]]{{0,300}}\] ++)??{_THREAD} ++{_LOGGER} *+[-:](?: (.*))?",
        ("level", "thread", "logger", "message"),
    ),
    (rf"{_THREAD} ++{_LEVEL} ++{_LOGGER} *+[-:](?: (.*))?", ("thread", "level", "logger", "message")),
    (
        rf"{_LEVEL} ++\d++ ++--- ++(?:\[[^\]]{{0,300}}\] ++)??{_THREAD} ++(?:\[[0-9a-f -]{{0,80}}\] ++)?"
        rf"{_LOGGER} *+:(?: (.*))?",
        ("level", "thread", "logger", "message"),
    ),
    (rf"{_LOGGER} (.{{1,200}}?) \[{_LEVEL}\] (.*)", ("logger", "thread", "level", "message")),
    (rf"{_LOGGER} - {_LEVEL} - (.*)", ("logger", "level", "message")),
    (rf"{_LEVEL}:{_LOGGER}:(.*)", ("level", "logger", "message")),
    (rf"{_LEVEL} ++(.*) \(([\w.$]{{1,300}})\)", ("level", "message", "logger")),
    # A name before a colon is a Python logger if it is in lower case, otherwise an exception.
    (rf"{_LEVEL} ++((?:[a-z_]\w*+\.)++[a-z_]\w*+):(?: (.*))?", ("level", "logger", "message")),
    (rf"{_LEVEL}:? ++(.*)", ("level", "message")),
    (r"(.*)", ("message",)),
)
#: Level and time may be missing in a copied line of librdkafka's log.
_LIBRDKAFKA = re.compile(
    r"(?:%?(\d)\|(\d{1,12}\.\d{1,9})|(?=\|\w{1,40}\|[^|]{1,400}\| \[thrd:))"
    r"\|(\w{1,40})\|([^|]{0,400})\| ?(?:\[thrd:([^\]]{0,400})\]: )?(.*)",
    re.ASCII,
)
_PATTERN = re.compile(
    rf"{_CONTAINER}(?:\[?({_TIME})\]?(?: - |[ \t]+|: ?))?(?:{'|'.join(f'(?:{pattern})' for pattern, _ in _LAYOUTS)})",
    re.ASCII,
)
#: Maps each group's number in _PATTERN to all fields of the layout that the group is part of. A field is given with the
#: number of the field's own group.
_GROUPS: dict[int, dict[str, int]] = {}
for _, _names in _LAYOUTS:
    _numbers = {_name: _number for _number, _name in enumerate(_names, max(_GROUPS, default=1) + 1)}
    _GROUPS |= dict.fromkeys(_numbers.values(), _numbers)
_LEVELS = _LEVEL[1:-1]
#: A logger is in brackets, contains a package, or is followed by a colon, bar or hyphen.
_TAIL = (
    r"(?:(?=[\[({<]\s*[^\])}>\s]{0,300}\s*[\])}>]|[^\s\[({<]{1,300}(?<=[:|-])\s|[^\s\[({<]{1,300}\s+[-:|]+\s"
    r"|[\w$]{1,100}\.[\w.$]{1,200}\s)[\[({<]?\s*([^\])}>\s]{0,300})\s*[\])}>]?\s*[-:|]*\s*)?(.*)"
)
_LOOSE: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (
        re.compile(rf"[\[(<|]?\s*({_LEVELS})\s*[\])>|]?\s*[-:|]?\s*[\[({{<]([^\])}}>\n]{{0,300}})[\])}}>]\s*{_TAIL}"),
        ("level", "thread", "logger", "message"),
    ),
    (
        re.compile(rf"[\[({{<]([^\])}}>\n]{{0,300}})[\])}}>]\s*[\[(<|]?\s*({_LEVELS})\b\s*[\])>|]?\s*[-:|]?\s*{_TAIL}"),
        ("thread", "level", "logger", "message"),
    ),
    (re.compile(rf"[\[(<|]?\s*({_LEVELS})\b\s*[\])>|:]?\s*[-:|]?\s*(.*)"), ("level", "message")),
)
_COLUMNS = re.compile(r"[ ]*\t[ ]*")
#: The name of a Kafka thread may contain ` | `.
_BARS = re.compile(rf"({_LEVELS})\|((?:[^|\n]| \| ){{0,300}})\|([\w.$/-]{{1,300}})\|(.*)")
_ONLY_LEVEL = re.compile(_LEVELS)
_CLOCK = re.compile(
    r"(?<!\d)(\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"(?: \S{1,255} [^\s:]{1,80}: | (?:\S{1,255} ){4}(?:-|\[[^\]\n]{0,500}\]) )?",
    re.ASCII,
)
_MAX_BEFORE = 120
#: java.util.logging writes its level in the JVM's language.
_JUL = re.compile(r"[^\n]{0,40}\d\d:\d\d(?: ?[AaPp][Mm])? ([\w.$]{1,300}) [\w$<>]{1,200}\n([^\s:]{2,20})[ \u00a0]?: ")
_AFTER_TIME = "])>}\"' \t|:,;-"
_HANDLE = re.compile(r"(.*)#(producer|consumer)-\d{1,9}", re.ASCII | re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


class Entry(NamedTuple):
    """A parsed log entry. `time`: the entry's time as written; None if the layout has no time."""

    line: LogLine
    time: str | None = None


def cleaned(text: str) -> str:
    """Return the text of an entry without terminal colours, carriage returns and trailing line ends."""
    if "\x1b[" in text:
        text = _COLOUR.sub("", text)
    return text.replace("\r\n", "\n").rstrip("\r\n")


def entry(text: str, begin: int = 0, end: int = 0) -> Entry:
    """Parse an entry into its fields. `Entry.time` stays a text, because only the caller knows its format.

    `begin`, `end`: the position of the time in the entry's first line; 0, 0 if unknown.
    """
    first, newline, below = text.partition("\n")
    stack = below if newline else None
    if "|" in first[:3] and (own := _LIBRDKAFKA.fullmatch(first)):
        return _of_librdkafka(own, stack)
    match, fields = _by_layout(first)
    time = match[1] or None if match else None
    if "level" not in fields or "\t" in first:
        before, rest = first[:begin].strip("[(<\"' \t:|,-]"), first[end:].lstrip(_AFTER_TIME)
        behind = [f"{before} {rest}" if _ONLY_LEVEL.fullmatch(before) else rest] if end else []
        if match:
            behind.append(first[match.end(1) if time else 0 :] if "level" in fields else fields["message"] or "")
        ends = (clock.end(group) for clock in _CLOCK.finditer(first, 0, _MAX_BEFORE) for group in (1, 0))
        behind += [first[end:].lstrip(_AFTER_TIME) for end in ends]
        fields = next(filter(None, map(_loose, behind)), fields)
    if "level" not in fields and (two := _JUL.match(text)):
        fields |= {"logger": two[1], "level": two[2], "message": first}
    line = LogLine(
        level=fields.get("level"),
        thread=(fields.get("thread") or "").strip() or None,
        logger=fields.get("logger") or None,
        message=fields.get("message", first) or "",
        stack=stack,
    )
    return Entry(line, time)


def _by_layout(text: str) -> tuple[re.Match[str] | None, dict[str, str]]:
    match = _PATTERN.fullmatch(text) if len(text) <= _MAX_FIRST_LINE else None
    return match, {name: match[group] for name, group in _GROUPS[match.lastindex or 0].items()} if match else {}


def _loose(rest: str) -> dict[str, str] | None:
    """Return the fields in `rest` by name; None if `rest` has no level."""
    _, fields = _by_layout(rest)
    if "level" in fields and "logger" in fields:
        return fields
    columns = _COLUMNS.split(rest.rstrip()) if "\t" in rest else []
    if len(columns) >= 3:
        at = next((n for n, column in enumerate(columns[:4]) if _ONLY_LEVEL.fullmatch(column.strip("[]"))), None)
        if at is not None:
            names = ("thread", "logger")[: 2 if len(columns) > 3 else 0]
            fields = {"level": columns.pop(at).strip("[]"), "message": " ".join(columns[len(names) :])}
            return fields | {name: column.strip("[]") for name, column in zip(names, columns, strict=False)}
        rest = " ".join(columns)
    elif bars := _BARS.fullmatch(rest):
        return dict(zip(("level", "thread", "logger", "message"), bars.groups(), strict=True))
    matches = ((pattern.fullmatch(rest), names) for pattern, names in _LOOSE)
    return next((dict(zip(names, match.groups(), strict=True)) for match, names in matches if match), None)


def _of_librdkafka(match: re.Match[str], stack: str | None) -> Entry:
    level, time, logger, handle, thread, message = match.groups()
    name, kind = own.groups() if (own := _HANDLE.fullmatch(handle)) else (handle, None)
    client = Identity(client_id=name, kind=kind, library="librdkafka") if handle else Identity()
    line = LogLine(
        client=client,
        level=level,
        logger=logger,
        thread=(thread or "").rstrip(" ") or None,
        message=message,
        stack=stack,
    )
    return Entry(line, time)
