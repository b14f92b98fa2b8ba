"""The weekly review of a large fleet: size of the history on disk, time to maintain it and to review a week of it.

The history is generated natively: one row per client and minute, a producer in three of four clients, a consumer
group in fifty, one incident in about 1,000 client-hours, and its verdict changes. Run as `make bench`, or
`python -m tests.bench.bench_review [clients] [days]` (default 1,000 clients, 28 days: what a review of a week reads).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clienthealth.review.period import WEEK, Period
from clienthealth.review.queries import build
from clienthealth.settings import Settings
from clienthealth.streaming import history
from clienthealth.streaming.maintenance import maintain
from clienthealth.streaming.session import session
from tests.support.generated_history import minute_rows, quality_rows

CLIENTS, DAYS = 1_000, 28
END = datetime(2026, 11, 16, tzinfo=UTC)
#: Client-hours per incident; an incident lasts the first ten minutes of its hour.
RARITY = 1_000
MODES = ("producer-callback-deadlock", "send-blocked-on-metadata", "producer-not-closed")


def main(clients: int, days: int) -> None:
    """Generate, maintain, review; print what each took."""
    spark = session("bench-review", Settings(), batch=True)
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="bench-review-") as folder:
        history.create(spark, folder)
        rows = clients * days * 1440
        print(f"{clients:,} clients, {days} days: {rows:,} client-minutes")
        timed("generate", lambda: generate(spark, folder, clients, days))
        for done in timed("maintain", lambda: list(maintain(spark, folder, 400, END.date()))):
            print(f"  {done.table}: {done.files} files, {done.bytes / 1e6:,.1f} MB")
        week = Period(END - WEEK, END)
        for attempt in ("review", "review again"):
            found = timed(attempt, lambda: build(spark, Settings(), week, Path(folder) / "none.toml", folder))
        print(found.headline[0])
    spark.stop()


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Run it and print how long it took."""
    start = time.monotonic()
    found = work()
    print(f"  {what}: {time.monotonic() - start:.1f} s", flush=True)
    return found


def generate(spark: SparkSession, root: str, clients: int, days: int) -> None:
    """One append per day, as a monitor that has been maintained would have left it."""
    who = fleet(spark, clients)
    for day in range(days):
        start = END - timedelta(days=days - day)
        history.append(minute_rows(who, start, 1440, measured()), root, "minutes", "bench", day)
        quality = quality_rows(spark, start, 1440, "client-metrics", clients * 6, 0, 0)
        history.append(quality, root, "quality", "bench", day)
        history.append(verdicts(spark, who, start), root, "verdicts", "bench", day)


def fleet(spark: SparkSession, clients: int) -> DataFrame:
    """Clients of 40 services on hosts of 10, with their number `n`."""
    n = F.col("n")
    pod = F.format_string("pod-%05d", F.floor(n / 10))
    kind = F.when(n % 50 == 0, "group").when(n % 4 == 0, "consumer").otherwise("producer")
    return (
        spark.range(clients)
        .withColumnRenamed("id", "n")
        .select(
            "n",
            F.format_string("service-%02d", n % 40).alias("service"),
            pod.alias("host"),
            F.concat(pod, F.lit(":1")).alias("instance"),
            F.format_string("client-%05d", n).alias("client_id"),
            kind.alias("kind"),
            F.when(kind != "producer", F.format_string("group-%03d", n % 500)).alias("group"),
            F.lit("java").alias("library"),
            F.lit("3.9.1").alias("version"),
        )
    )


def _ill() -> tuple[Column, Column]:
    """Whether a client has an incident in the hour of `minute`, and which mode."""
    hour = F.xxhash64("n", F.date_trunc("hour", "minute"))
    ill = (F.pmod(hour, F.lit(RARITY)) == 0) & (F.col("kind") != "group")
    mode = F.element_at(F.array(*map(F.lit, MODES)), (F.pmod(hour, F.lit(len(MODES))) + 1).cast("int"))
    return ill, mode


def measured() -> dict[str, Column]:
    """Statuses, and measurements that differ from row to row as real ones do."""
    ill, mode = _ill()
    now = ill & (F.minute("minute") < 10)
    noise = F.pmod(F.xxhash64("n", "minute"), F.lit(10_000)) / 10_000
    producer, group = F.col("kind") == "producer", F.col("kind") == "group"
    return {
        "status": F.when(group, "unknown").when(now, "confirmed").otherwise("ok"),
        "modes": F.when(now, F.array(F.struct(mode.alias("mode"), F.lit("confirmed").alias("status")))).otherwise(
            F.array().cast("array<struct<mode:string,status:string>>")
        ),
        "buffer_used_ratio_max": F.when(producer, noise * noise),
        "callback_seconds_avg": F.when(producer, noise / 100),
        "callback_source": F.when(producer, "derived"),
        "lag_records": F.when(group, (noise * 5_000).cast("long")),
        "lag_seconds": F.when(group, noise * 10),
        "lag_topic": F.when(group, "orders"),
        "lag_state": F.when(group, "OK"),
    }


def verdicts(spark: SparkSession, who: DataFrame, start: datetime, days: int = 1) -> DataFrame:
    """Opened at the hour, closed ten minutes later."""
    ill, mode = _ill()
    hours = spark.range(24 * days).select(
        F.timestamp_seconds(F.col("id") * 3600 + int(start.timestamp())).alias("minute")
    )
    found = who.crossJoin(hours).filter(ill).withColumn("mode", mode)
    change = F.explode(F.array(F.lit("opened"), F.lit("closed"))).alias("change")
    changes = found.select("*", change)
    opened = F.col("change") == "opened"
    evidence = '[{"kind": "metric", "ts": 1, "text": "select-total stood at 10213 for 40 s", "source": null}]'
    values = {
        "schema_version": F.lit(history.SCHEMA_VERSION),
        "day": F.to_date("minute"),
        "ts": F.when(opened, F.col("minute")).otherwise(F.col("minute") + F.expr("interval 10 minutes")),
        "observed": F.col("minute")
        + F.when(opened, F.expr("interval 40 seconds")).otherwise(F.expr("interval 11 minutes")),
        "since": F.col("minute"),
        "status": F.when(opened, "confirmed").otherwise("ok"),
        "previous": F.when(opened, "ok").otherwise("confirmed"),
        "detail": F.format_string('{"cause": "cause-%d"}', F.col("n") % 3),
        "evidence": F.lit(evidence),
        "change": F.col("change"),
        "mode": F.col("mode"),
        "reason": F.lit(None),
    }
    given = {**{name: F.col(name) for name in who.columns}, **values}
    return changes.select(*(given[name].alias(name) for name in history.VERDICTS.names))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    main(*(given + [CLIENTS, DAYS][len(given) :]))
