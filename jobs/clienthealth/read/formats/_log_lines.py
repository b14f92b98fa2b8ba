"""Parse the application's log line, which is the message in a log shipper's record.

A field of the application's line wins over the same field of the shipper's record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from clienthealth.model.telemetry import Dump, Identity, LogLine
from clienthealth.model.values import present
from clienthealth.read.formats._json_layouts import ANY_LAYOUT, as_text, line_of, parsed
from clienthealth.read.logs import lines
from clienthealth.read.logs.dump_formats import dumps_in
from clienthealth.read.logs.fields import level_name, named_client
from clienthealth.read.logs.times import has_zone, time_ms


def stack_text(stack: str) -> str:
    """Return a stack trace as plain text.

    `stack`: plain text (returned unchanged), a JSON array of lines, or log4j2's exception in JSON.
    """
    if stack.startswith("["):
        lines = parsed(stack)
        return "\n".join(_texts(lines)) if isinstance(lines, list) else stack
    thrown = parsed(stack) if stack.startswith("{") else None
    if not isinstance(thrown, dict):
        return stack
    own, cause = _one_thrown(thrown), thrown.get("cause")
    below = _one_thrown(cause) if isinstance(cause, dict) else ""
    return (f"{own}\nCaused by: {below}" if below else own) or stack


def _one_thrown(thrown: dict[str, Any]) -> str:
    title = ": ".join(_texts([thrown.get("name"), thrown.get("message")]))
    trace = thrown.get("extendedStackTrace")
    frames = parsed(trace) if isinstance(trace, str) and trace.startswith("[") else trace
    if isinstance(frames, list):
        return "\n".join([title, *filter(None, map(_frame, frames))])
    return title if trace is None else as_text(trace) or title


def _frame(frame: Any) -> str:
    """Return a log4j2 stack frame as Java prints it; '' without class or method."""
    fields = frame if isinstance(frame, dict) else {}
    class_name, method, file, line = (as_text(fields.get(name)) for name in ("class", "method", "file", "line"))
    named = class_name is not None and method is not None
    return f"\tat {class_name}.{method}({':'.join(_texts([file, line]))})" if named else ""


def _texts(values: list[Any]) -> list[str]:
    return [text for text in map(as_text, values) if text is not None]


#: The time in the application's line is ignored if it has no zone and differs from the log shipper's time by more than
#: BELIEVED_MS.
BELIEVED_MS = 600_000
#: The prefix of stern (pod and container) or Docker Compose (service and a bar).
_CONTAINER = re.compile(r"[\w.-]{1,253} (?:[\w.-]{1,253}| *\|) (?=\{\")")


def opened(line: LogLine) -> LogLine:
    """Return a log shipper's line with its message parsed. Never raises."""
    message = line.message
    if message is None or line.dumps:
        return named(line)
    if dumps := dumps_in(message, alone=False):
        return _with_dumps(line, message, dumps)
    if line.level is not None or line.logger is not None or line.error is not None:
        return named(line)
    text = lines.cleaned(message)
    prefix = _CONTAINER.match(text)
    text = text[prefix.end() :] if prefix else text
    document = parsed(text) if text.lstrip(" ").startswith("{") else None
    inside = line_of(document, ANY_LAYOUT) if isinstance(document, dict) else None
    if inside is not None and (inside.message is not None or inside.stack is not None):
        return named(_over(inside, line, line.ts_ms if inside.ts_ms is None else inside.ts_ms))
    entry = lines.entry(text)
    written, shipped = time_ms(entry.time), line.ts_ms
    near = written is None or shipped is None or abs(written - shipped) <= BELIEVED_MS
    agreed = written if near or has_zone(entry.time or "") else shipped
    merged = _over(entry.line, line, shipped if agreed is None else agreed)
    if inside is not None:
        merged = _over(inside, merged, merged.ts_ms if inside.ts_ms is None else inside.ts_ms)
    return named(merged)


def _with_dumps(line: LogLine, text: str, dumps: list[Dump]) -> LogLine:
    """Return the line with `dumps`. Remove the dumps' text from the message: this text must not name the client."""
    taken = frozenset[int]().union(*(dump.taken for dump in dumps))
    rest = "\n".join(part for number, part in enumerate(text.split("\n")) if number not in taken).strip()
    if rest:
        finished = opened(msgspec.structs.replace(line, message=rest))
    else:
        finished = named(msgspec.structs.replace(line, message=None, stack=None, dumps=dumps))
    finished.dumps = dumps
    if finished.ts_ms is None:
        finished.ts_ms = next((dump.ts_ms for dump in dumps if dump.ts_ms is not None), None)
    return finished


def _over(line: LogLine, below: LogLine, ts_ms: int | None) -> LogLine:
    client = Identity(**_above(line.client, below.client, Identity.__struct_fields__))
    fields = _above(line, below, ("level", "logger", "thread", "message", "stack"))
    return msgspec.structs.replace(below, ts_ms=ts_ms, client=client, **fields)


def _above(above: Any, below: Any, names: Iterable[str]) -> dict[str, Any]:
    values = ((name, getattr(above, name)) for name in names)
    return {name: getattr(below, name) if value is None else value for name, value in values}


def named(line: LogLine) -> LogLine:
    """Return a parsed line with a client id, the level in upper case, and the stack trace as plain text. Never raises.

    A line without message, stack trace and dump gets an `error`.
    """
    client, message, thread = line.client, line.message, line.thread or None
    stack = (line.stack or "").rstrip("\r\n")
    error = line.error
    if error is None and message is None and not stack and not line.dumps:
        error = "empty: no message"
    client_id = present(client.client_id) or named_client(message, thread)
    return msgspec.structs.replace(
        line,
        client=msgspec.structs.replace(client, client_id=client_id),
        level=level_name(line.level) if line.level else None,
        logger=line.logger or None,
        thread=thread,
        stack=stack_text(stack) if stack else None,
        error=error,
    )
