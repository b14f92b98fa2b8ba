"""Spark's JVM writes a class-data archive, and starts from the archive next time."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clienthealth.platform import jars
from clienthealth.settings import KafkaSettings, MonitorSettings, Settings
from clienthealth.spark import program
from clienthealth.spark.session import _JAVA_OPTIONS, _on_this_machine, class_path

USES = "-XX:SharedArchiveFile="
OFF = Settings(monitor=dataclasses.replace(MonitorSettings(), class_archive=False))


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jar = tmp_path / "a.jar"
    jar.touch()
    monkeypatch.setenv("KAFKA_HEALTH_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(Path(jars.java()).resolve().parent.parent))
    monkeypatch.setattr(jars, "classpath", lambda name: [jar])
    monkeypatch.setattr(jars, "local_files", lambda: None)
    return jar


def flags(settings: Settings = Settings()) -> Sequence[str]:  # noqa: B008
    return [option for option in _on_this_machine(settings)[_JAVA_OPTIONS].split() if option.startswith(USES)]


def made(jar: Path) -> Path:
    draft = jar.with_name("draft")
    draft.write_bytes(b"classes")
    jars.keep_archive(draft, str(jar))
    archive = jars.class_archive(str(jar))
    assert archive is not None
    return archive


def test_the_first_run_of_a_monitor_makes_what_the_next_ones_use(jar: Path) -> None:
    assert (flags(), program._archivable(Settings()), program._archivable(OFF)) == ([], True, False)
    archive = made(jar)
    assert archive.read_bytes() == b"classes"
    assert (flags(), flags(OFF), program._archivable(Settings())) == ([f"{USES}{archive}"], [], False)


def test_an_archive_of_other_jars_is_made_anew_and_the_older_ones_go(jar: Path) -> None:
    archives = [made(jar)]
    for changed in (1_000, 2_000):
        os.utime(jar, (changed, changed))
        assert (flags(), program._archivable(Settings())) == ([], True)
        archives.append(made(jar))
        os.utime(archives[-1], (changed, changed))
    assert not archives[0].exists() or not archives[1].exists()
    assert flags() == [f"{USES}{archives[2]}"]


def test_a_java_without_modules_beside_it_starts_too(jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS without JAVA_HOME, `java` is a launcher outside the JDK."""
    launcher = jar.with_name("java")
    launcher.touch(0o755)
    monkeypatch.setattr(jars, "java", lambda: str(launcher))
    assert flags() == []
    assert made(jar).exists() and len(flags()) == 1


def test_a_truncated_archive_is_not_used(jar: Path) -> None:
    archive = made(jar)
    archive.write_bytes(b"cla")
    assert (flags(), program._archivable(Settings())) == ([], True)


def test_no_archive_is_made_for_other_jars_than_usual(jar: Path) -> None:
    kafka = KafkaSettings(options={"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"})
    assert not program._archivable(Settings(kafka=kafka))


@pytest.mark.long
def test_an_image_gets_an_archive_without_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = jars.cache()
    for name in ("ivy", "jars", "classpath"):
        (tmp_path / name).symlink_to(cache / name)
    monkeypatch.setenv("KAFKA_HEALTH_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(Path(jars.java()).resolve().parent.parent))
    subprocess.run([sys.executable, "-m", "clienthealth.spark.program"], check=True, timeout=600)
    (archive,) = (tmp_path / "classes").iterdir()
    here = class_path(Settings())
    assert archive == jars.class_archive(here)
    of_spark = f"{here}:{jars.pyspark().parent}/conf"
    of_spark += f":{next(jars.pyspark().glob('slf4j-api-*'))}:{jars.pyspark()}/*"
    started = [jars.java(), f"{USES}{archive}", "-Xlog:class+load", "-cp", of_spark]
    started += ["org.apache.spark.deploy.SparkSubmit", "--version"]
    done = subprocess.run(started, check=True, capture_output=True, text=True, timeout=300)
    # Java loads about 320 Spark classes. If more than 50 of these classes come from the archive, Java uses the archive.
    assert sum(" org.apache.spark." in line and "file (top)" in line for line in done.stdout.splitlines()) > 50
