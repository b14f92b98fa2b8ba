"""Raw Kafka records → snapshots of clients, log records, and rejects with the reason: nothing vanishes.

A record is recognised by its own shape, or by the header `format`, which wins. Identity that it does not carry comes
from its headers, then from its Kafka key (`service|instance|client_id`).

Faultless canonical snapshots, nearly all traffic, are parsed once and handed on. All else goes on through recognition
and checks, step by step: each step is a projection of its own, so that what is used twice is computed once. As one
expression it would be beyond Spark's analyser, which resolves a nest of lambdas one level at a time. What comes out
goes through a generator (`explode_outer`): a filter on it is not pushed below that, where Spark would decode twice.

Reasons of rejects (`error`), sometimes followed by ": detail":

empty              no value (a tombstone), or blanks only
oversized          larger than `monitor.max_record_bytes`
binary             not text: Avro, protobuf, wrong encoding
truncated-json     JSON that ends before it is closed
malformed-json     JSON with an error in it
unknown-format     text, or JSON, of no format that we know
wrong-types        a known format, but its essential parts have the wrong type
no-metrics         a known format that speaks of no Kafka client
missing-identity   nobody can say which client this is
missing-timestamp  no time, or one before Kafka existed
future-timestamp   further ahead than `monitor.future_seconds`: it would move the watermark
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from clienthealth.formats import (
    CLIENT,
    LOG,
    METRIC_NAMES,
    SNAPSHOT,
    TOPIC_METRIC_NAMES,
    Format,
    Record,
    canonical,
    formats,
)
from clienthealth.formats._expr import EARLIEST_MS, LATEST_MS, interval, known, let, present
from clienthealth.formats._samples import BUNDLES, snapshots
from clienthealth.logs.opening import opened
from clienthealth.records import Kind
from clienthealth.settings import Settings

#: The columns of a raw record, as Spark's Kafka source names them.
RAW = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")

#: Record headers that are read.
HEADERS = ("format", "service", "host", "instance", "client_id", "kind", "version", "library")

KINDS: tuple[str, ...] = typing.get_args(Kind)

#: What may stand before the first character of a record: white space and a byte order mark.
BLANKS = " \t\r\n\ufeff"

#: A bare number that JSON does not have, and what stands before it.
NOT_FINITE = r"([:,\[]\s*)(?:NaN|[+-]?Infinity)\b"


def decode_metrics(
    raw: DataFrame, settings: Settings, now: Column | None = None, among: Sequence[Format] | None = None
) -> DataFrame:
    """Raw records → one row per client in each record, with the fields of SNAPSHOT and those of `_finished`.

    `now` (a timestamp): what a future timestamp is measured by; by default the time of the batch.
    `among`: the only formats that are known, by default all. Fewer make a plan that is much smaller.
    """
    known_formats = formats("metrics") if among is None else among
    latest_ms = _latest_ms(settings, now)
    text = F.ltrim(_value(settings), F.lit(BLANKS))
    faultless = let(
        canonical.parsed(text),
        lambda parsed: F.when(_is_faultless(parsed, latest_ms), F.array(canonical.snapshot(parsed))),
    )
    rows = raw.select(*RAW, F.explode_outer(faultless).alias("fast"))
    slow = F.col("fast").isNull()
    rows = rows.withColumn("told", F.when(slow, _headers()))
    rows = _recognised(rows, known_formats, settings, slow)
    rows = _decoded(rows, SNAPSHOT, known_formats, settings)
    in_samples = {fmt: fmt.bundles for fmt in known_formats if fmt.bundles is not None}
    if in_samples:
        rows = _by_format(rows, "bundles", BUNDLES, in_samples, settings)
        shared = F.when(F.col("bundles").isNotNull(), snapshots(F.col("bundles")))
        rows = rows.withColumn("decoded", F.coalesce("decoded", shared))

    named = F.transform(F.coalesce("decoded", _failed(SNAPSHOT)), _named)
    checked = F.transform(named, lambda found: _checked_snapshot(found, latest_ms))
    rows = rows.select(*RAW, "fast", "format", F.explode_outer(F.when(slow, checked)).alias("other"))
    rows = rows.withColumn("found", F.coalesce("fast", "other"))
    rows = rows.withColumn("format", F.when(~slow, canonical.FORMAT.name).otherwise(F.col("format")))
    return _finished(rows, SNAPSHOT, "no-metrics", metrics=_metrics, topics=_topics)


def decode_logs(raw: DataFrame, settings: Settings, now: Column | None = None) -> DataFrame:
    """Raw records → one row per log record, with the fields of LOG and those of `_finished`.

    A line without a time has the time of its Kafka record. `now`: see `decode_metrics`.
    """
    latest_ms = _latest_ms(settings, now)

    rows = _recognised(raw.select(*RAW, _headers().alias("told")), formats("logs"), settings, F.lit(True))
    rows = _decoded(rows, LOG, formats("logs"), settings)
    decoded = F.coalesce("decoded", _failed(LOG))
    rows = opened(rows.select(*RAW, "told", "keyed", "format", F.explode_outer(decoded).alias("found")), "found")
    found = F.col("found")
    timed = found.withField("ts_ms", F.coalesce(found["ts_ms"], F.unix_millis("timestamp")))
    named = timed.withField("client", _identified(found["client"]))
    rows = rows.withColumn("found", F.when(found.isNotNull(), named))
    checked = F.when(found.isNotNull(), found.withField("error", _log_error(found, latest_ms)))
    # The explosion keeps a filter on the error from being computed on its own.
    rows = rows.select(*RAW, "format", F.explode_outer(F.array(checked)).alias("found"))
    return _finished(rows, LOG, "empty")


def accepted(decoded: DataFrame) -> DataFrame:
    """The rows that can be used."""
    return decoded.filter(F.col("error").isNull())


def rejected(decoded: DataFrame) -> DataFrame:
    """The rows that cannot, each with its `error` and its `raw` record."""
    return decoded.filter(F.col("error").isNotNull())


def _value(settings: Settings) -> Column:
    """The value as text, null where it is too large to be read at all."""
    return F.when(F.octet_length("value") <= settings.monitor.max_record_bytes, F.col("value")).cast("string")


def _latest_ms(settings: Settings, now: Column | None) -> Column:
    clock = F.current_timestamp() if now is None else now
    return F.unix_millis(clock) + settings.monitor.future_seconds * 1000


def _header(name: Column) -> Column:
    found = F.filter("headers", lambda h: h["key"] == name)
    return present(F.try_validate_utf8(F.get(found, F.lit(0))["value"].cast("string")))


def _headers() -> Column:
    """map<string,string> of HEADERS; null where the record has no headers."""
    names = F.array(*(F.lit(name) for name in HEADERS))
    return F.when(F.size("headers") > 0, F.map_from_arrays(names, F.transform(names, _header)))


def _is_faultless(parsed: Column, latest_ms: Column) -> Column:
    """Is it a canonical snapshot that needs nothing from elsewhere and has no error? (Never null.)"""
    client, ts = parsed["client"], parsed["ts"]
    complete = client["kind"].isin(*KINDS)
    for name in ("service", "instance", "client_id"):
        complete = complete & (client[name] != "")
    no_headers = F.coalesce(F.size("headers") < 1, F.lit(True))
    told = client["host"].isNotNull() & client["library"].isNotNull() & client["version"].isNotNull()
    ours = told & (F.coalesce(_header(F.lit("format")), F.lit(canonical.FORMAT.name)) == canonical.FORMAT.name)
    speaks = _has_metrics(parsed["metrics"]) | (F.size(parsed["topics"]) > 0) | (client["kind"] == "group")
    whole = parsed[canonical.DOUBTS].isNull()
    good = whole & complete & (ts >= EARLIEST_MS) & (ts <= latest_ms) & parsed["metrics"].isNotNull() & speaks
    return F.coalesce(good & (no_headers | ours), F.lit(False))


def _recognised(rows: DataFrame, among: Sequence[Format], settings: Settings, wanted: Column) -> DataFrame:
    """Adds to the rows that are wanted: `text`, `keyed` (the Kafka key as text), `json_keys` and `format`."""
    text = F.ltrim(F.try_validate_utf8(_value(settings)), F.lit(BLANKS))
    keyed = F.try_validate_utf8(F.col("key").cast("string"))
    rows = rows.withColumns({"text": F.when(wanted, text), "keyed": F.when(wanted, keyed)})
    rows = rows.withColumn("json_keys", F.when(F.col("text").startswith("{"), _json_keys(F.col("text"))))
    return rows.withColumn("format", F.when(F.col("text") != "", _format(_record(settings), among)))


def _record(settings: Settings) -> Record:
    return Record(
        text=F.col("text"),
        key=F.col("keyed"),
        headers=F.col("told"),
        ts_ms=F.unix_millis("timestamp"),
        json_keys=F.col("json_keys"),
        identity=settings.identity,
    )


def _decoded(rows: DataFrame, schema: StructType, among: Sequence[Format], settings: Settings) -> DataFrame:
    """Adds `decoded`: what the record's format decodes it to, null where it cannot."""
    decoders = {fmt: fmt.decode for fmt in among if fmt.bundles is None}
    return _by_format(rows, "decoded", ArrayType(schema), decoders, settings)


def _by_format(
    rows: DataFrame,
    column: str,
    schema: DataType | str,
    values: Mapping[Format, Callable[[Record], Column]],
    settings: Settings,
) -> DataFrame:
    """Adds the column: the value for the record's format, null where it has none.

    One step for each format. Spark makes one of them all, but takes far less time to understand them one by one.
    """
    rows = rows.withColumn(column, F.lit(None).cast(schema))
    for fmt, value in values.items():
        mine = F.when(F.col("format") == fmt.name, value(_record(settings)))
        rows = rows.withColumn(column, mine.otherwise(F.col(column)))
    return rows


def _failed(schema: StructType) -> Column:
    """One element with only an error, for a record that could not be read."""
    wrong = F.when(F.col("format").isNull(), "unknown-format").otherwise("wrong-types")
    error = F.struct(F.coalesce(_unreadable(F.col("text")), wrong).alias("error"))
    return F.from_json(F.to_json(F.array(error)), ArrayType(schema))


def _json_keys(text: Column) -> Column:
    """Top-level names of a JSON object, null where it is none. NaN and Infinity, which JSON does not have, may occur.

    Strict, as a lenient parser gives what it has read of an object that is cut off or broken.
    """
    return F.coalesce(F.json_object_keys(text), F.json_object_keys(F.regexp_replace(text, NOT_FINITE, "$1null")))


def _format(record: Record, among: Sequence[Format]) -> Column:
    """The format's name: as the header says, else the first that recognises the record, else null.

    All formats of metrics are JSON: what is none is of no format, whatever its header says.
    """
    named = record.headers["format"]
    is_json = record.json_keys.isNotNull() | (F.json_array_length(record.text) >= 0)
    may_be = is_json if among[0].stream == "metrics" else F.lit(True)
    found = F.when(named.isin(*(fmt.name for fmt in among)) & may_be, named)
    for fmt in among:
        found = found.when(fmt.recognise(record), fmt.name)
    return F.when(record.text != "", found)


def _unreadable(text: Column) -> Column:
    """What is wrong with the bytes themselves, null where that is nothing. `text`: null where they are no text."""
    is_json = _json_keys(text).isNotNull() | (F.json_array_length(text) >= 0)
    outside = F.regexp_replace(F.regexp_replace(text, r"(?s)\\.", ""), '"[^"]*"', "")
    unclosed = F.regexp_count(outside, F.lit(r"[{\[]")) > F.regexp_count(outside, F.lit(r"[}\]]"))
    return (
        F.when(F.coalesce(F.octet_length("value"), F.lit(0)) == 0, "empty")
        .when(text.isNull() & F.try_validate_utf8(F.col("value").cast("string")).isNotNull(), "oversized")
        .when(text.isNull() | text.rlike(r"[\x00-\x08\x0e-\x1f]"), "binary")
        .when(F.rtrim(text) == "", "empty")
        .when(~text.rlike(r"^[{\[]"), F.lit(None))
        .when(outside.contains('"') | unclosed, "truncated-json")
        .when(is_json, F.lit(None))
        .otherwise("malformed-json")
    )


def _identified(client: Column) -> Column:
    """The client with what it does not say of itself from headers, then from the Kafka key; null where nobody says.

    A kind that we do not know is null.
    """
    parts = F.split("keyed", r"\|", 3)
    in_key = {"service": 0, "instance": 1, "client_id": 2}

    def first(name: str) -> Column:
        said = [present(client[name])]
        if name in HEADERS:
            said.append(F.col("told")[name])
        if name in in_key:
            said.append(F.when(F.size(parts) == 3, present(F.get(parts, F.lit(in_key[name])))))
        return F.coalesce(*said)

    filled = {name: first(name) for name in CLIENT.names}
    kind = F.lower(filled["kind"])
    filled["kind"] = F.when(kind.isin(*KINDS), kind)
    return F.struct(*(value.alias(name) for name, value in filled.items()))


def _named(found: Column) -> Column:
    client = _identified(found["client"])
    return F.struct(*((client if name == "client" else found[name]).alias(name) for name in SNAPSHOT.names))


def _checked_snapshot(found: Column, latest_ms: Column) -> Column:
    client = found["client"]
    is_canonical = F.col("format") == canonical.FORMAT.name
    speaks = (F.to_json(found["metrics"]) != "{}") | (F.size(found["topics"]) > 0) | (client["kind"] == "group")
    error = (
        F.when(found["error"].isNotNull(), found["error"])
        .when(client["client_id"].isNull(), "missing-identity: client_id")
        .when(client["kind"].isNull(), "missing-identity: kind")
        .when(is_canonical & ~F.coalesce(speaks, F.lit(False)), "no-metrics")
        .otherwise(_time_error(found["ts_ms"], latest_ms))
    )
    usual = F.lit(canonical.FORMAT.interval_ms)
    for fmt in formats("metrics"):
        if fmt.interval_ms != canonical.FORMAT.interval_ms:
            usual = F.when(F.col("format") == fmt.name, fmt.interval_ms).otherwise(usual)
    complete = {
        **{name: client[name] for name in CLIENT.names},
        "service": F.coalesce(client["service"], F.lit("")),
        "instance": F.coalesce(client["instance"], client["host"], F.lit("")),
    }
    changed = {
        "client": F.struct(*(value.alias(name) for name, value in complete.items())),
        "interval_ms": interval(found["interval_ms"], usual),
        "delta": F.coalesce(found["delta"], F.lit(False)),
        "error": error,
    }
    return F.struct(*(changed.get(name, found[name]).alias(name) for name in SNAPSHOT.names))


def _log_error(found: Column, latest_ms: Column) -> Column:
    client = found["client"]
    nowhere = F.coalesce(*(client[name] for name in ("service", "host", "instance", "client_id"))).isNull()
    speaks_of_client = found["message"].contains("clientId=") | found["thread"].contains(" | ")
    return (
        F.when(found["error"].isNotNull(), found["error"])
        .when(nowhere & ~F.coalesce(speaks_of_client, F.lit(False)), "missing-identity")
        .otherwise(_time_error(found["ts_ms"], latest_ms))
    )


def _time_error(ts_ms: Column, latest_ms: Column) -> Column:
    return F.when(F.coalesce(ts_ms, F.lit(0)) < EARLIEST_MS, "missing-timestamp").when(
        ts_ms > latest_ms, "future-timestamp"
    )


def _has_metrics(metrics: Column) -> Column:
    return F.coalesce(*(metrics[name] for name in METRIC_NAMES)).isNotNull()


def _metrics(metrics: Column) -> Column:
    return F.struct(*(known(metrics[name]).alias(name) for name in METRIC_NAMES))


def _topics(topics: Column) -> Column:
    def one(topic: Column) -> Column:
        metrics = topic["metrics"]
        return topic.withField("metrics", F.struct(*(known(metrics[name]).alias(name) for name in TOPIC_METRIC_NAMES)))

    return F.transform(F.filter(topics, lambda topic: topic["topic"].isNotNull()), one)


def _finished(rows: DataFrame, schema: StructType, nothing: str, **cleaned: Callable[[Column], Column]) -> DataFrame:
    """The fields of the schema, and: format, source (topic, partition, offset), ts (event time, null where it cannot
    be used), arrived (the Kafka record's own time), raw (the whole record where there is an error, else null).

    `nothing`: the error of a record that its format found nothing in. `cleaned`: what is still to be done to a field.
    """
    found = F.col("found")
    error = F.when(found.isNull(), nothing).otherwise(found["error"])
    wrong_time = F.coalesce(error.isin("missing-timestamp", "future-timestamp"), F.lit(False))
    usable = found["ts_ms"].between(EARLIEST_MS, LATEST_MS) & ~wrong_time
    fields = {name: cleaned.get(name, _as_is)(found[name]) for name in schema.names}
    fields["error"] = error
    return rows.select(
        *(value.alias(name) for name, value in fields.items()),
        "format",
        F.struct("topic", "partition", "offset").alias("source"),
        F.when(usable, F.timestamp_millis(found["ts_ms"])).alias("ts"),
        F.col("timestamp").alias("arrived"),
        F.when(error.isNotNull(), F.struct(*RAW)).alias("raw"),
    )


def _as_is(value: Column) -> Column:
    return value
