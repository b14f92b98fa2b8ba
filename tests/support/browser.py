"""Open pages in Chromium and check them with axe-core."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clienthealth.platform import jars

PACKAGES = ("puppeteer-core@24.8.2", "axe-core@4.14.1")
SCRIPT = Path(__file__).with_name("page_check.mjs")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE, NPM = shutil.which("node"), shutil.which("npm")


def node_modules() -> Path:
    if not (CHROMIUM and NODE and NPM):
        pytest.skip("needs chromium, node and npm")
    folder = jars.cache() / "npm"
    wanted = [folder / "node_modules" / package.rpartition("@")[0] / "package.json" for package in PACKAGES]
    versions = [json.loads(file.read_text())["version"] if file.is_file() else None for file in wanted]
    if versions != [package.rpartition("@")[2] for package in PACKAGES]:
        folder.mkdir(parents=True, exist_ok=True)
        command = [NPM, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"npm could not install {' and '.join(PACKAGES)}: {done.stderr.strip()[-300:]}"
    return folder


def check(modules: Path, page: Path, width: int, scheme: str, picture: Sequence[str] = ()) -> None:
    report = _look(modules, page, width, scheme, picture)
    assert report["screen"] == width
    assert report["wide"] <= width, f"{report['wide']} px wide on a screen of {width} px: {report['out']}"
    assert report["out"] == []
    assert report["requests"] == []
    assert report["passes"] > 20, "axe-core looked at next to nothing"
    assert [v for v in report["violations"] if v["impact"] in ("serious", "critical")] == []


def _look(modules: Path, page: Path, width: int, scheme: str, picture: Sequence[str]) -> dict[str, Any]:
    assert NODE and CHROMIUM
    command = [NODE, str(SCRIPT), str(modules / "node_modules"), CHROMIUM, page.as_uri(), str(width)]
    done = subprocess.run([*command, scheme, *picture], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
