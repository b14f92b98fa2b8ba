"""The history of known weeks, written once for all tests of this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import known_weeks


@pytest.fixture(scope="session")
def known_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the history of `known_weeks` is; to be read only."""
    root: Path = tmp_path_factory.mktemp("known") / "history"
    known_weeks.write(spark, str(root))
    return str(root)
