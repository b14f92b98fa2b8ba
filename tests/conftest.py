"""Provide one Spark session and one broker per test process."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deploy.demo.broker import Broker


DEAREST = 12
_cpu_seconds: defaultdict[str, float] = defaultdict(float)
_cpu_before = sum(os.times()[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", type=Path, help="a folder in which processes claim the files of tests that they run")


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, because they exist until the end of the run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    _spend("(collection)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    claims = item.config.getoption("--claims")
    return None if claims is None or _claimed(claims / item.path.name) else True


def pytest_runtest_logfinish(location: tuple[str, int | None, str]) -> None:
    _spend(Path(location[0]).name)


def _spend(what: str) -> None:
    global _cpu_before
    now = sum(os.times()[:4])
    _cpu_seconds[what] += now - _cpu_before
    _cpu_before = now


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    dearest = sorted(_cpu_seconds.items(), key=lambda item: -item[1])[:DEAREST]
    terminalreporter.write_line("CPU s: " + ", ".join(f"{name} {cpu:.1f}" for name, cpu in dearest))


@cache
def _claimed(place: Path) -> bool:
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that none runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from clienthealth.settings import MonitorSettings, ReviewSettings, Settings, SparkSettings
    from clienthealth.spark.session import session
    from deploy.demo.stack import QUICK_START

    # Spark interprets a query on few rows faster than it compiles the query.
    settings = Settings(
        monitor=MonitorSettings(shuffle_partitions=2),
        review=ReviewSettings(out="s3a://reports"),
        spark=SparkSettings({"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
    )
    with pytest.MonkeyPatch.context() as environment:
        for name, value in QUICK_START.items():
            environment.setenv(name, value)
        started = session("tests", settings)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from deploy.demo.broker import Broker

    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
