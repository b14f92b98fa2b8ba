"""What `pip install` of the wheel alone can do: `diagnose`, with no Java, no Spark and no program on the PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from clienthealth.reference.sources import ROOT
from tests.support.recorded import RECORDINGS

UV = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".cache" / "uv" / "bin"))

pytestmark = pytest.mark.skipif(UV is None, reason="needs uv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it depends on, no extras."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    for name in ("jobs", "exporters"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "alerts" / "runbooks", sources / "alerts" / "runbooks")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, sources / name)
    uv("build", "--wheel", "--out-dir", str(folder / "dist"), str(sources))
    (wheel,) = (folder / "dist").glob("*.whl")
    uv("venv", str(folder / "venv"))
    uv("pip", "install", "--python", str(folder / "venv" / "bin" / "python"), str(wheel))
    return folder / "venv" / "bin"


def uv(*arguments: str) -> None:
    assert UV is not None
    done = subprocess.run([UV, "--quiet", *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_jstack_is_diagnosed(installed: Path) -> None:
    dump = next((RECORDINGS / "deadlock-3.9").glob("jstack-*"))
    none = subprocess.run([installed / "python", "-c", "import pyspark"], capture_output=True, check=False)
    assert none.returncode == 1
    done = subprocess.run(
        [installed / "kafka-health", "diagnose", str(dump)],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "producer-callback-deadlock" in done.stdout


def test_a_command_that_needs_more_says_what_to_install(installed: Path) -> None:
    done = subprocess.run(
        [installed / "kafka-health", "monitor"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("pip install 'kafka-client-health[spark]'")
