"""Maintenance and reviews read the year of history that the benchmark generates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.spark import history
from clienthealth.spark.history import maintain
from tests.bench.measurements.year import MINUTES, generate, version_size

pytestmark = pytest.mark.long

CLIENTS, DAYS, FILES = 8, 3, 4


def test_each_day_has_its_own_minutes_and_maintenance_joins_the_newest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    end = date(2026, 11, 16)
    generate(tmp_path, CLIENTS, end, DAYS, FILES)
    assert version_size(tmp_path / "minutes")[0] == DAYS - 1 + FILES
    minutes = history.read(spark, str(tmp_path), "minutes")
    days = minutes.groupBy("day").agg(F.count("*"), F.count_distinct("minute", "client_id"), F.min("minute"))
    midnights = [datetime.combine(end, datetime.min.time(), UTC) - timedelta(days=n) for n in range(DAYS, 0, -1)]
    rows_of_day = CLIENTS * MINUTES
    assert [(row[0], row[1], row[2], row[3].astimezone(UTC)) for row in days.orderBy("day").collect()] == [
        (midnight.date(), rows_of_day, rows_of_day, midnight) for midnight in midnights
    ]
    done = {table.table: table for table in maintain(spark, str(tmp_path), 400, end)}
    assert (done["minutes"].removed, done["minutes"].added, done["minutes"].files) == (FILES, 1, DAYS)
    assert version_size(tmp_path / "minutes")[0] == DAYS
    assert history.ends(spark, str(tmp_path)) == midnights[-1] + timedelta(hours=23, minutes=59)
