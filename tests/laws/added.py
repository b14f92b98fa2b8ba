"""Copy our packages, and add the files that our pages print as examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.reference.rooms import ROOT

#: Other processes may still be writing files named *.pyc.*.
UNFINISHED = shutil.ignore_patterns("*.pyc.*")


class Copy:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("jobs", "exporters", "alerts", "dashboards"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=UNFINISHED)
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        for name in ("deploy/demo", "deploy/helm", "deploy/reference"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=UNFINISHED)
        for name in ("operate.md", "config.reference.toml"):
            shutil.copy(ROOT / "deploy" / name, folder / "deploy")

    def add(self, page: str, *files: str) -> None:
        text = (ROOT / page).read_text("utf-8")
        examples = re.findall(r"^```(?:python|toml)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for file, example in zip(files, examples, strict=False):
            assert not (self.folder / file).exists()
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(example, "utf-8")

    def with_tests(self) -> None:
        shutil.copytree(
            ROOT / "tests",
            self.folder / "tests",
            ignore=shutil.ignore_patterns("*.pyc.*", "recordings", "dump_shapes", "releases", "captures"),
        )
        (self.folder / "tests/recordings").symlink_to(ROOT / "tests/recordings")

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._python("pytest", "-q", "-p", "no:cacheprovider", *arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._python("clienthealth.ops.cli", *arguments)

    def _python(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join(str(self.folder / name) for name in ("jobs", "exporters", "."))
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
