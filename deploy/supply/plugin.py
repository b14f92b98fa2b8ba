"""Build the brokers' plugin (deploy/broker-plugin) as a jar, for `make plugin` and `make release`.

python -m deploy.supply.plugin [FOLDER]      (default: dist/)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from clienthealth.model.errors import DependencyError, ServiceError
from clienthealth.platform.jars import java
from clienthealth.platform.locations import checkout
from deploy.demo import jars
from deploy.helm.build import project

SOURCES = "deploy/broker-plugin"
#: RELEASE: the Java version for which the plugin is compiled. Brokers 3.7 to 3.9 may run on Java 11.
RELEASE, COMPILED_WITH = "11", "clients-4.4"
#: Modification time of all files in the jar, fixed so that equal sources give equal jars.
EPOCH = (1980, 1, 1, 0, 0, 0)
NAME = "kafka-client-health-broker-plugin"
#: Maven group id. `example.org` stands for the domain of the publishing project.
GROUP = "org.example.kafka-client-health"
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 https://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <name>Kafka Client Health: broker plugin</name>
  <description>Writes the metrics that Kafka clients push to their broker (KIP-714) unchanged to a topic.</description>
  <url>{source}</url>
  <licenses><license><name>{licence}</name><url>https://www.apache.org/licenses/LICENSE-2.0</url></license></licenses>
  <developers><developer><name>{author}</name></developer></developers>
  <scm><connection>scm:git:{source}</connection><url>{source}</url></scm>
  <dependencies>
    <dependency>
      <groupId>{of_group}</groupId>
      <artifactId>{of_name}</artifactId>
      <version>{of_version}</version>
      <scope>provided</scope>
    </dependency>
  </dependencies>
</project>
"""


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else checkout() / "dist"
    out.mkdir(parents=True, exist_ok=True)
    print(shutil.copy(jar(), out / f"{NAME}-{project()['version']}.jar"))
    return 0


def publication(out: Path) -> list[Path]:
    """Write the plugin's files for a Maven repository to `out`. Return their paths: jar, POM, sources,
    documentation."""
    begin = f"{NAME}-{project()['version']}"
    compiled, described, documented = (out / f"{begin}{kind}" for kind in (".jar", ".pom", "-javadoc.jar"))
    shutil.copy(jar(), compiled)
    described.write_text(pom(), encoding="utf-8")
    source = checkout() / SOURCES
    sources = _pack(source, source.rglob("*.java"), out / f"{begin}-sources.jar")
    with tempfile.TemporaryDirectory() as folder:
        options = ["-quiet", "-notimestamp", "-Xdoclint:none", "--release", RELEASE]
        _java("javadoc", [*options, "-cp", _classpath(), "-d", folder, *map(str, sorted(source.rglob("*.java")))])
        _pack(Path(folder), (path for path in Path(folder).rglob("*") if path.is_file()), documented)
    return [compiled, described, sources, documented]


def pom() -> str:
    about, (of_group, of_name, of_version) = project(), jars.SETS[COMPILED_WITH].modules[0].split(":")
    known = {"name": NAME, "group": GROUP, "of_group": of_group, "of_name": of_name, "of_version": of_version}
    known |= {"version": about["version"], "licence": about["license"], "author": about["authors"][0]["name"]}
    return _POM.format(**{key: escape(value) for key, value in {**known, "source": about["urls"]["Source"]}.items()})


def jar() -> Path:
    """Return the path of the plugin's jar in the cache. Compile changed sources first."""
    sources = sorted((checkout() / SOURCES).rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    built = jars.cache() / "broker-plugin" / f"clienthealth-{digest}.jar"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            classes = Path(folder) / "classes"
            _compile(sources, classes)
            _pack(classes, classes.rglob("*.class"), Path(folder) / "draft").replace(built)
    return built


def _compile(sources: list[Path], classes: Path) -> None:
    options = ["--release", RELEASE, "-Xlint:all", "-Xlint:-classfile", "-Werror", "-proc:none"]
    _java("javac", [*options, "-cp", _classpath(), "-d", str(classes), *map(str, sources)])


def _java(tool: str, arguments: list[str]) -> None:
    path = shutil.which(tool, path=str(Path(java()).resolve().parent))
    if path is None:
        raise DependencyError(f"java's folder has no {tool}; install a JDK (Debian: openjdk-17-jdk-headless)")
    command = [path, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"{tool} fails on {SOURCES}:\n{done.stderr}{done.stdout}")


def _classpath() -> str:
    return os.pathsep.join(map(str, jars.classpath(COMPILED_WITH)))


def _pack(folder: Path, paths: Iterable[Path], target: Path) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
        for path in sorted(paths):
            _add(archive, path.relative_to(folder).as_posix(), path.read_bytes())
        _add(archive, "META-INF/LICENSE", (checkout() / "LICENSE").read_bytes())
    return target


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    sys.exit(main())
