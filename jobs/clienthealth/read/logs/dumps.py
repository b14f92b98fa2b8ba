"""Convert thread dumps for the failure modes, rejoin dumps from single lines, and find the clients in dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from clienthealth.model.clients import Kind
from clienthealth.model.readings import LogEvent, Source, Thread, ThreadDump
from clienthealth.model.telemetry import LogLine
from clienthealth.model.values import grouped, integer
from clienthealth.read.logs.dump_formats import DEADLOCK, HOLDER, dumps_in
from clienthealth.read.logs.dump_formats.threads import TABLES
from clienthealth.read.logs.fields import DUMP_TITLE, FETCHER_THREAD, PRODUCER_THREAD

MAX_DUMPS = 64

DUMP_LINE = "dump-line"
#: Maximum number of bytes that may be missing between two lines of a thread in a log file.
MAX_GAP = 8_192

_STAMP_LENGTH = 19
_END = "JNI global ref"
#: Failure modes use only frames that contain one of these texts.
_TELLING = ("kafka.", "java.util.concurrent.", "java.lang.", "jdk.internal.", "sun.nio.", "sun.misc.", ".onCompletion(")
_MARKS = ("java.lang.Thread.State: ", DUMP_TITLE, "Mounted virtual thread ", _END, DEADLOCK, HOLDER)
_HEADER = re.compile(r'"(.{0,1000})" (?:#\d|\[|daemon |prio=|os_prio=|cpu=|tid=|virtual|- Thread t@\d)', re.ASCII)
#: A line that replaces missing lines, so that frames after the gap are not added to the thread before the gap.
_MISSING = "ERROR lines are missing"
_STAMP_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)


def dumps_of(line: LogLine, source: Source | None) -> list[ThreadDump]:
    """Return the first 64 dumps of a log record in the form that failure modes read.

    The first dump gets the record's time. A later dump gets the record's time plus the time between the first dump
    and the later dump.
    """
    first = line.dumps[0].ts_ms if line.dumps else None
    return [
        ThreadDump(
            (line.ts_ms or 0) + (dump.ts_ms - first if dump.ts_ms is not None and first is not None else 0),
            tuple(Thread(t.name, t.state, tuple(frame.method for frame in t.frames), t.cpu_ms) for t in dump.threads),
            source,
            complete=bool(dump.complete),
            deadlocked=dump.deadlocked,
        )
        for dump in line.dumps[:MAX_DUMPS]
    ]


def is_line(text: str) -> bool:
    """True if a single log line may be part of a dump that was sent line by line.

    A frame must contain one of the texts in _TELLING. Frames of exceptions are accepted, too, because they look like a
    dump's frames.
    """
    line = text.lstrip(" \t")
    if line.startswith("at "):
        return any(telling in text for telling in _TELLING)
    if text.startswith('"'):
        return _HEADER.match(text) is not None
    return line.startswith(_MARKS) or (len(line) == _STAMP_LENGTH and _STAMP_LINE.fullmatch(line) is not None)


def rejoin(lines: Iterable[LogEvent]) -> list[ThreadDump]:
    """Rejoin dumps that arrived line by line, in any order and from any number of files.

    `lines`: an event DUMP_LINE for each line of the dumps. A line that arrived twice is used once. Dumps without a
    title line are dropped.
    """
    files = grouped(lines, lambda line: line.captures.get("file"))
    return [dump for of_file in files.values() for dump in _dumps_of_file(of_file)]


def _dumps_of_file(lines: list[LogEvent]) -> list[ThreadDump]:
    by_offset = sorted(lines, key=_place)
    texts: list[str] = []
    end = last = _place(by_offset[0])[0]
    for number, line in enumerate(by_offset):
        at = _place(line)[0]
        if number and at == last:
            continue
        if at - end > MAX_GAP:
            texts.append(_MISSING)
        texts.append(line.text)
        end, last = at + len(line.text), at
    # Without a title line, it is unknown whether threads are missing.
    titled = [dump for dump in dumps_in("\n".join(texts), alone=False) if dump.complete is not None]
    return dumps_of(LogLine(ts_ms=by_offset[0].ts_ms, dumps=titled), by_offset[0].source)


def _place(line: LogEvent) -> tuple[int, int, str, tuple[str, int, int]]:
    source = line.source
    where = (source.topic, source.partition, source.offset) if source else ("", 0, 0)
    return integer(line.captures.get("offset"), 64) or 0, line.ts_ms, line.text, where


WAIT_FRAME = "KafkaProducer.waitOnMetadata"
_FRAMES: Mapping[Kind, list[str]] = TABLES["client_frames"]
_CONTAINERS: list[str] = TABLES["containers"]["frames"]
#: For Streams and Connect: (pattern of thread names, pattern of client ids, client id of the polled consumer).
_POLLERS = (
    (re.compile(r"(.+-StreamThread-\d+)"), re.compile(r".+"), "{}-consumer"),
    (re.compile(r"task-thread-(.+)"), re.compile(r"connector-consumer-.+"), "connector-consumer-{}"),
)


def in_container(thread: Thread) -> bool:
    """True if the thread belongs to a framework that polls a consumer and calls the application's handler."""
    return any(part in frame for frame in thread.frames for part in _CONTAINERS)


def polls_for(thread: Thread, client_id: str) -> bool | None:
    """Return whether the thread polls the consumer `client_id`; None if the names do not show this."""
    for of_thread, of_client, called in _POLLERS:
        if (match := of_thread.fullmatch(thread.name)) and of_client.fullmatch(client_id):
            return client_id == called.format(match[1])
    return None


def clients_of(dump: ThreadDump) -> Iterator[tuple[str | None, Kind]]:
    """Yield (client id or None, kind) of each client with threads in a dump.

    A dump does not show which producer a thread has called. So if the dump names several producers, and a thread waits
    inside send(), the function also yields the pair (None, "producer"). A Java consumer is yielded only if a
    framework polls it, or if the dump shows no other client.
    """
    named = dict.fromkeys(
        name for thread in dump.threads if (name := thread.name.removeprefix(PRODUCER_THREAD)) != thread.name
    )
    for name in named:
        yield name, "producer"
    pollers = (thread.name for thread in dump.threads if in_container(thread))
    matches = ([(called, of.fullmatch(name)) for of, _, called in _POLLERS] for name in pollers)
    polled = dict.fromkeys(next((called.format(match[1]) for called, match in of if match), None) for of in matches)
    for consumer in polled:
        yield consumer, "consumer"
    if len(named) > 1 and any(WAIT_FRAME in frame for thread in dump.threads for frame in thread.frames):
        yield None, "producer"
    any_client = bool(named or polled)
    for kind, parts in _FRAMES.items():
        named_already = named if kind == "producer" else any_client if kind == "consumer" else False
        fetches = kind == "legacy-consumer" and any(t.name.startswith(FETCHER_THREAD) for t in dump.threads)
        shown = any(part in frame for thread in dump.threads for frame in thread.frames for part in parts)
        if not named_already and (fetches or shown):
            any_client = True
            yield None, kind
