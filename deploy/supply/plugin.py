"""The brokers' plugin (deploy/broker-plugin) as a jar: `make plugin`, and part of `make dist`.

python -m deploy.supply.plugin [FOLDER]      (dist/)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

from clienthealth.model.errors import DependencyError, ServiceError
from clienthealth.platform.jars import java
from clienthealth.platform.locations import checkout
from deploy.demo import jars

SOURCES = "deploy/broker-plugin"
#: The oldest Java that a broker of 3.7 to 3.9 runs on, and jars that have their interface and the one since 4.2.
RELEASE, COMPILED_WITH = "11", "clients-4.4"
#: Jars are zip files: with one time in all of them the same sources give the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """Build it into a folder and say where it is."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else checkout() / "dist"
    out.mkdir(parents=True, exist_ok=True)
    print(shutil.copy(jar(), out / f"kafka-client-health-broker-plugin-{version('kafka-client-health')}.jar"))
    return 0


def jar() -> Path:
    """The jar of the present sources, compiled if that was not done yet. Raises DependencyError, ServiceError."""
    sources = sorted((checkout() / SOURCES).rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    built = jars.cache() / "broker-plugin" / f"clienthealth-{digest}.jar"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            classes = Path(folder) / "classes"
            _compile(sources, classes)
            _pack(classes, Path(folder) / "draft").replace(built)
    return built


def _compile(sources: list[Path], classes: Path) -> None:
    compiler = shutil.which("javac", path=str(Path(java()).resolve().parent))
    if compiler is None:
        raise DependencyError("there is no javac beside java; install a JDK (Debian: openjdk-17-jdk-headless)")
    path = os.pathsep.join(map(str, jars.classpath(COMPILED_WITH)))
    options = ["--release", RELEASE, "-Xlint:all", "-Xlint:-classfile", "-Werror", "-proc:none"]
    command = [compiler, *options, "-cp", path, "-d", str(classes), *map(str, sources)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"{SOURCES} does not compile:\n{done.stderr}{done.stdout}")


def _pack(classes: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
        for path in sorted(classes.rglob("*.class")):
            _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
        _add(archive, "META-INF/LICENSE", (checkout() / "LICENSE").read_bytes())
    return target


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    sys.exit(main())
