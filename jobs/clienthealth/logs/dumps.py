"""Thread dumps: their text → the threads that touch a Kafka client, in native expressions.

Read are the shapes that `jstack`, `jcmd Thread.print`, Jolokia's `threadPrint` and SIGQUIT give on JVM 8 to 25, as one
text or line by line. The time of a dump stands above its title, in the JVM's local time without its zone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats._expr import let
from clienthealth.logs.fields import DUMP_TITLE, time_ms

THREAD = "struct<name: string, state: string, frames: array<string>, cpu_ms: double>"
SOURCE = "struct<topic: string, partition: int, offset: bigint>"
DUMP = f"struct<ts_ms: bigint, threads: array<{THREAD}>, source: {SOURCE}>"

MAX_THREADS = 256
MAX_FRAMES = 1_024
MAX_DUMPS = 64

#: The signature of events that are lines of a dump; their `captures` hold `file` and `offset`.
DUMP_LINE = "dump-line"
LINE = f"struct<file: string, file_offset: bigint, ts_ms: bigint, text: string, source: {SOURCE}>"
MAX_GAP = 8_192
SLOT_BYTES, SLOTS, LINE_SAMPLING_MS = 512, 512, 30_000

_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_END = "JNI global ref"
#: What the frames that a judgement may rest on contain.
_TELLING = ("kafka.", "java.util.concurrent.", "java.lang.", "jdk.internal.", "sun.nio.", "sun.misc.", ".onCompletion(")
#: Where one thread ends and the next begins. A virtual thread's frames follow those of the thread that carries it.
_BOUNDARIES = rf'\n(?="|[ \t]*Mounted virtual thread |{_END}|Found \d{{1,6}} deadlock|Found one Java-level deadlock)'
#: A header: the name in quotes (which may hold quotes itself) and what only a header has behind it.
_HEADER = r'^"(.{0,1000})" (?:#\d|\[|daemon |prio=|os_prio=|cpu=|tid=|virtual)'
_MOUNTED = r"^[ \t]*Mounted (virtual thread #\d{1,19})"
_STATE = r"java\.lang\.Thread\.State: (\w{1,40})"
_CPU = r"^[^\n]{0,1200} cpu=(\d{1,15}(?:\.\d{1,6})?)ms "
#: `package.Class.method`, without class loader and module before it; `/0x…` belongs to the name of a hidden class.
_FRAME = r"(?m)^[ \t]*at (?:[^\s(/]{0,200}/(?!0x)){0,2}([^(\n]{1,1000})\("


def written_ms(text: Column) -> Column:
    """The time above the (first) title of a dump, taken as UTC; null where there is none."""
    return time_ms(F.regexp_extract(text, rf"(?:^|\n)({_STAMP})\r?\n{DUMP_TITLE}", 1))


def threads(text: Column) -> Column:
    """The threads of one dump that touch a Kafka client, and DestroyJavaVM, as array<THREAD>.

    `state` is empty where the dump does not say it (a thread that carries a virtual one, the VM's own threads).
    """
    lines = F.when(text.contains("\r\n"), F.replace(text, F.lit("\r\n"), F.lit("\n"))).otherwise(text)
    blocks = F.filter(
        F.split(lines, _BOUNDARIES),
        lambda block: F.lower(block).contains("kafka") | block.startswith('"DestroyJavaVM"'),
    )
    found = F.filter(
        F.transform(blocks, _thread),
        lambda thread: (
            (thread["name"] == "DestroyJavaVM")
            | _speaks_of_kafka(thread["name"])
            | ((thread["name"] != "") & F.exists(thread["frames"], _speaks_of_kafka))
        ),
    )
    return F.slice(found, 1, MAX_THREADS)


def _thread(block: Column) -> Column:
    header = F.substring_index(block, "\n", 1)
    named = F.regexp_extract(header, _HEADER, 1)
    mounted = F.regexp_extract(block, _MOUNTED, 1)
    return F.struct(
        F.when(named != "", named).otherwise(mounted).alias("name"),
        F.regexp_extract(block, _STATE, 1).alias("state"),
        F.slice(F.regexp_extract_all(block, F.lit(_FRAME), F.lit(1)), 1, MAX_FRAMES).alias("frames"),
        F.regexp_extract(header, _CPU, 1).try_cast("double").alias("cpu_ms"),
    )


def _speaks_of_kafka(text: Column) -> Column:
    return F.lower(text).contains("kafka")


def dumps(text: Column, ts_ms: Column, source: Column) -> Column:
    """All dumps in a text as array<DUMP>. The first is of `ts_ms`, a later one as much later as it says itself."""
    marked = F.regexp_replace(text, rf"(?m)^((?:{_STAMP}\r?\n)?{DUMP_TITLE})", "\x00$1")
    parts = F.slice(F.filter(F.split(marked, "\x00"), lambda part: part.contains(DUMP_TITLE)), 1, MAX_DUMPS)
    return let(
        written_ms(text),
        lambda first: F.transform(
            parts,
            lambda part: F.struct(
                (ts_ms + F.coalesce(written_ms(part) - first, F.lit(0))).alias("ts_ms"),
                threads(part).alias("threads"),
                source.alias("source"),
            ),
        ),
    )


def is_line(text: Column) -> Column:
    """May a log record of one line be part of a dump that was sent line by line?

    Only lines that matter: title and time, headers of all threads (they delimit), states, the end, and the frames
    that a judgement may rest on. Frames also stand in the stack traces of exceptions: they cannot be told apart.
    """
    line = F.ltrim(text, F.lit(" \t"))
    frame = line.startswith("at ") & _any(text.contains, *_TELLING)
    header = text.startswith('"') & text.rlike(_HEADER)
    return F.coalesce(
        frame
        | header
        | _any(line.startswith, "java.lang.Thread.State: ", DUMP_TITLE, "Mounted virtual thread ", _END)
        | ((F.length(line) == 19) & line.rlike(f"^{_STAMP}$")),
        F.lit(False),
    )


def _any(test: Callable[[str], Column], *texts: str) -> Column:
    return reduce(or_, map(test, texts))


def rejoin(lines: Column) -> Column:
    """Dumps that arrived line by line: array of LINE (in any order, of any number of files) → array<DUMP>.

    Lines of one file are put in the order of their offsets; a line sent twice counts once. A thread ends where the
    next begins, at the dump's end, or where more than MAX_GAP bytes are missing. Without its title there is no dump.
    """
    files = F.array_distinct(F.transform(lines, lambda line: line["file"]))
    return F.flatten(
        F.transform(
            files, lambda file: let(F.array_sort(F.filter(lines, lambda line: line["file"] == file)), _dumps_of_file)
        )
    )


def _dumps_of_file(lines: Column) -> Column:
    def joined(line: Column, position: Column) -> Column:
        before = F.get(lines, position - 1)
        missing = line["file_offset"] - before["file_offset"] - F.length(before["text"])
        return (
            F.when(line["file_offset"] == before["file_offset"], "")
            .when(missing > MAX_GAP, F.concat(F.lit(_END + "\n"), line["text"]))
            .otherwise(line["text"])
        )

    first = F.get(lines, F.lit(0))
    text = F.array_join(F.transform(lines, joined), "\n")
    return let(text, lambda whole: dumps(whole, first["ts_ms"], first["source"]))


def dump_lines(events: Column) -> Column:
    """The LINEs among the events of a process (`log_events`)."""
    return F.transform(
        F.filter(events, lambda event: event["signature"] == DUMP_LINE),
        lambda event: F.struct(
            event["captures"]["file"].alias("file"),
            event["captures"]["offset"].try_cast("bigint").alias("file_offset"),
            event["ts_ms"].alias("ts_ms"),
            event["text"].alias("text"),
            event["source"].alias("source"),
        ),
    )


def line_sample(event: Column) -> Column:
    """Which dump lines of a process count as one: the same text in the same slot of its file in the same half minute.

    A dump of up to SLOTS × SLOT_BYTES is kept whole, a frame that many of its threads have included, while a storm
    of stack traces keeps at most SLOTS copies of each line per half minute.
    """
    slot = F.pmod(F.floor(event["captures"]["offset"].try_cast("bigint") / SLOT_BYTES), F.lit(SLOTS))
    return F.concat_ws(
        "|", event["captures"]["file"], F.xxhash64(event["text"]), slot, F.floor(event["ts_ms"] / LINE_SAMPLING_MS)
    )
