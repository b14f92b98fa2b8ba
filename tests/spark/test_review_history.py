"""The history appends batches without repetition, reads incidents, and removes old rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from clienthealth.model.clients import Client
from clienthealth.model.errors import InputError
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.monitor.incidents import Transition, change_row
from clienthealth.platform.locations import inside
from clienthealth.spark import history
from clienthealth.spark.history import maintain
from clienthealth.spark.stepping import Quality
from tests.support.rows import long_after

ORDERS = Client("orders-api", "web-1", "web-1:100", "order-producer", "producer", "java", "3.9.1")
FACT = Evidence("metric", 1_000, "stood still", Source("client-metrics", 2, 88))
CONFIRMED = Verdict("producer-callback-deadlock", "confirmed", 1_000, {"cause": "get-in-callback"}, (FACT,))
OPENED = Transition(ORDERS, CONFIRMED, "ok", "opened", 1_000)
CLOSED = Transition(ORDERS, Verdict("producer-callback-deadlock", "ok", 1_000), "confirmed", "closed", 90_000)


@pytest.fixture
def root(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    history.create(spark, str(tmp_path))
    yield str(tmp_path)


def append(
    spark: SparkSession,
    root: str,
    change: Transition,
    query: str,
    batch: int,
    observed_ms: int,
    planned_ms: int | None = None,
) -> None:
    rows = spark.createDataFrame([(change_row(change, observed_ms),)], "value binary")
    history.append(history.verdicts(rows), root, "verdicts", history.Origin(query, batch, planned_ms))


def count(spark: SparkSession, root: str, table: str) -> int:
    return history.read(spark, root, table).count()


def test_a_minute_is_written_with_all_its_columns(spark: SparkSession, root: str) -> None:
    text = (
        '{"minute":1790000040000,"service":"orders-api","host":"web-1","instance":"web-1:100","client_id":"order-producer",'
        '"kind":"producer","group":null,"library":"java","version":"3.9.1","samples":6,"status":"suspected",'
        '"modes":[{"mode":"delivery-stalled","status":"suspected"}],"buffer_used_ratio_max":0.5,'
        '"lag_records":48.0,"lag_seconds":2.5,"also_seen":[{"what":"disconnected","lines":3}]}'
    )
    rows = spark.createDataFrame([(text.encode(),)], "value binary")
    history.append(history.minutes(rows), root, "minutes", history.Origin("query", 1))
    (row,) = history.read(spark, root, "minutes").collect()
    assert row.asDict(recursive=True) == {
        **dict.fromkeys(history.MINUTES.names),
        **{"schema_version": 1, "day": date(2026, 9, 21), "minute": datetime(2026, 9, 21, 14, 14)},
        **{"service": "orders-api", "host": "web-1", "instance": "web-1:100", "client_id": "order-producer"},
        **{"kind": "producer", "library": "java", "version": "3.9.1", "samples": 6, "status": "suspected"},
        "modes": [{"mode": "delivery-stalled", "status": "suspected"}],
        **{"buffer_used_ratio_max": 0.5, "lag_records": 48, "lag_seconds": 2.5},
        "also_seen": [{"what": "disconnected", "lines": 3}],
    }


def test_a_batch_that_comes_twice_is_kept_once(spark: SparkSession, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "COMMITS", 1)
    planned_ms = int(time.time() * 1000)
    append(spark, root, OPENED, "query-a", 0, 61_000)
    append(spark, root, OPENED, "query-a", 1, 61_000)
    append(spark, root, OPENED, "query-b", 1, 61_000)
    assert count(spark, root, "verdicts") == 3
    append(spark, root, OPENED, "query-a", 1, 61_000, planned_ms)
    assert count(spark, root, "verdicts") == 3
    append(spark, root, OPENED, "query-a", 2, 61_000, planned_ms)
    append(spark, root, OPENED, "query-a", 12, 61_000, planned_ms)
    assert count(spark, root, "verdicts") == 5


@pytest.mark.parametrize("commits", long_after(1, [20, 1]))
def test_a_batch_is_not_looked_for_before_it_was_planned(
    spark: SparkSession, root: str, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    monkeypatch.setattr(history, "COMMITS", commits)
    append(spark, root, OPENED, "query-a", 0, 61_000)
    append(spark, root, OPENED, "query-b", 0, 61_000)
    long_after = int(time.time() * 1000) + 2 * history.CLOCKS_MS
    append(spark, root, OPENED, "query-a", 0, 61_000, long_after)
    assert count(spark, root, "verdicts") == 3


def test_a_change_is_kept_with_its_day_times_and_evidence(spark: SparkSession, root: str) -> None:
    append(spark, root, OPENED, "q", 0, 61_500)
    row = (
        history.read(spark, root, "verdicts")
        .selectExpr(
            "*", "unix_millis(ts) as ts_ms", "unix_millis(observed) as observed_ms", "unix_millis(since) as since_ms"
        )
        .first()
    )
    assert row is not None
    assert (row["day"], row["ts_ms"], row["observed_ms"], row["since_ms"]) == (date(1970, 1, 1), 1_000, 61_500, 1_000)
    assert (row["change"], row["previous"], row["status"]) == ("opened", "ok", "confirmed")
    assert row["detail"] == '{"cause": "get-in-callback"}'
    assert '"offset": 88' in row["evidence"]


def test_open_incidents_are_read_back_whole(spark: SparkSession, root: str) -> None:
    append(spark, root, OPENED, "q", 0, 61_000)
    (incident,) = history.open_incidents(spark, root)
    assert (incident.client, incident.verdict, incident.seen_ms) == (ORDERS, CONFIRMED, 1_000)
    append(spark, root, CLOSED, "q", 1, 95_000)
    assert history.open_incidents(spark, root) == []


@pytest.mark.long
def test_quality_is_kept_with_its_day(spark: SparkSession, root: str) -> None:
    minute_ms = int(datetime(2026, 11, 9, 1, tzinfo=UTC).timestamp() * 1000)
    history.append_quality(
        spark, root, [Quality(minute_ms, "a", 7, 2, 2, 1), Quality(minute_ms, "b", 1)], history.Origin("q", 0)
    )
    rows = history.read(spark, root, "quality").orderBy("source_topic").collect()
    assert [(r["source_topic"], r["records"], r["rejected"], r["late"], r["day"]) for r in rows] == [
        ("a", 7, 2, 2, date(2026, 11, 9)),
        ("b", 1, 0, 0, date(2026, 11, 9)),
    ]
    assert history.begins(spark, root) == history.ends(spark, root) == datetime(2026, 11, 9, 1, tzinfo=UTC)


def test_no_history_and_another_schema_are_reported(spark: SparkSession, root: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no history here"):
        history.read(spark, str(tmp_path / "elsewhere"), "minutes")
    location = inside(root, "minutes")
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{history.VERSION_PROPERTY}' = '99')")
    with pytest.raises(InputError, match="schema version 99, this program reads version 1"):
        history.read(spark, root, "minutes")
    with pytest.raises(InputError, match="schema version 99"):
        history.create(spark, root)


@pytest.mark.long
def test_a_history_of_release_0_1_is_continued(spark: SparkSession, tmp_path: Path) -> None:
    """Tables of release 0.1 keep Delta's log for 30 days and deleted files for 7 days."""
    since = {"minutes": ("clock_skew_seconds", "also_seen")}
    with pytest.MonkeyPatch.context() as then:
        then.setattr(history, "KEPT", {})
        for table, schema in history.TABLES.items():
            fields = [field for field in schema if field.name not in since.get(table, ())]
            history._make(spark, inside(str(tmp_path), table), StructType(fields))
    append(spark, str(tmp_path), OPENED, "query-of-0.1", 0, 61_000)
    assert history.read(spark, str(tmp_path), "minutes").columns == history.MINUTES.names
    history.create(spark, str(tmp_path))
    for table, schema in history.TABLES.items():
        delta = DeltaTable.forPath(spark, inside(str(tmp_path), table))
        assert delta.toDF().columns == schema.names
        properties = delta.detail().select("properties").collect()[0][0]
        assert properties["delta.logRetentionDuration"] == "interval 1 days"
        assert properties["delta.deletedFileRetentionDuration"] == "interval 1 days"
    (incident,) = history.open_incidents(spark, str(tmp_path))
    assert (incident.client, incident.verdict) == (ORDERS, CONFIRMED)


@pytest.mark.long
def test_maintenance_deletes_old_days_joins_small_files_and_then_has_nothing_to_do(
    spark: SparkSession, root: str
) -> None:
    today = date(2026, 11, 21)
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    for batch, ago in enumerate([(12, 11, 10, 0), (10, 0), (10,)]):
        days = [midnight - timedelta(days=days) for days in ago]
        history.append_quality(
            spark, root, [Quality(int(d.timestamp() * 1000), "a", 1) for d in days], history.Origin("q", batch)
        )
    done = {d.table: d for d in maintain(spark, root, 10, today)}
    assert list(done) == ["minutes", "verdicts", "quality"]
    quality = done["quality"]
    # Three old files become one file, and so do two files of today.
    assert (quality.days, quality.removed, quality.added, quality.files) == (2, 5, 2, 2)
    assert count(spark, root, "quality") == 5
    version = DeltaTable.forPath(spark, inside(root, "quality")).history(1).select("version")
    before = version.first()
    again = {d.table: d for d in maintain(spark, root, 10, today)}["quality"]
    assert (again.days, again.removed, again.added, again.files) == (0, 0, 0, 2)
    assert count(spark, root, "quality") == 5
    assert before is not None
