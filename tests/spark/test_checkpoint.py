"""The monitor reads and repairs the files of a query's checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from clienthealth.model.errors import StateError
from clienthealth.spark.checkpoint import Checkpoint, Pending
from clienthealth.spark.topics import ticks
from tests.support.waiting import eventually

HEAD = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1795208640123,"conf":{}}']
M, L = {"metrics": {"0": 10, "1": 20}}, {"logs": {"0": 5}}
M_NOW, L_NOW = {"metrics": {"0": 15, "1": 20}}, {"logs": {"0": 9}}


NOW_MS = 1_795_208_640_123


def planned(folder: Path, *batches: Sequence[Any], committed: int) -> None:
    for number, sources in enumerate(batches):
        for kind in ("offsets", "commits"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / "offsets" / str(number)).write_text("\n".join([*HEAD, *map(json.dumps, sources)]))
        if number <= committed:
            (folder / "commits" / str(number)).write_text("v1\n{}")


def sources(folder: Path, batch: int) -> list[Any]:
    version, about, *offsets = (folder / "offsets" / str(batch)).read_text().splitlines()
    assert [version, about] == HEAD
    return [json.loads(source) for source in offsets]


def test_the_batch_that_will_be_repeated_can_be_made_smaller_and_begin_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    planned(tmp_path, (M, L), (M_NOW, L_NOW), committed=0)
    checkpoint = Checkpoint(spark, str(tmp_path))
    pending = checkpoint.pending()
    assert pending == Pending(
        1,
        {(0, "metrics", 0): 10, (0, "metrics", 1): 20, (1, "logs", 0): 5},
        {(0, "metrics", 0): 15, (0, "metrics", 1): 20, (1, "logs", 0): 9},
        1795208640123,
    )
    assert pending.sizes == {(0, "metrics", 0): 5, (1, "logs", 0): 4}
    stale = tmp_path / "state/0/1/2.changelog"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of the larger batch")
    checkpoint.end_at(pending, {(1, "logs", 0): 6})
    assert sources(tmp_path, 1) == [M, {"logs": {"0": 6}}]
    assert not stale.exists()
    checkpoint.begin_at(1, (1, "logs", 0), 6)
    assert sources(tmp_path, 0) == [M, {"logs": {"0": 6}}]
    assert checkpoint.positions() == {("metrics", 0): 10, ("metrics", 1): 20, ("logs", 0): 6}
    (tmp_path / "commits/1").write_text("v1\n{}")
    assert checkpoint.pending() is None


def initial(spark: SparkSession, folder: Path) -> Any:
    jvm: Any = spark._jvm
    written = jvm.org.apache.spark.sql.kafka010.KafkaSourceInitialOffsetWriter(spark._jsparkSession, str(folder))
    return json.loads(str(written.get(0).get().json()))


def test_the_first_batch_begins_where_the_sources_began(spark: SparkSession, tmp_path: Path) -> None:
    planned(tmp_path, (M_NOW, L_NOW), committed=-1)
    for at, began in enumerate((M, L)):
        (tmp_path / f"sources/{at}").mkdir(parents=True)
        (tmp_path / f"sources/{at}/0").write_text(f"\0v1\n{json.dumps(began)}")
    checkpoint = Checkpoint(spark, str(tmp_path))
    pending = checkpoint.pending()
    assert pending is not None
    assert pending.sizes == {(0, "metrics", 0): 5, (1, "logs", 0): 4}
    checkpoint.begin_at(0, (0, "metrics", 0), 11)
    assert initial(spark, tmp_path / "sources/0") == {"metrics": {"0": 11, "1": 20}}


def test_a_batch_that_is_made_smaller_keeps_its_ticks(spark: SparkSession, tmp_path: Path) -> None:
    planned(tmp_path, (M, L, 7), (M_NOW, L_NOW, 8), committed=0)
    (tmp_path / "sources/2").mkdir(parents=True)
    (tmp_path / "sources/2/0").write_text("v1\n1795208640123")
    checkpoint = Checkpoint(spark, str(tmp_path))
    pending = checkpoint.pending()
    assert pending is not None
    checkpoint.end_at(pending, {(1, "logs", 0): 6})
    assert sources(tmp_path, 1) == [M, {"logs": {"0": 6}}, 8]
    assert checkpoint.positions() == {("metrics", 0): 10, ("metrics", 1): 20, ("logs", 0): 5}


def test_ticks_go_on_where_the_clock_was_set_back(spark: SparkSession, tmp_path: Path) -> None:
    planned(tmp_path, (M, L, 0), (M_NOW, L_NOW, 3600), committed=0)
    checkpoint = Checkpoint(spark, str(tmp_path))
    begun = tmp_path / "sources/2/0"
    begun.parent.mkdir(parents=True)
    begun.write_text(f"v1\n{NOW_MS - 3_600_000}")
    checkpoint.begin_ticks(NOW_MS + 5)
    assert begun.read_text() == f"v1\n{NOW_MS - 3_600_000}"
    checkpoint.begin_ticks(NOW_MS - 1000)
    assert begun.read_text() == f"v1\n{NOW_MS - 3_601_000}"


@pytest.mark.long
def test_no_code_is_compiled_for_another_batch_of_ticks(spark: SparkSession, tmp_path: Path) -> None:
    """If a query plan contained the batch's time, Spark would compile new code for each batch."""
    jvm: Any = spark.sparkContext._jvm
    compilations = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    after_batch: list[int] = []

    def batch(rows: DataFrame, _: int) -> None:
        rows.count()
        after_batch.append(compilations.getCount())

    writer = ticks(spark).writeStream.foreachBatch(batch).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(processingTime="1 second").start()
    try:
        eventually(lambda: len(after_batch) > 5 or not query.isActive, "six batches of ticks")
    finally:
        query.stop()
    assert not query.exception()
    assert len({*after_batch[2:]}) == 1


def test_a_truncated_file_is_reported_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    planned(tmp_path, (M, L), committed=0)
    (tmp_path / "offsets/0").write_text("")
    with pytest.raises(StateError, match=r"^the checkpoint's file offsets/0 is damaged\. Set "):
        Checkpoint(spark, str(tmp_path)).claim(1)


def test_notes_are_written_whole_and_read_again(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(spark, str(tmp_path / "not/there/yet"))
    assert checkpoint.read("run.json") is None
    for text in ("first", "second, with an ä"):
        checkpoint.write("run.json", text)
        assert checkpoint.read("run.json") == text


@pytest.mark.skipif(sys.platform != "linux", reason="counts the JVM's ended children in /proc")
def test_files_are_as_hadoop_writes_them_but_no_program_is_started_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark.sparkContext._jvm
    checkpoint = Checkpoint(spark, str(tmp_path))
    hadoop = jvm.org.apache.hadoop.fs.FileContext.getLocalFSFileContext(jvm.org.apache.hadoop.conf.Configuration())
    note = jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/note")
    of_hadoop = jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/of_hadoop")
    flags = jvm.java.util.EnumSet.of(jvm.org.apache.hadoop.fs.CreateFlag.CREATE)
    gateway: Any = spark.sparkContext._gateway
    options = gateway.new_array(getattr(jvm, "org.apache.hadoop.fs.Options$CreateOpts"), 0)
    stream = hadoop.create(of_hadoop, flags, options)
    stream.write(b"first, with a checksum")
    stream.close()
    assert checkpoint.read("of_hadoop") == "first, with a checksum"
    before = _children_faults(spark)
    for text in ("first", "second, longer"):
        checkpoint.write("of_hadoop", text)
        checkpoint.write("note", text)
        assert (checkpoint.read("of_hadoop"), checkpoint.read("note")) == (text, text)
    assert _children_faults(spark) == before
    assert {path.name for path in tmp_path.iterdir()} == {"note", ".note.crc", "of_hadoop", ".of_hadoop.crc"}
    assert (tmp_path / "note").stat().st_mode & 0o777 == (tmp_path / ".note.crc").stat().st_mode & 0o777 == 0o644
    for path in (note, of_hadoop):
        opened = hadoop.open(path)
        assert jvm.java.util.Scanner(opened, "UTF-8").useDelimiter("\\A").next() == "second, longer"
        opened.close()


def _children_faults(spark: SparkSession) -> int:
    """Return the number of page faults of ended child processes. The number rises if the JVM has run a program."""
    gateway: Any = spark.sparkContext._gateway
    return int(Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(") ")[2].split()[8])


@pytest.mark.parametrize(
    ("more", "writer"),
    [
        ((7, {"more": {"0": 1}}), "a later release: the checkpoint has 4 sources, and this release has 3"),
        ((), "an earlier release: the checkpoint has 2 sources, and this release has 3"),
    ],
    ids=["later", "earlier"],
)
def test_a_checkpoint_with_another_number_of_sources_is_of_another_release(
    spark: SparkSession, tmp_path: Path, more: Sequence[Any], writer: str
) -> None:
    planned(tmp_path, (M, L, *more), committed=0)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StateError, match=f"^the checkpoint was written by {writer} sources. Run the "):
        Checkpoint(spark, str(tmp_path)).claim(1)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_checkpoint_of_a_release_that_left_no_note_gets_one(spark: SparkSession, tmp_path: Path) -> None:
    planned(tmp_path, (M, L, 7), committed=0)
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.claim(1)
    checkpoint.claim(2)
    with pytest.raises(StateError, match="the checkpoint has version 2 of the state, and this release has version 1"):
        checkpoint.claim(1)
