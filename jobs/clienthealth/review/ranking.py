"""Rank clients and topics, the worst first, and list new and vanished clients.

Each function runs few queries, because a review spends most of its time on the planning of queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from clienthealth.model.values import grouped
from clienthealth.modes.advisories import advised
from clienthealth.review import client_minutes
from clienthealth.review.model import ClientRow, Fleet, FleetRow, KnownBugs, TopicRow, Upgrade, of_row
from clienthealth.spark.history import CLIENT_KEY

TOP = 5
LISTED = 20
#: VERSIONS: maximum number of library versions that are read, because clients can report any number of versions.
VERSIONS = 5_000

RANKINGS = ("unhealthy", "buffer", "queue", "lag")


def clients_per_service(per_client: DataFrame, reviewed: int) -> dict[str, int]:
    """Return the number of clients of each service. The same client id in two processes counts as two clients.

    `per_client`: the result of `client_minutes.clients`. `reviewed`: the value of the column `period` for the reviewed
    period.
    """
    rows = (
        per_client.filter(F.col("period") == reviewed)
        .groupBy("service")
        .agg(F.count_distinct("instance", "client_id").alias("clients"))
        .collect()
    )
    return {row["service"] or "": row["clients"] for row in rows}


def listed_clients(per_client: DataFrame, lag: DataFrame, reviewed: int) -> Mapping[str, Sequence[ClientRow]]:
    """Return, for each ranking ("unhealthy", "buffer", "queue", "lag"), at most five clients (TOP), the worst first.

    A client is ranked by its unhealthy minutes, the peak use of its buffer or queue (0 to 1), or its lag (records).
    """
    behind = client_minutes.lag_per_client(lag, reviewed).withColumnRenamed("records", "lag")
    peaks = (
        per_client.filter(F.col("period") == reviewed)
        .groupBy(*CLIENT_KEY)
        .agg(
            F.sum(F.col("suspected") + F.col("confirmed")).alias("unhealthy"),
            F.max("buffer").alias("buffer"),
            F.max("queue").alias("queue"),
            F.max_by("queue_topic", F.struct("queue", "queue_topic")).alias("queue_topic"),
        )
    )
    entries = F.array(_entry("unhealthy"), _entry("buffer"), _entry("queue", "queue_topic"))
    ranked_by_peak = peaks.select(*CLIENT_KEY, F.explode(entries).alias("entry"))
    every = ranked_by_peak.unionByName(behind.select(*CLIENT_KEY, _entry("lag", "topic", "seconds").alias("entry")))
    rows = every.select(*CLIENT_KEY, "entry.*").filter("value > 0")
    ranked: dict[str, list[ClientRow]] = {what: [] for what in RANKINGS}
    for row in _first(rows, "what", "value", TOP, *CLIENT_KEY):
        value = row["value"] if row["what"] in ("buffer", "queue") else int(row["value"])
        ranked[row["what"]].append(of_row(ClientRow, row.asDict(), value=value))
    return ranked


def _entry(what: str, topic: str | None = None, seconds: str | None = None) -> Column:
    return F.struct(
        F.lit(what).alias("what"),
        F.col(what).cast("double").alias("value"),
        (F.col(topic) if topic else F.lit(None)).cast("string").alias("topic"),
        (F.col(seconds) if seconds else F.lit(None)).cast("double").alias("seconds"),
    )


def _first(rows: DataFrame, kind: str, highest: str, most: int, *ties: str) -> list[Row]:
    """Return, for each value of the column `kind`, the rows with the highest values in the column `highest`.

    `most`: maximum number of rows for each value of `kind`. `ties`: columns that order rows with equal values.
    """
    order = Window.partitionBy(kind).orderBy(F.desc(highest), *ties)
    return (
        rows.withColumn("rank", F.row_number().over(order))
        .filter(F.col("rank") <= most)
        .orderBy(kind, "rank")
        .collect()
    )


def top_topics(
    per_client: DataFrame, lag: DataFrame, incidents: DataFrame, reviewed: int
) -> Mapping[str, Sequence[TopicRow]]:
    """Return, for each ranking ("unhealthy", "queue", "lag"), at most five topics (TOP), the worst first.

    `unhealthy`  ranked by the minutes of all `incidents` that name the topic
    `queue`      ranked by the peak of the topic's fullest queue (0 to 1)
    `lag`        ranked by the greatest lag on the topic (records)
    """
    in_reviewed = F.col("period") == reviewed
    sources = (
        incidents.select(*CLIENT_KEY, F.lit("unhealthy").alias("what"), "topic", F.col("seconds").alias("value")),
        per_client.filter(in_reviewed).select(*CLIENT_KEY, F.lit("queue"), "queue_topic", "queue"),
        lag.filter(in_reviewed).select(*CLIENT_KEY, F.lit("lag"), "lag_topic", "records"),
    )
    rows = (
        reduce(DataFrame.union, sources)
        .filter("topic is not null and value > 0")
        .groupBy("what", "topic")
        .agg(F.sum("value").alias("sum"), F.max("value").alias("max"), F.count_distinct(*CLIENT_KEY).alias("clients"))
        .withColumn("value", F.when(F.col("what") == "unhealthy", F.floor(F.col("sum") / 60)).otherwise(F.col("max")))
    )
    ranked: dict[str, list[TopicRow]] = {"unhealthy": [], "queue": [], "lag": []}
    for row in _first(rows, "what", "value", TOP, "topic"):
        value = row["value"] if row["what"] == "queue" else int(row["value"])
        ranked[row["what"]].append(of_row(TopicRow, row.asDict(), value=value))
    return ranked


def fleet(per_client: DataFrame, reviewed: int) -> Fleet:
    """Return new and vanished client ids by service, and library versions that changed or have known bugs.

    A client that restarts with another process id does not count as new.
    """
    in_reviewed, before = F.col("period") == reviewed, F.col("period") == reviewed - 1
    named = (
        per_client.groupBy("service", "client_id")
        .agg(
            F.max("kind").alias("kind"),
            F.count_distinct(F.when(in_reviewed, F.coalesce("instance", F.lit("")))).alias("now"),
            F.count_distinct(F.when(before, F.coalesce("instance", F.lit("")))).alias("before"),
        )
        .filter("(now = 0) <> (before = 0)")
        .withColumn("new", F.col("now") > 0)
        .withColumn("instances", F.greatest("now", "before"))
        .withColumn("count", F.count("*").over(Window.partitionBy("new")))
    )
    changed = _first(named, "new", "instances", LISTED, "service", "client_id")
    lists = grouped(changed, lambda row: row["new"])
    new, vanished = (tuple(of_row(FleetRow, row.asDict()) for row in lists[is_new]) for is_new in (True, False))
    counts = Counter({row["new"]: row["count"] for row in changed})
    return Fleet(new, counts[True], vanished, counts[False], *_versions(per_client, reviewed))


def _versions(per_client: DataFrame, reviewed: int) -> tuple[tuple[Upgrade, ...], tuple[KnownBugs, ...]]:
    """Return (library upgrades, groups of clients with known bugs). The largest group comes first."""
    is_now, is_before = F.col("period") == reviewed, F.col("period") == reviewed - 1
    rows = (
        per_client.filter("version is not null")
        .groupBy("service", "library", "kind", "version")
        .agg(
            F.count_distinct(F.when(is_now, F.struct("instance", "client_id"))).alias("now"),
            F.max(is_before).alias("before"),
        )
        .orderBy(F.desc("now"), "service", "library", "kind", "version")
        .limit(VERSIONS)
        .collect()
    )
    ran: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    bugs = []
    for row in rows:
        service, library, version = row["service"] or "", row["library"] or "", row["version"]
        before, now = ran.setdefault((service, library), (set(), set()))
        before |= {version} if row["before"] else set()
        now |= {version} if row["now"] else set()
        advice = advised(library, version, row["kind"])
        if row["now"] and advice.bugs:
            bugs.append(KnownBugs(service, library, version, row["now"], tuple(advice.bugs), advice.upgrade_to))
    upgrades = [
        Upgrade(*of, tuple(sorted(before)), tuple(sorted(now)))
        for of, (before, now) in sorted(ran.items())
        if before and now and before != now
    ]
    return tuple(upgrades[:LISTED]), tuple(bugs)
