"""What goes wrong in the first hour is one sentence with what to do; passwords, rights and topics: `tests/kafka`."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from clienthealth.errors import HealthError
from clienthealth.platform.java import java, version
from clienthealth.platform.kafka import admin
from clienthealth.self_monitoring.metrics import SelfMetrics
from clienthealth.settings import KafkaSettings, Settings
from clienthealth.streaming.failures import explained

FULL = "java.io.IOException: No space left on device\n\tat org.apache.hadoop.fs.RawLocalFileSystem"
TWO = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.\nPlease"


def port_taken(_: Path, __: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        SelfMetrics().serve("127.0.0.1", taken.getsockname()[1], {})


def no_java(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", str(folder))
    patch.delenv("JAVA_HOME", raising=False)
    java()


def old_java(folder: Path, _: pytest.MonkeyPatch) -> None:
    program = folder / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    version(str(program))


def nobody_listens(_: Path, __: pytest.MonkeyPatch) -> None:
    admin(Settings(kafka=KafkaSettings("127.0.0.1:1")), bootstrap_timeout_ms=500)


def of_spark(text: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def failed(_: Path, __: pytest.MonkeyPatch) -> None:
        raise explained(text, Settings())

    return failed


@pytest.mark.parametrize(
    ("happens", "sentence"),
    [
        (
            port_taken,
            r"cannot listen on 127\.0\.0\.1:\d+: Address already in use; choose another \[monitor\] metrics_port",
        ),
        (no_java, r"there is no Java on the PATH; install Java 17 \("),
        (old_java, r"java is Java 11, at least 17 is needed; install Java 17 \("),
        (nobody_listens, r"Kafka at 127\.0\.0\.1:1: nobody listens there"),
        (of_spark(FULL), r"the disk of .*history is full, .*: nothing is lost, free some space"),
        (of_spark(TWO), r"another monitor works on the checkpoint in .*: stop one of the two"),
    ],
    ids=["port taken", "no Java", "old Java", "broker unreachable", "full disk", "two monitors"],
)
def test_it_is_one_sentence_with_what_to_do(
    happens: Callable[[Path, pytest.MonkeyPatch], None],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(HealthError) as raised:
        happens(tmp_path, monkeypatch)
    assert re.search(sentence, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)
