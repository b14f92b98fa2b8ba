"""The history: three Delta tables, partitioned by day, from which the reviews are made. All times are UTC.

`minutes`   one final row per client and minute
`verdicts`  one row per change of an incident
`quality`   counts of the monitor's input; in a minute without a row, the monitor read nothing

Each commit to a table names the query and the batch, so that a repeated batch is recognised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructType, TimestampType
from pyspark.sql.window import Window

from clienthealth.model import tables
from clienthealth.model.clients import Client
from clienthealth.model.errors import InputError, SettingsError
from clienthealth.model.health_record import verdict_from_json
from clienthealth.model.verdicts import UNHEALTHY
from clienthealth.monitor.incidents import OpenIncident
from clienthealth.platform.locations import inside, on_s3
from clienthealth.spark.files import Files, first_line
from clienthealth.spark.session import Together, configured

if TYPE_CHECKING:
    from clienthealth.spark.stepping import Quality

SCHEMA_VERSION = 1
VERSION_PROPERTY = "kafka-client-health.schema-version"
#: At each commit, Delta lists all files of its log. To keep the list short, the log is kept for one day instead of 30
#: days (Delta's default). Delta stores the minimum and maximum of the first four columns, among them the event time,
#: but not of the other columns.
KEPT = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 1 days")
KEPT["delta.dataSkippingNumIndexedCols"] = "4"


def _schema(columns: Mapping[str, Any]) -> StructType:
    """Return a table's schema.

    `columns` maps the name of a column to its type. For an array of structs, the type is a mapping of the same form
    for the columns of the structs.
    """
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind if isinstance(kind, str) else ArrayType(_schema(kind)))
    return schema


TABLES: Mapping[str, StructType] = {
    name: _schema(columns) for name, columns in tables.table(Path(__file__).with_suffix(".toml")).items()
}
MINUTES, VERDICTS, QUALITY = (TABLES[name] for name in ("minutes", "verdicts", "quality"))

CLIENT_KEY = ("service", "instance", "client_id")
TIMES: Mapping[str, str] = {"minutes": "minute", "verdicts": "ts", "quality": "minute"}


@dataclass(frozen=True)
class Origin:
    """The streaming query and the batch that wrote rows into the history.

    `planned_ms`: when a previous process planned the batch (epoch ms); None if this process planned it.
    """

    query_id: str
    batch_id: int
    planned_ms: int | None = None

    def __str__(self) -> str:
        return f"{self.query_id} {self.batch_id}"


@dataclass(frozen=True)
class ReplayGuard:
    """Rows that may arrive a second time, because the checkpoint is older than the history.

    `until_ms`: the latest event time of such rows (epoch ms). `written_ms`: time (epoch ms) by which the first copies
    of all such rows were committed.
    """

    until_ms: int
    written_ms: int


#: Assumed maximum difference (ms) between the clocks of two machines that write one table.
CLOCKS_MS = 600_000
#: The search for a batch's commit begins with this number of newest commits.
COMMITS = 20


def create(spark: SparkSession, root: str) -> None:
    """Create missing tables in `root`, and add this release's columns and table properties to existing tables.

    Raises InputError, and changes nothing, if a table has another schema version.
    """
    made = {table: _checked(spark, inside(root, table)) for table in TABLES if _is_there(spark, root, table)}
    missing: list[Callable[[], None]] = []
    for table, schema in TABLES.items():
        where = inside(root, table)
        if table not in made:
            missing.append(partial(_make, spark, where, schema))
            continue
        if not KEPT.items() <= made[table].items():
            kept = ", ".join(f"'{name}' = '{value}'" for name, value in KEPT.items())
            spark.sql(f"ALTER TABLE delta.`{where}` SET TBLPROPERTIES ({kept})")
        columns = DeltaTable.forPath(spark, where).toDF().columns
        new = [f"`{field.name}` {field.dataType.simpleString()}" for field in schema if field.name not in columns]
        if new:
            spark.sql(f"ALTER TABLE delta.`{where}` ADD COLUMNS ({', '.join(new)})")
    Together()(spark, missing)


def _is_there(spark: SparkSession, root: str, table: str) -> bool:
    return bool(DeltaTable.isDeltaTable(spark, inside(root, table)))


def _checked(spark: SparkSession, where: str) -> dict[str, str]:
    # Do not use DESCRIBE DETAIL, which also counts all files: this takes seconds.
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES delta.`{where}`").collect()}
    version = properties.get(VERSION_PROPERTY, "none")
    if version != str(SCHEMA_VERSION):
        raise InputError(
            f"{where}: the history has schema version {version}, this program reads version {SCHEMA_VERSION}; "
            "use the release that wrote the history, or another folder in [monitor] history"
        )
    return properties


def _make(spark: SparkSession, where: str, schema: StructType) -> None:
    table = DeltaTable.createIfNotExists(spark).location(where).addColumns(schema).partitionedBy("day")
    for name, value in {VERSION_PROPERTY: str(SCHEMA_VERSION), **KEPT}.items():
        table = table.property(name, value)
    table.execute()


def _as_made(spark: SparkSession, root: str, table: str) -> bool:
    """True if nothing was ever written to the table."""
    log = Files(spark, f"{inside(root, table)}/_delta_log")
    # Delta writes 0.json at creation and 1.json at the first write.
    return log.exists(f"{0:020}.json") and not log.exists(f"{1:020}.json")


def there(spark: SparkSession, root: str) -> bool:
    """True if all tables of the history exist."""
    return all(_is_there(spark, root, table) for table in TABLES)


def probe(spark: SparkSession, root: str) -> str | None:
    """Return the reason why `root` cannot store the history; None if `root` can store it."""
    name = f".kafka-health-{uuid4()}"
    try:
        try:
            _make(spark, inside(root, name), QUALITY)
        finally:
            Files(spark, root).delete(name)
        for table in TABLES:
            if _is_there(spark, root, table):
                read(spark, root, table)
    except InputError as error:
        return str(error)
    except (PySparkException, Py4JJavaError) as error:
        return first_line(error)
    return None


def read(spark: SparkSession, root: str, table: str) -> DataFrame:
    """Return a table of the history. Columns that the table does not have yet are null.

    Raises InputError if the table is missing or has another schema version.
    """
    where = inside(root, table)
    if not _is_there(spark, root, table):
        raise InputError(f"{where}: there is no history here; the monitor creates a history when it first starts")
    _checked(spark, where)
    rows = DeltaTable.forPath(spark, where).toDF()
    missing = [field for field in TABLES[table] if field.name not in rows.columns]
    return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in missing}) if missing else rows


def begins(spark: SparkSession, root: str) -> datetime | None:
    """Return the first minute with any input; None if there was no input yet. Raises InputError as `read` does."""
    first = _outermost(spark, root, "quality", F.min)
    return None if first is None else _utc(first)


def ends(spark: SparkSession, root: str) -> datetime | None:
    """Return the newest event time of any row; None if the tables are empty. Raises InputError as `read` does."""
    newest = [_outermost(spark, root, table, F.max) for table in TABLES]
    return max((_utc(at) for at in newest if at is not None), default=None)


def _outermost(spark: SparkSession, root: str, table: str, which: Callable[[Column | str], Column]) -> int | None:
    if _as_made(spark, root, table):
        return None
    rows, time = read(spark, root, table), F.unix_millis(TIMES[table])
    day = rows.agg(which("day")).collect()[0][0]
    at: int | None = rows.where(F.col("day") == F.lit(day)).agg(which(time)).collect()[0][0]
    return at


def commits(spark: SparkSession, root: str, table: str) -> list[tuple[int, Origin]]:
    """Return (epoch ms, batch) of each batch's commit, newest first. Only the 20 newest commits (COMMITS) are read."""
    if _as_made(spark, root, table):
        return []
    rows = DeltaTable.forPath(spark, inside(root, table)).history(COMMITS).filter(r"userMetadata rlike '^\\S+ \\d+$'")
    named = rows.select(F.unix_millis("timestamp").alias("ms"), "userMetadata").collect()
    split = ((row["ms"], row["userMetadata"].split(" ")) for row in named)
    return [(ms, Origin(query, int(batch))) for ms, (query, batch) in split]


def append(rows: DataFrame, root: str, table: str, origin: Origin, again: ReplayGuard | None = None) -> None:
    """Append the rows of the batch `origin` to a table. The rows of a repeated batch are not appended again.

    Columns are matched by name, and cast to the table's types. `again` describes rows that may be in the table already;
    rows that are in the table are not appended.
    """
    where = inside(root, table)
    if origin.planned_ms is not None:
        after_ms = max(origin.planned_ms - CLOCKS_MS, again.written_ms + 1 if again else 0)
        if _taken_in(rows.sparkSession, where, origin, after_ms):
            return
    if again is not None and table in _SAME:
        (key, seconds), time = _SAME[table], TIMES[table]
        comes_again = F.unix_millis(time) <= again.until_ms
        first, last = rows.filter(comes_again).agg(F.min(time), F.max(time)).collect()[0]
        if first is not None:
            margin = timedelta(seconds=seconds)
            bounds = [F.lit(first - margin), F.lit(last + margin)]
            near = F.col("day").between(*map(F.to_date, bounds)) & F.col(time).between(*bounds)
            there = read(rows.sparkSession, root, table).filter(near)
            there = there.select(*(F.col(name).alias(f"there_{name}") for name in (*key, time)))
            same = reduce(and_, (F.col(name).eqNullSafe(F.col(f"there_{name}")) for name in key))
            apart = F.abs(F.unix_millis(time) - F.unix_millis(f"there_{time}"))
            rows = rows.join(there, same & (apart <= 1000 * seconds) & comes_again, "left_anti")
    columns = (f"CAST(`{field.name}` AS {field.dataType.simpleString()})" for field in TABLES[table])
    rows.selectExpr(*columns).write.format("delta").mode("append").option("userMetadata", str(origin)).save(where)


#: For each table: how to recognise that two rows are copies of one row. Copies are equal in these columns, and their
#: event times differ by at most this number of seconds.
_SAME: Mapping[str, tuple[tuple[str, ...], int]] = {
    "minutes": ((*CLIENT_KEY, "kind"), 0),
    "verdicts": ((*CLIENT_KEY, "mode", "change", "status"), 120),
}


def _taken_in(spark: SparkSession, where: str, origin: Origin, after_ms: int) -> bool:
    """Return True if the table has a commit of this batch since `after_ms` (epoch ms)."""
    limit = COMMITS
    while True:
        newest = DeltaTable.forPath(spark, where).history(limit)
        seen = newest.select("userMetadata", F.unix_millis("timestamp").alias("ms")).collect()
        if any(commit["userMetadata"] == str(origin) and commit["ms"] >= after_ms for commit in seen):
            return True
        if len(seen) < limit or min(commit["ms"] for commit in seen) < after_ms:
            return False
        limit *= 8


def _rows(name: str, written: DataFrame) -> DataFrame:
    """Return the rows for the table `name`, parsed from the JSON in the column `value` of the DataFrame `written`."""
    kinds = (f"`{f.name}` {_WRITTEN.get(f.name, f.dataType).simpleString()}" for f in TABLES[name])
    columns = {f.name: f"row.`{f.name}`" for f in TABLES[name]}
    columns |= {f.name: f"timestamp_millis(row.{f.name})" for f in TABLES[name] if f.dataType == TimestampType()}
    columns |= {"schema_version": str(SCHEMA_VERSION), "day": f"to_date({columns[TIMES[name]]})"}
    # Use strings of SQL, because each part of a `Column` costs several calls to the JVM.
    parsed = written.selectExpr(f"from_json(CAST(value AS STRING), '{', '.join(kinds)}') AS row")
    return parsed.selectExpr(*(f"{column} AS `{column_name}`" for column_name, column in columns.items()))


minutes, verdicts = partial(_rows, "minutes"), partial(_rows, "verdicts")

#: Types in a batch's JSON, for columns that have another type in the table. Times are in ms.
_WRITTEN = {**dict.fromkeys(("ts", "observed", "since", "minute"), LongType()), "lag_records": DoubleType()}


def append_quality(
    spark: SparkSession, root: str, minutes: Sequence[Quality], origin: Origin, again: ReplayGuard | None = None
) -> None:
    """Append the counts in `minutes`, one row per topic and minute, to the table `quality`."""
    if not minutes:
        return
    rows = [
        (SCHEMA_VERSION, _utc(row.minute_ms), row.topic, row.records, row.rejected, row.late, row.batches)
        for row in minutes
    ]
    frame = spark.createDataFrame(rows, StructType([field for field in QUALITY if field.name != "day"]))
    append(frame.withColumn("day", F.to_date("minute")), root, "quality", origin, again)


def open_incidents(spark: SparkSession, root: str) -> list[OpenIncident]:
    """Return the incidents that are open in the history at `root`."""
    if _as_made(spark, root, "verdicts"):
        return []
    newest = Window.partitionBy(*CLIENT_KEY, "mode").orderBy(F.desc("observed"), F.desc("ts"))
    rows = (
        read(spark, root, "verdicts")
        .withColumn("rank", F.row_number().over(newest))
        .filter(F.col("rank").eqNullSafe(1) & F.col("status").isin(*UNHEALTHY))
        .withColumn("ts_ms", F.unix_millis("ts"))
        .withColumn("since_ms", F.unix_millis("since"))
        .orderBy(*CLIENT_KEY, "mode")
        .collect()
    )
    incidents = []
    for row in rows:
        verdict = {name: row[name] for name in ("mode", "status", "reason")} | {"since": row["since_ms"]}
        verdict |= {"detail": json.loads(row["detail"] or "{}"), "evidence": json.loads(row["evidence"] or "[]")}
        client = Client(**{name: row[name] for name in Client.__struct_fields__})
        incidents.append(OpenIncident(client, verdict_from_json(verdict), row["ts_ms"]))
    return incidents


def _utc(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


#: Spark option for Delta's log store on S3. The default log store coordinates only writers in the same program.
LOG_STORE = "spark.delta.logStore.s3a.impl"


@dataclass(frozen=True)
class Maintained:
    """The maintenance done on one table.

    `days`: number of days with deleted rows. `removed`: number of small files that were joined. `added`: number of
    files that replaced the small files. `files`, `bytes`: number and total size of the table's files after the
    maintenance.
    """

    table: str
    days: int
    removed: int
    added: int
    files: int
    bytes: int


def maintain(
    spark: SparkSession, root: str, retention_days: int, today: date, alone: bool = False
) -> Iterator[Maintained]:
    """Delete old rows, join small files, and yield a report on each table. `alone`: True if no monitor writes the
    tables.

    Rows are deleted if their day is more than `retention_days` before `today` (UTC). Replaced files stay on disk for a
    day, because a review may still read them.

    Raises InputError if there are no tables, and SettingsError if several programs might write tables on S3.
    """
    if on_s3(root) and not alone and spark.conf.get(LOG_STORE, None) is None:
        raise SettingsError(
            f"{root}: on S3, only one program at a time may write the history. Stop the monitor and give --alone. Or "
            f"choose a log store that supports several writers: set {LOG_STORE} in [spark] options (deploy/cluster.md, "
            "object stores)"
        )
    for name in TABLES:
        read(spark, root, name)
        table = DeltaTable.forPath(spark, inside(root, name))
        past = F.col("day") < F.lit(today - timedelta(days=retention_days))
        if days := table.toDF().filter(past).select("day").distinct().count():
            table.delete(past)
        joined = table.optimize().executeCompaction().select("metrics.*").first()
        # By default, Delta's vacuum lists folders in 10,000 tasks; a few are enough.
        tasks = str(4 * spark.sparkContext.defaultParallelism)
        with configured(spark, {"spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks}):
            table.vacuum()
        left = table.detail().select("numFiles", "sizeInBytes").first()
        assert joined is not None and left is not None
        removed, added = joined["numFilesRemoved"], joined["numFilesAdded"]
        yield Maintained(name, days, removed, added, left["numFiles"], left["sizeInBytes"])
