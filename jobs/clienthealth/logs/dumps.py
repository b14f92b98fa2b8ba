"""Thread dumps: their text → the threads that touch a Kafka client.

Read are the shapes that `jstack`, `jcmd Thread.print`, Jolokia's `threadPrint` and SIGQUIT give on JVM 8 to 25, as one
text or line by line. The time of a dump stands above its title, in the JVM's local time without its zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice, pairwise

from clienthealth.logs.fields import DUMP_TITLE, offset, time_ms
from clienthealth.model.readings import LogEvent, Source, Thread, ThreadDump

MAX_THREADS = 256
MAX_FRAMES = 1_024
MAX_DUMPS = 64

#: The signature of events that are lines of a dump; their `captures` hold `file` and `offset`.
DUMP_LINE = "dump-line"
MAX_GAP = 8_192
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000

_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_STAMP_LENGTH = 19
_END = "JNI global ref"
#: What the frames that a judgement may rest on contain.
_TELLING = ("kafka.", "java.util.concurrent.", "java.lang.", "jdk.internal.", "sun.nio.", "sun.misc.", ".onCompletion(")
#: How the lines between threads and frames begin.
_MARKS = ("java.lang.Thread.State: ", DUMP_TITLE, "Mounted virtual thread ", _END)
#: Where one thread ends and the next begins. A virtual thread's frames follow those of the thread that carries it.
_BOUNDARY = re.compile(
    rf'\n(?="|[ \t]*+Mounted virtual thread |{_END}|Found \d{{1,6}} deadlock|Found one Java-level deadlock)', re.ASCII
)
#: A header: the name in quotes (which may hold quotes itself) and what only a header has behind it.
_HEADER = re.compile(r'"(.{0,1000})" (?:#\d|\[|daemon |prio=|os_prio=|cpu=|tid=|virtual|- Thread t@\d)', re.ASCII)
_MOUNTED = re.compile(r"[ \t]*+Mounted (virtual thread #\d{1,19})", re.ASCII)
_STATE = re.compile(r"java\.lang\.Thread\.State: (\w{1,40})", re.ASCII)
_CPU = re.compile(r"[^\n]{0,1200} cpu=(\d{1,15}(?:\.\d{1,6})?)ms ", re.ASCII)
#: `package.Class.method`, without class loader and module before it; `/0x…` belongs to the name of a hidden class.
_FRAME = re.compile(r"^[ \t]*+at (?:[^\s(/]{0,200}/(?!0x)){0,2}([^(\n]{1,1000})\(", re.ASCII | re.MULTILINE)
_PLACED = re.compile(_FRAME.pattern + r"([^)\n]{0,300})", re.ASCII | re.MULTILINE)
_TITLE = re.compile(rf"^(?:{_STAMP}\r?\n)?{DUMP_TITLE}", re.ASCII | re.MULTILINE)
_WRITTEN = re.compile(rf"(?:\A|\n)({_STAMP})\r?\n\Z", re.ASCII)
_STAMP_LINE = re.compile(_STAMP, re.ASCII)


def written_ms(text: str) -> int | None:
    """The time above the title of a dump (the first that has one), taken as UTC, in epoch ms; None without any."""
    at = text.find(DUMP_TITLE)
    while at >= 0:
        above = _WRITTEN.search(text[max(0, at - _STAMP_LENGTH - 3) : at])
        if above and (above.start(1) > 0 or at <= _STAMP_LENGTH + 2):
            return time_ms(above[1])
        at = text.find(DUMP_TITLE, at + 1)
    return None


def threads(text: str) -> tuple[Thread, ...]:
    """The threads of one dump that touch a Kafka client, and DestroyJavaVM; MAX_THREADS at most.

    `state` is empty where the dump does not say it (a thread that carries a virtual one, the VM's own threads).
    """
    return tuple(islice(_telling_threads(text.replace("\r\n", "\n")), MAX_THREADS))


def _telling_threads(text: str) -> Iterator[Thread]:
    for block in _BOUNDARY.split(text):
        if _speaks_of_kafka(block) or block.startswith('"DestroyJavaVM"'):
            thread = _thread(block)
            if thread.name == "DestroyJavaVM" or (
                thread.name and any(map(_speaks_of_kafka, (thread.name, *thread.frames)))
            ):
                yield thread


def _thread(block: str) -> Thread:
    header = block.partition("\n")[0]
    named = _HEADER.match(header)
    name = named[1] if named and named[1] else _group(_MOUNTED.match(block))
    cpu = _CPU.match(header)
    return Thread(
        name=name,
        state=_group(_STATE.search(block)),
        frames=tuple(frame[1] for frame in islice(_FRAME.finditer(block), MAX_FRAMES)),
        cpu_ms=float(cpu[1]) if cpu else None,
    )


def placed_frames(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Name and frames of the threads of `threads`, each frame as method and place (file and line, as the dump says)."""
    by_thread = []
    for block in _BOUNDARY.split(text.replace("\r\n", "\n")):
        if _speaks_of_kafka(block):
            frames = islice(_PLACED.finditer(block), MAX_FRAMES)
            by_thread.append((_thread(block).name, [(frame[1], _without_module(frame[2])) for frame in frames]))
    return by_thread[:MAX_THREADS]


def _without_module(location: str) -> str:
    """File and line without the Java module before them; Python's files keep their folders."""
    return location if ".py" in location else location.rpartition("/")[2]


def _group(match: re.Match[str] | None) -> str:
    return match[1] if match else ""


def _speaks_of_kafka(text: str) -> bool:
    return "kafka" in text.lower()


def dumps(text: str, ts_ms: int, source: Source | None) -> list[ThreadDump]:
    """All dumps in a text, MAX_DUMPS at most. The first is of `ts_ms`, a later one as much later as it says itself."""
    first = written_ms(text)
    of_text = []
    for part in islice(_parts(text), MAX_DUMPS):
        written = written_ms(part)
        later = written - first if written is not None and first is not None else 0
        of_text.append(ThreadDump(ts_ms + later, threads(part), source))
    return of_text


def _parts(text: str) -> Iterator[str]:
    starts = [0, *(title.start() for title in _TITLE.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if DUMP_TITLE in (part := text[start:end]):
            yield part


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
    by_offset = sorted(((_offset(line), line.ts_ms, line.text, line.source) for line in lines), key=_order)
    texts: list[str] = []
    end = last = by_offset[0][0]
    for number, (at, _, text, _) in enumerate(by_offset):
        if number and at == last:
            continue
        if at - end > MAX_GAP:
            texts.append(_END)
        texts.append(text)
        end, last = at + len(text), at
    _, ts_ms, _, source = by_offset[0]
    return dumps("\n".join(texts), ts_ms, source)


def _offset(line: LogEvent) -> int:
    """The line's offset in its file."""
    return offset(line.captures.get("offset")) or 0


def _order(line: tuple[int, int, str, Source | None]) -> tuple[int, int, str, tuple[str, int, int]]:
    at, ts_ms, text, source = line
    return at, ts_ms, text, (source.topic, source.partition, source.offset) if source else ("", 0, 0)


def line_sample(event: LogEvent) -> tuple[str, ...]:
    """Which dump lines of a process count as one: the same text in the same slot of its file in the same half minute.

    A dump of up to SLOTS × SLOT_BYTES is kept whole, also where many of its threads have the same frame. Of a storm of
    stack traces at most SLOTS copies of each line are kept per half minute.
    """
    text = blake2b(event.text.encode(errors="replace"), digest_size=8).hexdigest()
    slot = _offset(event) // SLOT_BYTES % SLOTS
    return event.captures.get("file", ""), text, str(slot), str(event.ts_ms // LINE_SAMPLING_MS)
