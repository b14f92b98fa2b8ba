"""Java archives from Maven Central, fetched once: by the Ivy that PySpark ships, those that stand alone directly.

`classpath("spark")` gives the paths of a named set. The first call resolves the set and keeps the jars under `.cache/`
of the checkout (or $KAFKA_HEALTH_CACHE). Ivy compares each with its SHA-1, and goes on where an earlier call was cut
off. Every further call only reads a list. $KAFKA_HEALTH_MAVEN_URL names a mirror.

    python -m clienthealth.platform.jars [SET…]      fetches the named sets, or all of them
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from clienthealth.model.errors import DependencyError
from clienthealth.platform import checkout
from clienthealth.platform.java import java

CENTRAL = "https://repo1.maven.org/maven2"
RESOLVE_SECONDS = 1200
DOWNLOAD_SECONDS = 60


@dataclass(frozen=True)
class JarSet:
    """Modules `group:name:version` with all they need at run time, without `without` (`group:name`).

    Without `*:*` they stand alone: `group:name:version[:classifier]`.
    """

    modules: Sequence[str]
    without: Sequence[str] = ()


_AWS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")

SETS = {
    # Without what is among PySpark's own jars already.
    "spark": JarSet(
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "io.delta:delta-spark_4.2_2.13:4.4.0",
        ),
        without=(
            "org.scala-lang:*",
            "org.scala-lang.modules:*",
            "org.apache.hadoop:*",
            "org.apache.spark:spark-tags_2.13",
            "org.slf4j:*",
            "org.apache.logging.log4j:*",
            "org.apache.parquet:*",
            "org.roaringbitmap:*",
            "com.fasterxml.jackson.core:*",
            "at.yawk.lz4:*",
            "org.xerial.snappy:*",
            "com.google.code.findbugs:jsr305",
        ),
    ),
    # Object stores, beside the set above: Hadoop's client of S3, as Spark's own Hadoop is; of Amazon's SDK what it uses
    # (its bundle has 690 MB); and Spark's writer of checkpoints that needs no rename, which no release after 4.1 has.
    "s3": JarSet(
        (
            "org.apache.hadoop:hadoop-aws:3.5.0",
            *(f"software.amazon.awssdk:{part}:2.35.4" for part in _AWS),
            "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",
        ),
        without=(
            "software.amazon.awssdk:bundle",
            "org.apache.hadoop:hadoop-client-runtime",
            "org.apache.hadoop:hadoop-azure",
            "org.apache.hadoop:hadoop-cloud-storage",
            "org.apache.hadoop:hadoop-huaweicloud",
            "com.google.cloud.bigdataoss:*",
            "org.slf4j:*",
            "io.netty:*",
            "commons-codec:*",
            "org.apache.httpcomponents:*",
            "com.fasterxml.jackson.core:*",
            "com.fasterxml.jackson.dataformat:*",
            "joda-time:*",
            "com.squareup.okhttp3:*",
            "com.squareup.okio:*",
            "org.eclipse.jetty:*",
        ),
    ),
    "jolokia": JarSet(("org.jolokia:jolokia-agent-jvm:2.5.1:javaagent",), without=("*:*",)),
}


def classpath(name: str) -> list[Path]:
    """The jars of a set, fetched if they are not there yet. Raises DependencyError where that is not possible."""
    jar_set = SETS[name]
    folder = cache()
    fingerprint = hashlib.sha256(repr((*jar_set.modules, "-", *jar_set.without)).encode()).hexdigest()[:12]
    listing = folder / "classpath" / f"{name}-{fingerprint}"
    paths = _read(listing)
    if paths is None:
        listing.parent.mkdir(parents=True, exist_ok=True)
        # One process at a time fills a cache.
        with (listing.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            paths = _read(listing) or _fetch(name, jar_set, folder, listing)
    return paths


def cache() -> Path:
    """The folder that holds everything fetched: $KAFKA_HEALTH_CACHE, `.cache` of the checkout, or the user's cache."""
    chosen = os.environ.get("KAFKA_HEALTH_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    try:
        return checkout.root() / ".cache"
    except DependencyError:
        return Path.home() / ".cache" / "kafka-client-health"


def repository() -> str:
    """Where jars are fetched from."""
    return os.environ.get("KAFKA_HEALTH_MAVEN_URL", CENTRAL).rstrip("/") + "/"


def _read(listing: Path) -> list[Path] | None:
    """The listed jars, or None if there is no list or a jar of it is gone."""
    try:
        jars = [listing.parent.parent / line for line in listing.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return None
    return jars if all(jar.is_file() for jar in jars) else None


def _fetch(name: str, jar_set: JarSet, folder: Path, listing: Path) -> list[Path]:
    sys.stderr.write(f"fetching the jars of '{name}' from {repository()}\n")
    if "*:*" in jar_set.without:
        jars = [_downloaded(module, folder) for module in jar_set.modules]
    else:
        jars = _resolved(name, jar_set, folder, listing)
    draft = listing.with_name(f"{listing.name}.draft")
    draft.write_text("".join(f"{jar.relative_to(folder)}\n" for jar in jars), encoding="utf-8")
    draft.replace(listing)
    return jars


def _downloaded(module: str, folder: Path) -> Path:
    """A jar without dependencies, compared with its SHA-1. Needs neither Java nor PySpark."""
    group, artifact, version, *classifier = module.split(":")
    name = "-".join((artifact, version, *classifier)) + ".jar"
    url = f"{repository()}{group.replace('.', '/')}/{artifact}/{version}/{name}"
    try:
        content, sum_file = _content(url), _content(f"{url}.sha1")
    except OSError as error:
        raise DependencyError(f"{_failure(artifact)}: {error}") from error
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != sum_file.decode("ascii", "replace").split()[0]:
        raise DependencyError(f"{_failure(artifact)}: what came from {url} is not what its checksum says")
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
    settings.write_text(_settings(folder), encoding="utf-8")
    module.write_text(_module(name, jar_set), encoding="utf-8")
    command = [java(), *_proxy(), "-jar", str(_ivy()), "-settings", str(settings), "-ivy", str(module)]
    command += ["-confs", "default", "-cachepath", str(resolved)]
    with log.open("w", encoding="utf-8") as output:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=RESOLVE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DependencyError(f"{_failure(name)}: no end after {RESOLVE_SECONDS} s; see {log}") from error
    if done.returncode != 0:
        raise DependencyError(f"{_failure(name)}: {_reason(log)}; see {log}")
    jars = sorted(Path(path) for path in resolved.read_text(encoding="utf-8").strip().split(os.pathsep))
    for leftover in (settings, module, resolved, log):
        leftover.unlink()
    return jars


def _failure(name: str) -> str:
    return (
        f"the jars of '{name}' could not be fetched from {repository()} (a machine without the internet can use "
        "a mirror: KAFKA_HEALTH_MAVEN_URL; what has been fetched is kept)"
    )


def _reason(log: Path) -> str:
    """The line of Ivy's output that says why."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    for sign in ("UnknownHost", "ConnectException", "timed out", "invalid sha1", "SSL", "not found", "FAILED", "Error"):
        for line in lines:
            if sign in line:
                return line.strip(": ")
    return "Ivy failed"


def _settings(folder: Path) -> str:
    return (
        "<ivysettings>"
        '<settings defaultResolver="central"/><property name="ivy.checksums" value="sha1"/>'
        f"<caches defaultCacheDir={quoteattr(str(folder / 'ivy'))}/>"
        f'<resolvers><ibiblio name="central" m2compatible="true" root={quoteattr(repository())}/></resolvers>'
        "</ivysettings>"
    )


def _module(name: str, jar_set: JarSet) -> str:
    dependencies = []
    for coordinates in jar_set.modules:
        group, artifact, version = coordinates.split(":")
        dependencies.append(
            f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="default->runtime,master"/>'
        )
    for pattern in jar_set.without:
        group, artifact = pattern.split(":")
        dependencies.append(f'<exclude org="{group}" module="{artifact}" matcher="exact"/>')
    return (
        '<ivy-module version="2.0">'
        f'<info organisation="clienthealth" module="{name}"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _ivy() -> Path:
    """Ivy itself, which PySpark ships."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))


def _proxy() -> list[str]:
    """The proxy of the environment, as options of Java."""
    url = urllib.request.getproxies().get("https")
    parts = urllib.parse.urlsplit(url) if url else None
    if parts is None or parts.hostname is None:
        return []
    return [f"-Dhttps.proxyHost={parts.hostname}", f"-Dhttps.proxyPort={parts.port or 3128}"]


def main() -> None:
    """Fetch the sets that are named, or all."""
    try:
        for chosen in sys.argv[1:] or SETS:
            classpath(chosen)
    except DependencyError as failed:
        sys.exit(f"kafka-health: {failed}")


if __name__ == "__main__":
    main()
