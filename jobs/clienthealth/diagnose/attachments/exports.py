"""Read log messages from exports of log tools (Kibana, Loki, Splunk) in JSON, tables and XML.

Rows become lines of text. A log line begins with the time of its row, if this time is known.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError, fromstring

from clienthealth.read.formats._json_layouts import ANY_LAYOUT, line_of, parsed
from clienthealth.read.logs.times import Times

MAX_DEPTH, MAX_ROWS = 12, 2_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGES = (
    *("_raw", "message", "@message", "textPayload", "line", "msg", "log", "content", "body", "text", "MESSAGE"),
    *("trace", "error", "value"),
)
_TIMES = (
    *("@timestamp", "timestamp", "_time", "time", "ts", "timeMillis", "millis", "epochSecond", "date", "datetime"),
    *("eventTime", "receiveTimestamp", "tsNs"),
)
_EVENT = re.compile(rb"<((?:log4j:)?(?:[eE]vent|record))[\s>]")
_COLUMNS = {name.lower() for name in _MESSAGES} | {"jsonpayload.message", "event.original", "log.message", "logline"}
_TIME_COLUMNS = {name.lower() for name in _TIMES} | {"date (utc)", "timestamp (utc)", "ingestiontime"}
# A cell may contain a whole thread dump, but Python's own limit for a cell is 128 KiB.
csv.field_size_limit(1 << 30)


class Row(NamedTuple):
    """A row of an export: a log message or, if `is_sample` is True, a sample in Prometheus's text format.

    `ts_ms`: epoch ms; None if unknown.
    """

    ts_ms: int | None
    text: str
    is_sample: bool = False


DOCUMENT, LINES, TABLE, XML = "from a JSON export", "from JSON lines", "from a table", "in XML"


def exported(content: bytes, lines: Sequence[bytes], is_record: Callable[[bytes], bool]) -> tuple[bytes, str]:
    """Return (the rows of a search result as text, the kind of export). The text is b'' if `content` is no export.

    `lines`: the lines of `content`. `is_record`: returns True if a line is a record in a known format.
    """
    document = parsed(content) if content.lstrip()[:1] in (b"{", b"[") else None
    if document is not None:
        return _lines(of_documents([document])), DOCUMENT
    first = parsed(lines[0]) if lines[0].startswith(b"{") else None
    if isinstance(first, dict) and not is_record(lines[0]) and of_documents([first]):
        return _lines(of_documents(map(parsed, lines))), LINES
    if lines[0].startswith(b"<") and (events := of_documents(_events(content))):
        return _lines(events), XML
    return _lines(of_table(content.decode("utf-8", "replace")) or []), TABLE


def of_table(text: str) -> list[Row] | None:
    """Return the rows of a table with columns separated by commas, tabs or semicolons; None for other texts.

    The first line must name a column of times. One further column must hold messages, or all further columns must hold
    metrics.
    """
    text = re.sub("\r\n?", "\n", text.lstrip("\ufeff"))
    head = text.partition("\n")[0]
    for delimiter in (",", "\t", ";"):
        names = [name.strip().lower() for name in next(csv.reader([head], delimiter=delimiter), [])]
        message = next((n for n, name in enumerate(names) if name in _COLUMNS), None)
        time = next((n for n, name in enumerate(names) if name in _TIME_COLUMNS), None)
        if time is not None and len(names) > 1 and all("{" in name for n, name in enumerate(names) if n != time):
            named, *table = csv.reader(io.StringIO(text), delimiter=delimiter)
            pairs = ((cells[time], zip(named, cells, strict=False)) for cells in table if len(cells) > time)
            return [Row(_time_ms(at), f"{n} {cell}", True) for at, row in pairs for n, cell in row if "{" in n and cell]
        if len(names) > 1 and message is not None and time is not None:
            named, *table = csv.reader(io.StringIO(text), delimiter=delimiter)
            whole = (cells for cells in table if len(cells) > max(message, time))
            rows = (
                (cells[time], dict(zip(named, cells, strict=False)) | {"message": cells[message]}) for cells in whole
            )
            return [Row(_time_ms(at), _text({n: cell for n, cell in row.items() if cell}) or "") for at, row in rows]
    return None


def _events(content: bytes) -> Iterator[Mapping[str, str]]:
    end = 0
    for begin in _EVENT.finditer(content):
        if begin.start() < end:
            continue
        if (end := content.find(b"</" + begin[1] + b">", begin.end())) < 0:
            return
        end += len(begin[1]) + 3
        event = content[begin.start() : end]
        try:
            (element,) = fromstring(b"<log xmlns:log4j='log4j'>" + event + b"</log>")
        except ParseError:
            yield {"message": event.decode("utf-8", "replace")}
            continue
        fields = dict(element.attrib)
        for part in element:
            name, text = part.tag.rpartition("}")[2].lower(), "".join(part.itertext()).strip()
            fields = {**part.attrib, **fields, "stack" if name in ("throwable", "thrown") else name: text}
        yield fields


def of_documents(documents: Iterable[Any]) -> list[Row]:
    """Return the log messages and samples in JSON documents, down to MAX_DEPTH levels."""
    rows = list[Row]()
    for document in documents:
        rows += _rows(document, None, 0)
        if len(rows) > MAX_ROWS:
            break
    return rows


def _lines(rows: Sequence[Row]) -> bytes:
    if not rows:
        return b""
    timed = [row.ts_ms for row in rows if row.ts_ms is not None]
    if len(timed) == len(rows):
        # The function `sorted` keeps the order of rows with equal times. If the newest row is first, this order is
        # wrong, so reverse the rows before sorting.
        in_turn = rows if timed[0] <= timed[-1] else reversed(rows)
        rows = sorted(in_turn, key=lambda row: row.ts_ms or 0)
    return "".join(map(_line, rows)).encode("utf-8", "replace")


def _line(row: Row) -> str:
    if row.is_sample:
        return f"{row.text} {row.ts_ms}\n"
    at = "" if row.ts_ms is None else f"{_EPOCH + timedelta(milliseconds=row.ts_ms):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z "
    return f"{at}{row.text.rstrip()}\n"


def _rows(value: Any, above: int | None, depth: int) -> Iterator[Row]:
    if depth > MAX_DEPTH:
        return
    pairs = [pair for pair in value if isinstance(pair, dict)] if isinstance(value, list) else []
    if pairs and all({"field", "value"} <= pair.keys() for pair in pairs):
        # CloudWatch writes a row as a list of fields, each with a name and a value.
        value = {str(pair["field"]): pair["value"] for pair in pairs}
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield from (Row(above, item) for item in value)
            return
        for item in value:
            yield from _rows(item, above, depth + 1)
    if not isinstance(value, dict):
        return
    labels, values = value.get("metric", value.get("stream")), value.get("values", [value.get("value")])
    if isinstance(labels, dict) and isinstance(values, list) and values != [None]:
        # VictoriaMetrics gives times and values in two lists.
        points = zip(value["timestamps"], values, strict=False) if isinstance(value.get("timestamps"), list) else values
        name = labels.pop("__name__", None)
        series = f"{name}{{{','.join(f'{key}={json.dumps(label)}' for key, label in labels.items())}}} "
        for pair in points:
            if isinstance(pair, list | tuple) and len(pair) > 1 and (name or isinstance(pair[1], str)):
                yield Row(_time_ms(str(pair[0])), f"{series if name else ''}{pair[1]}", bool(name))
        return
    # Elasticsearch gives each field as a list, usually of a single value.
    fields = {
        name: item[0] if isinstance(item, list) and len(item) == 1 and not isinstance(item[0], dict | list) else item
        for name, item in value.items()
    }
    times = (_time_ms(str(fields[name])) for name in _TIMES if isinstance(fields.get(name), str | int | float))
    ts_ms = next((time for time in times if time is not None), above)
    if (text := _text(fields)) is not None:
        yield Row(ts_ms, text)
        return
    for item in fields.values():
        if isinstance(item, dict | list):
            yield from _rows(item, ts_ms, depth + 1)


def _text(fields: Mapping[str, object]) -> str | None:
    """Return the row's message with its stack trace; None if the row has no message."""
    message = next((text for name in _MESSAGES if isinstance(text := fields.get(name), str) and text), None)
    if message is None:
        return None
    if message.startswith("{"):
        return message
    line = line_of({"message": message, **fields}, ANY_LAYOUT)
    stack = f"\n{line.stack}" if line.stack and line.stack not in message else ""
    if line.level is None or line.logger is None or line.level in message[:80]:
        return message + stack
    return f"{line.level.upper()} [{line.thread or '-'}] {line.logger} - {message}{stack}"


def _time_ms(text: str) -> int | None:
    written = re.sub(r"\s+@\s+", " ", text.strip().strip('"'))
    stamp = Times.all().stamp(written.encode("utf-8", "replace")) if written[:1].isalnum() else None
    return stamp.ts_ms if stamp is not None else None
