"""`make release VERSION=x.y.z`: commit, build and tag a release, and print how to publish it.

python -m deploy.supply.release VERSION [FOLDER]      (default: dist/)
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from clienthealth.model.errors import DependencyError, HealthError, SettingsError
from clienthealth.platform.locations import checkout
from deploy.helm.build import CHART, project
from deploy.supply import dist, helm, plugin, sbom, site

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
SUMS, NOTES = "SHA256SUMS", "NOTES.md"
UNRELEASED = "Unreleased"
_OURS = re.compile(r'(name = "kafka-client-health"\nversion = )"[^"]*"')


def main() -> int:
    version, out = _argument(), Path(sys.argv[2]) if len(sys.argv) > 2 else checkout() / "dist"
    tag = f"v{version}"
    helm.main()
    if helm.installed() is None:
        raise DependencyError(helm.MISSING)
    tagged = refuse(version)
    if not tagged and project()["version"] != version:
        raise_to(version, datetime.now(UTC).strftime("%Y-%m-%d"))
        _git("commit", "--quiet", "--all", "--message", f"release: {version}")
    made = build(version, out, int(_git("log", "-1", "--format=%ct")))
    if not tagged:
        _git("tag", "--annotate", tag, "--message", f"Kafka Client Health {version}")
    print(*(f"  {path.stat().st_size:>10,}  {path.name}" for path in made), sep="\n")
    print(f"{tag} is commit {_git('rev-parse', '--short', 'HEAD')}; its files are in {out}. To publish the release:\n")
    print(*(f"  {command}" for command in publishing(version, out)), sep="\n")
    return 0


def refuse(version: str) -> bool:
    """Raise SettingsError if the version cannot be released from this checkout.

    Returns True if this commit already has the version's tag.
    """
    changed = _git("status", "--porcelain")
    if changed:
        raise SettingsError(f"a release contains only commits; commit these changes or stash them:\n{changed}")
    tag = f"v{version}"
    tagged = _git("tag", "--list", tag)
    if tagged and _git("rev-parse", f"{tag}^{{commit}}") != _git("rev-parse", "HEAD"):
        at = _git("rev-parse", "--short", f"{tag}^{{commit}}")
        raise SettingsError(f"the tag {tag} is already at commit {at}; choose a higher version or `git checkout {tag}`")
    present = project()["version"]
    if not tagged and _numbers(version) < _numbers(present):
        raise SettingsError(f"{version} is lower than the present version {present}; choose a higher version")
    newest, text = next(iter(_sections().items()))
    if version in _sections() and not newest == version == present:
        raise SettingsError(f"CHANGELOG.md already has a section for {version}; choose a higher version")
    if newest != version and not (newest == UNRELEASED and text):
        raise SettingsError(f"CHANGELOG.md has nothing below '## {UNRELEASED}': describe {version} for its users")
    return bool(tagged)


def raise_to(version: str, day: str) -> None:
    """Write the version into pyproject.toml, uv.lock, CHANGELOG.md and the generated files. `day`: YYYY-MM-DD."""
    _replace("pyproject.toml", re.compile(r'^(version = )".*"$', re.MULTILINE), rf'\g<1>"{version}"')
    _replace("uv.lock", _OURS, rf'\g<1>"{version}"')
    _replace("CHANGELOG.md", re.compile(rf"^## {UNRELEASED}$", re.MULTILINE), f"## {version} ({day})")
    dist.output([sys.executable, "-m", "clienthealth.ops.cli", "generate"], folder=checkout())


def build(version: str, out: Path, epoch: int) -> list[Path]:
    """Build all files of a release into `out`. Return the files' paths; the last path is the file of checksums.

    `epoch`: the modification time that the files get (epoch s).
    """
    out.mkdir(parents=True, exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    name = project()["name"]
    chart, bill, notes = out / f"{name}-{version}.tgz", out / f"{name}-{version}.cdx.json", out / NOTES
    dist.output([str(helm.installed()), "package", str(checkout() / CHART), "--destination", str(out)])
    made = [*dist.build(out), dist.benchmark(out), chart, *plugin.publication(out), bill, notes]
    for archive in made:
        if archive.suffix in (".gz", ".tgz"):
            archive.write_bytes(settled(archive.read_bytes(), epoch))
    sbom.write(bill)
    site.build(out / "site")
    notes.write_text(f"{_sections()[version]}\n", encoding="utf-8")
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made))
    (out / SUMS).write_text("".join(lines), encoding="utf-8")
    return [*sorted(made), out / SUMS]


def settled(archive: bytes, epoch: int) -> bytes:
    """Return `archive` (.tar.gz) with sorted entries. Each entry has no owner and the modification time `epoch`."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as before,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for entry in sorted(before.getmembers(), key=lambda entry: entry.name):
            mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            plain = entry.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
            plain.pax_headers = {}
            after.addfile(plain, before.extractfile(entry) if entry.isfile() else None)
    return packed.getvalue()


def publishing(version: str, out: Path) -> Iterator[str]:
    """Yield the commands that publish a release, in order. `example.org` stands for the project's servers."""
    where, name = os.path.relpath(out), project()["name"]
    image, jar = f"registry.example.org/{name}:{version}", f"{where}/{plugin.NAME}-{version}"
    yield f"(cd {where} && sha256sum --check {SUMS} && gpg --armor --detach-sign {SUMS})"
    yield f"git push origin HEAD v{version}"
    python = f"{where}/{name.replace('-', '_')}-{version}"
    yield f"uv publish {python}-py3-none-any.whl {python}.tar.gz"
    yield f"uv publish {where}/kafka_client_failures-{version}-py3-none-any.whl"
    yield f"docker build -f deploy/Dockerfile -t {image} ."
    yield f"docker push {image}"
    yield f"helm push {where}/{name}-{version}.tgz oci://registry.example.org/charts"
    yield f"rsync --recursive --delete {where}/site/ docs.example.org:{name}/"
    files = f"-DpomFile={jar}.pom -Dfile={jar}.jar -Dsources={jar}-sources.jar -Djavadoc={jar}-javadoc.jar"
    yield f"mvn gpg:sign-and-deploy-file {files} -DrepositoryId=releases -Durl=https://maven.example.org/releases"
    yield f"(cd {where} && gh release create v{version} --notes-file {NOTES} {SUMS} {SUMS}.asc $(cut -c67- {SUMS}))"


def _argument() -> str:
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    if not VERSION.fullmatch(version):
        problem = f"'{version}' is no version" if version else "no version is given"
        raise SettingsError(f"{problem}; a version has three numbers: make release VERSION=1.2.3")
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _sections() -> dict[str, str]:
    _, *parts = re.split(
        r"^## (\S+).*\n", (checkout() / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {version: text.strip() for version, text in zip(parts[::2], parts[1::2], strict=True)}


def _replace(name: str, pattern: re.Pattern[str], by: str) -> None:
    path = checkout() / name
    text, times = pattern.subn(by, path.read_text(encoding="utf-8"))
    if times != 1:
        raise SettingsError(f"{name} must match this pattern once, but matches {times} times: {pattern.pattern}")
    path.write_text(text, encoding="utf-8")


def _git(*arguments: str) -> str:
    if shutil.which("git") is None:
        raise DependencyError("git is missing; a release needs it to commit and to tag")
    return dist.output(["git", *arguments], folder=checkout()).strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HealthError as error:
        sys.exit(f"kafka-health: {error}")
