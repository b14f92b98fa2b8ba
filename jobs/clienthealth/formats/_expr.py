"""Small building blocks for native column expressions that never raise, whether ANSI mode is on or off."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

#: Kafka is younger than this (2010-01-01): an earlier time is a unit mistaken or a clock never set.
EARLIEST_MS = 1_262_304_000_000
#: The largest time that Spark's timestamps and JavaScript's dates both hold comfortably (year 9999).
LATEST_MS = 253_402_300_799_999
#: Reporting intervals outside of this (1 s to 1 h) are not believed.
MIN_INTERVAL_MS, MAX_INTERVAL_MS = 1_000, 3_600_000


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body(value)` with `value` computed once, however often `body` uses it."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def known(value: Column) -> Column:
    """A measured value, or null where the client reports that it does not know.

    NaN and infinities (averages of nothing), and everything negative: -1 (never polled), -1001 (no offset).
    """
    return F.when((value >= 0.0) & (value < float("inf")), value)


def number(text: Column) -> Column:
    """A number written as text, or null where it is none (or not known, see `known`)."""
    return let(text.try_cast("double"), known)


def millis(value: Column) -> Column:
    """A time in milliseconds as long, null where it is absurd."""
    return F.when((value >= EARLIEST_MS) & (value <= LATEST_MS), F.round(value).cast("long"))


def epoch(value: Column) -> Column:
    """A time since 1970 in s, ms, µs or ns, told apart by its size, as epoch milliseconds."""
    scale = F.when(value < 1e11, 1e3).when(value < 1e14, 1.0).when(value < 1e17, 1e-3).otherwise(1e-6)
    return let(value * scale, millis)


def iso_millis(text: Column) -> Column:
    """An ISO 8601 time with zone as epoch milliseconds, null where it is none. Without a zone it is taken as UTC."""
    return F.unix_millis(text.try_cast("timestamp"))


def present(text: Column) -> Column:
    """The text without blanks around it, null where nothing remains."""
    return F.when(F.trim(text) != "", F.trim(text))


def interval(said: Column, usual: Column) -> Column:
    """How often a client reports, in ms (long): as it says where that can be believed, else as usual."""
    return F.when(said.between(MIN_INTERVAL_MS, MAX_INTERVAL_MS), said).otherwise(usual).cast("long")


#: The host in a URL, unless it is the machine itself; the port in a URL.
URL_HOST = r"^(?:[a-z]+://)?+(?:[^/@]*@)?+(?!localhost\b|127\.|0\.0\.0\.0|\[::1\])(\[[^\]]*\]|[^/:?\[]+)"
URL_PORT = r"^(?:[a-z]+://)?[^/]*?:(\d+)(?:[/?]|$)"


def place(url: Column, host: Column) -> Column:
    """struct<host, instance> of the process behind an agent's URL; `host`: where the URL means its own machine."""
    where = F.coalesce(matched(url, URL_HOST), host)
    return F.struct(where.alias("host"), F.concat_ws(":", where, matched(url, URL_PORT)).alias("instance"))


def matched(text: Column, pattern: str) -> Column:
    """What the pattern's first group matches first, null where the pattern does not match."""
    return F.get(F.regexp_extract_all(text, F.lit(pattern), 1), F.lit(0))


def no_keys() -> Column:
    """An empty array of names."""
    return F.array().cast("array<string>")


def no_entries() -> Column:
    """An empty array of map entries (strings)."""
    return F.map_entries(F.create_map().cast("map<string,string>"))


def entries(json: Column) -> Column:
    """The fields of a JSON object (text) as array<struct<key,value>>, values as text; empty where it is none."""
    return F.coalesce(F.map_entries(F.from_json(json, "map<string,string>")), no_entries())
