"""Log records → events: lines that carry a signature of a Kafka client, and thread dumps. All else is dropped.

Nearly every line of a log is dropped, so the order of the tests is that of their price: a literal text first, the
regular expression only where it is found, names of clients and captured groups only for what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.formats._expr import present
from clienthealth.logs.dumps import DUMP, DUMP_LINE, SOURCE, dumps, is_line
from clienthealth.logs.fields import DUMP_TITLE
from clienthealth.logs.signatures import SIGNATURES, Signature, compiled

MAX_TEXT = 500
#: No more of a line and its stack trace is searched: log text is hostile.
MAX_BODY = 65_536
#: Bytes that a line of a dump takes at least: what an offset of a record is worth where lines have no file.
BYTES_PER_LINE = 64

EVENT = f"""struct<ts_ms: bigint, signature: string, text: string, client_id: string, logger: string, level: string,
thread: string, captures: map<string, string>, source: {SOURCE}>"""

_THREAD_DUMP = "thread-dump"
#: What a raw record of a dump, or of one of its lines, contains; a tab may be an escape.
_DUMP_MARKS = (
    DUMP_TITLE,
    "java.lang.Thread.State: ",
    "\tat ",
    "\\tat ",
    " tid=0x",
    "Mounted virtual thread",
    "JNI global",
)


def worth_decoding(raw: DataFrame, signatures: Sequence[Signature] = SIGNATURES) -> DataFrame:
    """The raw records that can hold an event: those whose bytes contain a signature's literal or a mark of a dump.

    It costs a tenth of the decoding it saves. Of no use where rejects are counted: what is not decoded is not counted.
    """
    text = F.col("value").cast("string")
    return raw.filter(_contains(text, *dict.fromkeys([s.literal for s in signatures]), *_DUMP_MARKS))


def log_events(logs: DataFrame, signatures: Sequence[Signature] = SIGNATURES) -> DataFrame:
    """Accepted log records (`decode.accepted`) → one row per event or dump: ts, client, event, dump.

    `event` is null for a dump, `dump` for an event. A line with several signatures gives several rows. Lines of a
    dump that was sent line by line become events `dump-line`, which `dumps.rejoin` puts together again.
    """
    body = F.concat_ws("\n", F.col("message"), F.col("stack"))
    rows = logs.select("ts", "ts_ms", "client", *_LINE, F.substring(body, 1, MAX_BODY).alias("body"))
    rows = rows.withColumn("found", F.explode_outer(_found(signatures))).filter(F.col("found").isNotNull())
    signature = F.col("found.signature")
    rows = rows.withColumn("captures", _captures(signature, signatures))
    captures = F.col("captures")
    event = F.struct(
        "ts_ms",
        signature.alias("signature"),
        F.substring(_telling_text(signature, signatures), 1, MAX_TEXT).alias("text"),
        F.coalesce(present(F.col("client.client_id")), F.try_element_at(captures, F.lit("client"))).alias("client_id"),
        "logger",
        "level",
        "thread",
        captures.alias("captures"),
        F.col("source").cast(SOURCE).alias("source"),
    )
    dump = F.col("found.dump")
    return rows.select("ts", "client", F.when(dump.isNull(), event).alias("event"), dump.alias("dump"))


_LINE = ("level", "logger", "thread", "message", "stack", "file", "file_offset", "dump", "source")


def _found(signatures: Sequence[Signature]) -> Column:
    """All that a record says: array of struct<signature, dump>, empty for most."""
    matches = F.array_compact(F.array(*(F.when(_matches(s), F.lit(s.id)) for s in signatures)))
    line = F.when(F.col("stack").isNull() & is_line(F.col("message")), F.array(F.lit(DUMP_LINE)))
    ids = F.when(F.size(matches) > 0, matches).otherwise(line)
    whole = dumps(F.col("dump"), F.col("ts_ms"), F.col("source").cast(SOURCE))
    return F.when(
        F.col("dump").isNotNull(),
        F.transform(whole, lambda d: F.struct(F.lit(_THREAD_DUMP).alias("signature"), d.alias("dump"))),
    ).otherwise(F.transform(ids, lambda i: F.struct(i.alias("signature"), F.lit(None).cast(DUMP).alias("dump"))))


def _matches(signature: Signature) -> Column:
    body, logger = F.col("body"), F.col("logger")
    found = body.contains(signature.literal)
    if signature.logger:
        found = found & F.coalesce(~logger.contains(".") | logger.rlike(_abbreviated(signature.logger)), F.lit(True))
    return found & body.rlike(signature.pattern)


def _abbreviated(logger: str) -> str:
    """How a logger's name begins, its packages shortened to any length (`o.a.k.clients`)."""
    *packages, last = logger.split(".")
    return (
        "^"
        + "".join(rf"{part[0]}(?:{part[1:]})?\." for part in packages)
        + (last if last[0].isupper() else f"{last[0]}(?:{last[1:]})?\\b")
    )


def _captures(signature: Column, signatures: Sequence[Signature]) -> Column:
    """The named groups of the signature's pattern as a map, and where a line of a dump stood."""
    groups = {s.id: list(compiled(s).groupindex) for s in signatures}
    names = _by_signature(signature, {i: F.array(*map(F.lit, names)) for i, names in groups.items() if names})
    pattern = _by_signature(signature, {s.id: F.lit(s.pattern) for s in signatures if groups[s.id]})
    values = F.transform(
        names, lambda name, at: F.call_function("regexp_extract", F.col("body"), pattern, at.cast("int") + 1)
    )
    source = F.col("source")
    place = F.create_map(
        F.lit("file"),
        F.coalesce(F.col("file"), F.concat_ws("/", source["topic"], source["partition"])),
        F.lit("offset"),
        F.coalesce(F.when(F.col("file").isNotNull(), F.col("file_offset")), source["offset"] * BYTES_PER_LINE).cast(
            "string"
        ),
    )
    named = F.map_filter(F.map_from_arrays(names, values), lambda _, value: value != "")
    return F.coalesce(F.when(signature == DUMP_LINE, place), named, F.create_map().cast("map<string, string>"))


def _telling_text(signature: Column, signatures: Sequence[Signature]) -> Column:
    """The message, or where the exception below it carries the signature, the line of it that does."""
    message, stack = F.col("message"), F.col("stack")
    literal = _by_signature(signature, {s.id: F.lit(s.literal) for s in signatures})
    at = F.position(literal, stack)
    before = F.substring_index(F.substr(stack, F.lit(1), at - 1), "\n", -1)
    after = F.substring_index(F.substr(stack, at), "\n", 1)
    in_stack = ~F.coalesce(F.contains(message, literal), F.lit(False)) & (at > 0)
    return F.when(in_stack, F.concat(before, after)).otherwise(F.coalesce(message, F.col("body")))


def _by_signature(signature: Column, values: Mapping[str, Column]) -> Column:
    return F.try_element_at(
        F.create_map(*(part for key, value in values.items() for part in (F.lit(key), value))), signature
    )


def _contains(text: Column, *literals: str) -> Column:
    return reduce(or_, (text.contains(literal) for literal in literals))
