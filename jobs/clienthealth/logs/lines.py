"""Log lines as text: the usual layouts of log4j, logback, Spring Boot, Storm, Python, Kafka's tools and librdkafka.

The first line of an entry is read by one regular expression. What stands below the first line (a stack trace, the
values of a configuration) is the entry's `stack`. A line in no known layout is a message as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from clienthealth.logs.fields import time_ms
from clienthealth.model.telemetry import Identity, LogLine

_MAX_FIRST_LINE = 32_768
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_TIME = rf"(?:{_DAY}[ T])?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?"
_CONTAINER = r"(?:\S{20,40} std(?:out|err) [FP] )?"  # what container runtimes write before a line
_LEVEL = r"(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)"
_THREAD = r"\[ *+([^\]]{0,300})\]"
_LOGGER = r"([^\s:]{1,300})"

#: Layouts of what follows the time: their pattern, and which field each of its groups is.
_LAYOUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"{_LEVEL} ++{_THREAD} ++{_LOGGER} *+[-:](?: (.*))?", ("level", "thread", "logger", "message")),
    (rf"{_THREAD} ++{_LEVEL} ++{_LOGGER} *+[-:](?: (.*))?", ("thread", "level", "logger", "message")),
    (
        rf"{_LEVEL} ++\d++ ++--- ++(?:\[[^\]]{{0,300}}\] ++)?{_THREAD} ++{_LOGGER} *+:(?: (.*))?",
        ("level", "thread", "logger", "message"),
    ),
    (rf"{_LOGGER} (.{{1,200}}?) \[{_LEVEL}\] (.*)", ("logger", "thread", "level", "message")),
    (rf"{_LOGGER} - {_LEVEL} - (.*)", ("logger", "level", "message")),
    (rf"{_LEVEL}:{_LOGGER}:(.*)", ("level", "logger", "message")),
    (rf"{_LEVEL} ++(.*) \(([\w.$]{{1,300}})\)", ("level", "message", "logger")),
    (rf"{_LEVEL}:? ++(.*)", ("level", "message")),
    (r"(.*)", ("message",)),
)
_LIBRDKAFKA = re.compile(
    r"%(\d)\|(\d{1,12}\.\d{1,9})\|(\w{1,40})\|([^|]{0,400})\| ?(?:\[thrd:([^\]]{0,400})\]: )?(.*)", re.ASCII
)
_PATTERN = re.compile(
    rf"{_CONTAINER}(?:\[?({_TIME})\]?(?: - | +|: ?))?(?:{'|'.join(f'(?:{pattern})' for pattern, _ in _LAYOUTS)})",
    re.ASCII,
)
_HANDLE_NUMBER = re.compile(r"#(?:producer|consumer)-\d{1,9}\Z", re.ASCII)
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


class Entry(NamedTuple):
    """A line of text taken apart. `time`: when it was written, as it writes it."""

    line: LogLine
    time: str | None = None


def cleaned(text: str) -> str:
    """An entry without colours, carriage returns and the line end that its shipper left."""
    if "\x1b[" in text:
        text = _COLOUR.sub("", text)
    return text.replace("\r\n", "\n").rstrip("\r\n")


def entry(text: str) -> Entry:
    """The fields of an entry, as it says them itself."""
    first, newline, below = text.partition("\n")
    stack = below if newline else None
    if first.startswith("%") and (own := _LIBRDKAFKA.fullmatch(first)):
        return _of_librdkafka(own, stack)
    match = _PATTERN.fullmatch(first) if len(first) <= _MAX_FIRST_LINE else None
    if match is None:
        return Entry(LogLine(message=first, stack=stack))
    level, thread, logger, message = _GROUPS[match.lastindex or 0]
    time = match[1] or None
    line = LogLine(
        ts_ms=time_ms(time),
        level=match[level] if level else None,
        thread=(match[thread].rstrip(" ") or None) if thread else None,
        logger=match[logger] if logger else None,
        message=match[message] or "",
        stack=stack,
    )
    return Entry(line, time)


def _of_librdkafka(match: re.Match[str], stack: str | None) -> Entry:
    level, time, logger, handle, thread, message = match.groups()
    client = Identity(client_id=_HANDLE_NUMBER.sub("", handle), library="librdkafka") if handle else Identity()
    line = LogLine(
        ts_ms=time_ms(time),
        client=client,
        level=level,
        logger=logger,
        thread=(thread or "").rstrip(" ") or None,
        message=message,
        stack=stack,
    )
    return Entry(line, time)


def _groups() -> Mapping[int, tuple[int, int, int, int]]:
    """Last group of a match → the groups of level, thread, logger and message in the layout that matched (0: none)."""
    by_last_group, number = {}, 2
    for _, names in _LAYOUTS:
        of = {name: number + position for position, name in enumerate(names)}
        groups = (of.get("level", 0), of.get("thread", 0), of.get("logger", 0), of["message"])
        by_last_group.update(dict.fromkeys(of.values(), groups))
        number += len(names)
    return by_last_group


_GROUPS = _groups()
