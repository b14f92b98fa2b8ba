"""Small questions that the reading of a text asks of its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from clienthealth.attachments.layouts import Layouts
from clienthealth.attachments.prefixes import Prefixes
from clienthealth.attachments.text import utf8
from clienthealth.logs import lines

#: Belongs to the line above: a frame, the value of an option, an exception.
_BELOW = re.compile(rb"\t|\s+(?:at |[\w.]+ = )|at |Caused by|Suppressed|[\w.$]{1,300}(?:Exception|Error)\b")


def chained(begin: bytes, rest: Iterator[bytes], size: int = 1 << 18) -> Iterator[bytes]:
    """Blocks of whole lines."""
    at = 0
    while at < len(begin):
        end = begin.rfind(b"\n", at, at + size) + 1
        end = end or begin.find(b"\n", at + size) + 1 or len(begin)
        yield begin[at:end]
        at = end
    yield from rest


def is_reading(line: bytes) -> bool:
    """Is it a line of a recording's metrics?"""
    document = parsed(line) if b'"metrics"' in line and b'"client_id"' in line else None
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("ts"), int)
        or not isinstance(document["metrics"], dict)
    ):
        return False
    return not document["metrics"] or any("/" in name for name in document["metrics"])


def parsed(text: bytes) -> object:
    """A JSON text's value, None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def rounds(document: object) -> list[object]:
    """Answers of Jolokia that were asked for again and again, each round of them on its own; all else as it is."""
    if not isinstance(document, list) or not all(isinstance(one, dict) and "request" in one for one in document):
        return [document]
    result: list[list[object]] = []
    requests: list[object] = []
    for one in document:
        if not result or one["request"] in requests:
            requests = []
            result.append([])
        requests.append(one["request"])
        result[-1].append(one)
    return list(result)


def named(writer: str) -> tuple[str, str]:
    """Service and instance of a writer of lines: `web-1` is of web; `pod/web-7d9f-x/app` and `host app[12]` too."""
    last = writer.split(" ")[-1] if " " in writer else writer
    name = re.sub(r"\[\d+\]$", "", last)
    parts = name.removeprefix("pod/").split("/")
    service = re.sub(r"(?:-[a-z0-9]{6,10}-[a-z0-9]{5}|[-_]\d{1,4})$", "", parts[0])
    return service or writer, writer


def times_before(lines: Mapping[int, bytes], layouts: Layouts) -> Callable[[int], int]:
    """For the number of a line: the time of the nearest line above that has one, 0 where none has."""

    def before(at: int) -> int:
        for number in range(at - 1, max(-1, at - 501), -1):
            stamp = layouts.stamp(lines[number]) if number in lines else None
            if stamp is not None and stamp.ts_ms is not None:
                return stamp.ts_ms
        return 0

    return before


#: Six digits of a clock, or parted; a date may stand before them.
_IN_NAME = re.compile(
    r"(?<!\d)(?:(?P<day>20\d\d-?\d\d-?\d\d)[T_.-]?)?(?P<h>[01]\d|2[0-3])(?P<sep>[-_:.h]?)(?P<m>[0-5]\d)(?P=sep)"
    r"(?P<s>[0-5]\d)(?!\d)",
    re.ASCII,
)


def time_in_name(file: str, day_ms: int) -> int | None:
    """The time (epoch ms) in the name of a file, as of a dump that says none itself; None where there is none.

    `day_ms`: any time of the day that counts where the name has only a clock.
    """
    for match in reversed([*_IN_NAME.finditer(file.rpartition("/")[2])]):
        day = match["day"] or datetime.fromtimestamp(day_ms / 1000, UTC).date().isoformat()
        try:
            clock = datetime.fromisoformat(f"{day.replace('-', '')}T{match['h']}{match['m']}{match['s']}+00:00")
        except ValueError:
            continue
        return int(clock.timestamp() * 1000)
    return None


def fit(sample: Sequence[bytes], prefixes: Prefixes, layouts: Layouts) -> float:
    """Of the lines of a sample that speak of Kafka, the share that is understood; 1 where none does."""
    speaking = understood = 0
    for line in sample:
        stripped, _, time, _ = prefixes.strip(line)
        if b"afka" not in line or _BELOW.match(stripped):
            continue
        speaking += 1
        stamp = layouts.stamp(stripped)
        at = (stamp.begin, stamp.end) if stamp is not None else (0, 0)
        level = lines.dated_entry(utf8(stripped).decode(), *at).level
        own_line = stamp is not None or (bool(time) and stripped[:1] not in (b" ", b"\t"))
        understood += own_line and (level is not None or not layouts.forms)
    return understood / speaking if speaking else 1.0
