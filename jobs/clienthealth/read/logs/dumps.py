"""Thread dumps as they are judged, those that arrive line by line, and whose threads a dump shows.

Whole dumps are read by `dump_formats`. Line by line come those that a JVM writes on SIGQUIT to a log that is shipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from clienthealth.model.clients import Kind
from clienthealth.model.readings import LogEvent, Source, Thread, ThreadDump
from clienthealth.model.telemetry import LogLine
from clienthealth.read.logs.dump_formats import DEADLOCK, HOLDER, dumps_in
from clienthealth.read.logs.fields import DUMP_TITLE, FETCHER_THREAD, PRODUCER_THREAD, offset

MAX_DUMPS = 64

#: The signature of events that are lines of a dump; their `captures` hold `file` and `offset`.
DUMP_LINE = "dump-line"
MAX_GAP = 8_192

_STAMP_LENGTH = 19
_END = "JNI global ref"
#: What the frames that a judgement may rest on contain.
_TELLING = ("kafka.", "java.util.concurrent.", "java.lang.", "jdk.internal.", "sun.nio.", "sun.misc.", ".onCompletion(")
#: How the lines between threads and frames begin.
_MARKS = ("java.lang.Thread.State: ", DUMP_TITLE, "Mounted virtual thread ", _END, DEADLOCK, HOLDER)
#: A header: the name in quotes (which may hold quotes itself) and what only a header has behind it.
_HEADER = re.compile(r'"(.{0,1000})" (?:#\d|\[|daemon |prio=|os_prio=|cpu=|tid=|virtual|- Thread t@\d)', re.ASCII)
#: Stands for lines that are missing: no thread goes on behind it.
_MISSING = "ERROR lines are missing"
_STAMP_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)


def dumps_of(line: LogLine, source: Source | None) -> list[ThreadDump]:
    """The dumps in a log record, MAX_DUMPS at most. The first is of its time, a later one as much later as it says."""
    first = line.dumps[0].ts_ms if line.dumps else None
    return [
        ThreadDump(
            # By how much it is later than the first, as far as both say when they are of.
            (line.ts_ms or 0) + (dump.ts_ms - first if dump.ts_ms is not None and first is not None else 0),
            tuple(Thread(t.name, t.state, tuple(frame.method for frame in t.frames), t.cpu_ms) for t in dump.threads),
            source,
            complete=bool(dump.complete),
            deadlocked=dump.deadlocked,
        )
        for dump in line.dumps[:MAX_DUMPS]
    ]


def is_line(text: str) -> bool:
    """May a log record of one line be part of a dump that was sent line by line?

    Only lines that matter: title and time, headers of all threads (they delimit), states, the end, and the frames
    that a judgement may rest on. Frames also stand in the stack traces of exceptions: they cannot be told apart.
    """
    line = text.lstrip(" \t")
    if line.startswith("at "):
        return any(telling in text for telling in _TELLING)
    if text.startswith('"'):
        return _HEADER.match(text) is not None
    return line.startswith(_MARKS) or (len(line) == _STAMP_LENGTH and _STAMP_LINE.fullmatch(line) is not None)


def rejoin(lines: Iterable[LogEvent]) -> list[ThreadDump]:
    """Dumps that arrived line by line, of the events DUMP_LINE (in any order, of any number of files).

    Lines of one file are put in the order of their offsets; a line sent twice counts once. A thread ends where the
    next begins, at the dump's end, or where more than MAX_GAP bytes are missing. Without its title there is no dump.
    """
    files: dict[str | None, list[LogEvent]] = {}
    for line in lines:
        files.setdefault(line.captures.get("file"), []).append(line)
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
    # What is known to be complete or cut has its title.
    titled = [dump for dump in dumps_in("\n".join(texts), alone=False) if dump.complete is not None]
    return dumps_of(LogLine(ts_ms=by_offset[0].ts_ms, dumps=titled), by_offset[0].source)


def _place(line: LogEvent) -> tuple[int, int, str, tuple[str, int, int]]:
    """The line's offset in its file, and what puts lines of one offset in an order."""
    source = line.source
    where = (source.topic, source.partition, source.offset) if source else ("", 0, 0)
    return offset(line.captures.get("offset")) or 0, line.ts_ms, line.text, where


#: What in a frame speaks of a client of a kind; the kinds in the order in which they are looked for.
_FRAMES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("producer", ("clients.producer.KafkaProducer.", "clients.producer.internals.")),
    (
        "legacy-consumer",
        (
            "kafka.consumer.ConsumerIterator.",
            "kafka.consumer.ConsumerFetcherThread.",
            "kafka.consumer.ZookeeperConsumerConnector",
            "kafka.client.ClientUtils$.channelToOffsetManager",
        ),
    ),
    (
        "consumer",
        (
            "clients.consumer.KafkaConsumer.",
            "clients.consumer.KafkaShareConsumer.",
            "clients.consumer.internals.",
        ),
    ),
)
#: Frames of frameworks whose threads poll and call the application's handler in between.
_CONTAINERS = (
    "KafkaMessageListenerContainer$ListenerConsumer.run",
    "org.apache.camel.component.kafka.KafkaFetchRecords.run",
    "org.apache.kafka.connect.runtime.WorkerSinkTask.execute",
    "org.apache.kafka.streams.processor.internals.StreamThread.run",
)
#: What such threads are called where Kafka itself names them, and what their consumers are called by default.
_POLLERS = (
    (re.compile(r"(.+-StreamThread-\d+)"), re.compile(r".+-StreamThread-\d+-(?:restore-)?consumer"), "{}-consumer"),
    (re.compile(r"task-thread-(.+)"), re.compile(r"connector-consumer-.+"), "connector-consumer-{}"),
)


def in_container(thread: Thread) -> bool:
    """Does a framework run the thread, which polls and calls the application's handler in between?"""
    return any(part in frame for frame in thread.frames for part in _CONTAINERS)


def polls_for(thread: Thread, client_id: str) -> bool | None:
    """Does the thread poll this consumer, by what their framework calls the two? None where that does not tell."""
    for of_thread, of_client, called in _POLLERS:
        if (match := of_thread.fullmatch(thread.name)) and of_client.fullmatch(client_id):
            return client_id == called.format(match[1])
    return None


def clients_of(dump: ThreadDump) -> Iterator[tuple[str | None, Kind]]:
    """Name and kind of the clients whose threads a dump shows; None stands for those that nothing names.

    A caller inside a producer is one of a named producer's, where there is one. A modern consumer, which a dump says
    little of, is told where a framework's thread polls it, else only where the dump speaks of nothing else.
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
    any_client = bool(named or polled)
    for kind, parts in _FRAMES:
        named_already = named if kind == "producer" else any_client if kind == "consumer" else False
        fetches = kind == "legacy-consumer" and any(t.name.startswith(FETCHER_THREAD) for t in dump.threads)
        shown = any(part in frame for thread in dump.threads for frame in thread.frames for part in parts)
        if not named_already and (fetches or shown):
            any_client = True
            yield None, kind
