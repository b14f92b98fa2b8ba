"""Repeated messages of libraries do not hide a command's own log lines."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from zipfile import ZipFile

import pyspark

from clienthealth import spark as streaming
from clienthealth.ops.cli._stderr import _Repeated
from clienthealth.platform import jars


def line(name: str, text: str, at: float) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, "", 0, text, None, None)
    record.created = at
    return record


def test_a_repeated_line_of_the_library_comes_once_a_minute() -> None:
    shown = _Repeated("kafka").filter
    assert shown(line("kafka.net.manager", "failed (backoff 0.10 secs)", 0.0))
    assert not shown(line("kafka.net.manager", "failed (backoff 0.35 secs)", 0.4))
    assert shown(line("kafka.net.manager", "something else", 0.5))
    assert not shown(line("kafka.net.manager", "failed (backoff 1.00 secs)", 59.9))
    assert shown(line("kafka.net.manager", "failed (backoff 1.00 secs)", 60.0))


def test_our_own_lines_always_come() -> None:
    shown = _Repeated("kafka").filter
    assert all(shown(line("clienthealth_exporters.groups.exporter", "cannot be read", 0)) for _ in range(3))


def test_the_classes_that_spark_is_kept_quiet_about_exist() -> None:
    """spark-log4j2.properties silences classes by name. A class that Spark renames would not be silenced."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    sources = [*spark_jars.glob("spark-*.jar"), *spark_jars.glob("hadoop-*.jar"), *jars.classpath("spark")]
    entries = {name for jar in sources for name in ZipFile(jar).namelist()}
    text = Path(streaming.__file__).with_name("spark-log4j2.properties").read_text()
    names = re.findall(r"^logger\.\w+\.name = (\S+)$", text, re.MULTILINE)
    assert len(names) > 5
    assert [name for name in names if not {f"{name.replace('.', '/')}{end}" for end in (".class", "/")} & entries] == []
