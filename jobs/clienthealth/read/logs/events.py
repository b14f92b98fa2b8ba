"""Turn log records into log events (lines that match a log pattern) and thread dumps.

Lines that are neither an event nor part of a dump are dropped. Nearly every line is dropped, so the cheapest test, a
search for literals, comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from clienthealth.model.clients import Kind
from clienthealth.model.readings import LogEvent, Source, ThreadDump
from clienthealth.model.tables import table
from clienthealth.model.telemetry import LogLine
from clienthealth.model.values import MAX_NAME
from clienthealth.platform.secrecy import shown
from clienthealth.read.logs.also_seen import Trouble
from clienthealth.read.logs.dump_formats import DEADLOCK, HOLDER, SHIPPED
from clienthealth.read.logs.dumps import DUMP_LINE, dumps_of, is_line
from clienthealth.read.logs.fields import KAFKA_PREFIX, body_of, level_name, named_client
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED, options_in
from clienthealth.read.logs.times import Times
from clienthealth.read.logs.wordings import Catalogue

MAX_TEXT = 500
OF_LINES: tuple[Kind, ...] = ("producer", "consumer")
#: Assumed size of a log line (bytes), to estimate an unknown offset in the file.
BYTES_PER_LINE = 64

LIBRARIES = r"kafka|\bo(?:rg)?\.a(?:pache)?\.k|confluent|sarama|\[thrd:|\b(?:kgo|franz-go|brod|faust|redpanda)\b"
_LIBRARY = re.compile(LIBRARIES, re.ASCII | re.IGNORECASE)
#: The prefix of librdkafka's own lines. If a line has librdkafka's prefix and also a logger or level, an application
#: copied the line.
_OF_RDKAFKA = re.compile(r"%\d\|")
#: A client's prefix. In a line that is not the client's own (`_is_own`), a prefix before a match shows that an
#: application copied the line.
_NAMES = re.compile(rf"{KAFKA_PREFIX.pattern}|{_OF_RDKAFKA.pattern}", re.ASCII)
_RE = {name: re.compile("".join(pieces)) for name, pieces in table(Path(__file__).with_name("quotations.toml")).items()}
MAX_BEFORE = 500
#: Maximum difference (ms) between the clocks of two time zones (UTC-12 and UTC+14).
FAR_MS = 26 * 3_600_000
#: Levels of lines that report no trouble, but may quote a text about trouble.
CALM = ("TRACE", "DEBUG", "INFO")
#: If a match ends after the first MAX_SHOWN characters, the shown text begins MAX_LEFT characters before the match.
MAX_LEFT, MAX_SHOWN = 40, 160

#: Texts of thread dumps. The texts are searched for in raw JSON, too, where a tab is escaped (`\\tat `).
_OF_DUMPS = (*SHIPPED, "\tat ", "\\tat ", " tid=0x", "Mounted virtual thread", "JNI global", DEADLOCK, HOLDER)


def literals(catalogue: Catalogue) -> tuple[str, ...]:
    """Return texts to search for in monitored records. A record without any of these texts has no event or dump."""
    texts = (wording.literals for wording in catalogue.wordings if not wording.loose)
    return *dict.fromkeys(chain.from_iterable(texts)), *_OF_DUMPS


def events_and_dumps(
    line: LogLine, source: Source, catalogue: Catalogue, attached: bool = False
) -> tuple[list[LogEvent], list[ThreadDump]]:
    """Return (events, dumps) of a log line with a time. Each matching pattern gives one event.

    `attached`: True for a line of an attached file. A pattern that may match lines of any program
    (`Wording.loose`) applies only to attached files. A dump's line that was sent alone becomes an event DUMP_LINE.
    """
    events, reported = [], set()
    body = body_of(line)
    of_kafka = attached and (line.beside_kafka or bool(_LIBRARY.search(f"{line.logger} {line.thread} {body}")))
    for wording, match in catalogue.matches(body, line.logger, of_kafka or line.narrated is not None, line.narrated):
        meaning = catalogue.by_id[wording.id]
        before, after = body[body.rfind("\n", 0, match.start()) + 1 : match.start()], body[match.end() :]
        own = _is_own(line, before, after)
        unreal = wording.loose and _is_bare(line) and _RE["intended"].match(f"{before}{match[0]}…{after}")
        foreign = wording.loose and not (of_kafka or wording.narrated)
        if own is None or unreal or foreign or (line.explained and not isinstance(meaning, Trouble)):
            continue
        if trouble := meaning.id if isinstance(meaning, Trouble) else wording.also:
            if trouble in reported and isinstance(meaning, Trouble):
                continue
            reported.add(trouble)
        text, at = _telling_line(line, source, body, match)
        captures = match.groupdict()
        if wording.id in CONFIG_LOGGED:
            captures = shown({name: value for name, value in captures.items() if value}) | options_in(body)
        copied = not (own or _is_bare(line)) and bool(captures.get("client") or _NAMES.search(before))
        event = _event(line, text, at, wording.id, captures)
        own = own and not (line.quoted or wording.loose)
        events.append(replace(event, own=own, copied=copied and bool(_RE["copied"].match(before))))
    message, dumps = line.message, dumps_of(line, source) if line.dumps else []
    if not events and not dumps and message is not None and line.stack is None and is_line(message):
        here = line.file is None or line.file_offset is None
        offset = source.offset * BYTES_PER_LINE if here else line.file_offset
        file = line.file[-MAX_NAME:] if line.file is not None else f"{source.topic}/{source.partition}"
        events.append(_event(line, message, source, DUMP_LINE, {"file": file, "offset": str(offset)}))
    return events, dumps


def _is_own(line: LogLine, before: str, after: str = "") -> bool | None:
    """Return True for a client's own line, False for a quotation, None for source code."""
    logger, bare = line.logger or "", _is_bare(line)
    unlogged = bare and (_RE["asked"].match(after) or _RE["no_line"].match(before[:MAX_BEFORE]))
    if not before or _LIBRARY.search(logger) or line.client.library or named_client(None, line.thread):
        return not unlogged
    # If a time in the line differs from the entry's time, an application copied the line.
    stamp = Times.anywhere().stamp(before[:MAX_BEFORE].encode()) if not bare and line.ts_ms else None
    if stamp and stamp.ts_ms is not None and abs(stamp.ts_ms - (line.ts_ms or 0)) > FAR_MS:
        return False
    if not bare and _OF_RDKAFKA.search(before):
        return False
    if bare and (
        _RE["source"].match(before[:MAX_BEFORE])
        or _RE["continued"].match(before[:MAX_BEFORE] + "…" + after.partition("\n")[0])
    ):
        return None
    unquoted = _RE["quoted"].sub("''", before)
    opened = _RE["opened"].search(unquoted)
    if (call := _RE["call"].search(unquoted[: opened.start()] if opened else unquoted)) and (opened or "'" in call[0]):
        return None
    value = opened is not None and _RE["key"].search(unquoted[: opened.start()])
    if opened and not unquoted[: opened.start()].strip() and after.rstrip(" .!\n").endswith(opened[0][0]):
        return False
    prefix = KAFKA_PREFIX.search(before)
    words = before[: prefix.start()] if prefix else before
    if opened and not value:
        return False if bare and _is_reported(unquoted[: opened.start()][-MAX_BEFORE:], opened[0], after) else None
    calm = bare or level_name(line.level or "") in CALM
    if opened and _RE["statement" if calm else "ended"].match(after):
        return None
    if prefix and words.strip() and value and "''" in value[0] and not words.startswith("{"):
        return None
    if prefix and _RE["after_logger"].search(words) and not _RE["clock"].search(words):
        return True
    if prefix and "." in logger and not _RE["beginning"].match(words):
        return False
    words = words[-MAX_BEFORE:]
    return not unlogged and any(
        end.search(words) for end in (_RE["exception"], _RE["beginning"] if logger else _RE["after_layout"])
    )


def _is_bare(line: LogLine) -> bool:
    return not (line.logger or line.level or line.thread)


def _is_reported(sentence: str, quotation: str, after: str) -> bool:
    """Return True if a sentence quotes a whole message, and is no question."""
    whole = any(
        begin.search(quotation[1:])
        for begin in (_RE["beginning"], _RE["exception"], _RE["after_layout"], _RE["after_words"])
    )
    reported = (_RE["reported_in_ticks"] if quotation[0] == "`" else _RE["reported_in_quotes"]).match(sentence)
    cut = not sentence.strip(" \t-*+•>") and (quotation[0] not in after or _RE["in_prose"].match(after))
    return whole and bool(cut or reported) and not (_RE["question"].match(after) or _RE["in_comment"].match(sentence))


def _event(line: LogLine, text: str, source: Source, signature: str, captures: Mapping[str, str | None]) -> LogEvent:
    filled = {name: value for name, value in captures.items() if value}
    return LogEvent(
        ts_ms=line.ts_ms or 0,
        signature=signature,
        text=text[:MAX_TEXT],
        client_id=line.client.client_id or filled.get("client"),
        logger=line.logger and line.logger[:MAX_TEXT],
        level=line.level and line.level[:MAX_TEXT],
        thread=line.thread and line.thread[: 2 * MAX_NAME],
        captures=filled,
        source=source,
        kind=next((kind for kind in OF_LINES if kind == line.client.kind), None),
    )


def _telling_line(line: LogLine, source: Source, body: str, match: re.Match[str]) -> tuple[str, Source]:
    """Return (text, input record) of the line in which a match begins."""
    begin, below = body.rfind("\n", 0, match.start()) + 1, body.count("\n", 0, match.start())
    if 0 < below < len(line.numbers):
        source = Source(source.topic, source.partition, line.numbers[below])
    end = body.find("\n", begin) if below or line.message is None else len(line.message)
    text = body[begin : end if end >= 0 else None]
    cut = match.start() - begin - MAX_LEFT
    if match.end() - begin <= MAX_SHOWN or cut <= 0:
        # Remove the mark `# ` of a title, because `_unlinked` (pastes.py) may have added the mark to the text.
        return text.removeprefix("# "), source
    prefix = KAFKA_PREFIX.search(text, 0, cut)
    named = f"{prefix[0]}] " if prefix else ""
    return f"{named}…{text[cut:]}", source
