"""A copy of the package to which the examples of its own pages have been added, as a newcomer would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from clienthealth.reference.sources import ROOT


class Copy:
    """The installed packages in `folder`, found before the real ones by every program that `run` starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("jobs", "exporters", "alerts", "dashboards"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        shutil.copytree(ROOT / "deploy/helm", folder / "deploy/helm", symlinks=True)
        for name in ("README.md", "config.reference.toml"):
            shutil.copy(ROOT / "deploy" / name, folder / "deploy")

    def add(self, page: str, file: str) -> None:
        """Write the one Python example of a page to a file beside it."""
        (example,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
        path = self.folder / Path(page).parent / file
        assert not path.exists()
        path.write_text(example, "utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`kafka-health` of the copy."""
        paths = os.pathsep.join(str(self.folder / name) for name in ("jobs", "exporters", "."))
        return subprocess.run(
            [sys.executable, "-m", "clienthealth.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
