"""Check that no record counts twice after a restore, and that data missing from history or topics is reported."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession

from clienthealth.model.errors import InputError, StateError
from clienthealth.monitor.state import VERSION
from clienthealth.ops.doctor.machine import places_work
from clienthealth.platform.locations import inside
from clienthealth.settings import KafkaSettings, MonitorSettings, Settings, TopicSettings
from clienthealth.spark import history
from clienthealth.spark.checkpoint import FORM, Checkpoint
from clienthealth.spark.program import run
from clienthealth.spark.query import checkpoint_of
from clienthealth.spark.restored import Restored
from tests.chaos.published import History, position
from tests.support.left_by_release import reading
from tests.support.monitor_lab import create

pytestmark = pytest.mark.long

METRICS = "restored-metrics"
HOST, STEP = "web-0", 10
PORTION, STUCK_FROM, WELL_FROM = 240, 120, 270
RECORDS = PORTION // STEP
SECONDS = 600.0


@dataclass
class Installation:
    spark: SparkSession
    settings: Settings
    folder: Path
    producer: KafkaProducer
    begin: datetime

    def publish(self, portion: int) -> bool:
        for second in range(portion * PORTION, (portion + 1) * PORTION, STEP):
            stuck = max(0, second - STUCK_FROM) if second < WELL_FROM else 0
            ts_ms = int((self.begin + timedelta(seconds=second)).timestamp() * 1000)
            self.producer.send(METRICS, reading(HOST, ts_ms, second, stuck), partition=0, timestamp_ms=ts_ms)
        self.producer.flush()
        return True

    def with_backup(self, name: str, checkpoint: str, history_backup: str) -> Settings:
        folder = self.folder / name
        if checkpoint:
            shutil.copytree(self.folder / checkpoint / "checkpoints", folder / "checkpoints")
        shutil.copytree(self.folder / history_backup / "history", folder / "history")
        return self.at(folder)

    def at(self, folder: Path) -> Settings:
        monitor = self.settings.monitor
        places = replace(monitor, checkpoint=str(folder / "checkpoints"), history=str(folder / "history"))
        return replace(self.settings, monitor=places)

    def run(self, settings: Settings, *conditions: Callable[[], bool]) -> History:
        """Run the monitor until all conditions have become true, one after the other. Return its history."""
        over, late = threading.Event(), list[str]()

        def watch() -> None:
            deadline = time.monotonic() + SECONDS
            for condition in conditions:
                while not (over.is_set() or condition()):
                    if time.monotonic() > deadline:
                        late.append(f"{condition}: read {position(Path(checkpoint_of(settings)))}")
                        over.set()
                    over.wait(0.2)

        def watched() -> None:
            try:
                watch()
            finally:
                if late or not over.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)

        watching = threading.Thread(target=watched)
        watching.start()
        try:
            run(self.spark, settings)
        finally:
            over.set()
            watching.join()
        assert not late
        return History(Path(settings.monitor.history))

    def has_read(self, settings: Settings, portions: int, change: str = "") -> Callable[[], bool]:
        checkpoint, written = Path(checkpoint_of(settings)), History(Path(settings.monitor.history))

        def reached() -> bool:
            read = position(checkpoint).get(METRICS, {}).get(0) == portions * RECORDS
            return read and (not change or any(row["change"] == change for row in written.verdicts.look()))

        return reached

    def backed_up(self, name: str) -> bool:
        running, copy = self.folder / "running", self.folder / name
        before = contents(running)
        for path, content in before.items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(content)
        if contents(running) == before:
            return True
        shutil.rmtree(copy)
        return False


def contents(folder: Path) -> dict[Path, bytes]:
    files: dict[Path, bytes] = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                files[path.relative_to(folder)] = path.read_bytes()
    return files


@pytest.fixture(scope="module")
def backed_up(spark: SparkSession, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("restored")
    topics = TopicSettings(metrics=(METRICS,), logs=("restored-logs",), health="restored-health", rejects="restored-no")
    create(broker.bootstrap_servers, METRICS, "restored-logs", "restored-health", "restored-no")
    monitor = MonitorSettings(
        trigger_seconds=0, quality_seconds=0, watermark_seconds=20, metrics_port=0, buckets=2, start_seconds_back=7200
    )
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers), topics=topics, monitor=monitor)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=20)
    here = Installation(spark, settings, folder, producer, begin)
    running = here.at(folder / "running")
    here.publish(0)
    here.run(
        running,
        here.has_read(running, 1, "opened"),
        lambda: here.backed_up("backup-0"),
        lambda: here.publish(1),
        here.has_read(running, 2, "closed"),
        lambda: here.backed_up("backup-1"),
    )
    here.publish(2)
    yield here
    producer.close()


def counted_once(here: Installation, written: History) -> None:
    minutes = Counter(row["minute"] for row in written.minutes.look())
    assert {*minutes.values()} == {1}
    first = int(here.begin.timestamp() * 1000)
    assert {*minutes} >= {first + 60_000 * n for n in range(10)}
    changes = Counter((row["mode"], row["change"]) for row in written.verdicts.look())
    assert {*changes.values()} == {1}
    assert {change for _, change in changes} >= {"opened", "closed"}
    assert sum(row["records"] for row in written.quality.look()) == 3 * RECORDS


@pytest.mark.parametrize("newer", ["checkpoint", "history"])
def test_what_a_later_release_wrote_is_refused_and_left_as_it_is(backed_up: Installation, newer: str) -> None:
    settings = backed_up.with_backup(f"later-{newer}", "backup-1", "backup-1")
    if newer == "checkpoint":
        Checkpoint(backed_up.spark, checkpoint_of(settings)).write(FORM, str(VERSION + 1))
        forms = rf"the checkpoint has version {VERSION + 1} .* {VERSION}"
        message = rf"^the checkpoint was written by a later release: {forms}. Run the later release, or"
    else:
        table = inside(settings.monitor.history, "quality")
        properties = f"('{history.VERSION_PROPERTY}' = '{history.SCHEMA_VERSION + 1}')"
        backed_up.spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES {properties}")
        message = (
            "/quality: the history has schema version 2, .* reads version 1; use the release that wrote the history"
        )
    before = contents(backed_up.folder / f"later-{newer}")
    with pytest.raises((StateError, InputError), match=message):
        run(backed_up.spark, settings)
    after = contents(backed_up.folder / f"later-{newer}")
    assert {path for path in before if after.get(path) != before[path]} == set()
    assert after.keys() == before.keys()


def test_a_checkpoint_that_is_older_than_the_history_counts_nothing_twice(
    backed_up: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    settings = backed_up.with_backup("older-checkpoint", "backup-0", "backup-1")
    counted_once(backed_up, backed_up.run(settings, backed_up.has_read(settings, 3)))
    assert "has newer data (until" in caplog.text and "adds no row to the history twice" in caplog.text


def test_a_history_older_than_the_checkpoint_is_reported_and_a_new_checkpoint_repairs_it(
    backed_up: Installation, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = backed_up.with_backup("older-history", "backup-1", "backup-0")
    assert Restored(backed_up.spark, settings, Checkpoint(backed_up.spark, checkpoint_of(settings))).again is None
    (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    sentence = warning.getMessage()
    assert "has read newer records" in sentence and "set [monitor] checkpoint to a new folder" in sentence
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    findings = {finding.about: finding for finding in places_work(settings)}
    assert findings["monitor.history"].state == "warning"
    assert "set [monitor] checkpoint to a new folder" in findings["monitor.history"].text
    back = int(sentence.rpartition("start_seconds_back = ")[2].partition(".")[0])
    anew = backed_up.with_backup("history-mended", "", "backup-0")
    anew = replace(anew, monitor=replace(anew.monitor, start_seconds_back=back))
    counted_once(backed_up, backed_up.run(anew, backed_up.has_read(anew, 3, "closed")))


def test_doctor_reports_what_the_topics_have_deleted_meanwhile(
    backed_up: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = backed_up.with_backup("shorter-topics", "backup-0", "backup-0")
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers)
    admin.delete_records({TopicPartition(METRICS, 0): 2 * RECORDS})
    admin.close()
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    findings = {finding.about: finding for finding in places_work(settings)}
    assert findings["monitor.checkpoint"].state == "warning"
    assert f"{RECORDS} records of {METRICS}" in findings["monitor.checkpoint"].text
