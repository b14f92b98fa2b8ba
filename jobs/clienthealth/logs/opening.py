"""The second step of reading logs, the same for all formats: what a shipper carries is opened.

The first step, a format, says what a record's own fields say. Where it has neither level nor logger, its message is a
line as some application wrote it: text in any layout, or JSON that nobody decoded. The line knows better than its
envelope. Each step is a projection of its own, so that what is used twice is computed once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.formats import CLIENT
from clienthealth.logs import lines
from clienthealth.logs.dumps import written_ms
from clienthealth.logs.fields import filled, has_zone, is_dump, level_name, log, named_client
from clienthealth.logs.json_layouts import any_layout, log_of, schema
from clienthealth.logs.stacks import stack_text

#: A time without zone is believed where it differs from the shipper's clock by no more than this: a line written
#: in local time would be hours off, and a line that waited for its shipper is rarely later than this.
BELIEVED_MS = 600_000


def opened(rows: DataFrame, column: str) -> DataFrame:
    """The rows with the LOG in `column` (null where there is none) read to the end.

    The explosion at the end changes nothing, but keeps filters on what was read from being computed on their own.
    """
    told = F.col(column)
    message = told["message"]
    bare = told["level"].isNull() & told["logger"].isNull() & told["error"].isNull()
    layout = any_layout()
    rows = rows.withColumn("_dump", is_dump(message))
    rows = rows.withColumn("_line", F.when(bare & ~F.col("_dump"), lines.cleaned(message)))
    rows = rows.withColumn("_document", F.when(F.ltrim("_line").startswith("{"), F.from_json("_line", schema(layout))))
    rows = rows.withColumn("_inside", F.when(F.col("_document").isNotNull(), log_of(F.col("_document"), layout)))
    inside, parts, text = F.col("_inside"), F.col("_parts"), F.col("_text")
    is_text = inside["message"].isNull() & inside["stack"].isNull()
    rows = rows.withColumn("_parts", F.when(is_text, lines.parts(F.col("_line"))))
    rows = rows.withColumn("_text", F.when(parts.isNotNull(), lines.fields(F.col("_line"), parts)))
    for name in ("message", "thread", "stack"):
        rows = rows.withColumn(f"_{name}", F.coalesce(inside[name], text[name], told[name]))
    whole = F.when(told.isNotNull(), _whole(told, inside, text))
    return rows.withColumn(column, F.explode_outer(F.array(whole))).drop(*_STEPS)


_STEPS = ("_dump", "_line", "_document", "_inside", "_parts", "_text", "_message", "_thread", "_stack")


def _whole(told: Column, inside: Column, text: Column) -> Column:
    dump, message, thread = F.col("_dump"), F.col("_message"), filled(F.col("_thread"))

    def first(name: str) -> Column:
        return filled(F.coalesce(inside[name], text[name], told[name]))

    def of_client(name: str) -> Column:
        return filled(F.trim(F.coalesce(*(part["client"][name] for part in (inside, text, told)))))

    client = {name: of_client(name) for name in CLIENT.names}
    client["client_id"] = F.coalesce(client["client_id"], F.when(~dump, named_client(message, thread)))
    shipped, written = told["ts_ms"], text["ts_ms"]
    doubtful = ~has_zone(lines.time_of(F.col("_parts")))
    stack = filled(F.rtrim(F.col("_stack"), F.lit("\r\n")))
    return log(
        **client,
        ts_ms=F.coalesce(
            inside["ts_ms"],
            F.when(doubtful, agreed(written, shipped)).otherwise(F.coalesce(written, shipped)),
            F.when(dump, written_ms(told["message"])),
        ),
        level=level_name(first("level")),
        logger=first("logger"),
        thread=thread,
        message=F.when(~dump, message),
        stack=F.when(~dump, stack_text(stack)),
        file=told["file"],
        file_offset=told["file_offset"],
        dump=F.when(dump, told["message"]),
        error=F.coalesce(told["error"], F.when(message.isNull() & stack.isNull(), "empty: no message")),
    )


def agreed(written: Column, shipped: Column) -> Column:
    """Of a time without zone and the shipper's: the written one, unless the two are too far apart."""
    apart = F.abs(written.cast("double") - shipped.cast("double"))
    return F.when(shipped.isNull() | (apart <= BELIEVED_MS), F.coalesce(written, shipped)).otherwise(shipped)
