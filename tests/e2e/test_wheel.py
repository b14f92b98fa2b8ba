"""Check that the installed wheel's `diagnose` needs no Java, Spark or other program."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.reference.rooms import ROOT
from deploy.supply import dist
from tests.support.recorded import RECORDINGS

UV = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".cache" / "uv" / "bin"))

pytestmark = [pytest.mark.long, pytest.mark.skipif(UV is None, reason="needs uv")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return dist.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = (path for path in built if path.suffix == ".whl")
    return dist.install(wheel, tmp_path_factory.mktemp("wheel") / "venv", "[diagnose]")


def test_both_distributions_carry_the_licence_and_the_types(built: list[Path]) -> None:
    for path in built:
        if path.suffix == ".whl":
            names = zipfile.ZipFile(path).namelist()
        else:
            with tarfile.open(path) as archive:
                names = archive.getnames()
        assert any(name.endswith("/LICENSE") for name in names), path
        assert sum(name.endswith("/py.typed") for name in names) == 2, path
    assert sorted(path.suffix for path in built) == [".gz", ".whl"]


def test_an_application_carries_the_reporter_and_msgspec_alone(built: list[Path], tmp_path: Path) -> None:
    (wheel,) = (path for path in built if path.suffix == ".whl")
    programs = dist.install(wheel, tmp_path / "venv")
    dist.reports(programs)
    packages = {path.name.split("-")[0] for path in (tmp_path / "venv").rglob("*.dist-info")}
    assert packages == {"kafka_client_health", "msgspec"}


def test_what_a_release_tries_works(installed: Path) -> None:
    dist.tried(installed)


def test_a_jstack_is_diagnosed(installed: Path) -> None:
    dump = next((RECORDINGS / "deadlock-3.9").glob("jstack-*"))
    none = subprocess.run([installed / "python", "-c", "import pyspark"], capture_output=True, check=False)
    assert none.returncode == 1
    done = subprocess.run(
        [installed / "kafka-health", "diagnose", str(dump)],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "producer-callback-deadlock" in done.stdout


def test_a_command_that_needs_more_prints_what_to_install(installed: Path, tmp_path: Path) -> None:
    # Set `cwd`, because the monitor creates the checkpoint's folder in the working directory.
    done = subprocess.run(
        [installed / "kafka-health", "monitor"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("pip install 'kafka-client-health[spark]'")
