"""A review before the end of the first full week explains what is missing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.ops.cli import main
from clienthealth.spark import history
from clienthealth.spark.stepping import Quality

pytestmark = pytest.mark.long


def review(*options: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["review", *options])
    return ended.value.code


def test_it_reports_since_when_there_is_data_and_offers_that(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.chdir(tmp_path)
    history.create(spark, str(tmp_path / "history"))
    assert review("--history", "history") == 2
    assert capsys.readouterr().err == "kafka-health: the history is empty: the monitor has not written anything yet\n"
    first = datetime.now(UTC).replace(second=0, microsecond=0)
    history.append_quality(
        spark, str(tmp_path / "history"), [Quality(int(first.timestamp() * 1000), "t", 1)], history.Origin("q", 0)
    )
    assert review("--history", "history") == 2
    sentence = capsys.readouterr().err
    assert f"begins on {first:%Y-%m-%d at %H:%M} UTC, after the last full week" in sentence
    assert not (tmp_path / "reports").exists()
    (offered,) = re.findall(r"--from (\S+) --to \S+", sentence)
    assert offered == f"{first:%Y-%m-%dT%H:%MZ}"
