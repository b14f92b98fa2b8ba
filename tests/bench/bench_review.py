"""The weekly review, with its trend of four weeks, of a large fleet: size of the history, time and memory.

    python -m tests.bench.bench_review [clients] [days]     (1,000 clients, 28 days: what a review of a week reads)

One row per client and minute, a producer in three of four clients, a consumer group in fifty, one incident in about
1,000 client-hours, and its verdict changes. The newest day is made by Spark, the others are copies of it with times
of their own. Days before those that a review reads are the newest day's files under other names: they are there to
be left alone (a test in tests/spark sees that they are). `10000 28` and `2000 365` are the sizes on the review's page.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
#: What a review of a week with its trend reads.
READ_DAYS = 28
#: Of a day, as `kafka-health maintain` leaves it.
FILES = 1
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
        print(f"{clients:,} clients, {days} days: {clients * days * 1440:,} client-minutes", flush=True)
        timed("generate", lambda: generate(spark, folder, clients, days))
        for done in timed("maintain", lambda: list(maintain(spark, folder, 400, END.date()))):
            print(f"  {done.table}: {done.files} files, {done.bytes / 1e6:,.1f} MB")
        week = Period(END - WEEK, END)
        for attempt in ("review", "review again"):
            review = timed(attempt, lambda: build(spark, Settings(), week, Path(folder) / "none.toml", folder))
        print(review.headline[0])
    spark.stop()


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Run it; print how long it took, the processor time of it and its JVM, and the most memory either had so far."""
    start, busy = time.monotonic(), cpu_seconds()
    result = work()
    seconds, cpu = time.monotonic() - start, cpu_seconds() - busy
    print(f"  {what}: {seconds:.1f} s, {cpu:.1f} s of CPU, peak {peak_mb():,.0f} MB", flush=True)
    return result


def generate(spark: SparkSession, root: str, clients: int, days: int) -> None:
    """As a monitor that has been maintained would have left it."""
    start, first = END - timedelta(days=1), END - timedelta(days=min(days, READ_DAYS))
    who = fleet(spark, clients)
    # A monitor writes minute by minute, each in an order of its own.
    rows = minute_rows(who, start, 1440, measured()).repartition(FILES)
    rows = rows.sortWithinPartitions("minute", F.xxhash64("minute", "instance", "client_id"))
    history.append(rows, root, "minutes", history.Origin("bench", 0))
    history.append(verdicts(spark, who, END - timedelta(days=days), days), root, "verdicts", history.Origin("bench", 0))
    minutes = (END - first) // timedelta(minutes=1)
    quality = quality_rows(spark, first, minutes, "client-metrics", clients * 6, 0, 0)
    history.append(quality, root, "quality", history.Origin("bench", 0))
    table = Path(root, "minutes")
    (newest,) = table.glob("day=*")
    work = [(source, back) for back in range(1, days) for source in sorted(newest.glob("*.parquet"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        adds = list(pool.map(lambda one: _copied(table, *one), work))
    version = len(list((table / "_delta_log").glob("*.json")))
    text = "\n".join(json.dumps({"add": add}) for add in adds)
    (table / "_delta_log" / f"{version:020}.json").write_text(text + "\n", "utf-8")


def _copied(table: Path, source: Path, back: int) -> dict[str, Any]:
    """A file of the newest day as one of so many days before it; what Delta's log says of it."""
    day = (END - timedelta(days=1 + back)).date().isoformat()
    target = table / f"day={day}" / f"copy-{source.name}"
    target.parent.mkdir(exist_ok=True)
    if back < READ_DAYS:
        rows = pq.read_table(source, read_dictionary=["service", "host", "instance", "client_id"], partitioning=None)
        column, field = rows.schema.get_field_index("minute"), rows.schema.field("minute")
        earlier = pc.subtract(rows.column("minute"), pa.scalar(timedelta(days=back))).cast(field.type)
        pq.write_table(rows.set_column(column, field, earlier), target, use_deprecated_int96_timestamps=True)
    else:
        os.link(source, target)
    return {
        "path": str(target.relative_to(table)),
        "partitionValues": {"day": day},
        "size": target.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": pq.ParquetFile(source).metadata.num_rows}),
    }


def _processes() -> list[Path]:
    """This process and its children, of which one is Spark's JVM."""
    own = os.getpid()
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text("ascii").rpartition(") ")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if own in (parent, int(path.name)):
            processes.append(path)
    return processes


def cpu_seconds() -> float:
    """Processor time of this process and its children."""
    fields = [(path / "stat").read_text("ascii").rpartition(") ")[2].split() for path in _processes()]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def peak_mb() -> float:
    """The most memory that the largest of them had."""
    lines = [line for path in _processes() for line in (path / "status").read_text("ascii").splitlines()]
    return max(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


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
    rows = who.crossJoin(hours).filter(ill).withColumn("mode", mode)
    change = F.explode(F.array(F.lit("opened"), F.lit("closed"))).alias("change")
    changes = rows.select("*", change)
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
