"""An entry of a log in any layout → in one that `logs.lines` reads: time, level, thread, logger, message."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from clienthealth.diagnose.layouts import Stamp
from clienthealth.formats._json_layouts import parsed
from clienthealth.logs import lines

_LEVEL = r"TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE"
_TAIL = r"[\[({<]?\s*([^\])}>\s]{0,300})\s*[\])}>]?\s*[-:|]*\s*(.*)"
#: Fields in brackets of any kind, in the two usual orders.
_LEVEL_FIRST = re.compile(
    rf"[\[(<|]?\s*({_LEVEL})\s*[\])>|]?\s*[-:|]?\s*[\[({{<]([^\])}}>\n]{{0,300}})[\])}}>]\s*{_TAIL}"
)
_THREAD_FIRST = re.compile(
    rf"[\[({{<]([^\])}}>\n]{{0,300}})[\])}}>]\s*[\[(<|]?\s*({_LEVEL})\b\s*[\])>|]?\s*[-:|]?\s*{_TAIL}"
)
_LEVELLED = re.compile(rf"[\[(<|]?\s*({_LEVEL})\b\s*[\])>|:]?\s*[-:|]?\s*(.*)")
_COLUMNS = re.compile(r"[ ]*\t[ ]*")


def canonical(value: bytes, stamp: Stamp | None, ts_ms: int | None) -> bytes:
    """The entry as it is where it can be read (or is JSON), else with its first line rewritten."""
    text = value.decode("utf-8", "replace")
    first, newline, below = text.partition("\n")
    if first.startswith("{") and not below.strip() and parsed(first) is not None:
        return value
    entry = lines.entry(first)
    if entry.line.level is not None and "\t" not in first and not first.startswith("{"):
        return value
    rest = first
    lead = ""
    if stamp is not None:
        raw = first.encode()
        rest = raw[stamp.end :].decode("utf-8", "replace").lstrip("])>}\"' \t|:,;-")
        lead = stamp.lead.decode("utf-8", "replace").strip("[(<\"' \t:|,-]")
    levelled = _levelled_line(f"{lead} {rest}" if re.fullmatch(_LEVEL, lead) else rest)
    if levelled is None and not first.startswith("{"):
        return value
    time = f"{datetime.fromtimestamp((ts_ms or 0) / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{(ts_ms or 0) % 1000:03d}Z "
    return f"{time if ts_ms else '- '}{levelled or rest}{newline}{below}".encode("utf-8", "replace")


def _levelled_line(rest: str) -> str | None:
    """Level, thread, logger and message as `logs.lines` wants them; None where no level is found."""
    columns = _COLUMNS.split(rest)
    if len(columns) >= 3:
        at = next((n for n, column in enumerate(columns[:4]) if re.fullmatch(_LEVEL, column.strip("[]"))), None)
        if at is not None:
            level = columns.pop(at).strip("[]")
            if len(columns) >= 3:
                thread, logger = columns[0].strip("[]"), columns[1].strip("[]")
                return f"{level} [{thread}] {logger.replace(' ', '_')} - {' '.join(columns[2:])}"
            return f"{level} {' '.join(columns)}"
        rest = " ".join(columns)
    if match := _LEVEL_FIRST.fullmatch(rest):
        return f"{match[1]} [{match[2]}] {match[3] or '-'} - {match[4]}"
    if match := _THREAD_FIRST.fullmatch(rest):
        return f"{match[2]} [{match[1]}] {match[3] or '-'} - {match[4]}"
    if match := _LEVELLED.fullmatch(rest):
        return f"{match[1]} {match[2]}"
    return None
