"""A review's page fits the screen, passes axe-core, and sends no request elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clienthealth.review.render import write
from tests.spark import known_weeks
from tests.spark.conftest import Reviewed
from tests.support.browser import check, node_modules

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def modules() -> Path:
    return node_modules()


@pytest.fixture(scope="module")
def pages(reviewed: Reviewed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    weeks = {"full": known_weeks.W46, "empty": known_weeks.W46.before(-1)}
    written = {name: write(reviewed(week), root / name) for name, week in weeks.items()}
    return {**{name: files[0] for name, files in written.items()}, "details": written["full"][3]}


@pytest.mark.parametrize(("device", "width"), [("desktop", 1180), ("phone", 390)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("week", ["full", "details", "empty"])
def test_page(modules: Path, pages: dict[str, Path], device: str, width: int, scheme: str, week: str) -> None:
    folder = os.environ.get("KAFKA_HEALTH_SCREENSHOTS")
    picture = [str(Path(folder) / f"review-{device}-{scheme}.png")] if folder and week == "full" else []
    check(modules, pages[week], width, scheme, picture)
