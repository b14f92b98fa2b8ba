"""Write the history of `known_weeks` and its reviews once per test process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clienthealth.review.model import Review
from clienthealth.review.period import Period
from clienthealth.review.queries import build
from clienthealth.settings import LinkSettings, Settings
from clienthealth.spark.session import configured
from tests.spark import known_weeks

Reviewed = Callable[[Period], Review]


@pytest.fixture(scope="session")
def known_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    root: Path = tmp_path_factory.mktemp("known") / "history"
    # Let Spark compile code, which is faster for the many rows of the history.
    with configured(spark, {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}):
        known_weeks.write(spark, str(root))
    return str(root)


@pytest.fixture(scope="session")
def reviewed(spark: SparkSession, known_history: str, tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    actions = tmp_path_factory.mktemp("actions") / "actions.toml"
    actions.write_text(known_weeks.ACTIONS)
    settings = dataclasses.replace(Settings(), links=LinkSettings(dashboards=known_weeks.DASHBOARDS))
    return cache(lambda period: build(spark, settings, period, actions, known_history))
