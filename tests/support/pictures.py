"""Take new pictures of the pages, and store hashes of their sources."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTED = ROOT / "tests/golden/pictures.sha256"
PAGE = ("jobs/clienthealth/platform/page.*", "jobs/clienthealth/platform/parts.html.j2")
SHOWN: Mapping[str, Sequence[str]] = {
    "dashboards/pictures": tuple(
        f"dashboards/out/{board}.json"
        for board in ("overview", "producers", "consumers", "mode-producer-callback-deadlock")
    ),
    "exporters/pictures": (
        "exporters/clienthealth_exporters/prometheus/overview.html.j2",
        "exporters/clienthealth_exporters/prometheus/parts_of_clients.html.j2",
        *PAGE,
    ),
    "jobs/clienthealth/review/pictures": (
        "jobs/clienthealth/review/*.html.j2",
        "jobs/clienthealth/review/*.css",
        *PAGE,
    ),
}
SCREENSHOTS = ("tests/e2e/test_status_page_chromium.py::test_picture", "tests/spark/test_review_page.py::test_page")


def hashes() -> str:
    """Return a line for each source, with its hash. The hash ignores panels' descriptions, which no picture shows."""
    paths = {path for patterns in SHOWN.values() for pattern in patterns for path in ROOT.glob(pattern)}
    shown = {path: re.sub(rb'(?m)^ *"description": .*', b"", path.read_bytes()) for path in sorted(paths)}
    return "".join(f"{hashlib.sha256(text).hexdigest()}  {path.relative_to(ROOT)}\n" for path, text in shown.items())


def main() -> int:
    began = time.time()
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header"]
    boards = os.environ | {"DASHBOARDS_IN_PIXELS": "1", "DASHBOARDS_PICTURES": str(ROOT / "dashboards/pictures")}
    with tempfile.TemporaryDirectory() as folder:
        pages = os.environ | {"KAFKA_HEALTH_SCREENSHOTS": folder}
        subprocess.run([*pytest, *SCREENSHOTS], cwd=ROOT, env=pages, check=False)
        for taken in Path(folder).glob("*.png"):
            for kept in (path for shown in SHOWN for path in (ROOT / shown).glob(taken.name)):
                shutil.copyfile(taken, kept)
    subprocess.run([*pytest, "tests/e2e/test_dashboards_pixels.py"], cwd=ROOT, env=boards, check=False)
    old = [path.name for shown in SHOWN for path in (ROOT / shown).iterdir() if path.stat().st_mtime < began]
    if old:
        sys.stderr.write(f"not taken: {', '.join(old)}\n")
        return 1
    NOTED.write_text(hashes(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
