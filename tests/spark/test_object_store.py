"""Checkpoint, history and review work on a fake S3 server."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from clienthealth.model.errors import SettingsError
from clienthealth.review.actions import FILE
from clienthealth.review.period import period
from clienthealth.review.queries import build
from clienthealth.review.render import write
from clienthealth.settings import MonitorSettings, Settings
from clienthealth.spark import history
from clienthealth.spark.checkpoint import Checkpoint
from clienthealth.spark.files import Files, fetched, probe, put
from clienthealth.spark.history import maintain
from clienthealth.spark.session import OPTIONS
from clienthealth.spark.stepping import Quality

pytestmark = pytest.mark.long

BUCKET = "s3a://health"
SETTINGS = Settings(monitor=MonitorSettings(checkpoint=f"{BUCKET}/checkpoints", history=f"{BUCKET}/history"))
MINUTE_MS = int(datetime(2026, 11, 9, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def store(spark: SparkSession) -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/health", method="PUT")).close()
    name = "spark.sql.streaming.checkpointFileManagerClass"
    options = {
        "fs.s3a.endpoint": address,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "health",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.attempts.maximum": "2",
        "fs.s3a.retry.limit": "1",
        name: OPTIONS["objects"][name],
    }
    for key, value in options.items():
        spark.conf.set(key, value)
    yield address
    for key in options:
        spark.conf.unset(key)
    server.stop()


@pytest.fixture(scope="module")
def root(spark: SparkSession, store: str) -> str:
    history.create(spark, SETTINGS.monitor.history)
    return SETTINGS.monitor.history


def test_a_query_goes_on_where_its_checkpoint_stands(spark: SparkSession, root: str, tmp_path: Path) -> None:
    checkpoint = f"{SETTINGS.monitor.checkpoint}/monitor"
    totals: list[tuple[int, int]] = []

    def written(batch: DataFrame, number: int) -> None:
        totals.append((number, batch.collect()[0]["total"]))
        for planned_ms in (None, int(time.time() * 1000)):
            origin = history.Origin("query", number, planned_ms)
            history.append_quality(spark, root, [Quality(MINUTE_MS, "counted", 1)], origin)

    for count in (3, 4):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{count}.txt").write_text("a\n" * count)
        query = (
            spark.readStream.text(str(tmp_path / "in"))
            .groupBy("value")
            .applyInPandasWithState(
                _summed,
                "total int",
                "total int",
                "update",
                GroupStateTimeout.NoTimeout,
            )
            .writeStream.option("checkpointLocation", checkpoint)
            .outputMode("update")
            .trigger(availableNow=True)
            .foreachBatch(written)
            .start()
        )
        assert query.awaitTermination(120)
    assert totals == [(0, 3), (1, 7)]
    assert history.read(spark, root, "quality").where("source_topic = 'counted'").count() == 2
    stored = Checkpoint(spark, checkpoint)
    assert stored.pending() is None
    assert stored.read("commits/1") is not None
    stored.write("run.json", '{"running": true}')
    assert json.loads(stored.read("run.json") or "") == {"running": True}


def _summed(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    total = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    state.update((total,))
    yield pd.DataFrame({"total": [total]})


def test_a_review_is_made_of_it_and_written_there(spark: SparkSession, root: str, tmp_path: Path) -> None:
    out = f"{BUCKET}/reports/2026-W46"
    history.append_quality(spark, root, [Quality(MINUTE_MS, "reviewed", 5, 1)], history.Origin("another query", 0))
    action = '[[action]]\ntitle = "Fix it"\nowner = "orders"\ndue = 2026-11-20\n'
    Files(spark, f"{BUCKET}/reports").write(FILE, action)
    folder = fetched(spark, out, tmp_path, FILE)
    week = period(None, None, "2026-W46", datetime(2026, 11, 20, tzinfo=UTC))
    review = build(spark, replace(SETTINGS), week, folder / FILE, root)
    assert [(carried.title, carried.owner) for carried in review.actions] == [("Fix it", "orders")]
    put(spark, write(review, folder), out)
    carried = json.loads(Files(spark, out).read("review.json") or "")
    assert carried["period"]["from"][:10] == "2026-11-09"
    assert {one["source_topic"]: one["records"] for one in carried["quality"]["inputs"]}["reviewed"] == 5
    assert "<html" in (Files(spark, out).read("review.html") or "")


def test_the_doctor_tries_to_write(spark: SparkSession, store: str) -> None:
    assert probe(spark, f"{BUCKET}/checkpoints") is None
    assert "nowhere" in (probe(spark, "s3a://nowhere/checkpoints") or "")


def test_two_writers_of_a_table_are_refused(spark: SparkSession, root: str) -> None:
    with pytest.raises(SettingsError, match="Stop the monitor and give --alone"):
        list(maintain(spark, root, 400, datetime(2026, 11, 20, tzinfo=UTC).date()))
