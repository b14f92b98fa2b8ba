"""Fixtures that start something: one Spark session and one broker per test process, and only where asked for.

Modules marked `early` are run before the others of their layer. Processes that are given the same folder of claims
share the files of tests: each runs those that it claims first.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deploy.demo.broker import Broker


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tests.stages` gives to processes that share a layer."""
    parser.addoption("--claims", type=Path, help="a folder in which processes claim the files of tests that they run")


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as the process: no collection of garbage need look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Nothing is done about a test whose file another process has claimed."""
    claims = item.config.getoption("--claims")
    return None if claims is None or _claimed(claims / item.path.name) else True


@cache
def _claimed(place: Path) -> bool:
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: else one process works on it at the end, while the others are idle."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of production, with our jars, on two cores; quick to start, as it lives for minutes."""
    from clienthealth.settings import MonitorSettings, ReviewSettings, Settings, SparkSettings
    from clienthealth.spark.session import session
    from deploy.demo.stack import QUICK_START

    # With the jars for object stores as well. Each query is new and its rows are few: to compile it would take longer
    # than to interpret it.
    settings = Settings(
        monitor=MonitorSettings(shuffle_partitions=2),
        review=ReviewSettings(out="s3a://reports"),
        spark=SparkSettings({"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
    )
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK_START.items():
            environment.setenv(name, value)
        started = session("tests", settings, batch=True)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker on loopback, for all tests of this process: each takes topics of its own."""
    from deploy.demo.broker import Broker

    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
