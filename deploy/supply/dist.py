"""`make dist`: build a release's wheel and source distribution, and try each in a new environment.

python -m deploy.supply.dist [FOLDER]      (default: dist/)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from clienthealth.model.errors import ServiceError
from clienthealth.modes.producer_callback_deadlock.rules import ID as DEADLOCK
from clienthealth.platform.jars import cache
from clienthealth.platform.locations import checkout
from deploy.helm.build import project

SOURCES = ("jobs", "exporters", "alerts", "pyproject.toml", "README.md", "LICENSE")
BENCHMARK = "deploy/benchmark"
RECORDING = "tests/recordings/deadlock-3.9"


def main() -> int:
    """Build and try both distributions. Return 0."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else checkout() / "dist"
    for built in build(out):
        with tempfile.TemporaryDirectory() as folder:
            alone, with_diagnose = Path(folder) / "no-extras", Path(folder) / "diagnose"
            reports(install(built, alone))
            tried(install(built, with_diagnose, "[diagnose]"))
            sizes = ", ".join(f"{where.name} {megabytes(where):.1f} MB" for where in (alone, with_diagnose))
        print(f"{built}: works without extras and with the extra [diagnose] ({sizes})")
    return 0


def build(out: Path) -> list[Path]:
    """Build the source distribution, and build the wheel from the source distribution. Write both files to `out`."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        for name in SOURCES:
            source, target = checkout() / name, sources / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(source, target)
        before = {path: path.stat().st_mtime_ns for path in out.glob("*")}
        _uv("build", "--out-dir", str(out), str(sources))
    made = [path for path in sorted(out.glob("kafka_client_health-*")) if path.stat().st_mtime_ns != before.get(path)]
    return [path for path in made if path.name.endswith((".whl", ".tar.gz"))]


def benchmark(out: Path) -> Path:
    """Build the wheel of the benchmark (kafka-client-failures) into the folder `out`."""
    version = project()["version"]
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        shutil.copytree(checkout() / BENCHMARK, sources, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(checkout() / "LICENSE", sources)
        (sources / "VERSION").write_text(version, encoding="utf-8")
        _uv("build", "--wheel", "--out-dir", str(out), str(sources))
    return out / f"kafka_client_failures-{version}-py3-none-any.whl"


def install(distribution: Path, venv: Path, extras: str = "") -> Path:
    """Install a distribution and its dependencies into a new environment `venv`. Return the environment's bin folder.

    `extras`: the extras to install, such as "[diagnose]"; '' for none.
    """
    _uv("venv", str(venv))
    _uv("pip", "install", "--python", str(venv / "bin/python"), f"{distribution.resolve()}{extras}")
    return venv / "bin"


def megabytes(venv: Path) -> float:
    """Return the total size of an environment's files in MB (10^6 bytes). Symbolic links are not counted."""
    return sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def reports(programs: Path) -> None:
    """Check an installation without extras: `python_client` can be imported, and `diagnose` ends with exit code 2."""
    output([str(programs / "python"), "-c", "import clienthealth_exporters.python_client"])
    missing_extra = output([str(programs / "kafka-health"), "diagnose", "."], 2)
    if missing_extra:
        raise ServiceError(f"without extras, kafka-health diagnose must print nothing, but printed:\n{missing_extra}")


def tried(programs: Path) -> None:
    """Check what must work without Spark and Java: `diagnose`, `check-config`, `alerts`, and the runbooks."""
    report = output([str(programs / "kafka-health"), "diagnose", str(checkout() / RECORDING)], 1)
    if DEADLOCK not in report:
        raise ServiceError(f"the deadlock of {RECORDING} is not found:\n{report}")
    output([str(programs / "kafka-health"), "check-config"])
    with tempfile.TemporaryDirectory() as folder:
        rules = output([str(programs / "kafka-health"), "alerts", "--out", folder])
    if not all(name in rules for name in ("watchdog.yml", "slo.yml", "alertmanager.yml", ".tmpl")):
        raise ServiceError(f"kafka-health alerts does not write all its files, only these:\n{rules}")
    listing = "files('clienthealth_exporters.prometheus').joinpath('runbooks').iterdir()"
    runbooks = f"from importlib.resources import files; print(len([*{listing}]))"
    served = int(output([str(programs / "python"), "-c", runbooks]))
    if served != len(list((checkout() / "alerts/runbooks").glob("*.md"))):
        raise ServiceError(f"the distribution has {served} runbooks, but alerts/runbooks has another number")


def uv() -> str:
    return os.environ.get("UV") or shutil.which("uv") or str(cache() / "uv/bin/uv")


def _uv(*arguments: str) -> None:
    output([uv(), "--quiet", *arguments])


def output(command: Iterable[str], expected: int = 0, folder: Path | None = None) -> str:
    """Run a command and return its standard output.

    Raises ServiceError if the exit code is not `expected`.
    """
    done = subprocess.run([*command], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != expected:
        raise ServiceError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
