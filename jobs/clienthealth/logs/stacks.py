"""Stack traces in the shapes in which JSON carries them → one text, lines joined by newline."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clienthealth.formats._expr import let

_THROWN = "name string, message string, extendedStackTrace string"
_FRAMES = "array<struct<class: string, method: string, file: string, line: string>>"


def stack_text(stack: Column) -> Column:
    """A stack trace as text: it may also come as an array of lines, or as log4j2's object of an exception."""
    lines = F.array_join(F.from_json(stack, "array<string>"), "\n")
    cause = F.from_json(stack, f"{_THROWN}, cause struct<{_THROWN.replace(' string', ': string')}>")
    thrown = let(
        cause,
        lambda found: F.concat(
            _thrown_text(found), F.coalesce(F.concat(F.lit("\nCaused by: "), _thrown_text(found["cause"])), F.lit(""))
        ),
    )
    return (
        F.when(stack.startswith("["), F.coalesce(lines, stack))
        .when(stack.startswith("{"), F.coalesce(thrown, stack))
        .otherwise(stack)
    )


def _thrown_text(thrown: Column) -> Column:
    trace = thrown["extendedStackTrace"]
    frames = F.transform(
        F.from_json(trace, _FRAMES),
        lambda f: F.concat(
            F.lit("\tat "),
            f["class"],
            F.lit("."),
            f["method"],
            F.lit("("),
            F.concat_ws(":", f["file"], f["line"]),
            F.lit(")"),
        ),
    )
    return F.when(
        trace.startswith("["),
        F.concat_ws("\n", F.concat_ws(": ", thrown["name"], thrown["message"]), F.array_join(frames, "\n")),
    ).otherwise(F.coalesce(trace, F.concat_ws(": ", thrown["name"], thrown["message"])))
