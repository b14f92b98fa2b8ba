"""Log records → events: lines that carry a signature of a Kafka client, and thread dumps. All else is dropped.

Nearly every line of a log is dropped, so the cheapest test comes first: a literal text. The regular expression follows
only where that matches, and names of clients and captured groups only for lines that are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from clienthealth.logs.dumps import DUMP_LINE, dumps, is_line
from clienthealth.logs.fields import DUMP_TITLE, body_of
from clienthealth.logs.signatures import SIGNATURES, Signature, compiled
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.telemetry import LogLine

MAX_TEXT = 500
#: Bytes that a line of a dump takes at least: what an offset of a record is worth where lines have no file.
BYTES_PER_LINE = 64

#: What a raw record contains that can hold an event: a signature's literal, or what dumps and single lines of them
#: hold (a tab may be an escape). All ASCII, and nothing that a JSON encoder would escape but that tab.
LITERALS: tuple[str, ...] = (
    *dict.fromkeys(signature.literal for signature in SIGNATURES),
    DUMP_TITLE,
    "java.lang.Thread.State: ",
    "\tat ",
    "\\tat ",
    " tid=0x",
    "Mounted virtual thread",
    "JNI global",
)
_LITERAL_BYTES = tuple(literal.encode() for literal in LITERALS)


def worth_decoding(value: bytes) -> bool:
    """Can the raw record hold an event? Of no use where rejects are counted: what is not decoded is not counted."""
    return any(literal in value for literal in _LITERAL_BYTES)


def events_and_dumps(
    line: LogLine, source: Source, signatures: Sequence[Signature] = SIGNATURES
) -> tuple[list[LogEvent], list[ThreadDump]]:
    """What a log line with a time and without an error says: its events (one per signature), or the dumps it holds.

    A line of a dump that was sent line by line is an event DUMP_LINE, which `dumps.rejoin` puts together again.
    """
    ts_ms = line.ts_ms or 0
    if line.dump is not None:
        return [], dumps(line.dump, ts_ms, source)
    events = [
        _event(line, source, signature.id, _telling_text(line, signature), match.groupdict())
        for signature, match in _matches(line, signatures)
    ]
    message = line.message
    if not events and message is not None and line.stack is None and is_line(message):
        events.append(_event(line, source, DUMP_LINE, message, _line_position(line, source)))
    return events, []


def _matches(line: LogLine, signatures: Sequence[Signature]) -> Iterator[tuple[Signature, re.Match[str]]]:
    body = body_of(line)
    for signature in [signature for signature in signatures if signature.literal in body]:
        if _may_log(line.logger, signature) and (match := compiled(signature).search(body)):
            yield signature, match


def _may_log(logger: str | None, signature: Signature) -> bool:
    """May the signature's line come from this logger? A name without dots can be anything."""
    if signature.logger is None or logger is None or "." not in logger:
        return True
    return _abbreviated(signature.logger).match(logger) is not None


@cache
def _abbreviated(logger: str) -> re.Pattern[str]:
    """How a logger's name begins, its packages shortened to any length (`o.a.k.clients`)."""
    *packages, last = logger.split(".")
    return re.compile(
        "".join(rf"{part[0]}(?:{part[1:]})?\." for part in packages)
        + (last if last[0].isupper() else rf"{last[0]}(?:{last[1:]})?\b"),
        re.ASCII,
    )


def _event(line: LogLine, source: Source, signature: str, text: str, captures: Mapping[str, str | None]) -> LogEvent:
    filled = {name: value for name, value in captures.items() if value}
    return LogEvent(
        ts_ms=line.ts_ms or 0,
        signature=signature,
        text=text[:MAX_TEXT],
        client_id=line.client.client_id or filled.get("client"),
        logger=line.logger,
        level=line.level,
        thread=line.thread,
        captures=filled,
        source=source,
    )


def _telling_text(line: LogLine, signature: Signature) -> str:
    """The message, or where only the exception below it carries the signature, the line of it that does."""
    message, stack, literal = line.message, line.stack, signature.literal
    at = stack.find(literal) if stack is not None and (message is None or literal not in message) else -1
    if stack is None or at < 0:
        return message or ""
    end = stack.find("\n", at)
    return stack[stack.rfind("\n", 0, at) + 1 : end if end >= 0 else None]


def _line_position(line: LogLine, source: Source) -> dict[str, str | None]:
    """Where the line of a dump stood: its file and offset there, or the topic's partition for one."""
    if line.file is None:
        return {"file": f"{source.topic}/{source.partition}", "offset": str(source.offset * BYTES_PER_LINE)}
    at = source.offset * BYTES_PER_LINE if line.file_offset is None else line.file_offset
    return {"file": line.file, "offset": str(at)}
