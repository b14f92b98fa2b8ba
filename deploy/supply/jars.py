"""List the jars that Kafka Client Health uses, and their known vulnerabilities."""

from __future__ import annotations

import importlib.util
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.demo import jars

CVES = Path(__file__).with_name("known_cves.toml")
PYSPARK = "pyspark"
_ENTRY = re.compile(r"META-INF/maven/(?P<group>[^/]+)/(?P<name>[^/]+)/pom\.properties")
_FILE = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*?)\.jar")


@dataclass(frozen=True)
class Jar:
    """A jar file. `group`: Maven group id; '' if unknown.

    `used_by`: PYSPARK, or the name of the jar's set in `jars.SETS`.
    """

    used_by: str
    group: str
    name: str
    version: str
    path: Path

    @property
    def purl(self) -> str:
        """The jar's package URL (purl). The URL begins with `pkg:generic/` if the jar's Maven group is unknown."""
        return f"pkg:maven/{self.group}/{self.name}@{self.version}" if self.group else f"pkg:generic/{self.path.name}"


def installed(sets: Iterable[str] = jars.SETS) -> Iterator[Jar]:
    """Yield the jars of `sets`, downloading missing jars, and then the jars of the installed PySpark."""
    for used_by in sets:
        for path in jars.classpath(used_by):
            yield from _jar(used_by, path.parents[2].name, path)
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        for path in sorted((Path(spec.origin).parent / "jars").glob("*.jar")):
            yield from _jar(PYSPARK, _group(path), path)


def _jar(used_by: str, group: str, path: Path) -> Iterator[Jar]:
    if match := _FILE.fullmatch(path.name):
        yield Jar(used_by, group, match["name"], match["version"], path)


def _group(path: Path) -> str:
    """Return the Maven group id in the jar's pom.properties; '' if there is no such file, or more than one."""
    with zipfile.ZipFile(path) as jar:
        entries = (_ENTRY.fullmatch(name) for name in jar.namelist())
        groups = [entry["group"] for entry in entries if entry and path.name.startswith(f"{entry['name']}-")]
    return groups[0] if len(groups) == 1 else ""


def vulnerabilities() -> list[Mapping[str, Any]]:
    listed: list[Mapping[str, Any]] = tomllib.loads(CVES.read_text(encoding="utf-8"))["cve"]
    return listed


def judged(present: Iterable[Jar], cves: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Compare jars with known_cves.toml. Return two lists of sentences: required changes, and accepted risks."""
    mend, stays, present = [], [], list(present)
    for cve in cves:
        reasons = dict(cve.get("stays", {}))
        needed = set()
        for jar in present:
            if jar.name != cve["jar"] or not _parts(cve["from"]) <= _parts(jar.version) < _parts(cve["fixed"]):
                continue
            text = f"{cve['id']} in {jar.name} {jar.version} ({jar.used_by}): {cve['what']}; fixed in {cve['fixed']}"
            needed.add(jar.used_by)
            if reason := reasons.get(jar.used_by):
                stays.append(f"{text}. It stays: {reason}.")
            else:
                mend.append(f"{text}. Upgrade the jar, or state in {CVES.name} why this version stays.")
        mend += [
            f"{cve['id']}: no jar of '{used_by}' has this vulnerability; remove the entry."
            for used_by in sorted(reasons.keys() - needed)
        ]
    return mend, stays


def _parts(version: str) -> tuple[int, ...]:
    numeric = re.match(r"\d+(?:\.\d+)*", version)
    assert numeric, version
    return tuple(map(int, numeric[0].split(".")))
