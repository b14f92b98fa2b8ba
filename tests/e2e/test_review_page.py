"""The review in a real browser: no wider than the screen, readable for everyone by axe-core, loading nothing.

With KAFKA_HEALTH_SCREENSHOTS set to a folder, the pictures for the documentation are written there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from clienthealth import jars
from clienthealth.review.build import build
from clienthealth.review.render import write
from clienthealth.settings import LinkSettings, Settings
from tests.spark import known_weeks as known

PACKAGES = ("puppeteer-core@24.8.2", "axe-core@4.14.1")
HERE = Path(__file__).resolve().parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE, NPM = shutil.which("node"), shutil.which("npm")

ACTIONS = """
[[action]]
title = "Move the confirmation mail out of the producer callback"
owner = "orders team"
due = 2026-11-11
link = "https://tracker.example/ORD-1312"
[[action]]
title = "Give billing its own metadata timeout"
owner = "billing team"
due = 2026-11-20
"""


@pytest.fixture(scope="module")
def modules() -> Path:
    """The node packages, installed once into our own cache."""
    if not (CHROMIUM and NODE and NPM):
        pytest.skip("needs chromium, node and npm")
    folder = jars.cache() / "npm"
    wanted = [folder / "node_modules" / package.rpartition("@")[0] / "package.json" for package in PACKAGES]
    versions = [json.loads(file.read_text())["version"] if file.is_file() else None for file in wanted]
    if versions != [package.rpartition("@")[2] for package in PACKAGES]:
        folder.mkdir(parents=True, exist_ok=True)
        command = [NPM, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"npm could not install {' and '.join(PACKAGES)}: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture(scope="module")
def pages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A week with everything, and a week without any history."""
    root = tmp_path_factory.mktemp("history")
    known.write(spark, str(root))
    (root / "actions.toml").write_text(ACTIONS)
    settings = dataclasses.replace(Settings(), links=LinkSettings(dashboards="https://grafana.example"))
    weeks = {"full": known.W46, "empty": known.W46.before(-2)}
    return {
        name: write(build(spark, settings, week, root / "actions.toml", str(root)), root / name)[0]
        for name, week in weeks.items()
    }


@pytest.mark.parametrize(("device", "width"), [("desktop", 1180), ("phone", 390)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("week", ["full", "empty"])
def test_page(modules: Path, pages: dict[str, Path], device: str, width: int, scheme: str, week: str) -> None:
    folder = os.environ.get("KAFKA_HEALTH_SCREENSHOTS")
    picture = [str(Path(folder) / f"review-{device}-{scheme}.png")] if folder and week == "full" else []
    found = look(modules, pages[week], width, scheme, picture)
    assert found["screen"] == width
    assert found["wide"] <= width, f"{found['wide']} px wide on a screen of {width} px: {found['out']}"
    assert found["out"] == []
    assert found["requests"] == []
    assert found["passes"] > 20, "axe-core looked at next to nothing"
    assert [v for v in found["violations"] if v["impact"] in ("serious", "critical")] == []


def look(modules: Path, page: Path, width: int, scheme: str, picture: list[str]) -> dict[str, Any]:
    assert NODE and CHROMIUM
    command = [NODE, str(HERE / "page_check.mjs"), str(modules / "node_modules"), CHROMIUM, page.as_uri(), str(width)]
    done = subprocess.run([*command, scheme, *picture], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
