"""From snapshots and log events to windows of readings, one row per client and window.

The one stateful step is a native sliding window that collects what the clients of a process reported
(`process_windows`). Grouping by process and not by client lets log lines and thread dumps, which often name only
the process, meet the metrics of its clients. All else (`client_windows`) is computed per row, without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clienthealth.formats import TOPIC_METRIC_NAMES
from clienthealth.logs.dumps import DUMP_LINE, dump_lines, line_sample, rejoin
from clienthealth.logs.signatures import SIGNATURES
from clienthealth.records import CLIENT_METRICS, CONFIG_OPTIONS
from clienthealth.settings import MonitorSettings

#: Events of one signature, client and thread within this time count as one, so that a storm stays bounded.
SAMPLING_MS = 100
#: The column that holds the known values of metrics, by name.
SERIES = "series"


def observations(snapshots: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
    """Snapshots of clients (`decode.accepted`) as rows of ts, service, place and reading.

    `place` is where the process runs: its host, or its instance where no host is known. The metrics shrink to an
    array in the order of CLIENT_METRICS of the client's kind: state costs what it holds. `keep`: further columns.
    """
    client, metrics = F.col("client"), F.col("metrics")
    values = F.lit(None).cast("array<double>")
    for kind, names in CLIENT_METRICS.items():
        values = F.when(client["kind"] == kind, F.array(*(metrics[name] for name in names))).otherwise(values)
    topics = F.when(
        F.size("topics") > 0,
        F.transform(
            "topics",
            lambda t: F.struct(
                t["topic"].alias("topic"),
                t["partition"].alias("partition"),
                t["thread"].alias("thread"),
                F.array(*(t["metrics"][name] for name in TOPIC_METRIC_NAMES)).alias("values"),
            ),
        ),
    )
    config = F.when(F.size("config") > 0, F.array(*(F.col("config")[option] for option in CONFIG_OPTIONS)))
    reading = F.struct(
        F.col("ts_ms"),
        F.coalesce(F.nullif(client["instance"], F.lit("")), client["host"]).alias("instance"),
        client["client_id"].alias("client_id"),
        client["kind"].alias("kind"),
        client["library"].alias("library"),
        client["version"].alias("version"),
        client["group"].alias("group"),
        F.col("delta"),
        values.alias("values"),
        topics.alias("topics"),
        config.alias("config"),
        F.col("source"),
    )
    return snapshots.select("ts", *process(client), reading.alias("reading"), *keep)


def thinned(events: DataFrame, streaming: bool) -> DataFrame:
    """Log events and dumps as rows of ts, service, place, event and dump, storms thinned out.

    At most one event per signature, client, thread and SAMPLING_MS is kept: 100,000 lines a second of one
    process cost as much state as ten. A thread dump is always kept.
    """
    event = F.col("event")
    sample = F.when(
        event.isNotNull(),
        F.concat_ws(
            "|",
            event["signature"],
            event["client_id"],
            event["thread"],
            F.when(event["signature"] == DUMP_LINE, line_sample(event)).otherwise(
                F.floor(event["ts_ms"] / SAMPLING_MS).cast("string")
            ),
        ),
    ).otherwise(F.concat_ws("|", *(F.col(f"dump.source.{part}") for part in ("topic", "partition", "offset"))))
    instance = F.nullif(F.col("client.instance"), F.lit(""))
    rows = events.select(
        "ts",
        *process(F.col("client")),
        F.when(event.isNotNull(), event.withField("instance", instance)).alias("event"),
        F.when(F.col("dump").isNotNull(), F.col("dump").withField("instance", instance)).alias("dump"),
        sample.alias("sample"),
    )
    keys = ["service", "place", "sample"]
    return (rows.dropDuplicatesWithinWatermark(keys) if streaming else rows.dropDuplicates(keys)).drop("sample")


def process(client: Column) -> tuple[Column, Column]:
    """The columns service and place of the process that a client is in: its host, or its instance without one."""
    service, host, instance = (F.nullif(client[name], F.lit("")) for name in ("service", "host", "instance"))
    return F.coalesce(service, F.lit("")).alias("service"), F.coalesce(host, instance, F.lit("")).alias("place")


def process_windows(rows: DataFrame, settings: MonitorSettings) -> DataFrame:
    """Rows of ts, service, place, reading, event, dump → what each process said in each sliding window."""
    window = F.window("ts", f"{settings.window_seconds} seconds", f"{settings.slide_seconds} seconds")
    return rows.groupBy("service", "place", window.alias("window")).agg(
        F.collect_list("reading").alias("readings"),
        F.collect_list("event").alias("events"),
        F.collect_list("dump").alias("dumps"),
    )


def client_windows(windows: DataFrame) -> DataFrame:
    """Process windows → one row per client: client, start_ms, end_ms, readings, events, dumps, config.

    A client is what has readings, or what a log line or the name of a thread speaks of. Events that name no client
    go to all clients of the process of the kind that they speak of; where there is none, the process itself stands
    for it, with an empty client_id.
    """
    kinds = F.create_map(*(F.lit(part) for s in SIGNATURES if s.kind for part in (s.id, s.kind)))
    place = F.col("place")
    lines = F.filter("events", lambda e: e["signature"] == DUMP_LINE)
    whole = windows.withColumns({"lines": lines, "events": F.filter("events", lambda e: e["signature"] != DUMP_LINE)})
    rejoined = F.transform(
        rejoin(dump_lines(F.col("lines"))),
        lambda d: d.withField("instance", F.get("lines", F.lit(0))["instance"]),
    )
    whole = whole.withColumn(
        "dumps", F.when(F.size("lines") > 0, F.concat("dumps", rejoined)).otherwise(F.col("dumps"))
    )
    named = whole.withColumn(
        "events",
        F.transform("events", lambda e: e.withField("kind", F.try_element_at(kinds, e["signature"]))),
    )
    reporting = F.array_distinct(F.transform("readings", lambda r: _identity(r["instance"], r["client_id"], r["kind"])))
    named = named.withColumn("reporting", reporting)
    spoken_of = F.transform(
        F.filter(
            F.concat(
                F.transform("events", lambda e: _identity(F.coalesce(e["instance"], place), e["client_id"], e["kind"])),
                F.flatten(F.transform("dumps", lambda d: _threads_clients(d, place))),
            ),
            lambda e: (
                e["kind"].isNotNull()
                & ~F.exists(
                    F.col("reporting"),
                    lambda c: (
                        F.coalesce(e["client_id"] == c["client_id"], F.lit(True))
                        & F.coalesce(e["kind"] == c["kind"], F.lit(True))
                    ),
                )
            ),
        ),
        lambda e: e.withField("client_id", F.coalesce(e["client_id"], F.lit(""))),
    )
    rows = named.withColumn("who", F.explode(F.array_distinct(F.concat("reporting", spoken_of))))
    who = F.col("who")
    mine = F.when((F.size("reporting") == 1) & F.array_contains("reporting", who), F.col("readings")).otherwise(
        F.filter(
            "readings",
            lambda r: (
                (r["client_id"] == who["client_id"])
                & (r["instance"] == who["instance"])
                & r["kind"].eqNullSafe(who["kind"])
            ),
        )
    )
    # A process whose instance the logs write otherwise than the metrics do is still the same process.
    foreign = F.transform("reporting", lambda c: c["instance"])
    about_me = F.filter(
        "events",
        lambda e: (
            F.coalesce(e["client_id"] == who["client_id"], F.lit(True))
            & F.coalesce(e["kind"] == who["kind"], F.lit(True))
            & _same_process(e["instance"], who["instance"], foreign)
        ),
    )
    dumps = F.filter("dumps", lambda d: _same_process(d["instance"], who["instance"], foreign))
    rows = rows.select(
        "service",
        "place",
        who,
        F.unix_millis(F.col("window.start")).alias("start_ms"),
        F.unix_millis(F.col("window.end")).alias("end_ms"),
        F.array_sort(mine).alias("readings"),
        _in_order(about_me).alias("events"),
        _in_order(dumps).alias("dumps"),
    )
    rows = _running_totals(_one_per_instant(rows))
    last = F.try_element_at("readings", F.lit(-1))
    kind = F.coalesce(F.col("who.kind"), F.try_element_at("events", F.lit(1))["kind"])
    client = F.struct(
        F.col("service"),
        F.col("place").alias("host"),
        F.col("who.instance").alias("instance"),
        F.col("who.client_id").alias("client_id"),
        kind.alias("kind"),
        last["library"].alias("library"),
        last["version"].alias("version"),
        last["group"].alias("group"),
    )
    config = F.try_element_at(F.filter("readings", lambda r: r["config"].isNotNull()), F.lit(-1))["config"]
    return rows.select(
        client.alias("client"),
        "start_ms",
        "end_ms",
        "readings",
        "events",
        "dumps",
        config.alias("config"),
    )


def _identity(instance: Column, client_id: Column, kind: Column) -> Column:
    return F.struct(instance.alias("instance"), client_id.alias("client_id"), kind.alias("kind"))


def _threads_clients(dump: Column, place: Column) -> Column:
    """The producers that the network threads of a dump are named after."""
    prefix = "kafka-producer-network-thread | "
    names = F.filter(F.transform(dump["threads"], lambda t: t["name"]), lambda n: n.startswith(prefix))
    return F.transform(
        names,
        lambda n: _identity(
            F.coalesce(dump["instance"], place), F.substring(n, len(prefix) + 1, 1000), F.lit("producer")
        ),
    )


def _same_process(theirs: Column, mine: Column, known: Column) -> Column:
    return theirs.isNull() | (theirs == mine) | ~F.array_contains(known, theirs)


def _in_order(things: Column) -> Column:
    return F.array_sort(things, lambda a, b: F.signum(a["ts_ms"] - b["ts_ms"]).cast("int"))


def _one_per_instant(rows: DataFrame) -> DataFrame:
    """Readings of the same millisecond made one: some formats bring one metric per record, some bring one twice."""
    readings = F.col("readings")

    def merged(ts: Column) -> Column:
        same = F.filter(readings, lambda r: r["ts_ms"] == ts)
        values = F.aggregate(
            same,
            F.element_at(same, 1)["values"],
            lambda acc, r: F.zip_with(acc, r["values"], lambda old, new: F.coalesce(old, new)),
        )
        topics = F.array_distinct(
            F.flatten(F.filter(F.transform(same, lambda r: r["topics"]), lambda t: t.isNotNull()))
        )
        return F.element_at(same, 1).withField("values", values).withField("topics", F.when(F.size(topics) > 0, topics))

    rows = rows.withColumn("times", F.array_distinct(F.transform(readings, lambda r: r["ts_ms"])))
    single = F.when(F.size("times") == F.size(readings), readings).otherwise(F.transform("times", merged))
    return rows.withColumn("readings", single).drop("times")


def _running_totals(rows: DataFrame) -> DataFrame:
    """Delta totals (OTLP temporality 1) as cumulative ones, counted from the window's first reading."""
    readings = F.col("readings")
    is_total = F.lit(None).cast("array<boolean>")
    for kind, metrics in CLIENT_METRICS.items():
        flags = F.array(*(F.lit(metric.endswith("-total")) for metric in metrics))
        is_total = F.when(F.col("who.kind") == kind, flags).otherwise(is_total)

    def summed(upto: Column, position: Column) -> Column:
        known = F.filter(
            F.transform(F.slice(readings, 1, upto + 1), lambda r: F.get(r["values"], position)),
            lambda v: v.isNotNull(),
        )
        return F.aggregate(known, F.lit(0.0), lambda acc, v: acc + v)

    added_up = F.transform(
        readings,
        lambda r, i: r.withField(
            "values",
            F.transform(
                r["values"],
                lambda v, j: F.when(F.get(is_total, j) & v.isNotNull(), summed(i, j)).otherwise(v),
            ),
        ),
    )
    any_delta = F.exists(readings, lambda r: F.coalesce(r["delta"], F.lit(False)))
    return rows.withColumn("readings", F.when(any_delta, added_up).otherwise(readings))


class WindowColumns:
    """Expressions over a row of `client_windows`, for indicators and for the filters of the failure modes.

    Every method gives a Column. What is not known is null; yes-or-no answers are never null. Known values are taken
    out of the readings once, whoever asks for them: `with_series` adds the column that they are read from.
    """

    def __init__(self) -> None:
        self._series: dict[str, Column] = {}

    def with_series(self, windows: DataFrame) -> DataFrame:
        """The rows with what the expressions made so far read from them."""
        series = (values.alias(name) for name, values in sorted(self._series.items()))
        return windows.withColumn(SERIES, F.struct(*series)) if self._series else windows

    @property
    def readings(self) -> Column:
        """The readings, in order of time."""
        return F.col("readings")

    @property
    def kind(self) -> Column:
        """The client's kind (string)."""
        return F.col("client.kind")

    @property
    def samples(self) -> Column:
        """The number of readings in the window."""
        return F.size("readings")

    def _by_kind(self, name: str, of: Callable[[Column], Column], otherwise: Column) -> Column:
        """`of` the metric's position in a reading's values, which depends on the kind of the client."""
        found = otherwise
        for kind, names in CLIENT_METRICS.items():
            if name in names:
                found = F.when(self.kind == kind, of(F.lit(list(names).index(name)))).otherwise(found)
        return found

    def values(self, name: str) -> Column:
        """The metric over the readings, in order of time (array<double>, null where unknown)."""
        unknown = F.array_repeat(F.lit(None).cast("double"), F.size("readings"))
        return self._by_kind(
            name, lambda position: F.transform("readings", lambda r: F.get(r["values"], position)), unknown
        )

    def known_values(self, name: str) -> Column:
        """`values` without the unknown ones."""
        if name not in self._series:
            self._series[name] = F.filter(self.values(name), lambda v: v.isNotNull())
        return F.col(SERIES)[name]

    def first(self, name: str) -> Column:
        """The metric's first known value."""
        return F.try_element_at(self.known_values(name), F.lit(1))

    def last(self, name: str) -> Column:
        """The metric's last known value."""
        return F.try_element_at(self.known_values(name), F.lit(-1))

    def min(self, name: str) -> Column:
        """The smallest value."""
        return F.array_min(self.known_values(name))

    def max(self, name: str) -> Column:
        """The largest value."""
        return F.array_max(self.known_values(name))

    def known(self, name: str) -> Column:
        """Does any reading have the metric?"""
        return self._by_kind(
            name,
            lambda position: F.exists("readings", lambda r: F.get(r["values"], position).isNotNull()),
            F.lit(False),
        )

    def stood_still(self, name: str) -> Column:
        """Are two consecutive known values equal?"""
        values = self.known_values(name)
        pairs = F.zip_with(F.slice(values, 2, 1_000_000), values, lambda later, earlier: later == earlier)
        return F.exists(pairs, lambda same: F.coalesce(same, F.lit(False)))

    def config(self, option: str) -> Column:
        """An option of the client's configuration (string)."""
        return F.get("config", F.lit(CONFIG_OPTIONS.index(option)))

    def has_event(self, *signatures: str) -> Column:
        """Is there a log line with one of these signatures?"""
        wanted: Sequence[str] = signatures
        return F.exists("events", lambda e: e["signature"].isin(*wanted))

    def has_dump(self) -> Column:
        """Is there a thread dump?"""
        return F.size("dumps") > 0

    def has_frame(self, *substrings: str) -> Column:
        """Has any thread of any dump a name or a frame that contains one of these texts?"""

        def mentions(text: Column) -> Column:
            found = F.lit(False)
            for part in substrings:
                found = found | text.contains(part)
            return found

        return F.exists(
            "dumps",
            lambda d: F.exists(d["threads"], lambda t: mentions(t["name"]) | F.exists(t["frames"], mentions)),
        )

    def has_topics(self) -> Column:
        """Does any reading speak of single topics?"""
        return F.exists("readings", lambda r: F.coalesce(F.size(r["topics"]) > 0, F.lit(False)))

    def topic_max(self, name: str) -> Column:
        """The metric's largest value over all topics of the last reading."""
        position = F.lit(TOPIC_METRIC_NAMES.index(name))
        topics = F.try_element_at("readings", F.lit(-1))["topics"]
        return F.array_max(F.transform(topics, lambda t: F.get(t["values"], position)))
