"""Find Java on this machine, and download jars from Maven Central with Ivy, which is part of PySpark.

Each jar must have its SHA-256 in `jars.sha256`. $KAFKA_HEALTH_MAVEN_URL names a mirror.

python -m clienthealth.platform.jars [SET…]      downloads the named sets; without a name, all sets
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from clienthealth.model.errors import DependencyError
from clienthealth.model.tables import converted, table
from clienthealth.platform import locations

CENTRAL = "https://repo1.maven.org/maven2"
RESOLVE_SECONDS = 1200
DOWNLOAD_SECONDS = 60
_SETTINGS = (
    '<ivysettings><settings defaultResolver="central"/><property name="ivy.checksums" value="sha1"/>'
    "<caches defaultCacheDir={cache}/>"
    '<resolvers><ibiblio name="central" m2compatible="true" root={root}/></resolvers></ivysettings>'
)
_MODULE = (
    '<ivy-module version="2.0"><info organisation="clienthealth" module="{name}"/>'
    '<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
)
#: Parts of Ivy's output that explain a failure, the most specific first.
_SIGNS = ("UnknownHost", "ConnectException", "timed out", "invalid sha1", "SSL", "not found", "FAILED", "Error")
#: The oldest Java that Spark runs on.
OLDEST = 17
_HOW = f"install Java {OLDEST} (Debian: apt-get install openjdk-17-jdk-headless, macOS: brew install openjdk@17)"


@dataclass(frozen=True)
class JarSet:
    """Modules to download, as `group:name:version`, with their dependencies.

    `without`: dependencies (`group:name`) that are not downloaded; `*:*` stands for all dependencies. Only with `*:*`
    may a module have a classifier (`group:name:version:classifier`).
    """

    modules: Sequence[str]
    without: Sequence[str] = ()


SETS = converted(table(Path(__file__).with_suffix(".toml")), dict[str, JarSet], "jars.toml")
PINNED = dict.fromkeys(SETS, Path(__file__).with_suffix(".sha256"))


def classpath(name: str) -> list[Path]:
    """Return the paths of a set's jars; download the jars that are missing.

    Raises DependencyError if a jar cannot be downloaded, or does not have its SHA-256 in `jars.sha256`.
    """
    jar_set = SETS[name]
    folder = cache()
    fingerprint = hashlib.sha256(repr((*jar_set.modules, "-", *jar_set.without)).encode()).hexdigest()[:12]
    listing = folder / "classpath" / f"{name}-{fingerprint}"
    if (paths := _read(listing)) is None:
        listing.parent.mkdir(parents=True, exist_ok=True)
        with (listing.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (paths := _read(listing)) is None:
                sys.stderr.write(f"downloading the jars of '{name}' from {repository()}\n")
                if "*:*" in jar_set.without:
                    paths = [_downloaded(module, folder) for module in jar_set.modules]
                else:
                    paths = _resolved(name, jar_set, folder, listing)
                if name in PINNED:
                    refuse_other(name, paths)
                draft = listing.with_name(f"{listing.name}.draft")
                draft.write_text("".join(f"{jar.relative_to(folder)}\n" for jar in paths), encoding="utf-8")
                draft.replace(listing)
    return paths


def local_files() -> Path | None:
    """Return the jar with the compiled LocalFiles.java; None if the compilation fails.

    Raises DependencyError if Java is missing. PySpark's Janino compiles the file, because a JRE has no compiler.
    """
    source = Path(__file__).with_name("LocalFiles.java")
    jar = cache() / "classpath" / f"LocalFiles-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    if not jar.exists():
        janino = [java(), "-XX:TieredStopAtLevel=1", "-cp", f"{pyspark()}/*", "org.codehaus.janino.SimpleCompiler"]
        with suppress(OSError), tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            if _asked(*janino, str(source), "clienthealth.platform.LocalFiles", str(source), folder).returncode == 0:
                Path(shutil.make_archive(f"{folder}/draft", "zip", folder, "clienthealth")).replace(jar)
    return jar if jar.exists() else None


def class_archive(paths: str) -> Path | None:
    """Return the class archive (AppCDS) for this Java and class path; None if there is no archive.

    `paths`: the class path, as for `java -cp`. An archive is used only if its size is the size in its file name,
    because the JVM crashes on a truncated archive.
    """
    found = (cache() / "classes").glob(f"{_made_with(paths)}-*.jsa")
    return next((path for path in found if path.stem.endswith(f"-{path.stat().st_size}")), None)


def keep_archive(draft: Path, paths: str) -> None:
    """Move a finished archive of classes into the cache, for `class_archive`."""
    folder = cache() / "classes"
    folder.mkdir(exist_ok=True)
    for former in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-1]:
        former.unlink(missing_ok=True)
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.replace(folder / f"{_made_with(paths)}-{draft.stat().st_size}.jsa")


def _made_with(paths: str) -> str:
    """Return a hash of everything on which the validity of a class archive (AppCDS) depends."""
    parts = [Path(java()).resolve().parent.parent / "lib" / "modules", *map(Path, paths.split(os.pathsep))]
    # On macOS, /usr/bin/java is a launcher outside the folder of the JDK.
    stamps = [f"{part} {part.stat().st_mtime:.0f}" for part in parts if part.exists()]
    stamps.append(importlib.metadata.version("pyspark"))
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]


def start_archiver() -> object:
    """Start a process that makes a class archive (AppCDS), and return the process (a Popen)."""
    program, null = (sys.executable, "-m", "clienthealth.spark.program"), subprocess.DEVNULL
    return subprocess.Popen(program, stdin=null, stdout=null, stderr=null)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a new temporary folder on the cache's file system, for renames into the cache."""
    return tempfile.TemporaryDirectory(dir=cache())


def pins() -> Mapping[str, str]:
    """Return the SHA-256 of every pinned jar, by file name."""
    lines = (line for path in {*PINNED.values()} for line in path.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def refuse_other(name: str, paths: Sequence[Path]) -> None:
    """Delete each jar in `paths` that does not have its SHA-256 in `jars.sha256`.

    Raises DependencyError with the names of the deleted jars, if any. `name`: the set's name, for the error's text.
    """
    pinned, digests = pins(), {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    if other := [path for path, digest in digests.items() if pinned.get(path.name) != digest]:
        for path in other:
            path.unlink()
        lines = "\n".join(f"{digests[path]}  {path.name}" for path in other)
        raise DependencyError(
            f"{_failure(name)}: the jars below did not match their pins in jars.sha256, and were deleted. If you "
            "raised a version, compare the checksums below with the checksums that the jars' project publishes, and "
            f"enter the checksums below in jars.sha256:\n{lines}"
        )


def cache() -> Path:
    """Return the folder for downloads: $KAFKA_HEALTH_CACHE, else the checkout's `.cache`, else a folder in ~/.cache."""
    if chosen := os.environ.get("KAFKA_HEALTH_CACHE"):
        return Path(chosen).expanduser().resolve()
    try:
        return locations.checkout() / ".cache"
    except DependencyError:
        return Path.home() / ".cache" / "kafka-client-health"


def repository() -> str:
    """Return the URL of the Maven repository: $KAFKA_HEALTH_MAVEN_URL, else Maven Central; it ends with a slash."""
    return os.environ.get("KAFKA_HEALTH_MAVEN_URL", CENTRAL).rstrip("/") + "/"


def java() -> str:
    """Return the path of the program `java`: from $JAVA_HOME if set, else from the PATH.

    Raises DependencyError if there is no program `java`.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if path is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise DependencyError(f"there is no Java {where}; {_HOW}")
    return path


def version(path: str) -> int:
    """Return the major version of the Java at `path`.

    Raises DependencyError if the program does not run or is too old.
    """
    # On macOS, `java` may be a program that only explains how to install Java.
    done = _asked(path, "-version")
    number = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode != 0 or number is None:
        raise DependencyError(f"{path} does not print its version; {_HOW}")
    if int(number.group(1)) < OLDEST:
        raise DependencyError(f"{path} is Java {number.group(1)}, but at least Java {OLDEST} is needed; {_HOW}")
    return int(number.group(1))


def has_compiler(path: str) -> bool:
    """True if the Java at `path` has a compiler, which the demo needs to start its clients from source files."""
    return "jdk.compiler@" in _asked(path, "--list-modules").stdout


def _asked(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def _read(listing: Path) -> list[Path] | None:
    try:
        jars = [listing.parent.parent / line for line in listing.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return None
    return jars if all(jar.is_file() for jar in jars) else None


def _downloaded(module: str, folder: Path) -> Path:
    group, artifact, version, *classifier = module.split(":")
    name = "-".join((artifact, version, *classifier)) + ".jar"
    url = f"{repository()}{group.replace('.', '/')}/{artifact}/{version}/{name}"
    try:
        content, sum_file = _content(url), _content(f"{url}.sha1")
    except OSError as error:
        raise DependencyError(f"{_failure(artifact)}: {error}") from error
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != sum_file.decode("ascii", "replace").split()[0]:
        raise DependencyError(f"{_failure(artifact)}: the file from {url} does not match its checksum")
    target = folder / "jars" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".draft")
    draft.write_bytes(content)
    return draft.replace(target)


def _content(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_SECONDS) as answer:
        content: bytes = answer.read()
    return content


def _resolved(name: str, jar_set: JarSet, folder: Path, listing: Path) -> list[Path]:
    settings, module, resolved, log = (
        listing.with_name(f"{listing.name}.{kind}") for kind in ("settings.xml", "ivy.xml", "paths", "log")
    )
    kept = _SETTINGS.format(cache=quoteattr(str(folder / "ivy")), root=quoteattr(repository()))
    settings.write_text(kept, encoding="utf-8")
    wanted = [
        f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="default->runtime,master"/>'
        for group, artifact, version in (coordinates.split(":") for coordinates in jar_set.modules)
    ]
    wanted += [
        f'<exclude org="{group}" module="{artifact}" matcher="exact"/>'
        for group, artifact in (pattern.split(":") for pattern in jar_set.without)
    ]
    module.write_text(_MODULE.format(name=name, wanted="".join(wanted)), encoding="utf-8")
    ivy = next(pyspark().glob("ivy-*.jar"))
    proxy = urllib.parse.urlsplit(urllib.request.getproxies().get("https", ""))
    by_proxy = [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 3128}"]
    command = [java(), *(by_proxy if proxy.hostname else ()), "-jar", str(ivy), "-settings", str(settings)]
    command += ["-ivy", str(module), "-confs", "default", "-cachepath", str(resolved)]
    with log.open("w", encoding="utf-8") as output:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=RESOLVE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DependencyError(
                f"{_failure(name)}: the download did not end within {RESOLVE_SECONDS} s; see {log}"
            ) from error
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        telling = (line.strip().strip(": ") for sign in _SIGNS for line in lines if sign in line)
        raise DependencyError(f"{_failure(name)}: {next(telling, 'Ivy failed')}; see {log}")
    jars = sorted(Path(path) for path in resolved.read_text(encoding="utf-8").strip().split(os.pathsep))
    for leftover in (settings, module, resolved, log):
        leftover.unlink()
    return jars


def pyspark() -> Path:
    """Return the folder of PySpark's jars. Raises ModuleNotFoundError without PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(spec.origin).parent / "jars"


def _failure(name: str) -> str:
    return (
        f"the jars of '{name}' could not be downloaded from {repository()}. Completed downloads are kept. If this "
        "machine has no internet access, set KAFKA_HEALTH_MAVEN_URL to a mirror. The cause"
    )


def main() -> None:
    """Download the sets of jars that the arguments name. Without arguments, download all sets."""
    try:
        for chosen in (wanted := sys.argv[1:] or [*SETS]):
            classpath(chosen)
        if "spark" in wanted:
            local_files()
    except DependencyError as failed:
        sys.exit(f"kafka-health: {failed}")


if __name__ == "__main__":
    main()
