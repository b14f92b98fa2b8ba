"""Log lines as text: the usual layouts of log4j, logback, Spring Boot, Storm, Python, Kafka's tools and librdkafka.

The first line of an entry is read by one regular expression that writes its fields in a fixed order. What stands below
the first line (a stack trace, the values of a configuration) is the entry's `stack`. A line in no known layout is a
message as it stands.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.logs.fields import filled, log, time_ms

_SEPARATOR = "\x01"
_MAX_FIRST_LINE = 32_768
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_TIME = rf"(?:{_DAY}[ T])?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?"
_CONTAINER = r"(?:\S{20,40} std(?:out|err) [FP] )?"  # what container runtimes write before a line
_LEVEL = r"(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)"
_THREAD = r"\[ *+([^\]]{0,300})\]"
_LOGGER = r"([^\s:]{1,300})"

#: Layouts of what follows the time: their pattern, and which field each of its groups is.
_LAYOUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"{_LEVEL} +{_THREAD} +{_LOGGER} *+[-:](?: (.*))?", ("level", "thread", "logger", "message")),
    (rf"{_THREAD} +{_LEVEL} +{_LOGGER} *+[-:](?: (.*))?", ("thread", "level", "logger", "message")),
    (
        rf"{_LEVEL} +\d+ +--- +(?:\[[^\]]{{0,300}}\] +)?{_THREAD} +{_LOGGER} *+:(?: (.*))?",
        ("level", "thread", "logger", "message"),
    ),
    (rf"{_LOGGER} (.{{1,200}}?) \[{_LEVEL}\] (.*)", ("logger", "thread", "level", "message")),
    (rf"{_LOGGER} - {_LEVEL} - (.*)", ("logger", "level", "message")),
    (rf"{_LEVEL}:{_LOGGER}:(.*)", ("level", "logger", "message")),
    (rf"{_LEVEL} +(.*) \(([\w.$]{{1,300}})\)", ("level", "message", "logger")),
    (rf"{_LEVEL}:? +(.*)", ("level", "message")),
    (r"(.*)", ("message",)),
)
_FIELDS = ("time", "level", "thread", "logger", "handle", "message")
_LIBRDKAFKA = r"^%(\d)\|(\d{1,12}\.\d{1,9})\|(\w{1,40})\|([^|]{0,400})\| ?(?:\[thrd:([^\]]{0,400})\]: )?(.*)$"
_LIBRDKAFKA_GROUPS = {"level": "$1", "time": "$2", "logger": "$3", "handle": "$4", "thread": "$5", "message": "$6"}


def _groups() -> dict[str, str]:
    """Field → the groups that may hold it: one that took no part in a match is replaced by nothing."""
    found = {"time": "$1"}
    names = [name for _, names in _LAYOUTS for name in names]
    for number, name in enumerate(names, start=2):
        found[name] = found.get(name, "") + f"${number}"
    return found


def _replacement(groups: dict[str, str]) -> str:
    return "".join(_SEPARATOR + groups.get(field, "") for field in _FIELDS)


_PATTERN = rf"^{_CONTAINER}(?:\[?({_TIME})\]?(?: - | +|: ?))?(?:{'|'.join(pattern for pattern, _ in _LAYOUTS)})$"


def cleaned(text: Column) -> Column:
    """An entry without colours, carriage returns and the line end that its shipper left."""
    plain = F.when(text.contains("\x1b["), F.regexp_replace(text, r"\x1b\[[0-9;]{0,20}m", "")).otherwise(text)
    return F.rtrim(
        F.when(plain.contains("\r"), F.regexp_replace(plain, "\r(?=\n)", "")).otherwise(plain), F.lit("\r\n")
    )


def parts(text: Column) -> Column:
    """The fields of the entry's first line as an array of strings, for `fields`; null where there is no text."""
    first = F.substring_index(text, "\n", 1)
    replaced = (
        F.when(F.length(first) > _MAX_FIRST_LINE, F.concat(F.lit(_SEPARATOR * len(_FIELDS)), first))
        .when(first.rlike(r"^%\d\|"), F.regexp_replace(first, _LIBRDKAFKA, _replacement(_LIBRDKAFKA_GROUPS)))
        .otherwise(F.regexp_replace(first, _PATTERN, _replacement(_groups())))
    )
    return F.split(replaced, _SEPARATOR, len(_FIELDS) + 1)


def fields(text: Column, parts: Column) -> Column:
    """The entry as a LOG struct, of its `parts`."""

    def part(name: str) -> Column:
        return filled(F.get(parts, F.lit(_FIELDS.index(name) + 1)))

    handle = part("handle")
    return log(
        ts_ms=time_ms(part("time")),
        client_id=F.regexp_replace(handle, r"#(?:producer|consumer)-\d{1,9}$", ""),
        library=F.when(handle.isNotNull(), "librdkafka"),
        level=part("level"),
        thread=F.rtrim(part("thread")),
        logger=part("logger"),
        message=F.coalesce(F.get(parts, F.lit(len(_FIELDS))), F.get(parts, F.lit(0))),
        stack=F.when(F.instr(text, "\n") > 0, F.substr(text, F.instr(text, "\n") + 1)),
    )


def time_of(parts: Column) -> Column:
    """The time as the entry writes it, null where it has none."""
    return filled(F.get(parts, F.lit(1)))
