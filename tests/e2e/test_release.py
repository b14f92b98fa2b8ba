"""Run `make release` in a clean clone, and check commit, tag and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clienthealth.platform.jars import cache
from deploy.reference.rooms import ROOT
from deploy.supply import helm
from tests.support.recorded import RECORDINGS

pytestmark = [pytest.mark.long, pytest.mark.skipif(helm.installed() is None, reason=helm.MISSING)]
VERSION = "99.0.0"
BEGIN = "kafka-client-health"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- **A thing** that users get.\n\n## 0.2.0\n\n- What they had.\n"
MADE = {
    "NOTES.md",
    "SHA256SUMS",
    f"{BEGIN}-{VERSION}.tgz",
    f"{BEGIN}-{VERSION}.cdx.json",
    *(f"{BEGIN}-broker-plugin-{VERSION}{kind}" for kind in (".jar", ".pom", "-sources.jar", "-javadoc.jar")),
    f"kafka_client_health-{VERSION}-py3-none-any.whl",
    f"kafka_client_health-{VERSION}.tar.gz",
    f"kafka_client_failures-{VERSION}-py3-none-any.whl",
}


def git(clone: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def release(clone: Path, version: str) -> subprocess.CompletedProcess[str]:
    found = helm.installed()
    assert found is not None
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(clone / name) for name in ("jobs", "exporters", ".")),
        "PATH": f"{found.parent}{os.pathsep}{os.environ['PATH']}",
        "KAFKA_HEALTH_CACHE": str(cache()),
        **{f"GIT_{role}_{what}": "t@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    command = [sys.executable, "-m", "deploy.supply.release", version]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "--quiet", str(ROOT), ".")
    (clone / "CHANGELOG.md").write_text(CHANGELOG, "utf-8")
    git(clone, "commit", "--quiet", "--all", "--message", "changelog: say what users get")
    done = release(clone, VERSION)
    assert done.returncode == 0, done.stderr
    assert f"git push origin HEAD v{VERSION}" in done.stdout
    return clone


def test_it_is_a_commit_with_a_tag_and_all_files(clone: Path) -> None:
    assert {path.name for path in (clone / "dist").glob("[!.]*")} == {*MADE, "site"}
    assert VERSION in (clone / "dist/site/index.html").read_text("utf-8")
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "rev-parse", f"v{VERSION}^{{commit}}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "show", "--format=%s", "--name-only").split("\n\n") == [
        f"release: {VERSION}",
        f"CHANGELOG.md\ndeploy/helm/{BEGIN}/Chart.yaml\npyproject.toml\nuv.lock",
    ]
    sums = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=clone / "dist", check=False)
    assert sums.returncode == 0
    assert len((clone / "dist/SHA256SUMS").read_text("utf-8").splitlines()) == len(MADE) - 1


def test_each_file_bears_the_version(clone: Path) -> None:
    dist = clone / "dist"
    assert (dist / "NOTES.md").read_text("utf-8") == "- **A thing** that users get.\n"
    with zipfile.ZipFile(dist / f"kafka_client_health-{VERSION}-py3-none-any.whl") as wheel:
        assert f"\nVersion: {VERSION}\n" in wheel.read(f"kafka_client_health-{VERSION}.dist-info/METADATA").decode()
    benchmark = dist / f"kafka_client_failures-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(benchmark) as recordings:
        names = recordings.namelist()
    assert sum(name.endswith("/truth.json") for name in names) == len([*RECORDINGS.rglob("truth.json")])
    assert any(name.endswith("/LICENSE") for name in names) and benchmark.stat().st_size < 10e6
    with tarfile.open(dist / f"kafka_client_health-{VERSION}.tar.gz") as sources:
        assert f"kafka_client_health-{VERSION}/pyproject.toml" in sources.getnames()
    bill = json.loads((dist / f"{BEGIN}-{VERSION}.cdx.json").read_text("utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    chart = [str(helm.installed()), "template", "it", str(dist / f"{BEGIN}-{VERSION}.tgz")]
    values = ["--set", "config.kafka.bootstrap_servers=b:1"]
    rendered = subprocess.run([*chart, *values], capture_output=True, text=True, check=False)
    assert rendered.returncode == 0, rendered.stderr
    assert f"{BEGIN}:{VERSION}" in rendered.stdout, "the image of the same release"


def test_a_maven_repository_takes_the_plugin(clone: Path) -> None:
    begin = f"{clone}/dist/{BEGIN}-broker-plugin-{VERSION}"
    place = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(f"{begin}.pom")
    # Maven Central requires these elements of a POM: https://central.sonatype.org/publish/requirements/
    for path in ("name", "description", "url", "licenses/license/name", "developers/developer/name", "scm/url"):
        assert pom.findtext("/".join(f"m:{part}" for part in path.split("/")), namespaces=place), path
    assert pom.findtext("m:version", namespaces=place) == VERSION
    java = {path.name for path in (ROOT / "deploy/broker-plugin").rglob("*.java")}
    with zipfile.ZipFile(f"{begin}-sources.jar") as sources, zipfile.ZipFile(f"{begin}-javadoc.jar") as pages:
        assert {Path(name).name for name in sources.namelist() if name.endswith(".java")} == java
        assert "index.html" in pages.namelist()


def test_once_more_gives_the_same_bytes_and_goes_on_where_it_was_interrupted(clone: Path) -> None:
    sums = (clone / "dist/SHA256SUMS").read_bytes()
    head = git(clone, "rev-parse", "HEAD")
    git(clone, "tag", "--delete", f"v{VERSION}")
    (clone / "dist/SHA256SUMS").unlink()
    again = release(clone, VERSION)
    assert again.returncode == 0, again.stderr
    assert (clone / "dist/SHA256SUMS").read_bytes() == sums
    assert head == git(clone, "rev-parse", "HEAD") == git(clone, "rev-parse", f"v{VERSION}^{{commit}}")


def test_what_cannot_be_released_is_refused_before_anything_changes(clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD")
    for version, says in (
        ("", "no version is given"),
        ("99.1", "'99.1' is no version"),
        ("v99.1.0", "'v99.1.0' is no version"),
        ("98.9.9", f"98.9.9 is lower than the present version {VERSION}; "),
        ("99.1.0", "CHANGELOG.md has nothing below '## Unreleased'"),
    ):
        refused = release(clone, version)
        assert (refused.returncode, says in refused.stderr) == (1, True), (version, refused.stderr)
    (clone / "new.py").touch()
    assert "commit these changes or stash them:\n?? new.py" in release(clone, VERSION).stderr
    git(clone, "add", "new.py")
    git(clone, "commit", "--quiet", "--message", "new")
    assert f"the tag v{VERSION} is already at commit {head[:7]}" in release(clone, VERSION).stderr
    (clone / "CHANGELOG.md").write_text(CHANGELOG.replace("0.2.0", VERSION), "utf-8")
    git(clone, "commit", "--quiet", "--all", "--message", "changelog: more")
    git(clone, "tag", "--delete", f"v{VERSION}")
    assert f"CHANGELOG.md already has a section for {VERSION}" in release(clone, VERSION).stderr
    assert git(clone, "status", "--porcelain") == git(clone, "tag", "--list") == ""
