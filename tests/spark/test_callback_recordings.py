"""Callback latency derived from recordings of real producers, through the formats and windows of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from clienthealth import pipeline
from clienthealth.settings import Settings
from clienthealth.sources.recordings import read
from tests.raw_records import Raw, raw_records

EVIDENCE = Path(__file__).parents[1] / "recordings" / "evidence"
#: Recordings, with the seconds between readings: as they were made, and as monitors usually read.
FOLDERS = ("c1_healthy", "c7_slow_callback", "c4_backpressure", "2_deadlock_client39")
INTERVALS = (1, 10)

Indicators = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[tuple[str, int], Indicators]:
    """The producers' indicators in windows that hold 50 s of readings at least, in order of time."""
    records = []
    for folder in FOLDERS:
        for record in read([EVIDENCE / folder / "metrics.jsonl.gz"]):
            snapshot = json.loads(record.value)
            for interval in (seconds for seconds in INTERVALS if record.offset % seconds == 0):
                snapshot["client"] |= {"service": folder, "instance": str(interval)}
                records.append(Raw(record.file, json.dumps(snapshot).encode(), record.offset))
    inputs = pipeline.decoded(raw_records(spark, records), raw_records(spark, []), Settings())
    rows = (
        pipeline.clients(inputs, Settings())
        .filter("client.kind = 'producer' and element_at(readings, -1).ts_ms - readings[0].ts_ms >= 49000")
        .selectExpr("client.service", "int(client.instance) as interval", "start_ms", "indicators.*")
        .orderBy("start_ms")
    )
    by_case: dict[tuple[str, int], Indicators] = {}
    for row in rows.collect():
        by_case.setdefault((row["service"], row["interval"]), []).append(row.asDict(recursive=True))
    return by_case


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_healthy_io_thread_waits(found: dict[tuple[str, int], Indicators], interval: int) -> None:
    windows = found["c1_healthy", interval]
    assert windows
    assert all(0 <= w["io_thread_busy_ratio"] <= 0.05 for w in windows)
    # Its callback does nearly nothing.
    assert all(0 < w["callback_seconds"]["avg"] < 0.001 for w in windows)


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_callback_of_a_tenth_of_a_second(found: dict[tuple[str, int], Indicators], interval: int) -> None:
    windows = found["c7_slow_callback", interval]
    assert windows
    for w in windows:
        assert 0.8 <= w["io_thread_busy_ratio"] <= 0.9
        assert w["callback_seconds"]["avg"] == pytest.approx(0.1, rel=0.1)
        assert w["callback_seconds"]["source"] == "derived"


@pytest.mark.parametrize("interval", INTERVALS)
def test_back_pressure_is_no_slow_callback(found: dict[tuple[str, int], Indicators], interval: int) -> None:
    windows = found["c4_backpressure", interval]
    assert windows
    assert all(0 <= w["io_thread_busy_ratio"] <= 0.1 for w in windows)


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_deadlocked_io_thread_is_busy_all_the_time(found: dict[tuple[str, int], Indicators], interval: int) -> None:
    windows = found["2_deadlock_client39", interval]
    *_, before_last, last = windows
    for w in (before_last, last):
        assert w["io_thread_busy_ratio"] == 1.0
        # Nothing was sent: there is no time per record, and 0 would be a lie.
        assert w["callback_seconds"] == {"avg": None, "max": None, "p99": None, "source": "unknown"}
